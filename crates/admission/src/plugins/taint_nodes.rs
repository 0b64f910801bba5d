//! TaintNodesByCondition: a new node is not ready until a controller removes the taint.

use async_trait::async_trait;
use object::{Status, Value, value};

use crate::{Attributes, Plugin};

pub struct TaintNodesByCondition;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

#[async_trait]
impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "nodes") {
            return Ok(());
        }
        let has = object
            .list_at(&["spec", "taints"])
            .iter()
            .any(|taint| taint.str_at(&["key"]) == NOT_READY && taint.str_at(&["effect"]) == "NoSchedule");
        if !has {
            let taint = value!({"key": NOT_READY, "effect": "NoSchedule"});
            object.slot(&["spec", "taints"]).make_list().push(taint);
        }
        Ok(())
    }
}
