//! [`Row`]: a flag with an effect, and where its value goes.

use super::Given;
use crate::Config;

/// One flag. Its type and default are in the generated table; flags that have no row have no effect.
pub(crate) struct Row<T = Config> {
    pub name: &'static str,
    pub set: fn(&mut T, Given<'_>) -> Result<(), String>,
}

/// The rows of the flags of one part of the configuration: `"name" => what is done with the value`. Where a part is named, rows
/// set its fields.
macro_rules! rows {
    ($part:ident = $place:expr, |$config:ident, $given:ident| $($name:literal => $set:expr,)*) => {
        $crate::flags::rows! { |$config, $given| $($name => {
            let $part = $place;
            let _ = &$part;
            $set
        },)* }
    };
    (|$config:ident, $given:ident| $($name:literal => $set:expr,)*) => {
        &[$($crate::flags::Row {
            name: $name,
            set: |$config, $given| {
                let _ = (&$config, $given);
                $set;
                Ok(())
            },
        }),*]
    };
}

pub(crate) use rows;
