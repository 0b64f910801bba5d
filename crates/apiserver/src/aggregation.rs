//! Settings of the aggregator: how other API servers behind this one are called.

use std::path::PathBuf;
use std::sync::Arc;

use aggregator::{Aggregator, AggregatorSettings, Setup};
use outbound::{Certificate, Egress, Resolve};
use rest::Api;
use server::Metrics;

use crate::Config;
use crate::flags::{self, Given, Row, rows};
use crate::pki::{FRONT_PROXY, FrontProxy};

/// The flags that [`Aggregation`] takes.
pub(crate) const FLAGS: &[Row] = rows! { aggregation = &mut config.aggregation, |config, given|
    "aggregator-reject-forwarding-redirect" => aggregation.reject_redirects = given.boolean()?,
    "enable-aggregator-routing" => aggregation.to_endpoints = given.boolean()?,
    "proxy-client-cert-file" => aggregation.certificate = given.path(),
    "proxy-client-key-file" => aggregation.key = given.path(),
};

/// Settings with kube-apiserver's defaults.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// The certificate with which this server may speak for its users, and its key.
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Whether a backend's redirect is refused instead of being passed on to the client.
    pub reject_redirects: bool,
    /// Services are called at an endpoint, not at their ClusterIP.
    pub to_endpoints: bool,
}

impl Default for Aggregation {
    fn default() -> Aggregation {
        Aggregation { certificate: None, key: None, reject_redirects: true, to_endpoints: false }
    }
}

/// Whether the server makes the certificate itself with which it speaks for its users to other API servers: used alone, and not
/// told about another.
pub fn needs_certificate(config: &Config) -> bool {
    let told =
        config.aggregation.certificate.is_some() || config.authentication.request_header.client_ca_file.is_some();
    config.standalone && !told
}

/// Speaks for users to other API servers with the server's own certificate.
pub fn use_certificate(config: &mut Config, own: &FrontProxy) -> Result<(), String> {
    let authority = own.ca.display().to_string();
    for (flag, value) in [
        ("requestheader-client-ca-file", authority.as_str()),
        ("requestheader-allowed-names", FRONT_PROXY),
        ("requestheader-username-headers", "X-Remote-User"),
        ("requestheader-group-headers", "X-Remote-Group"),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
    ] {
        flags::set(config, flag, Given(&[value.to_string()]))?;
    }
    config.aggregation.certificate = Some(own.certificate.clone());
    config.aggregation.key = Some(own.key.clone());
    Ok(())
}

/// The aggregator of an API.
pub fn open(config: &Config, api: &Arc<Api>, services: Arc<dyn Resolve>, egress: &Egress) -> Arc<Aggregator> {
    let Aggregation { certificate, key, reject_redirects, .. } = config.aggregation.clone();
    let certificate = certificate.zip(key).map(|(certificate, key)| Certificate::Files { certificate, key });
    let sends_uid = api.features.enabled("RemoteRequestHeaderUID");
    let (dial, certificates) = (egress.to_cluster(), Arc::default());
    let settings = AggregatorSettings { services, dial, certificate, reject_redirects, sends_uid, certificates };
    Aggregator::new(Setup { api: api.clone(), settings })
}

/// Adds the metrics of an aggregator.
pub fn contribute(metrics: &Metrics, aggregator: &Arc<Aggregator>) {
    let weak = Arc::downgrade(aggregator);
    metrics.contribute(move |out| {
        let written = weak.upgrade().map(|aggregator| aggregator.write_metrics(out));
        written.transpose().expect("writing to a string cannot fail");
    });
}
