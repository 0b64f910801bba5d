//! [`selects`]: whether an expression reads a certain field of a variable.

use bumpalo::Bump;

use crate::environment::Environment;
use crate::syntax::ast::{Kind, Literal, Node};
use crate::syntax::parse;
use crate::syntax::source::Errors;

/// Whether an expression contains `variable.field`, `has(variable.field)` or `variable.?field`. An index with the name of the
/// field does not count, and neither does anything in an expression that cannot be parsed.
pub fn selects(text: &str, environment: &Environment, variable: &str, field: &str) -> bool {
    let bump = Bump::new();
    let parsed = parse(text, environment.macros(), &bump, &mut Errors::new(text));
    parsed.is_some_and(|(root, _)| Wanted { variable, field }.is_in(root))
}

struct Wanted<'w> {
    variable: &'w str,
    field: &'w str,
}

impl Wanted<'_> {
    fn is_in(&self, node: Node<'_>) -> bool {
        match node.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => false,
            Kind::Select(select) => {
                self.is_variable(select.operand) && select.field == self.field || self.is_in(select.operand)
            }
            Kind::Call(call) => {
                let optional = call.function == "_?._"
                    && matches!(call.args, [operand, name] if self.is_variable(operand) && self.is_field(name));
                optional || call.target.into_iter().chain(call.args.iter().copied()).any(|inner| self.is_in(inner))
            }
            Kind::List(list) => list.elements.iter().any(|inner| self.is_in(inner)),
            Kind::Map(entries) => entries.iter().any(|entry| self.is_in(entry.key) || self.is_in(entry.value)),
            Kind::Struct(message) => message.fields.iter().any(|field| self.is_in(field.value)),
            Kind::Comprehension(fold) => [fold.range, fold.init, fold.condition, fold.step, fold.result]
                .into_iter()
                .any(|inner| self.is_in(inner)),
        }
    }

    fn is_variable(&self, node: Node<'_>) -> bool {
        matches!(node.kind, Kind::Ident(name) if name == self.variable)
    }

    fn is_field(&self, node: Node<'_>) -> bool {
        matches!(node.kind, Kind::Literal(Literal::String(name)) if *name == self.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Mode;

    #[test]
    fn fields_are_found_where_they_are_read() {
        let environment = Environment::base(Mode::Stored);
        for (text, want) in [
            ("claims.email", true),
            ("has(claims.email) ? 'a' : 'b'", true),
            ("claims.?email.orValue('')", true),
            ("[1].exists(x, claims.email == 'a')", true),
            ("{'a': claims.email}", true),
            ("claims.email.lowerAscii()", true),
            ("claims['email']", false),
            ("claims.other.email", false),
            ("'claims.email'", false),
            ("claims.email +", false),
        ] {
            assert_eq!(selects(text, &environment, "claims", "email"), want, "{text}");
        }
    }
}
