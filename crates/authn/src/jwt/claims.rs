//! [`Mapping`]: from the claims of a verified token to a user.

use cel::{Arena, Limits, Val, escaped_json};
use object::{Map, Value, quote};
use request::User;

use crate::CREDENTIAL_ID;
use crate::configuration::{Compiled, JwtConfiguration, Rule};
use crate::jws::json_type;

/// How claims become a user, and what must be true of both.
pub struct Mapping {
    configuration: JwtConfiguration,
    compiled: Compiled,
}

impl Mapping {
    pub fn new(configuration: &JwtConfiguration, compiled: Compiled) -> Mapping {
        Mapping { configuration: configuration.clone(), compiled }
    }

    /// The user. Err is upstream's text.
    pub fn user(&self, claims: &Value) -> Result<User, String> {
        // Go reads all numbers of JSON as floating-point ones, and so expressions see them.
        let numbers = floats(claims);
        let mut user = User {
            name: self.username(claims, &numbers)?,
            groups: self.groups(claims, &numbers)?,
            uid: self.uid(claims, &numbers)?,
            extra: self.extra(claims, &numbers)?,
        };
        self.check_required(claims)?;
        let rules = &self.compiled.claim_validation_rules;
        check(rules, &numbers).map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))?;
        if !self.compiled.user_validation_rules.is_empty() {
            let failed = |why| format!("oidc: error evaluating user info validation rule: {why}");
            check(&self.compiled.user_validation_rules, &user_value(&user)).map_err(failed)?;
        }
        user.extra.sort();
        Ok(user)
    }

    fn username(&self, claims: &Value, numbers: &Value) -> Result<String, String> {
        if let Some(rule) = &self.compiled.username {
            let failed = |why: String| format!("oidc: error evaluating username claim expression: {why}");
            let name = text(rule, numbers).map_err(failed)?;
            let name = name.ok_or_else(|| failed("username claim expression must return a string".into()))?;
            if name.is_empty() {
                return Err("oidc: empty username via CEL expression is not allowed".into());
            }
            return Ok(name);
        }
        let mapping = &self.configuration.claim_mappings.username;
        let claim = &mapping.claim;
        let name =
            string(claims, claim).map_err(|why| format!("oidc: parse username claims {}: {why}", quote(claim)))?;
        if claim == "email" {
            match claims.get("email_verified") {
                None | Some(Value::Bool(true)) => {}
                // Go leaves the variable as it is: not verified.
                Some(Value::Bool(false) | Value::Null) => return Err("oidc: email not verified".into()),
                Some(other) => {
                    let why = format!("json: cannot unmarshal {} into Go value of type bool", json_type(other));
                    return Err(format!("oidc: parse 'email_verified' claim: {why}"));
                }
            }
        }
        Ok(format!("{}{name}", mapping.prefix.as_deref().unwrap_or("")))
    }

    fn groups(&self, claims: &Value, numbers: &Value) -> Result<Vec<String>, String> {
        let mapping = &self.configuration.claim_mappings.groups;
        if let Some(given) = claims.get(&mapping.claim).filter(|_| !mapping.claim.is_empty()) {
            let failed = |why: String| format!("oidc: parse groups claim {}: {why}", quote(&mapping.claim));
            let groups = one_or_several(given).map_err(failed)?;
            let prefix = mapping.prefix.as_deref().unwrap_or("");
            return Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect());
        }
        let Some(rule) = &self.compiled.groups else { return Ok(Vec::new()) };
        strings(rule, numbers).map_err(|why| format!("oidc: error evaluating group claim expression: {why}"))
    }

    fn uid(&self, claims: &Value, numbers: &Value) -> Result<String, String> {
        let claim = &self.configuration.claim_mappings.uid.claim;
        if !claim.is_empty() {
            return string(claims, claim).map_err(|why| format!("oidc: parse uid claim {}: {why}", quote(claim)));
        }
        let Some(rule) = &self.compiled.uid else { return Ok(String::new()) };
        let failed = |why: String| format!("oidc: error evaluating uid claim expression: {why}");
        text(rule, numbers).map_err(failed)?.ok_or_else(|| failed("uid claim expression must return a string".into()))
    }

    fn extra(&self, claims: &Value, numbers: &Value) -> Result<Vec<(String, Vec<String>)>, String> {
        let mut extra = Vec::new();
        if let Some(id) = claims.field("jti").as_str().filter(|id| !id.is_empty()) {
            extra.push((CREDENTIAL_ID.to_string(), vec![format!("JTI={id}")]));
        }
        for (key, rule) in &self.compiled.extra {
            let values = strings(rule, numbers).map_err(|why| match why {
                NoStrings::Failed(why) => why,
                other @ NoStrings::OtherType => {
                    format!("oidc: error evaluating extra claim expression: {}: {other}", rule.text)
                }
            })?;
            if !values.is_empty() {
                extra.push((key.clone(), values));
            }
        }
        Ok(extra)
    }

    /// Claims that must have a certain value.
    fn check_required(&self, claims: &Value) -> Result<(), String> {
        let rules = self.configuration.claim_validation_rules.iter().filter(|rule| !rule.claim.is_empty());
        for rule in rules {
            let (claim, want) = (&rule.claim, &rule.required_value);
            if claims.get(claim).is_none() {
                return Err(format!("oidc: required claim {claim} not present in ID token"));
            }
            let got = string(claims, claim).map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
            if got != *want {
                return Err(format!("oidc: required claim {claim} value does not match. Got = {got}, want = {want}"));
            }
        }
        Ok(())
    }
}

