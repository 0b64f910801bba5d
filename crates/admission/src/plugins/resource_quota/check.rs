//! [`Request`]: whether what a request asks for fits into quotas, and what they are charged.

use std::sync::Arc;

use object::quantity::Quantity;
use object::{Meta, Status, Value};

use super::evaluator::Evaluator;
use super::limited::{self, Limited};
use crate::plugins::forbidden;
use crate::plugins::resources::{self, ResourceList};
use crate::{Attributes, Operation};

pub struct Request<'a> {
    pub attributes: &'a Attributes<'a>,
    pub evaluator: Evaluator,
    pub object: &'a Value,
    pub old: Option<&'a Value>,
    pub limited: &'a [Limited],
}

/// A quota and what will be used of it.
pub type Charge = (Arc<Value>, ResourceList);

impl Request<'_> {
    /// Whether the quota is about the object as it will be.
    pub fn concerns(&self, quota: &Value) -> bool {
        self.evaluator.matches(&self.attributes.cx, quota, self.object)
    }

    /// What to charge, or why the request is too much.
    pub fn check(&self, quotas: &[Arc<Value>]) -> Result<Vec<Charge>, Status> {
        let mut concerned = Vec::new();
        for quota in quotas.iter().filter(|quota| self.concerns(quota)) {
            self.check_usable(quota)?;
            concerned.push(quota);
        }
        let usage = self.evaluator.usage(&self.attributes.cx, self.object);
        let negative: Vec<&str> =
            usage.iter().filter(|(_, amount)| amount.signum() < 0).map(|(name, _)| name.as_str()).collect();
        if !negative.is_empty() {
            let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
            return Err(self.forbidden(why));
        }
        self.check_limited(quotas, &concerned, &usage)?;
        let mut charges = Vec::new();
        for quota in concerned {
            let used = resources::list(quota.at(&["status", "used"]));
            let new = self.used_after(quota, &used, self.delta(quota, &usage))?;
            if new != used {
                charges.push((quota.clone(), new));
            }
        }
        Ok(charges)
    }

    fn check_limited(
        &self,
        quotas: &[Arc<Value>],
        concerned: &[&Arc<Value>],
        usage: &ResourceList,
    ) -> Result<(), Status> {
        // An update that uses nothing more needs no quota.
        let before = self.old.map(|old| self.evaluator.usage(&self.attributes.cx, old)).unwrap_or_default();
        let grows = usage.iter().any(|(name, amount)| before.get(name).is_none_or(|before| amount > before));
        if self.limited.is_empty() || !grows {
            return Ok(());
        }
        let counted = concerned.iter().flat_map(|quota| resources::list(quota.at(&["status", "hard"])).into_keys());
        let covered: Vec<String> = counted.filter(|name| self.evaluator.counts(name)).collect();
        let scopes: Vec<String> = quotas
            .iter()
            .flat_map(|quota| self.evaluator.scopes_holding(&self.attributes.cx, quota, self.object))
            .collect();
        limited::check(self, usage, &covered, &scopes)
    }

    /// The object must say what the quota counts, and the quota must have been counted.
    fn check_usable(&self, quota: &Value) -> Result<(), Status> {
        let (hard, used) = (resources::list(quota.at(&["status", "hard"])), quota.at(&["status", "used"]));
        let names: Vec<&str> = hard.keys().map(String::as_str).filter(|name| self.evaluator.counts(name)).collect();
        if let Some(why) = self.evaluator.missing(&self.attributes.cx, &names, self.object) {
            return Err(self.forbidden(format!("failed quota: {}: {why}", quota.name())));
        }
        if names.iter().any(|name| used.get(name).is_none()) {
            let why = format!("status unknown for quota: {}, resources: {}", quota.name(), names.join(","));
            return Err(self.forbidden(why));
        }
        Ok(())
    }

    /// What the request adds: all of the object if the quota did not count it before.
    fn delta(&self, quota: &Value, usage: &ResourceList) -> ResourceList {
        let old = self.old.filter(|_| self.attributes.operation == Operation::Update);
        let counted = old.filter(|old| !old.resource_version().is_empty());
        let counted = counted.filter(|old| self.evaluator.matches(&self.attributes.cx, quota, old));
        let mut delta = usage.clone();
        if let Some(old) = counted {
            for (name, before) in self.evaluator.usage(&self.attributes.cx, old) {
                if let Some(amount) = delta.get_mut(&name) {
                    amount.sub(&before);
                }
            }
        }
        // Less is given back by the controller, which counts what is really there.
        delta.retain(|_, amount| amount.signum() > 0);
        delta
    }

    fn used_after(&self, quota: &Value, used: &ResourceList, delta: ResourceList) -> Result<ResourceList, Status> {
        let hard = resources::list(quota.at(&["status", "hard"]));
        let requested: ResourceList = delta.into_iter().filter(|(name, _)| hard.contains_key(name)).collect();
        let mut new = used.clone();
        resources::add(&mut new, &requested);
        let is_exceeded = |name: &String| match (new.get(name), hard.get(name)) {
            (Some(new), Some(hard)) => new > hard,
            _ => false,
        };
        let exceeded: Vec<&String> = requested.keys().filter(|name| is_exceeded(name)).collect();
        if exceeded.is_empty() || self.attributes.subresource == "status" {
            return Ok(new);
        }
        let of = |list: &ResourceList| print(exceeded.iter().filter_map(|name| list.get_key_value(*name)));
        Err(self.forbidden(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            of(&requested),
            of(used),
            of(&hard)
        )))
    }

    pub fn forbidden(&self, why: String) -> Status {
        forbidden(self.attributes, why)
    }
}

fn print<'a>(list: impl Iterator<Item = (&'a String, &'a Quantity)>) -> String {
    list.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}
