//! Metrics of configurations from files, under upstream's names.

use std::fmt;

use metrics::{Counter, Family, Gauge};
use object::{Clock, SystemClock};
use sha2::{Digest, Sha256};

pub struct ManifestMeters {
    /// A hash of the server's identity, the label `apiserver_id_hash`.
    server: String,
    reloads: Family<Counter>,
    last: Family<Gauge>,
    info: Family<Gauge>,
}

impl ManifestMeters {
    /// `server` is the identity of this API server, the name of its lease.
    pub fn new(server: &str) -> ManifestMeters {
        ManifestMeters {
            server: format!("sha256:{:x}", Sha256::digest(server)),
            reloads: Family::new(
                "apiserver_manifest_admission_config_controller_automatic_reloads_total",
                "[ALPHA] Total number of automatic reloads of admission manifest configuration split by status, plugin, \
                 and apiserver identity.",
                &["plugin", "status", "apiserver_id_hash"],
                Counter::default,
            ),
            last: Family::new(
                "apiserver_manifest_admission_config_controller_automatic_reload_last_timestamp_seconds",
                "[ALPHA] Timestamp of the last automatic reload of admission manifest configuration split by status, \
                 plugin, and apiserver identity.",
                &["plugin", "status", "apiserver_id_hash"],
                Gauge::default,
            ),
            info: Family::new(
                "apiserver_manifest_admission_config_controller_last_config_info",
                "[ALPHA] Information about the last applied admission manifest configuration with hash as label, split \
                 by plugin and apiserver identity.",
                &["plugin", "apiserver_id_hash", "hash"],
                Gauge::default,
            ),
        }
    }

    /// The files were read and are in force.
    pub fn loaded(&self, plugin: &str, hash: &str) {
        self.count(plugin, "success");
        self.info.forget(plugin);
        self.info.with(&[plugin, &self.server, hash]).set(1.0);
    }

    /// The files cannot be used.
    pub fn failed(&self, plugin: &str) {
        self.count(plugin, "failure");
    }

    fn count(&self, plugin: &str, status: &str) {
        self.reloads.with(&[plugin, status, &self.server]).increment();
        let now = SystemClock.now();
        self.last.with(&[plugin, status, &self.server]).set(now.secs as f64 + f64::from(now.nanos) / 1e9);
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.reloads.write(out)?;
        self.last.write(out)?;
        self.info.write(out)
    }
}
