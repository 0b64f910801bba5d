//! `--tls-min-version` and `--tls-cipher-suites`: what rustls can do of what Go can, by Go's names.

use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};

static NEW_AND_OLD: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
static NEW_ONLY: [&SupportedProtocolVersion; 1] = [&TLS13];

/// The versions from a minimum on.
pub fn versions(minimum: &str) -> Result<&'static [&'static SupportedProtocolVersion], String> {
    match minimum {
        "" | "VersionTLS12" => Ok(&NEW_AND_OLD),
        "VersionTLS13" => Ok(&NEW_ONLY),
        old @ ("VersionTLS10" | "VersionTLS11") => {
            Err(format!("--tls-min-version {old}: versions before TLS 1.2 are not spoken by this server"))
        }
        other => Err(format!(
            "--tls-min-version: unknown tls version {other:?}; possible values: VersionTLS12, VersionTLS13"
        )),
    }
}

/// Keeps only the named suites for TLS 1.2. Those of TLS 1.3 cannot be chosen, as in Go.
pub fn narrow(provider: &mut CryptoProvider, names: &[String]) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    let mut wanted: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        wanted.push(rustls_name(name)?);
    }
    let is_new = |text: &str| text.starts_with("TLS13_");
    provider.cipher_suites.retain(|suite| {
        let name = format!("{:?}", suite.suite());
        is_new(&name) || wanted.contains(&name)
    });
    Ok(())
}

/// Go's name of a suite, as rustls writes it.
fn rustls_name(go: &str) -> Result<String, String> {
    // Go still takes the names these two had in a draft.
    let go = match go {
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        other => other,
    };
    const KNOWN: [&str; 6] = [
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ];
    const NEW: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
    if KNOWN.contains(&go) {
        return Ok(go.to_string());
    }
    if NEW.contains(&go) {
        return Ok(go.replacen("TLS_", "TLS13_", 1));
    }
    let unsafe_one = go.starts_with("TLS_RSA_") || go.ends_with("_CBC_SHA") || go.ends_with("_CBC_SHA256");
    if unsafe_one || go.contains("_RC4_") || go.contains("_3DES_") {
        return Err(format!(
            "--tls-cipher-suites {go}: suites without forward secrecy or with CBC, RC4 or 3DES are not spoken by this server"
        ));
    }
    Err(format!("--tls-cipher-suites: cipher suite {go} not supported or doesn't exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(names: &[&str]) -> Result<usize, String> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        narrow(&mut provider, &names).map(|()| provider.cipher_suites.len())
    }

    #[test]
    fn suites_are_chosen_by_gos_names() {
        assert_eq!(kept(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]), Ok(4));
        assert_eq!(kept(&["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_AES_128_GCM_SHA256"]), Ok(4));
        assert!(kept(&["TLS_RSA_WITH_AES_128_CBC_SHA"]).unwrap_err().contains("not spoken"));
        assert!(kept(&["TLS_NOPE"]).unwrap_err().contains("doesn't exist"));
    }

    #[test]
    fn versions_are_chosen_by_gos_names() {
        assert_eq!(versions("").map(<[_]>::len), Ok(2));
        assert_eq!(versions("VersionTLS13").map(<[_]>::len), Ok(1));
        assert!(versions("VersionTLS10").is_err());
        assert!(versions("TLS13").is_err());
    }
}
