//! The authorization group.

use crate::Strategies;

pub fn strategies() -> Strategies {
    vec![]
}
