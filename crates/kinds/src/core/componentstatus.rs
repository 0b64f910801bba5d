//! ComponentStatuses: never stored, so a printed row is all there is to them.

use object::{Meta, Value};
use registry::{Context, Facts, Strategy};

pub struct ComponentStatus;

impl Strategy for ComponentStatus {
    fn facts(&self) -> &Facts {
        &Facts::WITHOUT_STATUS
    }

    fn cells(&self, _cx: &Context, object: &Value) -> Vec<Value> {
        let healthy = object.list_at(&["conditions"]).iter().find(|c| c.str_at(&["type"]) == "Healthy");
        let (status, message, error) = match healthy {
            None => ("Unknown", "", ""),
            Some(condition) => {
                let status = if condition.str_at(&["status"]) == "True" { "Healthy" } else { "Unhealthy" };
                (status, condition.str_at(&["message"]), condition.str_at(&["error"]))
            }
        };
        vec![object.name().into(), status.into(), message.into(), error.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn cells_tell_health() {
        Check::new(ComponentStatus, "{apiVersion: v1, kind: ComponentStatus, metadata: {name: etcd-0}}").cells(&[
            ("", "etcd-0 Unknown  "),
            ("conditions: [{type: Healthy, status: 'True', message: ok}]", "etcd-0 Healthy ok "),
            ("conditions: [{type: Healthy, status: 'False', error: down}]", "etcd-0 Unhealthy  down"),
        ]);
    }
}
