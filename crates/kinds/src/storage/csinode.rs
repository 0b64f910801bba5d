//! CSI nodes: which storage drivers a node runs, and how many volumes of each it takes.

use std::collections::{BTreeMap, BTreeSet};

use object::{Cursor, Errors, Meta, Value, names};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::{Checks, IMMUTABLE};
use crate::common::volumes::csi_driver_name;
use crate::common::{conditions, internal, metadata};

const NODE_ID_MAX_BYTES: usize = 256;
const HEALTH_CONDITIONS_MAX: usize = 16;
const REASON_MAX_BYTES: usize = 256;
const MESSAGE_MAX_BYTES: usize = 1024;

pub struct CsiNode;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    returns_deleted_object: true,
    ..Facts::WITH_STATUS
};

impl Strategy for CsiNode {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        metadata::keep_for_status(new, old);
        if !cx.features.enabled("CSIVolumeHealth") && old.list_at(&["status", "storageHealth"]).is_empty() {
            new.remove(&["status", "storageHealth"]);
        }
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let mut names = BTreeSet::new();
        for driver in object.at(&["spec", "drivers"]).each() {
            validate_driver(&driver, &mut names, errors);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        self.validate(cx, new, errors);
        let drivers = new.at(&["spec", "drivers"]);
        // Names are unique in what is stored; new drivers of one name are each compared with it.
        let mut now: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for driver in drivers.each() {
            now.entry(driver.field("name").str()).or_default().push(driver.value());
        }
        for old in old.at(&["spec", "drivers"]).each() {
            for driver in now.remove(old.field("name").str()).into_iter().flatten() {
                driver_stays(cx, driver, old.value(), &drivers, errors);
            }
        }
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        let mut seen = BTreeSet::new();
        for health in new.at(&["status", "storageHealth"]).each() {
            let name = health.field("name");
            if !seen.insert(name.str()) {
                errors.duplicate(health.path(), name.str());
            }
            csi_driver_name(&name, errors);
            validate_health(&health.field("healthConditions"), errors);
        }
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let drivers = object.list_at(&["spec", "drivers"]).len();
        vec![object.name().into(), drivers.into(), columns::age(cx, object)]
    }
}

fn validate_driver<'a>(driver: &Cursor<'a>, names: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let (name, id) = (driver.field("name"), driver.field("nodeID"));
    csi_driver_name(&name, errors);
    id.require(errors);
    if id.str().len() > NODE_ID_MAX_BYTES {
        id.bad(errors, format!("must be {NODE_ID_MAX_BYTES} characters or less"));
    }
    driver.at(&["allocatable", "count"]).non_negative(errors);
    if !names.insert(name.str()) {
        errors.duplicate(name.path(), name.str());
    }
    // Upstream reports what is wrong with a topology key at the driver.
    let mut seen = BTreeSet::new();
    for key in driver.field("topologyKeys").strs() {
        if key.is_empty() {
            driver.required(errors, "");
        }
        if !seen.insert(key) {
            errors.duplicate(driver.path(), key);
        }
        crate::common::checks::report(errors, driver.path(), key, names::label_key(key));
    }
}

/// A driver that stays does not change, except how many volumes it takes.
fn driver_stays(cx: &Context, new: &Value, old: &Value, drivers: &Cursor, errors: &mut Errors) {
    let (mut new, mut old) = (new.clone(), old.clone());
    if cx.features.enabled("MutableCSINodeAllocatableCount") {
        new.remove(&["allocatable"]);
        old.remove(&["allocatable"]);
    }
    if !internal::same("CSINodeDriver", &new, &old) {
        errors.invalid(drivers.path(), internal::shown("CSINodeDriver", &new), IMMUTABLE);
    }
}

fn validate_health(list: &Cursor, errors: &mut Errors) {
    if list.len() > HEALTH_CONDITIONS_MAX {
        return errors.too_many(list.path(), list.len(), HEALTH_CONDITIONS_MAX);
    }
    for condition in list.each() {
        condition.field("status").one_of(errors, &["StorageDegraded", "StorageUnreachable"]);
        let (reason, message) = (condition.field("reason"), condition.field("message"));
        if reason.require(errors) {
            reason.check(errors, conditions::reason);
            if reason.str().len() > REASON_MAX_BYTES {
                errors.too_long(reason.path(), REASON_MAX_BYTES);
            }
        }
        if message.str().len() > MESSAGE_MAX_BYTES {
            errors.too_long(message.path(), MESSAGE_MAX_BYTES);
        }
        let modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
        condition.field("accessMode").optional_one_of(errors, &modes);
        condition.field("volumeMode").optional_one_of(errors, &["Filesystem", "Block"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn check() -> Check {
        Check::new(
            CsiNode,
            "{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: a}, spec: {drivers: [{name: d, nodeID: id}]}}",
        )
    }

    #[test]
    fn drivers_are_checked() {
        check().create(&[
            ("spec: {drivers: [{name: d, nodeID: id, topologyKeys: [a.b/c], allocatable: {count: 1}}]}", ""),
            (
                "spec: {drivers: [{name: d, nodeID: id}, {name: d, allocatable: {count: -1}, topologyKeys: [x, x]}, {nodeID: id}]}",
                r#"spec.drivers[1].nodeID: Required value
                   spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0
                   spec.drivers[1].name: Duplicate value: "d"
                   spec.drivers[1]: Duplicate value: "x"
                   spec.drivers[2].name: Required value"#,
            ),
            (
                &format!("spec: {{drivers: [{{name: d, nodeID: {}}}]}}", "n".repeat(257)),
                &format!(r#"spec.drivers[0].nodeID: Invalid value: "{}": must be 256 characters or less"#, "n".repeat(257)),
            ),
        ]);
    }

    #[test]
    fn drivers_stay_but_for_their_count() {
        check().update(&[
            ("", "spec: {drivers: [{name: d, nodeID: id, allocatable: {count: 1}}, {name: e, nodeID: id}]}", ""),
            ("", "spec: {drivers: []}", ""),
            (
                "",
                "spec: {drivers: [{name: d, nodeID: other}]}",
                r#"spec.drivers: Invalid value: {"Name":"d","NodeID":"other","TopologyKeys":null,"Allocatable":null}: field is immutable"#,
            ),
        ]);
    }

    #[test]
    fn storage_health_is_checked() {
        let mut check = check();
        check.features.set(&[("CSIVolumeHealth".to_string(), true)]).unwrap();
        check.update_status(&[(
            "",
            "status: {storageHealth: [{name: d, healthConditions: [{status: Odd, accessMode: All}]}, {name: d}]}",
            r#"status.storageHealth[0].healthConditions[0].status: Unsupported value: "Odd": supported values: "StorageDegraded", "StorageUnreachable"
               status.storageHealth[0].healthConditions[0].reason: Required value
               status.storageHealth[0].healthConditions[0].accessMode: Unsupported value: "All": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
               status.storageHealth[1]: Duplicate value: "d""#,
        )]);
    }
}
