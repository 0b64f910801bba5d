//! What a request is: who asks ([`User`]), for what ([`RequestInfo`]), with which [`Verb`], and what authorizers are asked
//! about it ([`Access`]). Authentication,
//! authorization, audit and flow control never import one another; they meet here.

mod access;
mod info;
mod user;

pub use access::{Access, Selection};
pub use info::{RequestInfo, Verb, decode, unescape};
pub use user::User;
