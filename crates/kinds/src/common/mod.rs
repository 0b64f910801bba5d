//! Rules that several kinds share: pod templates, selectors, object references, ports, volumes, conditions.
//!
//! Kinds that embed pods start at [`pod_template`]; the rules of a pod's spec itself are in [`pod_spec`].

pub mod checks;
pub mod metadata;
pub mod pod_spec;
pub mod pod_template;
pub mod resources;
pub mod selector;
