//! [`Conditions`]: CEL expressions that decide whether a webhook is asked.

use std::sync::Arc;

use cel::decl::{ListKind, Shape};
use cel::{Arena, Decl, Declarations, Environment, Expression, Limits, Mode, Program, Type, Val};
use object::Value;

/// How many conditions a webhook may have.
pub const CONDITIONS_MAX: usize = 64;

/// Compiled match conditions. None at all hold always.
#[derive(Debug, Default)]
pub struct Conditions(Vec<CompiledCondition>);

#[derive(Debug)]
struct CompiledCondition {
    text: String,
    program: Arc<Program>,
}

/// What conditions say about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Matched {
    Yes,
    No,
    /// None is false, and some could not be evaluated.
    Failed(String),
}

impl Conditions {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compiles one more. Err says what is wrong with the expression.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        // Configuration files are of the administrator: they may use everything that this version has.
        let compiled = Expression::compile(text, &Environment::base(Mode::Stored), &declarations())
            .map_err(|error| format!("compilation failed: {error}"))?;
        let got = compiled.ty.declared_name();
        if got != "bool" {
            return Err(format!("must evaluate to bool but got {got}"));
        }
        let program = compiled.program.map_err(|why| format!("program instantiation failed: {why}"))?;
        self.0.push(CompiledCondition { text: text.to_string(), program });
        Ok(())
    }

    /// Evaluates the conditions for the spec of a SubjectAccessReview, see [`crate::review::for_conditions`].
    pub fn matched(&self, request: &Value) -> Matched {
        let arena = Arena::new();
        let mut errors = Vec::new();
        for condition in &self.0 {
            let variables = |_: usize| Some(Ok(cel::json(request)));
            let evaluated = condition.program.evaluate(&variables, &arena, Limits::default());
            let why = match evaluated.outcome {
                Ok(Val::Bool(true)) => continue,
                Ok(Val::Bool(false)) => return Matched::No,
                Ok(_) => "eval result type should be bool".to_string(),
                Err(error) => format!("resulted in error: {error}"),
            };
            errors.push(format!("cel evaluation error: expression '{}' {why}", condition.text));
        }
        if errors.is_empty() { Matched::Yes } else { Matched::Failed(object::aggregate(errors)) }
    }
}

/// `request`: a SubjectAccessReviewSpec.
fn declarations() -> Declarations {
    Declarations::new().variable_of("request", Type::Object(request()))
}

fn request() -> Arc<Decl> {
    let requirement = || {
        Decl::object(
            "kubernetes.SelectorRequirement",
            [("key", string()), ("operator", string()), ("values", list(string()))],
        )
    };
    let selector = |name: &str| Decl::object(name, [("rawSelector", string()), ("requirements", list(requirement()))]);
    let resource = Decl::object(
        "kubernetes.ResourceAttributes",
        [
            ("namespace", string()),
            ("verb", string()),
            ("group", string()),
            ("version", string()),
            ("resource", string()),
            ("subresource", string()),
            ("name", string()),
            ("fieldSelector", selector("kubernetes.FieldSelectorAttributes")),
            ("labelSelector", selector("kubernetes.LabelSelectorAttributes")),
        ],
    );
    let other = Decl::object("kubernetes.NonResourceAttributes", [("path", string()), ("verb", string())]);
    Decl::object(
        "kubernetes.SubjectAccessReviewSpec",
        [
            ("resourceAttributes", resource),
            ("nonResourceAttributes", other),
            ("user", string()),
            ("groups", list(string())),
            ("extra", sized(Shape::Map(list(string())))),
            ("uid", string()),
        ],
    )
}

fn string() -> Arc<Decl> {
    let shape = Shape::String;
    Arc::new(Decl { name: Default::default(), shape, nullable: true, max_elements: 0, min_serialized_size: 1 })
}

fn list(items: Arc<Decl>) -> Arc<Decl> {
    sized(Shape::List { items: Some(items), kind: ListKind::Atomic })
}

/// A list or map of any size.
fn sized(shape: Shape) -> Arc<Decl> {
    Arc::new(Decl { name: Default::default(), shape, nullable: true, max_elements: -1, min_serialized_size: 2 })
}

#[cfg(test)]
mod tests {
    use request::{Access, Selection, User};

    use super::*;

    fn check(expressions: &[&str], want: Result<Matched, &str>) {
        let mut conditions = Conditions::default();
        for expression in expressions {
            if let Err(why) = conditions.add(expression) {
                let why = why.lines().next().unwrap_or("");
                assert_eq!(Err(why), want.as_ref().map(|_| ()).map_err(|why| *why), "{expressions:?}");
                return;
            }
        }
        let user = User { name: "alice".into(), groups: vec!["devs".into()], ..User::default() };
        let access = Access {
            namespace: "ns",
            resource: "pods",
            version: "v1",
            field_selector: Selection::Text("spec.nodeName=n"),
            ..Access::to_resource(&user, "list")
        };
        assert_eq!(Ok(conditions.matched(&crate::review::for_conditions(&access))), want, "{expressions:?}");
    }

    #[test]
    fn conditions_are_evaluated() {
        check(&[], Ok(Matched::Yes));
        check(&["request.user == 'alice'", "'devs' in request.groups", "request.uid == ''"], Ok(Matched::Yes));
        check(&["has(request.resourceAttributes)", "!has(request.nonResourceAttributes)"], Ok(Matched::Yes));
        check(&["request.resourceAttributes.namespace == 'kube-system'"], Ok(Matched::No));
        check(&["request.resourceAttributes.name == ''", "request.extra.size() == 0"], Ok(Matched::Yes));
        check(
            &[
                "request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName' && r.operator == 'In' && r.values == ['n'])",
            ],
            Ok(Matched::Yes),
        );
        check(&["has(request.resourceAttributes.labelSelector)"], Ok(Matched::No));
        let failed = "cel evaluation error: expression 'request.nonResourceAttributes.path == '/'' resulted in error: no such key: nonResourceAttributes";
        check(&["request.nonResourceAttributes.path == '/'"], Ok(Matched::Failed(failed.into())));
        check(&["request.nonResourceAttributes.path == '/'", "request.user == 'bob'"], Ok(Matched::No));
        check(&["request.user"], Err("must evaluate to bool but got string"));
        check(&["request.nope == ''"], Err("compilation failed: ERROR: <input>:1:8: undefined field 'nope'"));
    }
}
