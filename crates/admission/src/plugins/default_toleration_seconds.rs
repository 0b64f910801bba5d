//! DefaultTolerationSeconds: pods stay five minutes on a node that is not ready or cannot be reached, unless they say.

use async_trait::async_trait;
use object::{Status, Value, value};

use crate::{Attributes, Plugin};

/// How long pods stay that do not say: `--default-not-ready-toleration-seconds` and its like.
pub struct DefaultTolerationSeconds {
    pub not_ready: i64,
    pub unreachable: i64,
}

#[async_trait]
impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, _: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let tolerates = |taint: &str, object: &Value| {
            object.list_at(&["spec", "tolerations"]).iter().any(|toleration| {
                let key = toleration.str_at(&["key"]);
                (key == taint || key.is_empty()) && matches!(toleration.str_at(&["effect"]), "NoExecute" | "")
            })
        };
        let taints =
            [("node.kubernetes.io/not-ready", self.not_ready), ("node.kubernetes.io/unreachable", self.unreachable)];
        let missing: Vec<(&str, i64)> = taints.into_iter().filter(|(taint, _)| !tolerates(taint, object)).collect();
        for (taint, seconds) in missing {
            object.slot(&["spec", "tolerations"]).make_list().push(value!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds
            }));
        }
        Ok(())
    }
}
