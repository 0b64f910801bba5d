//! Expressions that select devices for resource claims.

use std::sync::Arc;

use crate::decl::{Decl, Shape};
use crate::environment::{Declarations, Environment};
use crate::expression::Expression;
use crate::policy::Refusal;
use crate::types::Type;

/// The longest domain and identifier of an attribute's name, and the longest text of an attribute's value.
const DRIVER_MAX: i64 = 63;
const VALUE_MAX: i64 = 64;
/// The most attributes and capacities of a device together.
const ATTRIBUTES_MAX: i64 = 32;

/// What expressions can use by feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// DRAConsumableCapacity: `device.allowMultipleAllocations`.
    pub consumable_capacity: bool,
    /// DRAListTypeAttributes: attributes can be lists.
    pub list_attributes: bool,
}

/// Checks an expression that is written now. Ok is what evaluating it can cost at most.
pub fn check(text: &str, features: Features) -> Result<u64, Refusal> {
    let environment = Environment::devices(features.list_attributes);
    let device = device(features);
    let declarations = Declarations::new().declared("device", &device).unwrap_or_default();
    let compiled = Expression::compile(text, &environment, &declarations)
        .map_err(|error| Refusal::Invalid(format!("compilation failed: {error}")))?;
    let is_unknown = match features.list_attributes {
        true => matches!(compiled.ty, Type::Dyn),
        false => matches!(compiled.ty, Type::Any),
    };
    if !is_unknown && !matches!(compiled.ty, Type::Bool) {
        let got = compiled.ty.declared_name();
        return Err(Refusal::Invalid(format!("must evaluate to bool or the unknown type, not {got}")));
    }
    compiled.program.map_err(|why| Refusal::Internal(format!("program instantiation failed: {why}")))?;
    Ok(compiled.estimate.max)
}

/// The type of `device`.
fn device(features: Features) -> Arc<Decl> {
    let sized = |shape: Shape, max_elements: i64| {
        Arc::new(Decl { name: Default::default(), shape, nullable: false, max_elements, min_serialized_size: 1 })
    };
    let map = |values: Arc<Decl>| sized(Shape::Map(values), ATTRIBUTES_MAX);
    let attribute = if features.list_attributes { Type::Dyn } else { Type::Any };
    let attribute = sized(Shape::Json(attribute), VALUE_MAX);
    let quantity = sized(Shape::Json(Type::Abstract("kubernetes.Quantity")), 0);
    let mut fields = vec![
        ("driver", sized(Shape::String, DRIVER_MAX)),
        ("attributes", map(map(attribute))),
        ("capacity", map(map(quantity))),
    ];
    if features.consumable_capacity {
        fields.push(("allowMultipleAllocations", sized(Shape::Bool, 1)));
    }
    Decl::object("kubernetes.DRADevice", fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_checked() {
        let features = Features { consumable_capacity: true, list_attributes: false };
        let cases = [
            (r#"device.driver == "dra.example.com""#, ""),
            (r#"device.attributes["dra.example.com"].name.startsWith("x")"#, ""),
            (r#"device.attributes["dra.example.com"].healthy"#, ""),
            (r#"device.capacity["dra.example.com"].memory.isGreaterThan(quantity("10Gi"))"#, ""),
            (r#"cel.bind(dra, device.attributes["dra.example.com"], dra.a && dra.b)"#, ""),
            ("device.allowMultipleAllocations", ""),
            ("device.driver", "must evaluate to bool or the unknown type, not string"),
            ("device.nothing", "compilation failed: ERROR: <input>:1:7: undefined field 'nothing'"),
            (
                "noSuchVar",
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'noSuchVar' (in container '')",
            ),
        ];
        for (text, expected) in cases {
            let got = check(text, features).map(|cost| cost > 1_000_000);
            match (got, expected) {
                (Ok(false), "") => {}
                (Err(refusal), expected) if refusal.to_string().starts_with(expected) && !expected.is_empty() => {}
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
        let expensive = "device.attributes.exists(a, device.attributes.exists(b, device.attributes.exists(c, \
                         device.attributes.exists(d, a + b + c + d == 'x'))))";
        assert!(check(expensive, features).unwrap() > 1_000_000);
    }
}
