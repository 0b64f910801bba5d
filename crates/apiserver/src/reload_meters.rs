//! [`ReloadMeters`]: metrics of a configuration file that is reloaded when it changes.

use std::fmt::{self, Write};

use metrics::{Counter, Family, Gauge};
use object::{Clock, SystemClock};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The metrics of one file, as upstream names them after what the file configures.
pub struct ReloadMeters {
    /// `authentication` or `authorization`.
    what: &'static str,
    /// Which server this is, as a hash.
    server: String,
    reloads: Family<Counter>,
    last: Family<Gauge>,
    /// The hash of the contents in use; "" before there are any.
    hash: Mutex<String>,
}

impl ReloadMeters {
    /// `server` is the server's identity.
    pub fn new(what: &'static str, server: &str) -> ReloadMeters {
        let names = match what {
            "authentication" => [
                "apiserver_authentication_config_controller_automatic_reloads_total",
                "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
            ],
            _ => [
                "apiserver_authorization_config_controller_automatic_reloads_total",
                "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
            ],
        };
        let labels = &["status", "apiserver_id_hash"];
        let [reloads, last] = names;
        ReloadMeters {
            what,
            server: hash(server.as_bytes()),
            reloads: Family::new(
                reloads,
                "[BETA] Total number of automatic reloads of the configuration split by status and apiserver identity.",
                labels,
                Counter::default,
            ),
            last: Family::new(
                last,
                "[BETA] Timestamp of the last automatic reload of the configuration split by status and apiserver identity.",
                labels,
                Gauge::default,
            ),
            hash: Mutex::default(),
        }
    }

    /// Contents that the server started with.
    pub fn started(&self, contents: &[u8]) {
        *self.hash.lock() = hash(contents);
    }

    pub fn succeeded(&self, contents: &[u8]) {
        self.count("success");
        self.started(contents);
    }

    pub fn failed(&self) {
        self.count("failure");
    }

    fn count(&self, status: &str) {
        self.reloads.with(&[status, &self.server]).increment();
        self.last.with(&[status, &self.server]).set(SystemClock.now().secs as f64);
    }

    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.reloads.write(out)?;
        self.last.write(out)?;
        let (hash, what, server) = (self.hash.lock(), self.what, &self.server);
        if hash.is_empty() {
            return Ok(());
        }
        let name = format!("apiserver_{what}_config_controller_last_config_info");
        let help = format!(
            "[ALPHA] Information about the last applied {what} configuration with hash as label, split by apiserver identity."
        );
        server::metric_head(out, &name, "gauge", &help)?;
        writeln!(out, "{name}{{apiserver_id_hash=\"{server}\",hash=\"{hash}\"}} 1")
    }
}

fn hash(contents: &[u8]) -> String {
    if contents.is_empty() {
        return String::new();
    }
    let digits = Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reloads_are_counted() {
        let meters = ReloadMeters::new("authorization", "apiserver-x");
        let mut out = String::new();
        meters.write(&mut out).unwrap();
        assert_eq!(out, "");
        meters.started(b"a");
        meters.failed();
        meters.succeeded(b"b");
        meters.write(&mut out).unwrap();
        let server = hash(b"apiserver-x");
        for line in [
            format!(
                "apiserver_authorization_config_controller_automatic_reloads_total{{apiserver_id_hash=\"{server}\",status=\"failure\"}} 1"
            ),
            format!(
                "apiserver_authorization_config_controller_last_config_info{{apiserver_id_hash=\"{server}\",hash=\"{}\"}} 1",
                hash(b"b")
            ),
        ] {
            assert!(out.contains(&line), "{out}");
        }
        assert_eq!(hash(b""), "");
        assert_eq!(hash(b"a"), "sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
    }
}
