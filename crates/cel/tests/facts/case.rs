//! One fact.

use std::sync::Arc;

use cel::decl::admission;
use cel::library::Version;
use cel::library::authorizer::Authorizer;
use cel::{Arena, Decl, Declarations, Environment, Expression, Limits, Mode, Type, Val, typed};
use serde_json::Value as Json;

use crate::authz::Fake;
use crate::score::Score;
use crate::tagged::{normal, tag, untag, value};

/// What a default server of 1.37 is compatible with.
pub const VERSION_1_36: Version = Version { major: 1, minor: 36 };

pub fn play(fact: &Json, score: &mut Score) {
    if fact.get("rule").is_some() {
        return crate::rules::play(fact, score);
    }
    expression(fact, &fact["outcome"], Mode::Stored, score);
    if let Some(outcome) = fact.get("outcome_new_1_36") {
        expression(fact, outcome, Mode::New(VERSION_1_36), score);
    }
}

/// The text of the expression, which may be given as pieces to repeat.
fn text(fact: &Json) -> String {
    if let Some(expr) = fact.get("expr") {
        return expr.as_str().unwrap().to_string();
    }
    let pieces = fact.get("expr_gen").and_then(Json::as_array);
    let piece = |piece: &Json| piece[0].as_str().unwrap().repeat(piece[1].as_u64().unwrap() as usize);
    pieces.map(|pieces| pieces.iter().map(piece).collect()).unwrap_or_default()
}

struct Variable {
    name: String,
    ty: Type,
    decl: Option<Arc<Decl>>,
    value: Option<object::Value>,
    tagged: Option<Json>,
    authz: Option<Fake>,
    optional: bool,
}

fn variables(fact: &Json) -> Vec<Variable> {
    let vars = fact.get("vars").and_then(Json::as_object);
    let self_decl = vars.and_then(|vars| vars.get("self")).and_then(|var| {
        let schema = var.get("schema").filter(|schema| schema.is_object())?;
        let root = var.get("root").and_then(Json::as_bool).unwrap_or(false);
        Some(Decl::from_openapi(&value(schema), root, "selfType"))
    });
    let variable = |(name, var): (&String, &Json)| {
        let (decl, ty, optional) = match var.get("schema") {
            Some(Json::String(name)) if name == "self" => (self_decl.clone(), None, false),
            Some(Json::String(name)) if name == "optional(self)" => (self_decl.clone(), None, true),
            Some(Json::String(name)) => (None, Some(named_type(name)), false),
            Some(_) if name == "self" => (self_decl.clone(), None, false),
            Some(schema) => (Some(Decl::from_openapi(&value(schema), false, "selfType")), None, false),
            None => (None, Some(Type::Dyn), false),
        };
        let ty = ty.or_else(|| decl.as_ref().and_then(|decl| decl.ty())).unwrap_or(Type::Dyn);
        let ty = if optional { Type::optional(ty) } else { ty };
        Variable {
            name: name.clone(),
            ty,
            decl,
            value: var.get("value").map(value),
            tagged: var.get("cel").cloned(),
            authz: var.get("authz").cloned().map(Fake),
            optional,
        }
    };
    vars.map(|vars| vars.iter().map(variable).collect()).unwrap_or_default()
}

fn named_type(name: &str) -> Type {
    let inner = |prefix: &str| name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(')'));
    if let Some(items) = inner("list(") {
        return Type::list(named_type(items));
    }
    if let Some(both) = inner("map(") {
        let (key, value) = both.split_once(", ").unwrap();
        return Type::map(named_type(key), named_type(value));
    }
    if let Some(item) = inner("optional(") {
        return Type::optional(named_type(item));
    }
    if let Some(item) = inner("type(") {
        return Type::Type(Some(named_type(item).into()));
    }
    match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "dyn" => Type::Dyn,
        "null_type" => Type::Null,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "wrapper(int)" => Type::Wrapper(&Type::Int),
        other => panic!("unknown type {other}"),
    }
}

