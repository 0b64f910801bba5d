//! Authorization: who may do what. The only maker of [`Permitted`] calls, which is what the REST verbs take.

mod authorizer;
mod permitted;
pub mod rbac;

pub use authorizer::{AlwaysAllow, AlwaysDeny, Authorizer, Decision, Masters, Union, check_modes};
pub use permitted::{Ask, Permitted, Refused, authorize, check};
