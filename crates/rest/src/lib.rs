//! The REST verbs.
