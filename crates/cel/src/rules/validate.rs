//! Evaluating rules for an object.

use std::sync::Arc;

use object::{BadValue, ErrorType, Errors, FieldError, Path, Str, Value};

use super::compile::{NO_TYPE, Rule, compile_rules};
use super::ratchet::Ratchet;
use super::{MAX_MESSAGE_BYTES, RUNTIME_BUDGET};
use crate::arena::Arena;
use crate::convert::typed;
use crate::decl::Decl;
use crate::environment::Mode;
use crate::error::{Cancelled, Error};
use crate::pool::Pool;
use crate::program::{Evaluated, Limits, Program};
use crate::val::Val;

/// The rules of a schema and of everything below it.
#[derive(Debug)]
pub struct Validator {
    ty: Str,
    decl: Arc<Decl>,
    rules: Result<Vec<Rule>, &'static str>,
    all_of: Vec<Validator>,
    items: Option<Box<Validator>>,
    values: Option<Box<Validator>>,
    /// Sorted by name.
    properties: Vec<(Str, Validator)>,
    /// The keys by which items of a list are told apart.
    list_keys: Vec<Str>,
}

/// What is left to spend, and what to do about errors.
pub struct Budget<'b> {
    /// None when it was used up.
    remaining: Option<u64>,
    pub limits: Limits<'b>,
    pub warnings: Vec<String>,
}

impl Default for Budget<'_> {
    fn default() -> Self {
        Budget { remaining: Some(RUNTIME_BUDGET), limits: Limits::default(), warnings: Vec::new() }
    }
}

