//! [`Durations`]: how often a certificate was issued for as long as its request asked for.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::Value;
use registry::Undo;

/// Counts issued certificates by signer. Signers of others are counted together.
#[derive(Debug, Default)]
pub struct Durations(Mutex<BTreeMap<String, Count>>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requested: u64,
    honored: u64,
}

impl Durations {
    /// What to count once the change is stored; None if it does not issue a certificate for a requested time.
    pub(super) fn begin(self: &Arc<Durations>, new: &Value, old: &Value) -> Option<Box<dyn Undo>> {
        let wanted = old.at(&["spec", "expirationSeconds"]).as_int()?;
        let certificate = new.str_at(&["status", "certificate"]);
        if certificate.is_empty() || !old.str_at(&["status", "certificate"]).is_empty() {
            return None;
        }
        let signer = old.str_at(&["spec", "signerName"]);
        let signer = if signer.starts_with("kubernetes.io/") { signer } else { "other" };
        let honored = lifetime(certificate).is_some_and(|actual| is_honored(wanted, actual));
        Some(Box::new(Issued { durations: self.clone(), signer: signer.to_string(), honored }))
    }

    pub fn write(&self, out: &mut String) -> std::fmt::Result {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, help, of) in [
            (
                "apiserver_certificates_registry_csr_honored_duration_total",
                "Issued CSRs with a requested duration that was honored, by signer.",
                (|count| count.honored) as fn(&Count) -> u64,
            ),
            (
                "apiserver_certificates_registry_csr_requested_duration_total",
                "Issued CSRs with a requested duration, by signer.",
                |count| count.requested,
            ),
        ] {
            writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter")?;
            for (signer, count) in counts.iter().map(|(signer, count)| (signer, of(count))).filter(|(_, n)| *n > 0) {
                writeln!(out, "{name}{{signerName={}}} {count}", object::quote(signer))?;
            }
        }
        Ok(())
    }
}

/// A certificate that is about to be stored.
struct Issued {
    durations: Arc<Durations>,
    signer: String,
    honored: bool,
}

#[async_trait]
impl Undo for Issued {
    async fn undo(self: Box<Self>) {}

    async fn commit(self: Box<Self>) {
        let mut counts = self.durations.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(self.signer).or_default();
        count.requested += 1;
        count.honored += u64::from(self.honored);
    }
}

/// How many seconds the first certificate of a chain is good for.
fn lifetime(certificate: &str) -> Option<i64> {
    let certificates = gox509::parse_bundle(&STANDARD.decode(certificate).ok()?).ok()?;
    let first = certificates.first()?;
    Some(first.not_after.seconds - first.not_before.seconds)
}

/// Signers may begin up to five minutes early, and differ by a twentieth.
fn is_honored(wanted: i64, actual: i64) -> bool {
    wanted.abs_diff(actual) < 300 + wanted.unsigned_abs() / 20
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn durations_are_honored_within_bounds() {
        for (wanted, actual, want) in [
            (3600, 3600, true),
            (3600, 3600 + 300 + 179, true),
            (3600, 3600 + 300 + 180, false),
            (3600, 3600 - 480, false),
            (86_400, 3600, false),
        ] {
            assert_eq!(is_honored(wanted, actual), want, "{wanted} {actual}");
        }
    }

    #[tokio::test]
    async fn only_issued_certificates_are_counted() {
        let durations = Arc::new(Durations::default());
        let request = |seconds: Value, certificate: &str, signer: &str| value!({"spec": {"expirationSeconds": (seconds), "signerName": signer}, "status": {"certificate": certificate}});
        for (seconds, before, after, signer) in [
            (Value::from(600), "", "eA==", "kubernetes.io/kubelet-serving"),
            (Value::from(600), "", "eA==", "example.com/mine"),
            (Value::Null, "", "eA==", "kubernetes.io/kubelet-serving"),
            (Value::from(600), "eA==", "eQ==", "kubernetes.io/kubelet-serving"),
            (Value::from(600), "", "", "kubernetes.io/kubelet-serving"),
        ] {
            let (old, new) = (request(seconds.clone(), before, signer), request(seconds, after, signer));
            if let Some(issued) = durations.begin(&new, &old) {
                issued.commit().await;
            }
        }
        let mut out = String::new();
        durations.write(&mut out).unwrap();
        let series: Vec<&str> = out.lines().filter(|line| !line.starts_with('#')).collect();
        let name = "apiserver_certificates_registry_csr_requested_duration_total";
        assert_eq!(
            series,
            [
                format!("{name}{{signerName=\"kubernetes.io/kubelet-serving\"}} 1"),
                format!("{name}{{signerName=\"other\"}} 1")
            ]
        );
    }
}
