//! The Common Expression Language as Kubernetes uses it. Pure: no I/O, no clock, no globals.
//!
//! Values live in [`Val`], types in [`Type`], functions in [`library`].

mod arena;
mod check;
mod constant;
pub mod conversion;
mod convert;
pub mod cost;
pub mod decl;
pub mod device;
pub mod environment;
mod error;
mod escape;
mod expression;
mod gofmt;
pub mod library;
mod message;
mod native;
mod opaque;
pub mod policy;
mod pool;
mod program;
mod reads;
pub mod rules;
mod runtime;
mod selects;
mod syntax;
mod time;
mod types;
pub mod val;
mod zone;

pub use arena::Arena;
pub use constant::Constant;
pub use convert::{escaped_json, json, typed};
pub use decl::Decl;
pub use environment::{Declarations, Environment, Mode};
pub use error::{Cancelled, Error, Outcome};
pub use escape::{escape, is_reserved, unescape};
pub use expression::{CompileError, Expression};
pub use native::native;
pub use opaque::Opaque;
pub use pool::{Count, Pool, Pooled};
pub use program::{Evaluated, Limits, Program, Variables};
pub use reads::reads;
pub use selects::selects;
pub use time::Time;
pub use types::{Link, Type};
pub use val::{List, Map, Struct, Val};