impl Budget<'_> {
    /// What was spent of the budget.
    pub fn spent(&self) -> Option<u64> {
        self.remaining.map(|remaining| RUNTIME_BUDGET - remaining)
    }

    pub fn is_used_up(&self) -> bool {
        self.remaining.is_none()
    }

    /// A budget of what is left of this one.
    pub fn fork(&self) -> Budget<'static> {
        Budget { remaining: self.remaining, ..Budget::default() }
    }

    /// Of two budgets the one with less left.
    pub fn lesser(self, other: Self) -> Self {
        if other.remaining < self.remaining { other } else { self }
    }

    /// Takes a cost from the budget; false if there is not enough.
    fn spend(&mut self, cost: u64) -> bool {
        self.remaining = self.remaining.and_then(|remaining| remaining.checked_sub(cost));
        self.remaining.is_some()
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl Validator {
    /// The rules of an OpenAPI schema, compiled as stored expressions; none if it has none. Expressions of the pool are
    /// shared.
    pub fn new(schema: &Value, is_resource: bool, pool: &Pool) -> Option<Validator> {
        if has_rules(schema) { build(schema, schema, is_resource, pool) } else { None }
    }

    /// Evaluates the rules for an object, and for what it was before an update.
    pub fn validate<'v>(
        &self,
        path: &Path,
        object: &'v Value,
        old: Option<&'v Value>,
        ratchet: Ratchet<'v>,
        budget: &mut Budget<'_>,
        errors: &mut Errors,
    ) {
        if object.is_null() {
            return;
        }
        self.expressions(path, object, old.filter(|old| !old.is_null()), ratchet, budget, errors);
        for nested in &self.all_of {
            if budget.is_used_up() {
                return;
            }
            nested.validate(path, object, old, ratchet.parent_only(), budget, errors);
        }
        if budget.is_used_up() {
            return;
        }
        match object {
            Value::List(items) => self.list(path, items, old, ratchet, budget, errors),
            Value::Map(map) => self.map(path, map, old, ratchet, budget, errors),
            _ => {}
        }
    }

    fn list<'v>(
        &self,
        path: &Path,
        items: &'v [Value],
        old: Option<&'v Value>,
        ratchet: Ratchet<'v>,
        budget: &mut Budget<'_>,
        errors: &mut Errors,
    ) {
        let Some(validator) = &self.items else { return };
        let old = old.and_then(Value::as_list).unwrap_or(&[]);
        for (i, item) in items.iter().enumerate() {
            let before = self.correlated(item, old);
            validator.validate(&path.index(i), item, before, ratchet.item(item, before), budget, errors);
            if budget.is_used_up() {
                return;
            }
        }
    }

    /// The old item with the same keys. Items of a set have none, even if the set had them before.
    fn correlated<'v>(&self, item: &Value, old: &'v [Value]) -> Option<&'v Value> {
        if self.list_keys.is_empty() {
            return None;
        }
        let is_scalar = |value: &Value| !matches!(value, Value::Null | Value::List(_) | Value::Map(_) | Value::Raw(_));
        let same = |old: &&Value| {
            self.list_keys.iter().all(|key| {
                let (mine, theirs) = (item.field(key), old.field(key));
                is_scalar(mine) && mine == theirs
            })
        };
        old.iter().find(same)
    }

    fn map<'v>(
        &self,
        path: &Path,
        map: &'v object::Map,
        old: Option<&'v Value>,
        ratchet: Ratchet<'v>,
        budget: &mut Budget<'_>,
        errors: &mut Errors,
    ) {
        for (key, value) in map.iter() {
            let before = old.and_then(|old| old.get(key));
            if let Some(validator) = &self.values {
                validator.validate(&path.key(key), value, before, ratchet.key(key), budget, errors);
            }
            if let Ok(at) = self.properties.binary_search_by(|(name, _)| name.as_str().cmp(key)) {
                let validator = &self.properties[at].1;
                validator.validate(&path.field(key), value, before, ratchet.key(key), budget, errors);
            }
            if budget.is_used_up() {
                return;
            }
        }
    }

    fn expressions(
        &self,
        path: &Path,
        object: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        budget: &mut Budget<'_>,
        errors: &mut Errors,
    ) {
        let ty = || BadValue::Value(self.ty.as_str().into());
        let rules = match &self.rules {
            Ok(rules) if rules.is_empty() => return,
            Ok(rules) => rules,
            Err(error) => {
                return errors.invalid(path, ty(), format!("rule compiler initialization error: {error}"));
            }
        };
        if budget.remaining.is_none_or(|remaining| remaining == 0) {
            budget.remaining = None;
            return errors.invalid(path, ty(), OUT_OF_BUDGET);
        }
        // Without a rule that uses oldSelf there is no such variable, for messages neither.
        let old = old.filter(|_| rules.iter().any(|rule| rule.compiled.uses_old_self));
        for rule in rules {
            let found = self.rule(rule, path, object, old, budget);
            if let Some(error) = found {
                let is_failure = error.is_failure && !rule.compiled.uses_old_self;
                if is_failure && ratchet.is_unchanged() {
                    budget.warnings.push(error.error.to_string());
                } else {
                    errors.push(error.error);
                }
            }
            if budget.is_used_up() {
                return;
            }
        }
    }

    /// What a rule finds wrong.
    fn rule(
        &self,
        rule: &Rule,
        path: &Path,
        object: &Value,
        old: Option<&Value>,
        budget: &mut Budget<'_>,
    ) -> Option<RuleError> {
        let invalid = |detail: String| {
            let ty = BadValue::Value(self.ty.as_str().into());
            Some(RuleError { error: FieldError::new(ErrorType::Invalid, path, ty, detail), is_failure: false })
        };
        if let Some(error) = &rule.compiled.error {
            return invalid(format!("rule compile error: {error}"));
        }
        let program = rule.compiled.program()?;
        let optional = rule.optional_old_self == Some(true);
        if rule.compiled.uses_old_self && old.is_none() && !optional {
            return None;
        }
        let arena = Arena::new();
        let evaluated = self.evaluate(program, object, old, optional, &arena, budget);
        if !budget.spend(evaluated.cost) {
            return invalid(OUT_OF_BUDGET.into());
        }
        match evaluated.outcome {
            Ok(Val::Bool(true)) => None,
            Ok(_) => Some(self.failure(rule, path, object, old, budget)),
            Err(error @ Error::Cancelled(Cancelled::CostLimit)) => {
                budget.remaining = None;
                let shown = rule.shown();
                let reason = "no further validation rules will be run due to call cost exceeds limit for rule";
                invalid(format!("'{error}': {reason}: {shown}"))
            }
            Err(error) if error.to_string().starts_with("no such overload") => {
                let shown = rule.shown();
                let reason = "call arguments did not match a supported operator, function or macro signature for rule";
                invalid(format!("'{error}': {reason}: {shown}"))
            }
            Err(error) => invalid(format!("{error} evaluating rule: {}", rule.shown())),
        }
    }

    fn evaluate<'a>(
        &'a self,
        program: &'a Program,
        object: &'a Value,
        old: Option<&'a Value>,
        optional: bool,
        arena: &'a Arena,
        budget: &Budget<'_>,
    ) -> Evaluated<'a> {
        let variables = |at: usize| match (at, old) {
            (0, _) => Some(typed(object, &self.decl, arena)),
            (_, Some(old)) if optional => {
                Some(typed(old, &self.decl, arena).map(|old| Val::Optional(Some(arena.copy(old)))))
            }
            (_, Some(old)) => Some(typed(old, &self.decl, arena)),
            (_, None) if optional => Some(Ok(Val::Optional(None))),
            (_, None) => None,
        };
        program.evaluate(&variables, arena, budget.limits)
    }

    /// The error of a rule that is not true.
    fn failure(
        &self,
        rule: &Rule,
        path: &Path,
        object: &Value,
        old: Option<&Value>,
        budget: &mut Budget<'_>,
    ) -> RuleError {
        let path = match &rule.compiled.normalized_path {
            Some(below) => &path.field(below),
            None => path,
        };
        let detail = match self.message(rule, object, old, budget) {
            Ok(Some(message)) => message,
            Ok(None) => rule.message_or_default(),
            Err(detail) => {
                budget.remaining = None;
                let ty = BadValue::Value(self.ty.as_str().into());
                return RuleError { error: FieldError::new(ErrorType::Invalid, path, ty, detail), is_failure: true };
            }
        };
        let shown = match self.ty.as_str() {
            "object" | "array" => BadValue::Omitted,
            _ => BadValue::Value(object.clone()),
        };
        let error = match rule.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::new(ErrorType::Forbidden, path, BadValue::Omitted, detail),
            Some("FieldValueRequired") => FieldError::new(ErrorType::Required, path, BadValue::Omitted, detail),
            Some("FieldValueDuplicate") => FieldError::new(ErrorType::Duplicate, path, shown, ""),
            _ => FieldError::new(ErrorType::Invalid, path, shown, detail),
        };
        RuleError { error, is_failure: true }
    }

    /// What the messageExpression says; none where it says nothing that can be used. The error ends all evaluation.
    fn message(
        &self,
        rule: &Rule,
        object: &Value,
        old: Option<&Value>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<String>, String> {
        let Some(program) = rule.compiled.message_program() else { return Ok(None) };
        let arena = Arena::new();
        let evaluated = self.evaluate(program, object, old, false, &arena, budget);
        if !budget.spend(evaluated.cost) {
            return Err(
                "messageExpression evaluation failed due to running out of cost budget, no further validation \
                        rules will be run"
                    .into(),
            );
        }
        let text = match evaluated.outcome {
            Ok(Val::String(text)) => text.trim(),
            Err(Error::Cancelled(Cancelled::CostLimit)) => {
                let reason =
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression";
                return Err(format!("{reason}: {}", object::quote(&rule.message_expression)));
            }
            _ => return Ok(None),
        };
        let usable = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
        Ok(usable.then(|| text.to_string()))
    }
}

