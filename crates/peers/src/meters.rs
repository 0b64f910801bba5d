//! Metrics under upstream's names.

use metrics::{Counter, Family};

pub struct PeerMeters {
    rerouted: Family<Counter>,
    proxy_errors: Family<Counter>,
    sync_errors: Family<Counter>,
    merged_hits: Family<Counter>,
    merged_misses: Family<Counter>,
    no_peer: Family<Counter>,
}

impl Default for PeerMeters {
    fn default() -> PeerMeters {
        // Counters without labels are shown from the start.
        let alone = |name, help| {
            let family = Family::new(name, help, &[], Counter::default);
            family.with(&[]);
            family
        };
        PeerMeters {
            rerouted: Family::new(
                "apiserver_rerouted_request_total",
                "Total number of requests that were proxied to a peer kube-apiserver because the local apiserver was not \
                 capable of serving it, broken down by 'group', 'version', and 'resource' indicating the GVR of the request. If \
                 all three are empty (\"\"), the request is a discovery request.",
                &["code", "group", "resource", "version"],
                Counter::default,
            ),
            proxy_errors: Family::new(
                "apiserver_peer_proxy_errors_total",
                "Total number of errors encountered while proxying requests to a peer kube apiserver",
                &["group", "resource", "type", "version"],
                Counter::default,
            ),
            sync_errors: Family::new(
                "apiserver_peer_discovery_sync_errors_total",
                "Total number of errors encountered while syncing discovery information from a peer kube-apiserver",
                &["type"],
                Counter::default,
            ),
            merged_hits: alone(
                "aggregator_discovery_peer_aggregated_cache_hits_total",
                "Counter of number of times discovery was served from peer-aggregated cache",
            ),
            merged_misses: alone(
                "aggregator_discovery_peer_aggregated_cache_misses_total",
                "Counter of number of times discovery was aggregated across all API servers",
            ),
            no_peer: alone(
                "aggregator_discovery_nopeer_requests_total",
                "Counter of number of times no-peer (non peer-aggregated) discovery was requested",
            ),
        }
    }
}

impl PeerMeters {
    /// A request for a group, version and resource was passed on; all three are "" for discovery.
    pub fn rerouted(&self, code: u16, [group, version, resource]: [&str; 3]) {
        self.rerouted.with(&[&code.to_string(), group, resource, version]).increment();
    }

    pub fn proxy_failed(&self, why: &str, [group, version, resource]: [&str; 3]) {
        self.proxy_errors.with(&[group, resource, why, version]).increment();
    }

    pub fn sync_failed(&self, why: &str) {
        self.sync_errors.with(&[why]).increment();
    }

    /// The document of all servers was asked for; `made` if it had to be put together.
    pub fn merged(&self, made: bool) {
        let counter = if made { &self.merged_misses } else { &self.merged_hits };
        counter.with(&[]).increment();
    }

    /// A document of this server alone was asked for.
    pub fn no_peer(&self) {
        self.no_peer.with(&[]).increment();
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        self.rerouted.write(out)?;
        self.proxy_errors.write(out)?;
        self.sync_errors.write(out)?;
        self.merged_hits.write(out)?;
        self.merged_misses.write(out)?;
        self.no_peer.write(out)
    }
}
