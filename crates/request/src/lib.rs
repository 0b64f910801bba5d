//! What a request is: who asks ([`User`]), for what ([`RequestInfo`]), with which [`Verb`], and what authorizers are asked
//! about it ([`Access`]). Authentication,
//! authorization, audit and flow control never import one another; they meet here.

mod access;
mod info;
mod path;
mod rule;
mod user;

pub use access::{Access, Selection};
pub use info::{RequestInfo, Verb, unescape};
pub use path::{NoSegment, check_segment, escaped, path, version_path};
pub use rule::Rule;
pub use user::User;