/// An error, and whether a rule failed, as opposed to could not be evaluated.
struct RuleError {
    error: FieldError,
    is_failure: bool,
}

impl Rule {
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    fn message_or_default(&self) -> String {
        if self.message.is_empty() { format!("failed rule: {}", self.shown()) } else { self.message.trim().to_string() }
    }
}

/// Rules of `schema` for values of `node`; they differ inside of allOf.
fn build(schema: &Value, node: &Value, is_resource: bool, pool: &Pool) -> Option<Validator> {
    let decl = Decl::from_openapi(node, is_resource, "selfType");
    let rules = match schema.list_at(&["x-kubernetes-validations"]).is_empty() {
        true => Ok(Vec::new()),
        false => {
            let mut own = node.clone();
            own.set(&["x-kubernetes-validations"], schema.field("x-kubernetes-validations").clone());
            compile_rules(&own, &decl, &|_| Mode::Stored, pool)
        }
    };
    let is_embedded = |schema: &Value| schema.field("x-kubernetes-embedded-resource").as_bool() == Some(true);
    let child = |key: &str| {
        let (schema, node) = (schema.field(key), node.field(key));
        let both = schema.as_map().is_some() && node.as_map().is_some();
        both.then(|| build(schema, node, is_embedded(node), pool)).flatten().map(Box::new)
    };
    let (mut items, values) = (child("items"), child("additionalProperties"));
    // Items of what is no array have no type, so that rules for them cannot be compiled.
    if node.str_at(&["type"]) != "array"
        && let Some(validator) =
            items.as_mut().filter(|items| items.rules.as_ref().is_ok_and(|rules| !rules.is_empty()))
    {
        validator.rules = Err(NO_TYPE);
    }
    let mut properties = Vec::new();
    for (name, property) in schema.field("properties").as_map().into_iter().flat_map(|map| map.iter()) {
        let Some(node) = node.field("properties").get(name) else { continue };
        let visible = Decl::from_openapi(node, is_embedded(node), "selfType").ty().is_some();
        if let Some(validator) = visible.then(|| build(property, node, is_embedded(node), pool)).flatten() {
            properties.push((Str::from(name), validator));
        }
    }
    let all_of =
        schema.list_at(&["allOf"]).iter().filter_map(|nested| build(nested, node, is_resource, pool)).collect();
    let list_type = node.str_at(&["x-kubernetes-list-type"]);
    let keys = node.list_at(&["x-kubernetes-list-map-keys"]).iter().filter_map(Value::as_str).map(Str::from);
    let validator = Validator {
        ty: node.str_at(&["type"]).into(),
        decl,
        rules,
        all_of,
        items,
        values,
        properties,
        list_keys: if list_type == "map" { keys.collect() } else { Vec::new() },
    };
    let has_any = validator.rules.as_ref().map_or(true, |rules| !rules.is_empty())
        || !validator.all_of.is_empty()
        || validator.items.is_some()
        || validator.values.is_some()
        || !validator.properties.is_empty();
    has_any.then_some(validator)
}

