//! What a signer puts into the status of a pod's request: a chain for the requested key, and when it is good for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gox509::{Certificate, CertificateRequest, pem};
use object::duration::Duration;
use object::timestamp::{Time, Timestamp};
use object::{BadValue, Cursor, Errors, Value};

use crate::common::checks::Checks;

const CHAIN_MAX_BYTES: usize = 100 * 1024;
const MINUTE: i64 = 60 * 1_000_000_000;
/// How far the beginning may be from now.
const SKEW: i64 = 5 * MINUTE;
/// How far from either end a new certificate is to be asked for.
const REFRESH_MARGIN: i64 = 10 * MINUTE;
const LIFETIME_MIN: i64 = 60 * MINUTE;

/// Checks a status that says the certificate was issued; the first thing that is wrong ends it, as upstream has it.
pub fn validate(now: Timestamp, request: &Cursor, errors: &mut Errors) {
    let chain = request.at(&["status", "certificateChain"]);
    if chain.str().len() > CHAIN_MAX_BYTES {
        return errors.too_long(chain.path(), CHAIN_MAX_BYTES);
    }
    let blocks: Vec<pem::Block> = pem::blocks(chain.str().as_bytes()).collect();
    let Some((leaf, others)) = blocks.split_first() else {
        return chain.bad(errors, "issued certificate chain must contain at least one certificate");
    };
    if leaf.label != "CERTIFICATE" {
        return chain.bad(errors, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    }
    let Ok(certificate) = Certificate::parse(&leaf.bytes) else {
        return chain.bad(errors, "leaf certificate does not parse as valid X.509");
    };
    let before = errors.len();
    validate_names(&certificate, &chain, errors);
    match requested_key(request) {
        Ok(key) if key == certificate.raw_key => {}
        Ok(_) => return chain.bad(errors, "leaf certificate was not issued to the requested public key"),
        Err((field, detail)) => return request.at(&["spec", field]).invalid_as(errors, BadValue::Omitted, detail),
    }
    for (field, detail) in [
        ("notBefore", "must be present and consistent with the issued certificate"),
        ("notAfter", "must be present and consistent with the issued certificate"),
        ("beginRefreshAt", "must be present and in the range [notbefore+10min, notafter-10min]"),
    ] {
        request.at(&["status", field]).must_be_set(errors, detail);
    }
    if errors.len() > before {
        return;
    }
    validate_times(now, request, &certificate, errors);
    if errors.len() == before {
        validate_others(&chain, others, errors);
    }
}

fn validate_names(certificate: &Certificate, chain: &Cursor, errors: &mut Errors) {
    let names = &certificate.extensions.names;
    for name in &names.dns {
        let mut report = |wrong: bool, detail: &str| {
            if wrong {
                chain.invalid_as(errors, name.as_str(), detail);
            }
        };
        report(name.is_empty(), "leaf certificate should not contain empty DNSName");
        report(name.contains(".."), "leaf certificate's DNSName should not contain '..'");
        let at_an_end = name.starts_with('.') || name.ends_with('.');
        report(at_an_end, "leaf certificate's DNSName should not start or end with '.'");
    }
    for address in names.emails.iter().filter(|address| !is_address(address)) {
        chain.invalid_as(errors, address.as_str(), "leaf certificate should not contain invalid EmailAddress");
    }
}

fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once('@');
    parts.is_some_and(|(name, domain)| {
        !name.is_empty() && !domain.is_empty() && !text.contains([' ', '<', '>', ',', ';']) && !name.contains('@')
    })
}

/// The key in the request, encoded, or what is wrong with the field that it is in.
fn requested_key(request: &Cursor) -> Result<Vec<u8>, (&'static str, &'static str)> {
    let decoded = |field: &str| STANDARD.decode(request.at(&["spec", field]).str()).unwrap_or_default();
    let stub = decoded("stubPKCS10Request");
    if stub.is_empty() {
        return Ok(decoded("pkixPublicKey"));
    }
    match CertificateRequest::parse(&stub) {
        Ok(parsed) => Ok(parsed.raw_key),
        Err(_) => Err(("stubPKCS10Request", "must be a valid PKCS#10 CSR")),
    }
}

fn validate_times(now: Timestamp, request: &Cursor, certificate: &Certificate, errors: &mut Errors) {
    let [not_before, not_after, refresh] =
        ["notBefore", "notAfter", "beginRefreshAt"].map(|field| request.at(&["status", field]));
    let time = |field: &Cursor| Time::parse(field.str()).map_or(Timestamp::ZERO, |time| time.0);
    let [from, to] = [certificate.not_before, certificate.not_after].map(|time| Timestamp::new(time.seconds, 0));
    if time(&not_before) != from {
        return not_before.bad(errors, "must be set to the NotBefore time encoded in the leaf certificate");
    }
    if from <= now.plus(Duration(-SKEW)) || from >= now.plus(Duration(SKEW)) {
        return not_before.bad(errors, "must be set to within 5 minutes of kube-apiserver's current time");
    }
    if time(&not_after) != to {
        return not_after.bad(errors, "must be set to the NotAfter time encoded in the leaf certificate");
    }
    let lifetime = to.since(from);
    let chain = request.at(&["status", "certificateChain"]);
    let max = request.at(&["spec", "maxExpirationSeconds"]).int();
    if lifetime.0 < LIFETIME_MIN {
        return chain.invalid_as(errors, Value::Int(lifetime.0), "leaf certificate lifetime must be >= 1 hour");
    }
    if lifetime.0 > max.saturating_mul(1_000_000_000) {
        let detail = format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({max})");
        return chain.invalid_as(errors, Value::Int(lifetime.0), detail);
    }
    if time(&refresh) < from.plus(Duration(REFRESH_MARGIN)) {
        return refresh.bad(errors, "must be at least 10 minutes after status.notBefore");
    }
    if time(&refresh) > to.plus(Duration(-REFRESH_MARGIN)) {
        refresh.bad(errors, "must be at least 10 minutes before status.notAfter");
    }
}

