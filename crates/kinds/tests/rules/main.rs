//! All kinds at once: what no object may do to any rule, and how long the rules may take.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)] // These are tests.

mod common;

mod changed;
mod growth;
mod made_up;