/// Whether the schema or one below it has rules; those inside of allOf alone do not count.
fn has_rules(schema: &Value) -> bool {
    !schema.list_at(&["x-kubernetes-validations"]).is_empty()
        || has_rules_below(schema.field("items"))
        || has_rules_below(schema.field("additionalProperties"))
        || schema.field("properties").as_map().is_some_and(|map| map.values().any(has_rules))
}

fn has_rules_below(schema: &Value) -> bool {
    schema.as_map().is_some() && has_rules(schema)
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn items_of_what_is_no_array_have_no_rules_that_compile() {
        let items = value!({"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5"}]});
        for (kind, want) in [
            ("array", "root[1]: Invalid value: 7: failed rule: self < 5"),
            ("object", "root[0]: Invalid value: \"integer\": rule compiler initialization error"),
        ] {
            let schema = value!({"type": kind, "maxItems": 9, "items": (items.clone())});
            let validator = Validator::new(&schema, false, &Pool::default()).unwrap();
            let (mut budget, mut errors) = (Budget::default(), Errors::new());
            let object = value!([1, 7]);
            validator.validate(&Path::of("root"), &object, None, Ratchet::none(), &mut budget, &mut errors);
            let shown = errors.aggregate();
            assert!(shown.contains(want), "{kind}: {shown}");
        }
    }

    #[test]
    fn errors_about_items_that_did_not_change_count_where_items_cannot_be_told_apart() {
        let rule = || value!([{"rule": "self != 'bad'"}]);
        let plain = |kind: &str| {
            value!({"type": "array", "maxItems": 9, "x-kubernetes-list-type": kind,
                "items": {"type": "string", "maxLength": 9, "x-kubernetes-validations": (rule())}})
        };
        let keyed = value!({"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"},
                "v": {"type": "string", "maxLength": 9, "x-kubernetes-validations": (rule())}}}});
        let (old, new) = (value!(["bad"]), value!(["bad", "good"]));
        let (old_keyed, new_keyed) =
            (value!([{"k": "a", "v": "bad"}]), value!([{"k": "a", "v": "bad"}, {"k": "b", "v": "good"}]));
        // A rule about a list of which the items have changed places, or have a field that the schema does not know.
        let of_list = |list: &Value| {
            let mut list = list.clone();
            list.set(&["x-kubernetes-validations"], vec![value!({"rule": "self.all(item, item.v != 'bad')"})]);
            list.remove(&["items", "properties", "v", "x-kubernetes-validations"]);
            list
        };
        let turned = (value!([{"k": "a", "v": "bad"}, {"k": "b"}]), value!([{"k": "b"}, {"k": "a", "v": "bad"}]));
        let unknown = value!([{"k": "a", "v": "bad", "other": 1}]);
        for (stated, old, new, want) in [
            (plain("set"), &old, &new, 1),
            (plain("atomic"), &old, &new, 1),
            (plain("set"), &old, &old, 0),
            (keyed.clone(), &old_keyed, &new_keyed, 0),
            (of_list(&keyed), &turned.0, &turned.1, 0),
            (of_list(&keyed), &unknown, &unknown, 1),
        ] {
            let stated = value!({"type": "object", "properties": {"list": (stated)}});
            let [new, old] = [new, old].map(|list| value!({"list": (list.clone())}));
            let validator = Validator::new(&stated, false, &Pool::default()).unwrap();
            let (mut budget, mut errors) = (Budget::default(), Errors::new());
            let (types, node) = schema::from_openapi(&stated, false);
            let ratchet = Ratchet::update(schema::Schema::new(&types, &node), &new, &old);
            validator.validate(&Path::of("root"), &new, Some(&old), ratchet, &mut budget, &mut errors);
            assert_eq!(errors.len(), want, "{stated:?}: {}", errors.aggregate());
        }
    }
}
