//! The authentication group.

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![]
}
