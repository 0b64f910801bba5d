//! Converting one object.

use std::borrow::Cow;
use std::fmt;

use object::{Meta, Value};

use super::field::RulePath;
use super::{CONVERSION_BUDGET, ConversionRule, ConversionRules, ConversionWay, KEPT, RuleChange};
use crate::arena::Arena;
use crate::convert::{json, typed};
use crate::decl::Decl;
use crate::native::native;
use crate::pool::Pooled;
use crate::program::Limits;
use crate::val::Val;

/// Why an object was not converted: the field of the rule, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionError {
    field: String,
    why: String,
}

impl fmt::Display for ConversionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

impl ConversionRules {
    /// An object of a spoke as one of the hub, with the fields that only the spoke has. The caller prunes those, and sets apiVersion.
    pub fn to_hub(&self, object: &Value, from: &str) -> Result<Value, ConversionError> {
        let Some(spoke) = self.spoke(from) else { return Ok(object.clone()) };
        let mut converted = spoke.to_hub.convert(object)?;
        if spoke.keeps.is_empty() {
            return Ok(converted);
        }
        if let Some(kept) = take_kept(&mut converted) {
            for path in &spoke.keeps {
                let Some(value) = kept.get(path.to_string().as_str()) else { continue };
                if path.find(&converted).is_none() {
                    let put = path.put(&mut converted, value.clone());
                    put.map_err(|why| failed(path, why))?;
                }
            }
        }
        Ok(converted)
    }

    /// An object of the hub as one of a spoke, with the fields that only the hub has. The caller prunes those, and sets apiVersion.
    pub fn from_hub(&self, object: &Value, to: &str) -> Result<Value, ConversionError> {
        let Some(spoke) = self.spoke(to) else { return Ok(object.clone()) };
        let mut converted = spoke.from_hub.convert(object)?;
        if spoke.keeps.is_empty() {
            return Ok(converted);
        }
        take_kept(&mut converted);
        let mut kept = Value::map();
        for path in &spoke.keeps {
            if let (Some(value), Some(map)) = (path.find(object), kept.as_map_mut()) {
                map.insert(path.to_string(), value.clone());
            }
        }
        if !kept.is_empty() {
            let mut text = Vec::new();
            codec::json::encode(&kept, None, &mut text);
            converted.set(&["metadata", "annotations", KEPT], String::from_utf8_lossy(&text).as_ref());
        }
        Ok(converted)
    }
}

/// Takes the annotation with kept values out of an object. What is no JSON object, which only a client can have written, is dropped.
fn take_kept(object: &mut Value) -> Option<Value> {
    let annotations = object.at_mut(&["metadata", "annotations"])?;
    let text = annotations.as_map_mut()?.remove(KEPT)?;
    if annotations.is_empty() {
        object.metadata_mut().remove("annotations");
    }
    codec::json::decode(text.as_str()?.as_bytes(), None, &mut codec::Notes::ignore()).ok()
}

fn failed(path: &RulePath, why: impl Into<String>) -> ConversionError {
    ConversionError { field: path.to_string(), why: why.into() }
}

impl ConversionWay {
    fn convert(&self, object: &Value) -> Result<Value, ConversionError> {
        let mut made = object.clone();
        let mut work = Converting { object, decl: &self.from, budget: CONVERSION_BUDGET };
        for rule in &self.rules {
            rule.apply(&mut made, &mut work)?;
        }
        Ok(made)
    }
}

/// The object that the rules convert, and the budget of their expressions.
struct Converting<'w> {
    /// `self`: the object as it came.
    object: &'w Value,
    decl: &'w Decl,
    /// How much expressions may still cost.
    budget: u64,
}

impl ConversionRule {
    fn path(&self) -> &RulePath {
        match &self.change {
            RuleChange::Set(path, _) | RuleChange::Move(path, _) | RuleChange::Remove(path) => path,
        }
    }

    fn apply(&self, made: &mut Value, work: &mut Converting<'_>) -> Result<(), ConversionError> {
        let path = self.path();
        path.each(made, &mut |place: &mut Value| {
            // In a path without [*] there is no item, and no expression that asks for it.
            if let Some(when) = &self.when
                && work.evaluate(when, place).map_err(|why| failed(path, why))? != Value::Bool(true)
            {
                return Ok(());
            }
            match &self.change {
                RuleChange::Set(path, to) => {
                    let value = work.evaluate(to, place).map_err(|why| failed(path, why))?;
                    match value.is_null() {
                        true => drop(path.take(place)),
                        false => path.put(place, value).map_err(|why| failed(path, why))?,
                    }
                }
                RuleChange::Move(path, to) => {
                    if let Some(value) = path.take(place) {
                        to.put(place, value).map_err(|why| failed(to, why))?;
                    }
                }
                RuleChange::Remove(path) => drop(path.take(place)),
            }
            Ok(())
        })
    }
}

impl Converting<'_> {
    /// The value of an expression; null where it has none.
    fn evaluate(&mut self, expression: &Pooled, item: &Value) -> Result<Value, Cow<'static, str>> {
        let Ok(program) = &expression.expression.program else { return Err("the expression has no program".into()) };
        let arena = Arena::new();
        let variables = |at: usize| match at {
            0 => Some(typed(self.object, self.decl, &arena)),
            _ => Some(Ok(json(item))),
        };
        let limits = Limits { cost: self.budget.min(Limits::PER_CALL), ..Limits::default() };
        let evaluated = program.evaluate(&variables, &arena, limits);
        let left = self.budget.checked_sub(evaluated.cost);
        self.budget = left.ok_or("the rules cost more than the conversion of one object may")?;
        match evaluated.outcome {
            Ok(Val::Null | Val::Optional(None)) => Ok(Value::Null),
            Ok(value) => native(value, &arena).map_err(Cow::from),
            Err(error) => Err(error.to_string().into()),
        }
    }
}
