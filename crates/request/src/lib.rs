//! What a request is: who asks ([`User`]), for what ([`RequestInfo`]), with which [`Verb`]. Authentication,
//! authorization, audit and flow control never import one another; they meet here.

mod info;
mod user;

pub use info::{RequestInfo, Verb};
pub use user::User;
