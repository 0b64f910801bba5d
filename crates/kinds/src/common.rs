//! Rules that several kinds share: pod templates, selectors, object references, ports, volumes, conditions.
//!
//! Kinds that embed pods start at [`pod_template`]; the rules of a pod's spec itself are in [`pod_spec`].

pub mod checks;
pub mod claim;
pub mod columns;
pub mod conditions;
pub mod declared;
pub mod diff;
pub mod image;
pub mod internal;
pub mod metadata;
pub mod named;
pub mod paths;
pub mod percent;
pub mod pod_spec;
pub mod pod_template;
pub mod problems;
#[cfg(test)]
pub mod recorded;
pub mod resources;
pub mod selector;
pub mod signers;
pub mod versioned;
pub mod volumes;
