//! [`CertificateMeters`]: servers whose certificates are refused for what Go once accepted, under upstream's names.

use std::fmt;

use metrics::{Counter, head};

/// Counts connections that failed because of a serving certificate.
#[derive(Default)]
pub struct CertificateMeters {
    missing_san: Counter,
    insecure_sha1: Counter,
}

impl CertificateMeters {
    /// Counts a failure, if it is one of these.
    pub(crate) fn refused(&self, why: &str) {
        if why.contains(gox509::RELIES_ON_COMMON_NAME) {
            self.missing_san.increment();
        }
        if gox509::is_insecure_sha1(why) {
            self.insecure_sha1.increment();
        }
    }

    /// Writes the metrics of a subsystem, such as `webhooks`.
    pub fn write(&self, subsystem: &str, out: &mut String) -> fmt::Result {
        use fmt::Write;
        for (name, help, counter) in [
            (
                "x509_missing_san_total",
                "Connections that failed because a serving certificate has no subject alternative name.",
                &self.missing_san,
            ),
            (
                "x509_insecure_sha1_total",
                "Connections that failed because a serving certificate is signed with SHA-1.",
                &self.insecure_sha1,
            ),
        ] {
            let name = format!("apiserver_{subsystem}_{name}");
            head(out, &name, "counter", help)?;
            writeln!(out, "{name} {}", counter.value())?;
        }
        Ok(())
    }
}
