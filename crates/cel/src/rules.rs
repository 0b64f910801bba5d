//! The rules in `x-kubernetes-validations` of custom resource definitions.
//!
//! [`Validator`] evaluates them for objects, [`check_definition`] judges them when a definition is written.

mod compile;
mod definition;
mod field_path;
mod ratchet;
mod validate;

pub use compile::{Compiled, Rule, compile_rules};
pub use definition::{MAX_RULE_COST, MAX_SCHEMA_COST, RuleCost, check_definition, rule_costs};
pub use field_path::normalized as normalized_field_path;
pub use ratchet::Ratchet;
pub use validate::{Budget, Validator};

/// What all rules of one object may cost together.
pub const RUNTIME_BUDGET: u64 = 10_000_000;
/// The longest result of a messageExpression that is used.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
