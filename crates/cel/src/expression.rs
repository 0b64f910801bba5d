//! [`Expression`]: from text to program.

use std::fmt;
use std::sync::Arc;

use bumpalo::Bump;

use crate::check::{Resolution, check};
use crate::cost::{Range, estimate};
use crate::environment::{Declarations, Environment};
use crate::program::{Program, plan};
use crate::syntax::parse;
use crate::syntax::source::Errors;
use crate::types::Type;

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    pub ty: Type,
    /// What an evaluation will cost at least and at most.
    pub estimate: Range,
    /// Whether the expression names the variable `oldSelf`.
    pub uses_old_self: bool,
    /// The program, or why a constant in it cannot be computed.
    pub program: Result<Arc<Program>, String>,
}

/// Why an expression does not compile: its errors with the places where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError(String);

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CompileError {}

impl Expression {
    /// Parses, checks and plans an expression.
    pub fn compile(
        text: &str,
        environment: &Environment,
        declarations: &Declarations,
    ) -> Result<Expression, CompileError> {
        let bump = Bump::new();
        let mut errors = Errors::new(text);
        let Some((root, count)) = parse(text, environment.macros(), &bump, &mut errors) else {
            return Err(CompileError(errors.to_string()));
        };
        let checked = check(root, count, environment, declarations, &mut errors);
        if !errors.is_empty() {
            return Err(CompileError(errors.to_string()));
        }
        let program = plan(root, &checked, declarations).map(Arc::new);
        let schema = declarations.schema().map(|decl| &**decl);
        let uses_old_self = checked.resolutions.iter().any(|resolution| {
            matches!(resolution, Resolution::Variable(at) if declarations.names().nth(*at) == Some("oldSelf"))
        });
        Ok(Expression {
            ty: checked.types[root.id as usize].clone(),
            estimate: estimate(root, &checked, schema),
            uses_old_self,
            program,
        })
    }
}
