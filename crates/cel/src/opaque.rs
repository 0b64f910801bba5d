//! [`Opaque`]: values of the library types that have no literal: quantities, addresses and the like.

use object::quantity::Quantity;

/// A value of a library type.
#[derive(Clone, Copy, Debug)]
pub enum Opaque<'a> {
    Quantity(&'a Quantity),
}

impl<'a> Opaque<'a> {
    /// The name of the type at run time.
    pub fn type_name(self) -> &'static str {
        match self {
            Opaque::Quantity(_) => "kubernetes.Quantity",
        }
    }

    /// Whether two values are equal; those of different types are not.
    pub fn equal(self, other: Opaque<'a>) -> bool {
        match (self, other) {
            (Opaque::Quantity(a), Opaque::Quantity(b)) => a == b,
        }
    }

    /// The size by which cost is counted, for types that have one.
    pub fn size(self) -> Option<u64> {
        match self {
            Opaque::Quantity(_) => None,
        }
    }

    /// The text by which tests and messages know the value, for types that have one.
    pub fn text(self) -> Option<String> {
        match self {
            Opaque::Quantity(quantity) => Some(quantity.to_string()),
        }
    }
}
