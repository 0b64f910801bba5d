//! From syntax tree to types: what every name means, which overloads a call can reach, and what it all evaluates to.

mod checker;
mod unify;
mod validate;

pub use checker::{Checked, Resolution, Resolved, check};
