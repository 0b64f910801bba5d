//! Compiling the rules of one schema.

use std::sync::Arc;

use object::{Str, Value};

use super::field_path;
use crate::decl::{Decl, MAX_REQUEST_BYTES};
use crate::environment::{Declarations, Environment, Mode};
use crate::expression::CompileError;
use crate::pool::{Pool, Pooled};
use crate::program::Program;
use crate::types::Type;

/// A rule as it was written, and what became of it.
#[derive(Debug)]
pub struct Rule {
    pub rule: Str,
    pub message: Str,
    pub message_expression: Str,
    pub reason: Option<Str>,
    pub field_path: Str,
    pub optional_old_self: Option<bool>,
    pub compiled: Compiled,
}

/// A compiled rule. An empty rule has neither a program nor an error.
#[derive(Debug, Default)]
pub struct Compiled {
    expression: Option<Arc<Pooled>>,
    pub error: Option<String>,
    pub uses_old_self: bool,
    /// What one evaluation costs at most.
    pub max_cost: u64,
    /// How often the schema can occur in the largest request.
    pub max_cardinality: u64,
    message: Option<Arc<Pooled>>,
    pub message_error: Option<String>,
    pub message_max_cost: u64,
    /// The fieldPath as errors print it.
    pub normalized_path: Option<String>,
}

impl Compiled {
    pub fn program(&self) -> Option<&Arc<Program>> {
        self.expression.as_ref()?.expression.program.as_ref().ok()
    }

    /// The program of the messageExpression.
    pub fn message_program(&self) -> Option<&Arc<Program>> {
        self.message.as_ref()?.expression.program.as_ref().ok()
    }
}

/// What the expressions of one schema are compiled with.
struct Compiler<'c> {
    pool: &'c Pool,
    declarations: Declarations,
    /// Tells the declarations apart from those of other schemas.
    types: String,
    mode: &'c dyn Fn(&str) -> Mode,
}

/// Why the rules of a schema without a type are not compiled.
pub const NO_TYPE: &str = "failed to convert to declType for CEL validation rules";

/// Compiles the rules of a schema. `mode` tells which expressions are new. Rules with the same text and types are kept once.
pub fn compile_rules(
    schema: &Value,
    decl: &Arc<Decl>,
    mode: &dyn Fn(&str) -> Mode,
    pool: &Pool,
) -> Result<Vec<Rule>, &'static str> {
    let rules = schema.list_at(&["x-kubernetes-validations"]);
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let Some(ty) = decl.ty() else { return Err(NO_TYPE) };
    let own = Declarations::new().declared("self", decl).unwrap_or_default();
    let fingerprint = decl.fingerprint();
    let compiler = |old: Type, kind: &str| {
        let declarations = own.clone().variable_of("oldSelf", old);
        Compiler { pool, declarations, types: format!("{kind} {fingerprint}"), mode }
    };
    let optional = compiler(Type::optional(ty.clone()), "optional");
    let plain = compiler(ty, "plain");
    let cardinality = MAX_REQUEST_BYTES as u64 / (decl.min_serialized_size as u64 + 1);
    let compile = |value: &Value| {
        let text = |key: &str| Str::from(value.str_at(&[key]));
        let mut rule = Rule {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: value.field("reason").as_str().map(Str::from),
            field_path: text("fieldPath"),
            optional_old_self: value.field("optionalOldSelf").as_bool(),
            compiled: Compiled::default(),
        };
        let compiler = if rule.optional_old_self == Some(true) { &optional } else { &plain };
        rule.compiled = compile_rule(&rule, schema, compiler, cardinality);
        rule
    };
    Ok(rules.iter().map(compile).collect())
}

fn compile_rule(rule: &Rule, schema: &Value, compiler: &Compiler<'_>, cardinality: u64) -> Compiled {
    let mut compiled = Compiled::default();
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let pooled = match compiler.compile(&rule.rule) {
        Ok(pooled) => pooled,
        Err(error) => return Compiled { error: Some(format!("compilation failed: {error}")), ..compiled },
    };
    let expression = &pooled.expression;
    if !matches!(expression.ty, Type::Bool) {
        return Compiled { error: Some("cel expression must evaluate to a bool".into()), ..compiled };
    }
    compiled.uses_old_self = expression.uses_old_self;
    if let Err(error) = &expression.program {
        compiled.error = Some(format!("program instantiation failed: {error}"));
        return compiled;
    }
    compiled.max_cost = expression.estimate.max;
    compiled.max_cardinality = cardinality;
    compiled.expression = Some(pooled);
    if !rule.message_expression.is_empty()
        && let Err(error) = compile_message(rule, compiler, &mut compiled)
    {
        compiled.message_error = Some(error);
        return compiled;
    }
    if !rule.field_path.is_empty() {
        compiled.normalized_path = field_path::normalized(&rule.field_path, schema).ok();
    }
    compiled
}

impl Compiler<'_> {
    fn compile(&self, text: &str) -> Result<Arc<Pooled>, CompileError> {
        self.pool.expression(text, &Environment::base((self.mode)(text)), &self.declarations, &self.types)
    }
}

fn compile_message(rule: &Rule, compiler: &Compiler<'_>, compiled: &mut Compiled) -> Result<(), String> {
    let pooled = compiler
        .compile(&rule.message_expression)
        .map_err(|error| format!("messageExpression compilation failed: {error}"))?;
    let expression = &pooled.expression;
    if !matches!(expression.ty, Type::String) {
        return Err("messageExpression must evaluate to a string".into());
    }
    if let Err(error) = &expression.program {
        return Err(format!("messageExpression instantiation failed: {error}"));
    }
    compiled.message_max_cost = expression.estimate.max;
    compiled.message = Some(pooled);
    Ok(())
}
