//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies.

use std::collections::BTreeSet;

use cel::policy::{Compiler, Wanted};
use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, JsonPath, Strategy, columns};

use super::expressions::{self, Stored};
use super::{conditions, matching};
use crate::common::checks::Checks;
use crate::common::{conditions as status_conditions, internal, metadata, versioned};

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const AUDIT_ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_MAX_BYTES: usize = 5 * 1024;

pub struct Policy {
    pub mutating: bool,
}

const VALIDATING: Facts = Facts {
    checks_updated_generate_name: true,
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    generation: Some(|new, old| {
        let spec = "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicySpec";
        !versioned::same(spec, new.field("spec"), old.field("spec"))
    }),
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    ..Facts::WITH_STATUS
};

const MUTATING: Facts = Facts {
    has_status: false,
    generation: Some(|new, old| {
        let spec = "io.k8s.api.admissionregistration.v1.MutatingAdmissionPolicySpec";
        !versioned::same(spec, new.field("spec"), old.field("spec"))
    }),
    resets: &[],
    ..VALIDATING
};

impl Strategy for Policy {
    fn facts(&self) -> &Facts {
        if self.mutating { &MUTATING } else { &VALIDATING }
    }

    fn warnings(&self, cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        super::name_warning(cx, object, old).into_iter().collect()
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        self.validate_policy(object, true, &Known::default(), errors);
        super::check_name(cx, object, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let fields = [
            ("paramKind", "io.k8s.api.admissionregistration.v1.ParamKind"),
            ("matchConditions", super::MATCH_CONDITION),
        ];
        let is_same = |&(field, of): &(&str, &str)| {
            versioned::same(of, new.at(&["spec", field]).value(), old.at(&["spec", field]).value())
        };
        let unchanged = fields.iter().all(is_same);
        self.validate_policy(new, !unchanged, &Known::of(old.value()), errors);
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        let status = new.field("status");
        for warning in status.at(&["typeChecking", "expressionWarnings"]).each() {
            warning.field("warning").require(errors);
            let field = warning.field("fieldRef");
            let path = field.str().trim();
            if path.is_empty() {
                field.required(errors, "");
            } else if let Err(why) = JsonPath::check(path) {
                errors.invalid(field.path(), path, format!("invalid JSONPath: {why}"));
            }
        }
        status_conditions::validate(&status.field("conditions"), errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let items = if self.mutating { "mutations" } else { "validations" };
        let kind = object.at(&["spec", "paramKind"]);
        let kind = match kind {
            Value::Null => "<unset>".to_string(),
            kind => format!("{}/{}", kind.str_at(&["apiVersion"]), kind.str_at(&["kind"])),
        };
        let count = object.list_at(&["spec", items]).len();
        vec![object.name().into(), count.into(), kind.into(), columns::age(cx, object)]
    }
}

/// The expressions that the stored policy has.
#[derive(Default)]
struct Known<'a> {
    conditions: Stored<'a>,
    validations: Stored<'a>,
    messages: Stored<'a>,
    annotations: Stored<'a>,
    /// Those of apply configurations; upstream asks these for JSON patches too.
    mutations: Stored<'a>,
}

impl<'a> Known<'a> {
    fn of(policy: &'a Value) -> Known<'a> {
        let of = |list: &str, path: &[&str]| Stored::of(policy.list_at(&["spec", list]), path);
        Known {
            conditions: of("matchConditions", &["expression"]),
            validations: of("validations", &["expression"]),
            messages: of("validations", &["messageExpression"]),
            annotations: of("auditAnnotations", &["valueExpression"]),
            mutations: of("mutations", &["applyConfiguration", "expression"]),
        }
    }
}

impl Policy {
    fn validate_policy(&self, object: &Cursor, check_conditions: bool, known: &Known<'_>, errors: &mut Errors) {
        let spec = object.field("spec");
        let failure = spec.field("failurePolicy");
        if failure.is_set() {
            failure.one_of(errors, &["Fail", "Ignore"]);
        } else {
            failure.required(errors, "");
        }
        let params = spec.field("paramKind").is_set();
        matching::validate_param_kind(&spec.field("paramKind"), errors);
        self.validate_constraints(&spec.field("matchConstraints"), errors);
        if check_conditions {
            conditions::validate(&spec.field("matchConditions"), params, &known.conditions, errors);
        }
        let variables = spec.field("variables");
        let composed = self.mutating || !variables.is_empty();
        let mut compiler = if composed { Compiler::composed(params) } else { Compiler::new(params) };
        for variable in variables.each() {
            validate_variable(&variable, &mut compiler, known, errors);
        }
        if self.mutating {
            validate_mutations(&spec, &compiler, known, errors);
        } else {
            validate_validations(object, &compiler, known, errors);
        }
    }

