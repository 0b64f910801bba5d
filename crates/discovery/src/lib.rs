//! What the server serves, told from the catalog: `/api`, `/apis`, `/openapi/v2` and `/openapi/v3`.
//!
//! Start with [`Discovery::answer`]. Everything below it is a function of a `Catalog` snapshot: a custom resource that is
//! added to the catalog shows in all of these documents with the next request, and is gone from them when it is removed.

mod aggregated;
mod answer;
mod conditional;
mod extensions;
mod groups;
mod hash;
mod openapi;
mod plain;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use answer::Discovery;
