//! CertificateApproval, CertificateSigning, ClusterTrustBundleAttest and CertificateSubjectRestriction: who may act for a
//! signer, and what the API server's own signer refuses to all users.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use gox509::CertificateRequest;
use object::{Status, Value, quote};
use request::Access;

use super::forbidden;
use crate::{Attributes, Host, Plugin};

const GROUP: &str = "certificates.k8s.io";
const API_SERVER_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

pub struct CertificateApproval {
    pub server: Arc<dyn Host>,
}

pub struct CertificateSigning {
    pub server: Arc<dyn Host>,
}

pub struct ClusterTrustBundleAttest {
    pub server: Arc<dyn Host>,
}

pub struct CertificateSubjectRestriction;

#[async_trait]
impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        _: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(old) = old.filter(|_| is_request(attributes, "approval")) else { return Ok(()) };
        let signer = old.str_at(&["spec", "signerName"]);
        if may(&*self.server, attributes, "approve", signer).await {
            return Ok(());
        }
        Err(forbidden(attributes, format!("user not permitted to approve requests with signerName {}", quote(signer))))
    }
}

#[async_trait]
impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let (Some(new), Some(old)) = (object, old) else { return Ok(()) };
        let same = |field: &str| new.at(&["status", field]) == old.at(&["status", field]);
        if !is_request(attributes, "status") || (same("certificate") && same("conditions")) {
            return Ok(());
        }
        let signer = old.str_at(&["spec", "signerName"]);
        if may(&*self.server, attributes, "sign", signer).await {
            return Ok(());
        }
        Err(forbidden(attributes, format!("user not permitted to sign requests with signerName {}", quote(signer))))
    }
}

#[async_trait]
impl Plugin for ClusterTrustBundleAttest {
    fn name(&self) -> &'static str {
        "ClusterTrustBundleAttest"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let about = attributes.resource.group == GROUP && attributes.resource.resource == "clustertrustbundles";
        let Some(bundle) = object.filter(|_| about) else { return Ok(()) };
        let signer = bundle.str_at(&["spec", "signerName"]);
        let only_owners = old.is_some_and(|old| changes_only_owners(bundle, old));
        let off = !attributes.cx.features.enabled("ClusterTrustBundle");
        if off || signer.is_empty() || only_owners || may(&*self.server, attributes, "attest", signer).await {
            return Ok(());
        }
        Err(forbidden(attributes, format!("user not permitted to attest for signerName {}", quote(signer))))
    }
}

#[async_trait]
impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(request) = object.filter(|_| is_request(attributes, "")) else { return Ok(()) };
        if request.str_at(&["spec", "signerName"]) != API_SERVER_SIGNER {
            return Ok(());
        }
        let subject = subject(request).map_err(|why| forbidden(attributes, format!("failed to parse CSR: {why}")))?;
        if !subject.organizations.iter().any(|group| group == "system:masters") {
            return Ok(());
        }
        let why = format!("use of {API_SERVER_SIGNER} signer with system:masters group is not allowed");
        Err(forbidden(attributes, why))
    }
}

fn is_request(attributes: &Attributes<'_>, subresource: &str) -> bool {
    attributes.resource.group == GROUP
        && attributes.resource.resource == "certificatesigningrequests"
        && attributes.subresource == subresource
}

/// Whether the user may do this for the signer, by its name or by all names of its domain.
async fn may(server: &dyn Host, attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or("");
    for name in [signer.to_string(), format!("{domain}/*")] {
        let access = Access::to_resource(attributes.cx.user, verb);
        let access = Access { group: GROUP, version: "*", resource: "signers", name: &name, ..access };
        if server.allows(&access).await.is_ok() {
            return true;
        }
    }
    false
}

/// Garbage collectors may change owners and finalizers of what they have no other right to.
fn changes_only_owners(new: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            object.remove(&["metadata", field]);
        }
        object
    };
    without(new) == without(old)
}

/// Whom a CertificateSigningRequest asks a certificate for, read by the function that validates the request: signers read the same
/// block and the same names.
pub fn subject(request: &Value) -> Result<gox509::Name, String> {
    let text = request.str_at(&["spec", "request"]);
    let pem = base64::engine::general_purpose::STANDARD.decode(text).map_err(|error| error.to_string())?;
    CertificateRequest::parse_pem(&pem).map(|request| request.subject)
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{Closed, World, update};

    #[test]
    fn signers_have_their_own_people() {
        let request = |status: Value| value!({"metadata": {"name": "c"}, "spec": {"signerName": "example.com/s"}, "status": status});
        let (old, signed) = (request(value!({})), request(value!({"certificate": "x"})));
        let world = World::default();
        let resource = "certificatesigningrequests.certificates.k8s.io";
        let refused = |why: &str| {
            Err(format!(
                "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: user not permitted to {why} requests with signerName \"example.com/s\""
            ))
        };
        let server = Arc::new(Closed { allowed: "" });
        let approval = CertificateApproval { server: server.clone() };
        let path = format!("{resource}/approval");
        assert_eq!(update(&approval, &world, &path, old.clone(), old.clone()).map(|_| ()), refused("approve"));
        let signing = CertificateSigning { server };
        let path = format!("{resource}/status");
        assert_eq!(update(&signing, &world, &path, signed.clone(), old.clone()).map(|_| ()), refused("sign"));
        assert!(update(&signing, &world, &path, old.clone(), old.clone()).is_ok());
        let domain = CertificateSigning { server: Arc::new(Closed { allowed: "sign example.com/*" }) };
        assert!(update(&domain, &world, &path, signed, old).is_ok());
    }
}
