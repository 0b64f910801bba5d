//! Verification of a server's certificate, in the order and with the texts of Go's `crypto/x509`.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use crate::roots::{Source, Trusted};

/// Names of a certificate that an error lists; above it, Go counts them.
const LISTED_MAX: usize = 100;

/// Verifies servers against [`Source`], or not at all.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// None accepts every certificate.
    trusted: Option<Source>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub fn new(trusted: Option<Source>, provider: &CryptoProvider) -> Arc<Verifier> {
        Arc::new(Verifier { trusted, algorithms: provider.signature_verification_algorithms })
    }

    fn verify(
        &self,
        trusted: &Trusted,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), String> {
        let (_, parsed) = X509Certificate::from_der(leaf)
            .map_err(|_| "tls: failed to parse certificate from server: x509: malformed certificate".to_string())?;
        let failed = |why: String| format!("tls: failed to verify certificate: x509: {why}");
        check_time(&parsed, now).map_err(failed)?;
        check_name(&parsed, name).map_err(failed)?;
        if trusted.certificates.iter().any(|known| known.as_ref() == leaf.as_ref()) {
            return check_usage(&parsed).map_err(failed);
        }
        let chain = ParsedCertificate::try_from(leaf).and_then(|certificate| {
            rustls::client::verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &trusted.anchors,
                intermediates,
                now,
                self.algorithms.all,
            )
        });
        chain.map_err(|error| failed(chain_error(&error, &parsed, trusted)))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(source) = &self.trusted {
            self.verify(&source.current(), leaf, intermediates, name, now).map_err(Error::General)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn check_time(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), String> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let shown = |seconds: i64| {
        let time = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        time.format(&Rfc3339).unwrap_or_default()
    };
    let (from, until) = (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
    let wrong = "certificate has expired or is not yet valid: current time";
    if now < from {
        return Err(format!("{wrong} {} is before {}", shown(now), shown(from)));
    }
    if now > until {
        return Err(format!("{wrong} {} is after {}", shown(now), shown(until)));
    }
    Ok(())
}

/// The names that a certificate is for.
#[derive(Default)]
struct Names<'a> {
    dns: Vec<&'a str>,
    addresses: Vec<IpAddr>,
    /// Whether there is a subjectAltName extension at all.
    given: bool,
}

fn names<'a>(certificate: &'a X509Certificate<'_>) -> Names<'a> {
    let mut names = Names::default();
    for extension in certificate.extensions() {
        let ParsedExtension::SubjectAlternativeName(alternatives) = extension.parsed_extension() else { continue };
        names.given = true;
        for name in &alternatives.general_names {
            match name {
                GeneralName::DNSName(name) => names.dns.push(name),
                GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
                _ => {}
            }
        }
    }
    names
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn check_name(certificate: &X509Certificate<'_>, wanted: &ServerName<'_>) -> Result<(), String> {
    let names = names(certificate);
    let (host, valid) = match wanted {
        ServerName::IpAddress(ip) => {
            let ip = IpAddr::from(*ip);
            if names.addresses.contains(&ip) {
                return Ok(());
            }
            if names.addresses.is_empty() {
                return Err(format!("cannot validate certificate for {ip} because it doesn't contain any IP SANs"));
            }
            if names.addresses.len() >= LISTED_MAX {
                let count = names.addresses.len();
                return Err(format!("certificate is valid for {count} IP SANs, but none matched {ip}"));
            }
            (ip.to_string(), names.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", "))
        }
        ServerName::DnsName(name) => {
            let host = name.as_ref().to_string();
            if names.dns.iter().any(|pattern| matches(pattern, &host)) {
                return Ok(());
            }
            if !names.given && common_name(certificate).is_some_and(|name| matches(&name, &host)) {
                return Err("certificate relies on legacy Common Name field, use SANs instead".into());
            }
            if names.dns.len() >= LISTED_MAX {
                return Err(format!("certificate is valid for {} names, but none matched {host}", names.dns.len()));
            }
            (host, names.dns.join(", "))
        }
        _ => return Err("certificate is not valid for any names".into()),
    };
    if valid.is_empty() {
        return Err(format!("certificate is not valid for any names, but wanted to match {host}"));
    }
    Err(format!("certificate is valid for {valid}, not {host}"))
}

/// Whether a name in a certificate covers a host: a `*` stands for the whole first label.
fn matches(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.trim_end_matches('.'), host.trim_end_matches('.'));
    if pattern.is_empty() || host.is_empty() {
        return false;
    }
    if pattern.eq_ignore_ascii_case(host) {
        return !pattern.starts_with("*.");
    }
    let Some(domain) = pattern.strip_prefix("*.") else { return false };
    host.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain))
}

fn check_usage(certificate: &X509Certificate<'_>) -> Result<(), String> {
    match certificate.extended_key_usage() {
        Ok(Some(usage)) if !(usage.value.server_auth || usage.value.any) => {
            Err("certificate specifies an incompatible key usage".into())
        }
        _ => Ok(()),
    }
}

/// What Go says where webpki found no chain to a trusted certificate.
fn chain_error(error: &Error, leaf: &X509Certificate<'_>, trusted: &Trusted) -> String {
    match error {
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "certificate specifies an incompatible key usage".into(),
        Error::InvalidCertificate(CertificateError::UnhandledCriticalExtension) => {
            "unhandled critical extension".into()
        }
        _ => format!("certificate signed by unknown authority{}", hint(leaf, trusted)),
    }
}

/// Go tells when a trusted certificate has the issuer's name but did not sign the certificate.
fn hint(leaf: &X509Certificate<'_>, trusted: &Trusted) -> String {
    for known in &trusted.certificates {
        let Ok((_, known)) = X509Certificate::from_der(known) else { continue };
        if known.subject().as_raw() != leaf.issuer().as_raw() {
            continue;
        }
        let name = common_name(&known).unwrap_or_else(|| {
            let organization = known.subject().iter_organization().next().and_then(|name| name.as_str().ok());
            organization.map_or_else(|| format!("serial:{}", known.serial), str::to_string)
        });
        let why = if known.public_key().algorithm.algorithm.to_id_string().starts_with("1.2.840.113549.1.1") {
            "crypto/rsa: verification error"
        } else {
            "x509: ECDSA verification failure"
        };
        return format!(
            " (possibly because of {} while trying to verify candidate authority certificate {})",
            object::quote(why),
            object::quote(&name)
        );
    }
    String::new()
}

fn common_name(certificate: &X509Certificate<'_>) -> Option<String> {
    certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok()).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_cover_one_label() {
        let cases = [
            ("a.example", "a.example", true),
            ("A.example.", "a.EXAMPLE", true),
            ("*.example", "a.example", true),
            ("*.example", "a.b.example", false),
            ("*.example", "example", false),
            ("*.example", "*.example", false),
            ("a*.example", "ab.example", false),
            ("", "a", false),
        ];
        for (pattern, host, expected) in cases {
            assert_eq!(matches(pattern, host), expected, "{pattern} {host}");
        }
    }
}
