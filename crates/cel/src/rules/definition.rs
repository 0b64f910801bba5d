//! Judging the rules of a definition when it is written.

use object::{BadValue, Errors, Path, Value};

use super::compile::{Rule, compile_rules};
use crate::decl::Decl;
use crate::environment::Mode;
use crate::pool::Pool;

/// What one rule may cost at most, in all places where it can be evaluated.
pub const MAX_RULE_COST: u64 = 10_000_000;
/// What all rules of a schema may cost at most.
pub const MAX_SCHEMA_COST: u64 = 100_000_000;
/// How many of the most expensive rules are named.
const MOST_EXPENSIVE: usize = 4;

const UNTYPED: &str = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to \
    convert structural schema to CEL declarations";

/// Reports what is wrong with the rules of a schema that is valid otherwise. `mode` tells which expressions are new, and
/// `costs_count` whether a single rule can be too expensive: not where it was accepted before.
pub fn check_definition(
    schema: &Value,
    path: &Path,
    mode: &dyn Fn(&str) -> Mode,
    costs_count: bool,
    errors: &mut Errors,
) {
    let pool = Pool::default();
    let mut walk = SchemaWalk { mode, pool, costs_count, errors, total: 0, expensive: Vec::new(), costs: None };
    walk.schema(schema, path, &Place::top());
    let SchemaWalk { total, expensive, .. } = walk;
    if total > MAX_SCHEMA_COST {
        for (path, _) in &expensive {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.forbidden(path, detail);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path, too_expensive(what, total, MAX_SCHEMA_COST));
    }
}

/// The most that one rule of a schema may cost, in all places where it can be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCost {
    /// The path of the expression.
    pub path: String,
    pub cost: u64,
}

/// The costs of all rules of a schema, and why some have none: they cannot be compiled.
pub fn rule_costs(schema: &Value, errors: &mut Errors) -> Vec<RuleCost> {
    let mut all = Vec::new();
    let (pool, mode) = (Pool::default(), |_: &str| Mode::Stored);
    let costs = Some(&mut all);
    let mut walk = SchemaWalk { mode: &mode, pool, costs_count: false, errors, total: 0, expensive: Vec::new(), costs };
    walk.schema(schema, &Path::root(), &Place::top());
    all
}

struct SchemaWalk<'w> {
    mode: &'w dyn Fn(&str) -> Mode,
    /// Equal rules are compiled once while one of them is looked at.
    pool: Pool,
    costs_count: bool,
    errors: &'w mut Errors,
    total: u64,
    expensive: Vec<(Path, u64)>,
    /// Gets the cost of each expression, if they are wanted.
    costs: Option<&'w mut Vec<RuleCost>>,
}

/// Where a schema is inside of another.
#[derive(Clone)]
struct Place {
    is_root: bool,
    /// How often it can occur; none if that has no bound.
    cardinality: Option<u64>,
    /// The nearest schema around it whose values cannot be told apart between two versions of an object.
    uncorrelatable: Option<Path>,
    /// Whether the schema or one around it has rules.
    in_scope: bool,
    /// Whether rules cannot be compiled: one of the schemas in scope has no type that expressions know.
    is_untyped: bool,
}

impl Place {
    /// That of the whole schema.
    fn top() -> Place {
        Place { is_root: true, cardinality: Some(1), uncorrelatable: None, in_scope: false, is_untyped: false }
    }
}