fn expression(fact: &Json, outcome: &Json, mode: Mode, score: &mut Score) {
    let text = text(fact);
    let vars = variables(fact);
    let env = fact["env"].as_str().unwrap_or("base");
    let environment = if env == "mutation" { Environment::mutation(mode) } else { Environment::base(mode) };
    let mut declarations = match env {
        "base" => Declarations::new(),
        _ => admission::declarations(admission::Optional {
            request_resource: true,
            params: true,
            authorizer: true,
            patch_types: env == "mutation",
        }),
    };
    if env == "base" {
        for var in &vars {
            declarations = match &var.decl {
                Some(decl) if !var.optional => match declarations.clone().declared(&var.name, decl) {
                    Some(more) => more,
                    None => return,
                },
                _ => declarations.variable_of(&var.name, var.ty.clone()),
            };
        }
    }
    let compiled = Expression::compile(&text, &environment, &declarations);
    let want_error = outcome.get("compile_error").and_then(Json::as_str);
    let compiles = |compiles: bool| if compiles { "compiles" } else { "does not compile" };
    score.count("1 compiles", fact, compiles(compiled.is_ok()), compiles(want_error.is_none()));
    let compiled = match (compiled, want_error) {
        (Ok(compiled), None) => compiled,
        (Err(error), Some(want)) => {
            let aspect = match (want.contains("Syntax error"), want.matches("ERROR").count()) {
                (false, _) => "2 checker text",
                (true, 1) => "3 syntax text",
                (true, _) => "4 several syntax errors",
            };
            score.count(aspect, fact, &error.to_string(), want);
            return;
        }
        _ => return,
    };
    score.count("5 type", fact, &compiled.ty.declared_name(), outcome.get("type").and_then(Json::as_str).unwrap_or(""));
    if let Some(want) = outcome.get("est_cost") {
        let got = format!("{} {}", compiled.estimate.min, compiled.estimate.max);
        score.count("5 estimate", fact, &got, &format!("{} {}", want["min"], want["max"]));
    }
    let want_program = outcome.get("program_error").and_then(Json::as_str).unwrap_or("");
    let program = match compiled.program {
        Ok(program) => {
            score.count("6 program", fact, "", want_program);
            program
        }
        Err(error) => {
            score.count("6 program", fact, &error, want_program);
            return;
        }
    };
    if !want_program.is_empty() {
        return;
    }
    let arena = Arena::new();
    let names: Vec<&str> = declarations.names().collect();
    let get = |at: usize| {
        let var = vars.iter().find(|var| var.name == names[at])?;
        if let Some(fake) = &var.authz {
            let authorizer = Authorizer::new(fake);
            return Some(Ok(match var.name.as_str() {
                "authorizer" => authorizer.val(&arena),
                _ => authorizer.resource_val(fake.resource(), &arena),
            }));
        }
        let val = match (&var.value, &var.tagged, &var.decl) {
            (Some(value), _, Some(decl)) => typed(value, decl, &arena),
            (Some(value), _, None) => Ok(cel::json(value)),
            (None, Some(tagged), _) => Ok(untag(tagged, &arena)),
            (None, None, _) if var.optional => return Some(Ok(Val::Optional(None))),
            (None, None, _) => return None,
        };
        Some(if var.optional { val.map(|val| Val::Optional(Some(arena.copy(val)))) } else { val })
    };
    let evaluated = program.evaluate(&get, &arena, Limits::default());
    let got = match evaluated.outcome {
        Ok(val) => tag(val, &arena).to_string(),
        Err(error) => format!("error: {error}"),
    };
    let want = match (outcome.get("value"), outcome.get("error").and_then(Json::as_str)) {
        (Some(value), _) => normal(value).to_string(),
        (None, Some(error)) => format!("error: {error}"),
        (None, None) => return,
    };
    let got = match crate::tagged::parse(&got) {
        Ok(json) => normal(&json).to_string(),
        Err(_) => got,
    };
    score.count("7 value", fact, &got, &want);
    if got == want {
        let cost = outcome.get("cost").map(ToString::to_string).unwrap_or_default();
        score.count("8 cost", fact, &evaluated.cost.to_string(), &cost);
    }
}
