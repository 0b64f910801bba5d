//! The resource group: devices, who offers them, and who claims them.

mod capacity;
mod claim;
mod device;
mod deviceclass;
mod devices;
mod resourceclaim;
mod resourceslice;
mod status;
mod taintrule;

use std::sync::Arc;

use crate::Strategies;

const GROUP: &str = "resource.k8s.io";

pub fn strategies() -> Strategies {
    vec![
        (GROUP, "resourceclaims", Arc::new(resourceclaim::ResourceClaim)),
        (GROUP, "resourceclaimtemplates", Arc::new(resourceclaim::ResourceClaimTemplate)),
        (GROUP, "deviceclasses", Arc::new(deviceclass::DeviceClass)),
        (GROUP, "resourceslices", Arc::new(resourceslice::ResourceSlice)),
        (GROUP, "devicetaintrules", Arc::new(taintrule::DeviceTaintRule)),
    ]
}