/// The rest of the chain is only looked at for being certificates.
fn validate_others(chain: &Cursor, others: &[pem::Block], errors: &mut Errors) {
    for block in others {
        if block.label != "CERTIFICATE" {
            // Upstream's spelling.
            return chain.bad(errors, "issued certificate chain must consist entirely of CERTFICATE PEM blocks");
        }
        if Certificate::parse(&block.bytes).is_err() {
            return chain.bad(errors, "intermediate certificate does not parse as valid X.509");
        }
    }
}

#[cfg(test)]
mod tests {
    use object::value;
    use rcgen::{CertificateParams, KeyPair, PublicKeyData};

    use super::*;

    /// A certificate that is good from `from` to `to`, and the key it is for.
    fn issue(from: i64, to: i64, names: &[&str]) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("names");
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + std::time::Duration::from_secs(from.unsigned_abs());
        params.not_after = epoch + std::time::Duration::from_secs(to.unsigned_abs());
        let certificate = params.self_signed(&key).expect("a certificate");
        (certificate.pem(), STANDARD.encode(key.subject_public_key_info()))
    }

    fn check(chain: &str, key: &str, times: [i64; 3], want: &str) {
        let [from, to, refresh] = times.map(|secs| Time(Timestamp::new(secs, 0)).to_string());
        let request = value!({
            "spec": {"pkixPublicKey": key, "maxExpirationSeconds": 86400},
            "status": {"certificateChain": chain, "notBefore": from, "notAfter": to, "beginRefreshAt": refresh}
        });
        let mut errors = Errors::new();
        validate(Timestamp::new(1_000_000, 0), &Cursor::root(&request), &mut errors);
        let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let got = got.join("\n").replace(&object::quote(chain), "CHAIN");
        assert_eq!(got, want);
    }

    #[test]
    fn certificates_fit_the_request_and_the_times() {
        const NOW: i64 = 1_000_000;
        let (from, to, refresh) = (NOW, NOW + 7200, NOW + 3600);
        let (good, key) = issue(from, to, &["a.b"]);
        let (_, other) = issue(from, to, &[]);
        check(&good, &key, [from, to, refresh], "");
        let at = |field: &str, value: &str, detail: &str| format!("status.{field}: Invalid value: {value}: {detail}");
        let chain = |detail: &str| at("certificateChain", "CHAIN", detail);
        check(
            "x",
            &key,
            [from, to, refresh],
            &at("certificateChain", "\"x\"", "issued certificate chain must contain at least one certificate")
                .replace("\"x\"", "CHAIN"),
        );
        check(
            &good,
            &other,
            [from, to, refresh],
            &chain("leaf certificate was not issued to the requested public key"),
        );
        let twice = format!("{good}{}", good.replace("CERTIFICATE", "THING"));
        check(
            &twice,
            &key,
            [from, to, refresh],
            &chain("issued certificate chain must consist entirely of CERTFICATE PEM blocks"),
        );
        let time = |secs: i64| object::quote(&Time(Timestamp::new(secs, 0)).to_string());
        let wrong =
            at("notBefore", &time(from + 1), "must be set to the NotBefore time encoded in the leaf certificate");
        check(&good, &key, [from + 1, to, refresh], &wrong);
        let wrong = at("beginRefreshAt", &time(from + 60), "must be at least 10 minutes after status.notBefore");
        check(&good, &key, [from, to, from + 60], &wrong);
        let wrong = at("beginRefreshAt", &time(to), "must be at least 10 minutes before status.notAfter");
        check(&good, &key, [from, to, to], &wrong);
        let (short, key) = issue(from, from + 60, &[]);
        let wrong = at("certificateChain", "60000000000", "leaf certificate lifetime must be >= 1 hour");
        check(&short, &key, [from, from + 60, refresh], &wrong);
        let (old, key) = issue(from - 3600, to, &[]);
        let wrong =
            at("notBefore", &time(from - 3600), "must be set to within 5 minutes of kube-apiserver's current time");
        check(&old, &key, [from - 3600, to, refresh], &wrong);
        let (long, key) = issue(from, from + 100_000, &["a..b"]);
        let wrong = at("certificateChain", "\"a..b\"", "leaf certificate's DNSName should not contain '..'");
        check(&long, &key, [from, from + 100_000, refresh], &wrong);
    }
}
