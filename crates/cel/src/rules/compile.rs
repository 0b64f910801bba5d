//! Compiling the rules of one schema.

use std::sync::Arc;

use object::{Str, Value};

use super::field_path;
use crate::decl::{Decl, MAX_REQUEST_BYTES};
use crate::environment::{Declarations, Environment, Mode};
use crate::expression::Expression;
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
    pub program: Option<Arc<Program>>,
    pub error: Option<String>,
    pub uses_old_self: bool,
    /// What one evaluation costs at most.
    pub max_cost: u64,
    /// How often the schema can occur in the largest request.
    pub max_cardinality: u64,
    pub message: Option<Arc<Program>>,
    pub message_error: Option<String>,
    pub message_max_cost: u64,
    /// The fieldPath as errors print it.
    pub normalized_path: Option<String>,
}

/// Compiles the rules of a schema. `mode` tells which expressions are new.
pub fn compile_rules(schema: &Value, decl: &Arc<Decl>, mode: &dyn Fn(&str) -> Mode) -> Result<Vec<Rule>, &'static str> {
    let rules = schema.list_at(&["x-kubernetes-validations"]);
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let Some(ty) = decl.ty() else { return Err("failed to convert to declType for CEL validation rules") };
    let plain = Declarations::new().declared("self", decl).unwrap_or_default();
    let optional = plain.clone().variable_of("oldSelf", Type::optional(ty.clone()));
    let plain = plain.variable_of("oldSelf", ty);
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
        let declarations = if rule.optional_old_self == Some(true) { &optional } else { &plain };
        rule.compiled = compile_rule(&rule, schema, declarations, cardinality, mode);
        rule
    };
    Ok(rules.iter().map(compile).collect())
}

fn compile_rule(
    rule: &Rule,
    schema: &Value,
    declarations: &Declarations,
    cardinality: u64,
    mode: &dyn Fn(&str) -> Mode,
) -> Compiled {
    let mut compiled = Compiled::default();
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let expression = match expression(&rule.rule, declarations, mode) {
        Ok(expression) => expression,
        Err(error) => return Compiled { error: Some(format!("compilation failed: {error}")), ..compiled },
    };
    if !matches!(expression.ty, Type::Bool) {
        return Compiled { error: Some("cel expression must evaluate to a bool".into()), ..compiled };
    }
    compiled.uses_old_self = expression.uses_old_self;
    match expression.program {
        Ok(program) => compiled.program = Some(program),
        Err(error) => {
            compiled.error = Some(format!("program instantiation failed: {error}"));
            return compiled;
        }
    }
    compiled.max_cost = expression.estimate.max;
    compiled.max_cardinality = cardinality;
    if !rule.message_expression.is_empty()
        && let Err(error) = compile_message(rule, declarations, mode, &mut compiled)
    {
        compiled.message_error = Some(error);
        return compiled;
    }
    if !rule.field_path.is_empty() {
        compiled.normalized_path = field_path::normalized(&rule.field_path, schema).ok();
    }
    compiled
}

fn expression(text: &str, declarations: &Declarations, mode: &dyn Fn(&str) -> Mode) -> Result<Expression, String> {
    let environment = Environment::base(mode(text));
    Expression::compile(text, &environment, declarations).map_err(|error| error.to_string())
}

fn compile_message(
    rule: &Rule,
    declarations: &Declarations,
    mode: &dyn Fn(&str) -> Mode,
    compiled: &mut Compiled,
) -> Result<(), String> {
    let expression = expression(&rule.message_expression, declarations, mode)
        .map_err(|error| format!("messageExpression compilation failed: {error}"))?;
    if !matches!(expression.ty, Type::String) {
        return Err("messageExpression must evaluate to a string".into());
    }
    let program = expression.program.map_err(|error| format!("messageExpression instantiation failed: {error}"))?;
    compiled.message = Some(program);
    compiled.message_max_cost = expression.estimate.max;
    Ok(())
}
