//! The certificates group.

mod clustertrustbundle;
mod csr;
mod issued;
mod podcertificaterequest;
mod possession;
mod pss;
mod request;

use std::sync::Arc;

use crate::Strategies;

const GROUP: &str = "certificates.k8s.io";

pub fn strategies() -> Strategies {
    vec![
        (GROUP, "certificatesigningrequests", Arc::new(csr::SigningRequest)),
        (GROUP, "clustertrustbundles", Arc::new(clustertrustbundle::ClusterTrustBundle)),
        (GROUP, "podcertificaterequests", Arc::new(podcertificaterequest::PodCertificateRequest)),
    ]
}
