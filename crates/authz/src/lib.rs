//! Authorization: who may do what. The only maker of [`Permitted`] calls, which is what the REST verbs take.

mod abac;
mod authorizer;
mod conditions;
pub mod configuration;
mod meters;
pub mod node;
mod permitted;
pub mod rbac;
mod review;
mod visible;
pub mod webhook;

pub use abac::Abac;
pub use authorizer::{
    AlwaysAllow, AlwaysDeny, Authorizer, AuthorizerOpinion, Decision, Named, RulesFor, Union, Verdict, check_modes,
};
pub use configuration::Configuration;
pub use meters::AuthzMeters;
pub use node::Node;
pub use permitted::{Ask, LIST_REDACTED, Permitted, Refusal, Refused, authorize, check};
pub use review::Version as ReviewVersion;
pub use visible::{Changes, DecisionsChanged, Visible, changes_of};
pub use webhook::Webhook;