impl SchemaWalk<'_> {
    fn schema(&mut self, schema: &Value, path: &Path, place: &Place) {
        let rules = schema.list_at(&["x-kubernetes-validations"]);
        let elements = max_elements(schema);
        let cardinality = place.cardinality.zip(elements).map(|(a, b)| a.saturating_mul(b));
        let in_scope = place.in_scope || !rules.is_empty();
        let is_untyped = place.is_untyped || (in_scope && !has_type(schema));
        let below = Place { is_root: false, cardinality, in_scope, is_untyped, ..place.clone() };
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.as_map().is_some()) {
            self.schema(values, &path.field("additionalProperties"), &below);
        }
        let properties = path.field("properties");
        for (name, property) in schema.field("properties").as_map().into_iter().flat_map(|map| map.iter()) {
            self.schema(property, &properties.key(name), &below);
        }
        if let Some(items) = schema.get("items").filter(|items| items.as_map().is_some()) {
            let mut below = below;
            // Items are told apart only by their keys.
            if schema.str_at(&["x-kubernetes-list-type"]) != "map" {
                below.uncorrelatable = below.uncorrelatable.or_else(|| Some(path.clone()));
            }
            self.schema(items, &path.field("items"), &below);
        }
        if is_untyped && !rules.is_empty() {
            self.errors.internal(&path.field("x-kubernetes-validations"), UNTYPED);
        } else if !rules.is_empty() {
            self.rules(schema, rules, &path.field("x-kubernetes-validations"), place);
        }
    }

    fn rules(&mut self, schema: &Value, values: &[Value], path: &Path, place: &Place) {
        let is_resource = place.is_root || schema.field("x-kubernetes-embedded-resource").as_bool() == Some(true);
        let decl = Decl::from_openapi(schema, is_resource, "selfType");
        match compile_rules(schema, &decl, self.mode, &self.pool) {
            Ok(rules) => {
                for (i, (rule, value)) in rules.iter().zip(values).enumerate() {
                    self.rule(rule, value, &path.index(i), place);
                }
            }
            Err(error) => self.errors.internal(path, error),
        }
    }

    fn rule(&mut self, rule: &Rule, value: &Value, path: &Path, place: &Place) {
        let compiled = &rule.compiled;
        let cost = compiled.max_cost.saturating_mul(place.cardinality.unwrap_or(compiled.max_cardinality));
        let (rule_path, message_path) = (path.field("rule"), path.field("messageExpression"));
        if self.costs_count && cost > MAX_RULE_COST {
            self.errors.forbidden(&rule_path, too_expensive("estimated rule cost", cost, MAX_RULE_COST));
        }
        self.observe(&rule_path, cost);
        if let Some(error) = &compiled.error {
            self.errors.invalid(&rule_path, shown(rule), error.clone());
        }
        if let Some(error) = &compiled.message_error {
            self.errors.invalid(&message_path, shown(rule), error.clone());
        } else if compiled.message_program().is_some() {
            let cost = compiled.message_max_cost;
            if self.costs_count && cost > MAX_RULE_COST {
                let detail = too_expensive("estimated messageExpression cost", cost, MAX_RULE_COST);
                self.errors.forbidden(&message_path, detail);
            }
            self.observe(&message_path, cost);
        }
        if compiled.uses_old_self {
            if let Some(portion) = &place.uncorrelatable {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {portion}");
                self.errors.invalid(&rule_path, value.field("rule").clone(), detail);
            }
        } else if let Some(optional) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.invalid(&path.field("optionalOldSelf"), Value::from(optional), detail);
        }
    }

    /// Adds a cost to the total and remembers the most expensive.
    fn observe(&mut self, path: &Path, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if let Some(costs) = &mut self.costs {
            costs.push(RuleCost { path: path.to_string(), cost });
        }
        if cost < MAX_SCHEMA_COST / 100 {
            return;
        }
        self.expensive.push((path.clone(), cost));
        self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        self.expensive.truncate(MOST_EXPENSIVE);
    }
}

/// Whether expressions have a type for the values of a schema.
fn has_type(schema: &Value) -> bool {
    let nested = |key: &str| schema.get(key).filter(|nested| nested.as_map().is_some());
    match schema.str_at(&["type"]) {
        _ if schema.field("x-kubernetes-int-or-string").as_bool() == Some(true) => true,
        "array" => nested("items").is_some_and(has_type),
        "object" => nested("additionalProperties").is_none_or(has_type),
        "string" | "boolean" | "number" | "integer" => true,
        _ => false,
    }
}

/// How many values a schema has directly below it; none if that has no bound.
fn max_elements(schema: &Value) -> Option<u64> {
    let limit = |key: &str| schema.field(key).as_int().map(|n| n.max(0) as u64);
    match schema.str_at(&["type"]) {
        "object" if !schema.field("additionalProperties").is_null() => limit("maxProperties"),
        "array" => limit("maxItems"),
        _ => Some(1),
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_string(),
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// The rule as upstream shows it in errors: with the fields of its Go struct.
fn shown(rule: &Rule) -> BadValue {
    let json = |value: Value| match BadValue::json(&value) {
        BadValue::Raw(text) => text,
        _ => String::new(),
    };
    BadValue::Raw(format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        json(rule.rule.as_str().into()),
        json(rule.message.as_str().into()),
        json(rule.message_expression.as_str().into()),
        json(rule.reason.as_ref().map(|reason| reason.as_str()).into()),
        json(rule.field_path.as_str().into()),
        json(rule.optional_old_self.into()),
    ))
}
