//! Annotations that say something about how a pod runs.

use object::{Cursor, Errors};

use super::Options;

pub fn validate(_annotations: &Cursor, _spec: &Cursor, _options: &Options, _errors: &mut Errors) {}

pub fn seccomp_must_match(_annotations: &Cursor, _spec: &Cursor, _errors: &mut Errors) {}

pub fn apparmor_must_match(_annotations: &Cursor, _spec: &Cursor, _errors: &mut Errors) {}
