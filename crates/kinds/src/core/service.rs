//! Services: a stable name and address for a set of pods.
//!
//! A service's type decides which of its fields mean anything; [`facts`] says what a type needs. Addresses and ports are
//! taken in [`allocation`] before the object is prepared and checked, so the rules see them.

mod addresses;
pub mod allocation;
mod cells;
mod defaults;
mod facts;
mod transitions;
mod validate;
mod warnings;

use std::sync::Arc;

use async_trait::async_trait;
use object::{Cursor, Errors, Value, names};
use registry::{Context, Effects, Error, Facts, FieldRefusal, Strategy, Undo};

pub use allocation::{Allocation, AllocationMeters};

pub struct Service {
    allocation: Arc<Allocation>,
}

const FACTS: Facts = Facts {
    name: names::name_is_dns_label,
    allows_create_on_update: true,
    returns_deleted_object: true,
    selectable_fields: object::strs!["spec.clusterIP", "spec.type"],
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITH_STATUS
};

impl Service {
    pub fn new(allocation: Arc<Allocation>) -> Service {
        Service { allocation }
    }
}

impl Strategy for Service {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn effects(&self) -> Option<&dyn Effects> {
        Some(self)
    }

    fn default(&self, object: &mut Value) {
        defaults::apply(object);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        transitions::drop_type_dependent(new, old);
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate::service(cx, object, None, errors);
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate::change(new, old, errors);
        validate::service(cx, new, Some(old), errors);
    }

    fn validate_status_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let path = ["status", "loadBalancer"];
        validate::load_balancer_status(cx, &new.at(&path), &old.at(&path), new.field("spec").value(), errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings::of_service(object)
    }

    fn status_warnings(&self, _cx: &Context, new: &Value, _old: &Value) -> Vec<String> {
        warnings::of_status(new)
    }

    fn canonicalize(&self, object: &mut Value) {
        // Upstream stores these as they come and sets them right whenever the object is read.
        transitions::normalize_cluster_ips(object, None);
        if !facts::needs_cluster_ip(object) {
            object.remove(&["spec", "internalTrafficPolicy"]);
        }
    }

    fn validate_name(&self, cx: &Context, _object: &Value, name: &str, is_prefix: bool) -> Vec<String> {
        match cx.features.enabled("RelaxedServiceNameValidation") {
            true => names::name_is_dns_label(name, is_prefix),
            false => names::name_is_dns1035_label(name, is_prefix),
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        cells::cells(cx, object)
    }
}

#[async_trait]
impl Effects for Service {
    async fn begin_create(&self, cx: &Context<'_>, object: &mut Value) -> Result<Option<Box<dyn Undo>>, Error> {
        transitions::normalize_cluster_ips(object, None);
        let undo = self.allocation.create(cx, object).await?;
        Ok(Some(Box::new(undo)))
    }

    async fn begin_update(
        &self,
        cx: &Context<'_>,
        new: &mut Value,
        old: &Value,
    ) -> Result<Option<Box<dyn Undo>>, Error> {
        if !cx.subresource.is_empty() {
            return Ok(None);
        }
        let mut old = old.clone();
        self.allocation.default_on_read(&mut old);
        transitions::patch_allocated_values(new, &old);
        transitions::normalize_cluster_ips(new, Some(&old));
        let undo = self.allocation.update(cx, new, &old).await?;
        Ok(Some(Box::new(undo)))
    }

    async fn after_delete(&self, cx: &Context<'_>, object: &Value) {
        if !cx.dry_run {
            let mut object = object.clone();
            self.allocation.default_on_read(&mut object);
            self.allocation.release(&object).await;
        }
    }
}

#[cfg(test)]
mod tests;
