//! Cases for the rules of pods.
