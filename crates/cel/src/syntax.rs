//! From text to syntax tree: [`source`] positions and errors, [`lexer`], [`parser`] with its macros.

pub mod ast;
mod copy;
mod lexer;
mod literal;
mod logic;
mod macros;
mod parser;
pub mod source;
mod tokens;

pub use macros::Macros;
pub use parser::parse;