    fn validate_constraints(&self, constraints: &Cursor, errors: &mut Errors) {
        if !constraints.is_set() {
            return constraints.required(errors, "");
        }
        matching::validate_resources(constraints, errors);
        constraints.field("resourceRules").must_be_set(errors, "");
        if self.mutating {
            matching::validate_mutable(constraints, errors);
        }
    }
}

fn validate_variable(variable: &Cursor, compiler: &mut Compiler, known: &Known<'_>, errors: &mut Errors) {
    let (name, expression) = (variable.field("name"), variable.field("expression"));
    if name.str().trim().is_empty() {
        name.required(errors, "name is not specified");
    } else if !is_identifier(name.str()) {
        name.bad(errors, "must be a valid CEL identifier");
    }
    let text = expression.str();
    if text.trim().is_empty() {
        expression.required(errors, "expression is not specified");
    } else {
        let compiled = compiler.variable(name.str(), text, known.validations.mode(text));
        expressions::report(&expression, text, compiled, errors);
    }
}

fn is_identifier(name: &str) -> bool {
    let fine = |b: u8| b == b'_' || b.is_ascii_alphanumeric();
    name.bytes().all(fine) && !name.starts_with(|c: char| c.is_ascii_digit()) && !cel::is_reserved(name)
}

fn validate_mutations(spec: &Cursor, compiler: &Compiler, known: &Known<'_>, errors: &mut Errors) {
    let mutations = spec.field("mutations");
    mutations.must_be_set(errors, "mutations must contain at least one item");
    for mutation in mutations.each() {
        validate_mutation(&mutation, compiler, known, errors);
    }
    spec.field("reinvocationPolicy").require_one_of(errors, &["IfNeeded", "Never"]);
}

fn validate_mutation(mutation: &Cursor, compiler: &Compiler, known: &Known<'_>, errors: &mut Errors) {
    let kind = mutation.field("patchType");
    let (wanted, other, result) = match kind.str() {
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Wanted::JsonPatch),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Wanted::ApplyConfiguration),
        _ => return kind.require_one_of(errors, &["ApplyConfiguration", "JSONPatch"]),
    };
    let (patch, misplaced) = (mutation.field(wanted), mutation.field(other));
    if !patch.is_set() {
        patch.required(errors, format!("must be specified when patchType is {}", kind.str()));
    } else {
        let expression = patch.field("expression");
        let text = expression.str().trim();
        if text.is_empty() {
            expression.required(errors, "");
        } else {
            let compiled = compiler.expression(text, result, true, known.mutations.mode(expression.str()));
            expressions::report(&expression, text, compiled, errors);
        }
    }
    if misplaced.is_set() {
        let detail = format!("must not be specified when patchType is {}", kind.str());
        misplaced.invalid_as(errors, format!("{{{other}}}"), detail);
    }
}

fn validate_validations(object: &Cursor, compiler: &Compiler, known: &Known<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        validations.required(errors, detail);
        return annotations.required(errors, detail);
    }
    for validation in validations.each() {
        validate_validation(&validation, compiler, known, errors);
    }
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let detail = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        annotations.invalid_as(errors, internal::shown("[]AuditAnnotation", annotations.value()), detail);
    }
    let mut seen = BTreeSet::new();
    for annotation in annotations.each() {
        validate_annotation(object.value().name(), &annotation, compiler, known, errors);
        let key = annotation.field("key");
        if !seen.insert(key.str()) {
            errors.duplicate(key.path(), key.str());
        }
    }
}

fn validate_validation(validation: &Cursor, compiler: &Compiler, known: &Known<'_>, errors: &mut Errors) {
    let expression = validation.field("expression");
    let text = expression.str();
    if text.trim().is_empty() {
        expression.required(errors, "expression is not specified");
    } else {
        let compiled = compiler.expression(text, Wanted::Bool, true, known.validations.mode(text));
        expressions::report(&expression, text, compiled, errors);
    }
    let blank = |field: &Cursor| !field.str().is_empty() && field.str().trim().is_empty();
    let (message, message_expression) = (validation.field("message"), validation.field("messageExpression"));
    if blank(&message_expression) {
        message_expression.bad(errors, "must be non-empty if specified");
    } else if !message_expression.is_empty() {
        let text = message_expression.str();
        let compiled = compiler.expression(text, Wanted::String, false, known.messages.mode(text));
        expressions::report(&message_expression, text, compiled, errors);
    }
    if blank(&message) {
        message.bad(errors, "must be non-empty if specified");
    } else if message.str().trim().contains(['\n', '\r']) {
        message.bad(errors, "must not contain line breaks");
    }
    validation.field("reason").optional_one_of(errors, &REASONS);
}

