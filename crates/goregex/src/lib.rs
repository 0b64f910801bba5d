//! Regular expressions with the syntax, error texts and matches of Go's `regexp` package, which Kubernetes uses for OpenAPI
//! patterns and in CEL.
//!
//! [`parse`] reads Go's syntax; [`Regex`] compiles it for the engines of `regex-automata`. A pattern too big for their tables
//! runs on [`vm`], which needs little memory for each instruction, so every pattern that Go accepts can be matched.

mod regex;

mod parse;

mod class;
mod hir;
mod node;
mod unicode;
mod vm;

pub use parse::{Error, ErrorKind, check};
pub use regex::Regex;
