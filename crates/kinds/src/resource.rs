//! The resource group: devices, who offers them, and who claims them.

mod capacity;
mod claim;
mod device;
mod deviceclass;
mod devices;
mod poolstatus;
mod resourceclaim;
mod resourceslice;
mod rights;
mod status;
mod taintrule;
mod v1beta1;

use std::sync::Arc;

use crate::{Conversions, Strategies};

const GROUP: &str = "resource.k8s.io";

pub fn strategies() -> Strategies {
    vec![
        (GROUP, "resourceclaims", Arc::new(resourceclaim::ResourceClaim)),
        (GROUP, "resourceclaimtemplates", Arc::new(resourceclaim::ResourceClaimTemplate)),
        (GROUP, "deviceclasses", Arc::new(deviceclass::DeviceClass)),
        (GROUP, "resourceslices", Arc::new(resourceslice::ResourceSlice)),
        (GROUP, "resourcepoolstatusrequests", Arc::new(poolstatus::ResourcePoolStatusRequest)),
        (GROUP, "devicetaintrules", Arc::new(taintrule::DeviceTaintRule)),
    ]
}

/// v1beta1 has other forms of some of them.
pub fn conversions() -> Conversions {
    const VERSION: &str = "v1beta1";
    vec![
        (GROUP, VERSION, "resourceclaims", Arc::new(v1beta1::Claims { spec: &["spec"] })),
        (GROUP, VERSION, "resourceclaimtemplates", Arc::new(v1beta1::Claims { spec: &["spec", "spec"] })),
        (GROUP, VERSION, "resourceslices", Arc::new(v1beta1::Slices)),
    ]
}

#[cfg(test)]
mod recorded {
    use super::*;
    use crate::common::recorded::check;

    macro_rules! cases {
        ($file:literal) => {
            include_str!(concat!("../data/cases/", $file, ".txt"))
        };
    }

    #[test]
    fn claims() {
        check(resourceclaim::ResourceClaim, "resource.k8s.io/v1 ResourceClaim", cases!("resourceclaim"));
        let kind = "resource.k8s.io/v1 ResourceClaimTemplate";
        check(resourceclaim::ResourceClaimTemplate, kind, cases!("resourceclaimtemplate"));
    }

    #[test]
    fn classes() {
        check(deviceclass::DeviceClass, "resource.k8s.io/v1 DeviceClass", cases!("deviceclass"));
    }

    #[test]
    fn slices() {
        for text in [cases!("resourceslice"), cases!("resourceslice-counters"), cases!("resourceslice-shared")] {
            check(resourceslice::ResourceSlice, "resource.k8s.io/v1 ResourceSlice", text);
        }
    }
}
