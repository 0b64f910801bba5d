//! [`Refused`]: why a credential is not good.

use std::fmt;

/// A credential was brought and is not good. Several methods may have their own reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Refused(Vec<String>);

impl Refused {
    pub fn because(why: impl Into<String>) -> Refused {
        Refused(vec![why.into()])
    }

    /// Adds what else is wrong; what was said before is not said again.
    pub fn also(&mut self, other: Refused) {
        for why in other.0 {
            if !self.0.contains(&why) {
                self.0.push(why);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&object::aggregate(self.0.iter().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_once() {
        let mut refused = Refused::because("a");
        refused.also(Refused::because("a"));
        assert_eq!(refused.to_string(), "a");
        refused.also(Refused::because("b"));
        assert_eq!(refused.to_string(), "[a, b]");
    }
}
