//! Facts about rules of custom resource definitions.

use cel::rules::{Budget, Ratchet, Validator, check_definition, compile_rules};
use cel::{Decl, Mode, Pool};
use object::{Errors, Path};
use serde_json::{Value as Json, json};

use crate::case::VERSION_1_36;
use crate::score::Score;
use crate::tagged::value;

pub fn play(fact: &Json, score: &mut Score) {
    let (rule, outcome) = (&fact["rule"], &fact["outcome"]);
    let schema = value(&rule["schema"]);
    let is_root = rule.get("root").and_then(Json::as_bool).unwrap_or(false);
    if let Some(want) = outcome.get("rule_compile") {
        score.count("9 rule compile", fact, &compiled(&schema, is_root).to_string(), &want.to_string());
    }
    if let Some(object) = rule.get("value").map(value) {
        let old = rule.get("old").map(value);
        let mut errors = Errors::new();
        let mut budget = Budget::default();
        if let Some(validator) = Validator::new(&schema, is_root, &Pool::default()) {
            let path = Path::of("root");
            validator.validate(&path, &object, old.as_ref(), Ratchet::none(), &mut budget, &mut errors);
        }
        let want = outcome.get("rule_errors").cloned().unwrap_or(json!([]));
        score.count("9 rule errors", fact, &shown(&errors).to_string(), &want.to_string());
        if let Some(spent) = outcome.get("spent") {
            // What goes beyond the budget was recorded as one more than it.
            let got = budget.spent().unwrap_or(cel::rules::RUNTIME_BUDGET + 1).to_string();
            score.count("9 spent", fact, &got, &spent.to_string());
        }
    }
    definition(fact, &schema, is_root, score);
}

fn compiled(schema: &object::Value, is_root: bool) -> Json {
    let decl = Decl::from_openapi(schema, is_root, "selfType");
    let rules = compile_rules(schema, &decl, &|_| Mode::Stored, &Pool::default()).unwrap();
    let rule = |rule: &cel::rules::Rule| {
        let compiled = &rule.compiled;
        let mut json = serde_json::Map::new();
        let mut set = |key: &str, value: Json, is_set: bool| {
            if is_set {
                json.insert(key.into(), value);
            }
        };
        set("error", json!(compiled.error), compiled.error.is_some());
        set("max_cost", json!(compiled.max_cost), compiled.max_cost > 0);
        set("max_cardinality", json!(compiled.max_cardinality), compiled.max_cardinality > 0);
        set("uses_old_self", json!(true), compiled.uses_old_self);
        set("field_path", json!(compiled.normalized_path), compiled.normalized_path.is_some());
        set("message_expression_error", json!(compiled.message_error), compiled.message_error.is_some());
        set("message_expression_max_cost", json!(compiled.message_max_cost), compiled.message_max_cost > 0);
        Json::Object(json)
    };
    Json::Array(rules.iter().map(rule).collect())
}

fn shown(errors: &Errors) -> Json {
    let error = |error: &object::FieldError| {
        json!({
            "type": error.kind.reason(),
            "field": error.field,
            "detail": error.detail,
            "text": error.to_string(),
        })
    };
    Json::Array(errors.iter().map(error).collect())
}

/// A definition is judged as a new one. Errors of the schema itself are found elsewhere, and then rules are not looked at.
fn definition(fact: &Json, schema: &object::Value, is_root: bool, score: &mut Score) {
    let none = Vec::new();
    let want = fact["outcome"].get("crd_errors").and_then(Json::as_array).unwrap_or(&none);
    let of_the_schema = |error: &Json| {
        let (field, detail) = (error["field"].as_str().unwrap(), error["detail"].as_str().unwrap());
        let rules = "x-kubernetes-validations";
        let of_rules = field.contains(rules) || detail.contains(rules);
        let own = [".message", ".fieldPath", ".reason"].iter().any(|name| field.ends_with(&format!("]{name}")));
        own || !of_rules || ["rule is not specified", "must be empty to be structural"].contains(&detail)
    };
    if want.iter().any(of_the_schema) {
        return;
    }
    let path = Path::of("spec.validation.openAPIV3Schema");
    let mut root = schema.clone();
    if !is_root {
        root = object::value!({"type": "object", "properties": {}});
        root.set(&["properties", "f"], schema.clone());
    }
    let mut errors = Errors::new();
    check_definition(&root, &path, &|_| Mode::New(VERSION_1_36), true, &mut errors);
    score.count("9 definition", fact, &shown(&errors).to_string(), &Json::Array(want.clone()).to_string());
}
