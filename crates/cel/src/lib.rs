//! The Common Expression Language as Kubernetes uses it. Pure: no I/O, no clock, no globals.
//!
//! Values live in [`Val`], types in [`Type`], functions in [`library`].

mod arena;
mod constant;
mod convert;
pub mod cost;
pub mod decl;
mod error;
mod escape;
pub mod library;
mod opaque;
mod time;
mod types;
pub mod val;

pub use arena::Arena;
pub use constant::Constant;
pub use convert::{json, typed};
pub use decl::Decl;
pub use error::{Cancelled, Error, Outcome};
pub use escape::{escape, unescape};
pub use opaque::Opaque;
pub use time::Time;
pub use types::{Link, Type};
pub use val::{List, Map, Struct, Val};
