//! The certificates group.

mod clustertrustbundle;
mod csr;
mod durations;
mod issued;
mod podcertificaterequest;
mod possession;

use std::sync::Arc;

use crate::{KindOptions, Strategies};
pub use durations::Durations;

const GROUP: &str = "certificates.k8s.io";

pub fn strategies(options: &KindOptions) -> Strategies {
    let signing = csr::SigningRequest { durations: options.certificate_durations.clone() };
    vec![
        (GROUP, "certificatesigningrequests", Arc::new(signing)),
        (GROUP, "clustertrustbundles", Arc::new(clustertrustbundle::ClusterTrustBundle)),
        (GROUP, "podcertificaterequests", Arc::new(podcertificaterequest::PodCertificateRequest)),
    ]
}