/// Conditions that must hold; Err names the first that does not.
fn check(rules: &[Rule], variable: &Value) -> Result<(), String> {
    let arena = Arena::new();
    let mut outcomes = Vec::with_capacity(rules.len());
    for rule in rules {
        outcomes.push((rule, evaluate(rule, variable, &arena)?));
    }
    for (rule, outcome) in outcomes {
        match outcome {
            Val::Bool(true) => {}
            Val::Bool(false) => return Err(format!("validation expression '{}' failed: {}", rule.text, rule.message)),
            _ => return Err("validation expression must return a boolean".into()),
        }
    }
    Ok(())
}

/// The string that an expression evaluates to; None if it is something else.
fn text(rule: &Rule, claims: &Value) -> Result<Option<String>, String> {
    let arena = Arena::new();
    Ok(match evaluate(rule, claims, &arena)? {
        Val::String(text) => Some(text.to_string()),
        _ => None,
    })
}

/// Why an expression has no strings.
#[derive(Debug, thiserror::Error)]
enum NoStrings {
    #[error("{0}")]
    Failed(String),
    #[error("expression must return a string or a list of strings")]
    OtherType,
}

/// The strings that an expression evaluates to: one, a list or null. Empty ones are left out.
fn strings(rule: &Rule, claims: &Value) -> Result<Vec<String>, NoStrings> {
    let arena = Arena::new();
    let found = match evaluate(rule, claims, &arena).map_err(NoStrings::Failed)? {
        Val::Null => Vec::new(),
        Val::String(text) => vec![text.to_string()],
        Val::List(list) => {
            let item = |item| match item {
                Ok(Val::String(text)) => Ok(text.to_string()),
                _ => Err(NoStrings::OtherType),
            };
            list.iter(&arena).map(item).collect::<Result<_, _>>()?
        }
        _ => return Err(NoStrings::OtherType),
    };
    Ok(found.into_iter().filter(|text| !text.is_empty()).collect())
}

fn evaluate<'a>(rule: &'a Rule, variable: &'a Value, arena: &'a Arena) -> Result<Val<'a>, String> {
    let variables = |_: usize| Some(Ok(escaped_json(variable)));
    let evaluated = rule.program.evaluate(&variables, arena, Limits::default());
    evaluated.outcome.map_err(|error| format!("expression '{}' resulted in error: {error}", rule.text))
}

/// A claim that must be a string.
fn string(claims: &Value, claim: &str) -> Result<String, String> {
    match claims.get(claim) {
        None => Err("claim not present".into()),
        Some(Value::String(text)) => Ok(text.to_string()),
        // Go leaves the variable as it is.
        Some(Value::Null) => Ok(String::new()),
        Some(other) => Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(other))),
    }
}

fn one_or_several(value: &Value) -> Result<Vec<String>, String> {
    let wrong = |value: &Value| format!("json: cannot unmarshal {} into Go value of type string", json_type(value));
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(one) => Ok(vec![one.to_string()]),
        Value::List(several) if several.iter().all(|item| matches!(item, Value::String(_) | Value::Null)) => {
            Ok(several.iter().map(|item| item.as_str().unwrap_or("").to_string()).collect())
        }
        other => Err(wrong(other)),
    }
}

fn floats(value: &Value) -> Value {
    match value {
        Value::Int(number) => Value::Float(*number as f64),
        Value::List(items) => Value::List(items.iter().map(floats).collect()),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| (key.into(), floats(value))).collect();
            Value::Map(Map::from_entries(entries, |_| {}))
        }
        other => other.clone(),
    }
}

/// `user` in expressions, with all its fields.
fn user_value(user: &User) -> Value {
    let mut value = user.to_value();
    value.set_default(&["username"], "");
    value.set_default(&["uid"], "");
    value.set_default(&["groups"], Value::List(Vec::new()));
    value.set_default(&["extra"], Value::map());
    value
}
