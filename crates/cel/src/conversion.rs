//! Conversion of custom resources by expressions.
//!
//! The annotation [`ANNOTATION`] of a definition has rules. One of its versions is the hub; for each other version, a spoke, they
//! say how its objects become objects of the hub and how those become objects of it. [`ConversionRules::read`] compiles them,
//! for the validation of definitions and for conversion alike. docs/conversion.md explains the language.

mod apply;
mod field;
mod read;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use object::Str;

use crate::decl::Decl;
use crate::pool::Pooled;

pub use apply::ConversionError;
use field::RulePath;

/// The annotation of a definition that has the rules, as YAML or JSON.
pub const ANNOTATION: &str = "conversion.ferrokube.io/rules";
/// The annotation of an object in which values are kept that its version has no field for.
pub const KEPT: &str = "conversion.ferrokube.io/kept";
/// The most that all expressions that convert one object may cost together.
pub const CONVERSION_BUDGET: u64 = 1_000_000;
/// The most rules of one direction, renamed fields included.
const MAX_RULES: usize = 512;

/// The compiled rules of a definition.
#[derive(Debug)]
pub struct ConversionRules {
    hub: Str,
    spokes: Vec<Spoke>,
}

/// How objects of one version become objects of the hub, and back.
#[derive(Debug)]
struct Spoke {
    version: Str,
    to_hub: ConversionWay,
    from_hub: ConversionWay,
    /// Fields of the hub that the version has no place for.
    keeps: Vec<RulePath>,
}

/// One direction.
#[derive(Debug)]
struct ConversionWay {
    /// The type of `self`: the version that objects come from.
    from: Arc<Decl>,
    rules: Vec<ConversionRule>,
}

#[derive(Debug)]
struct ConversionRule {
    /// Only objects, or items, for which this is true are changed.
    when: Option<Arc<Pooled>>,
    change: RuleChange,
}

#[derive(Debug)]
enum RuleChange {
    /// The field becomes the value of an expression; it is removed where there is none.
    Set(RulePath, Arc<Pooled>),
    /// The value becomes that of a field beside it, below the same item.
    Move(RulePath, RulePath),
    Remove(RulePath),
}

impl ConversionRules {
    /// The version that all others are converted to and from.
    pub fn hub(&self) -> &str {
        &self.hub
    }

    /// The versions that have rules.
    pub fn spokes(&self) -> impl Iterator<Item = &str> {
        self.spokes.iter().map(|spoke| spoke.version.as_str())
    }

    fn spoke(&self, version: &str) -> Option<&Spoke> {
        self.spokes.iter().find(|spoke| spoke.version == version)
    }
}
