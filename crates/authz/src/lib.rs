//! Authorization: who may do what. The only maker of a [`Permit`], without which no REST verb can be called.

mod authorizer;
mod permit;
pub mod rbac;

pub use authorizer::{AlwaysAllow, AlwaysDeny, Attributes, Authorizer, Decision, Masters, Union, check_modes};
pub use permit::{Permit, authorize, refusal};