fn validate_annotation(policy: &str, annotation: &Cursor, compiler: &Compiler, known: &Known<'_>, errors: &mut Errors) {
    let (key, value) = (annotation.field("key"), annotation.field("valueExpression"));
    if policy.is_empty() {
        key.bad(errors, "requires metadata.name be non-empty");
    } else {
        let whole = format!("{policy}/{}", key.str());
        for message in names::label_key(&whole) {
            key.invalid_as(errors, whole.as_str(), message);
        }
    }
    let text = value.str().trim();
    match text.len() {
        0 => value.required(errors, "valueExpression is not specified"),
        len if len > VALUE_EXPRESSION_MAX_BYTES => {
            value.required(errors, format!("must not exceed {VALUE_EXPRESSION_MAX_BYTES} bytes in length"));
        }
        _ => {
            let compiled = compiler.expression(text, Wanted::StringOrNull, true, known.annotations.mode(value.str()));
            expressions::report(&value, value.str(), compiled, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    const CONSTRAINTS: &str = "matchConstraints: {matchPolicy: Exact, namespaceSelector: {}, objectSelector: {}, \
        resourceRules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]}";

    #[test]
    fn validating_policies_are_checked() {
        let base = format!(
            "{{metadata: {{name: a}}, spec: {{failurePolicy: Fail, {CONSTRAINTS}, validations: [{{expression: 'true'}}]}}}}"
        );
        let check = Check::new(Policy { mutating: false }, &base);
        check.create(&[
            ("", ""),
            (
                "spec: {validations: null, matchConstraints: null, failurePolicy: X}",
                "spec.failurePolicy: Unsupported value: \"X\": supported values: \"Fail\", \"Ignore\"
                 spec.matchConstraints: Required value
                 spec.validations: Required value: validations or auditAnnotations must contain at least one item
                 spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ),
            (
                "spec: {paramKind: {apiVersion: a/b/c, kind: X_}, variables: [{name: if, expression: '1'}], \
                 validations: [{expression: ' ', message: \"a\\nb\", reason: Nope}]}",
                "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c
                 spec.paramKind.kind: Invalid value: \"X_\": may have mixed case, but should otherwise match: a DNS-1035 \
                 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
                 end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
                 '[a-z]([-a-z0-9]*[a-z0-9])?')
                 spec.variables[0].name: Invalid value: \"if\": must be a valid CEL identifier
                 spec.validations[0].expression: Required value: expression is not specified
                 spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks
                 spec.validations[0].reason: Unsupported value: \"Nope\": supported values: \"Forbidden\", \"Invalid\", \
                 \"RequestEntityTooLarge\"",
            ),
        ]);
        check.cells(&[("", "a 1 <unset> <unknown>")]);
        let warned = |place: &str| {
            format!("status: {{typeChecking: {{expressionWarnings: [{{fieldRef: '{place}', warning: w}}]}}}}")
        };
        let at = "status.typeChecking.expressionWarnings[0].fieldRef";
        check.update_status(&[
            ("", &warned("spec.validations[0].expression"), ""),
            ("", &warned(" "), &format!("{at}: Required value")),
            (
                "",
                &warned(" spec.validations[x]"),
                &format!("{at}: Invalid value: \"spec.validations[x]\": invalid JSONPath: invalid array index x"),
            ),
            (
                "",
                &warned("a} {%"),
                &format!(
                    "{at}: Invalid value: \"a}} {{%\": invalid JSONPath: unrecognized character in action: U+0025 '%'"
                ),
            ),
        ]);
    }

    #[test]
    fn mutating_policies_are_checked() {
        let base = format!(
            "{{metadata: {{name: a}}, spec: {{failurePolicy: Fail, {CONSTRAINTS}, reinvocationPolicy: Never, \
             mutations: [{{patchType: JSONPatch, jsonPatch: {{expression: \"[JSONPatch{{op: 'test', path: '/a'}}]\"}}}}]}}}}"
        );
        Check::new(Policy { mutating: true }, &base).create(&[
            ("", ""),
            (
                "spec: {reinvocationPolicy: null, mutations: [{}, {patchType: JSONPatch, applyConfiguration: {}}]}",
                "spec.mutations[0].patchType: Required value
                 spec.mutations[1].jsonPatch: Required value: must be specified when patchType is JSONPatch
                 spec.mutations[1].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified \
                 when patchType is JSONPatch
                 spec.reinvocationPolicy: Required value",
            ),
        ]);
    }
}
