//! What others need to know to authenticate as this server does, and since when the use of legacy tokens is tracked.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codec::Notes;
use object::timestamp::Timestamp;
use object::{Status, Value, value};
use registry::UpdateOptions;
use request::User;
use rest::Api;

const NAMESPACE: &str = "kube-system";
const AUTHENTICATION: &str = "extension-apiserver-authentication";
const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";

/// Writes how requests are authenticated here: extension servers read it and do likewise. What other servers of the cluster wrote
/// stays: authorities and headers are added to theirs.
pub async fn publish(api: &Arc<Api>, how: &BTreeMap<String, String>) -> Result<(), Status> {
    let snapshot = api.snapshot();
    let Some(storage) = snapshot.catalog.stored("", "configmaps") else { return Ok(()) };
    let now = snapshot.clock.now().secs;
    let Some(known) = storage.cache.get(&storage.key(NAMESPACE, AUTHENTICATION)) else {
        let config_map = value!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": AUTHENTICATION, "namespace": NAMESPACE}, "data": (combined(&Value::map(), how, now)?)
        });
        return crate::reconcile::ensure(api, "configmaps", config_map).await;
    };
    let read = storage.load(&known).await.map_err(|why| storage.unreadable(known.entry(), why));
    let known = read.map_err(|error| Status::internal(Status::from(error)))?;
    if *known.field("data") == combined(known.field("data"), how, now)? {
        return Ok(());
    }
    let user = User::loopback();
    let cx = snapshot.context(&user, NAMESPACE, "v1", "", false);
    let mut write = storage.begin(&cx, AUTHENTICATION, &UpdateOptions::OBJECT).await?;
    loop {
        let live = write.existing().await?;
        let mut published = live.clone();
        published.set(&["data"], combined(live.field("data"), how, now)?);
        if write.store(published, Some(&live)).await?.is_some() {
            return Ok(());
        }
    }
}

/// Lists of header names, as JSON.
const HEADERS: [&str; 5] = [
    "requestheader-username-headers",
    "requestheader-uid-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
    "requestheader-allowed-names",
];
const CLIENTS: &str = "client-ca-file";
const PROXIES: &str = "requestheader-client-ca-file";

/// The published data together with the data that should be.
fn combined(existing: &Value, how: &BTreeMap<String, String>, now: i64) -> Result<Value, Status> {
    let both = |key: &str| [existing.str_at(&[key]), how.get(key).map_or("", String::as_str)];
    let mut data = Value::map();
    let clients = bundles(both(CLIENTS), now)?;
    if !clients.is_empty() {
        data.set(&[CLIENTS], clients);
    }
    let proxies = bundles(both(PROXIES), now)?;
    if proxies.is_empty() {
        return Ok(data);
    }
    data.set(&[PROXIES], proxies);
    for key in HEADERS {
        let mut names: Vec<Value> = Vec::new();
        for text in both(key).into_iter().filter(|text| !text.is_empty()) {
            let list = codec::json::decode(text.as_bytes(), None, &mut Notes::ignore());
            let list = list.map_err(|error| Status::internal(error.to_string()))?;
            for name in list.as_list().unwrap_or(&[]) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        if !names.is_empty() || key != "requestheader-uid-headers" {
            let mut text = Vec::new();
            codec::json::encode(&Value::List(names), None, &mut text);
            data.set(&[key], String::from_utf8_lossy(&text).trim_end().to_string());
        }
    }
    Ok(data)
}

/// The certificates of both bundles, each once, without those that have expired.
fn bundles(bundles: [&str; 2], now: i64) -> Result<String, Status> {
    let mut certificates: Vec<Vec<u8>> = Vec::new();
    for bundle in bundles.into_iter().filter(|bundle| !bundle.is_empty()) {
        for certificate in gox509::parse_bundle(bundle.as_bytes()).map_err(Status::internal)? {
            let expired = certificate.not_after.seconds <= now - EXPIRED_SECONDS;
            if !expired && !certificates.contains(&certificate.raw) {
                certificates.push(certificate.raw);
            }
        }
    }
    Ok(certificates.iter().map(|certificate| pem(certificate)).collect())
}

/// How long certificates that have expired stay.
const EXPIRED_SECONDS: i64 = 5 * 60;
const PEM_LINE: usize = 64;

fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(PEM_LINE) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}

/// The day from which on tokens of the old kind are known to have been used or not.
pub fn tracking(now: Timestamp) -> (&'static str, Value) {
    let day: String = object::timestamp::Time(now).to_string().chars().take("2006-01-02".len()).collect();
    let object = value!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": TRACKING, "namespace": NAMESPACE}, "data": {"since": day}
    });
    ("configmaps", object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(expires: (i32, u8, u8)) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["a".to_string()]).unwrap();
        params.not_after = rcgen::date_time_ymd(expires.0, expires.1, expires.2);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().replace("\r\n", "\n")
    }

    #[test]
    fn what_others_wrote_stays_until_it_expires() {
        let (old, expired, new) = (certificate((2040, 1, 1)), certificate((2020, 1, 1)), certificate((2040, 1, 1)));
        let now = 1_800_000_000;
        let how = BTreeMap::from([
            (CLIENTS.to_string(), format!("{new}{old}")),
            (PROXIES.to_string(), new.clone()),
            (HEADERS[0].to_string(), "[\"X-Remote-User\"]".to_string()),
        ]);
        let existing = value!({
            "client-ca-file": (format!("{old}{expired}")),
            "requestheader-username-headers": "[\"X-User\",\"X-Remote-User\"]",
            "other": "x"
        });
        let data = combined(&existing, &how, now).unwrap();
        assert_eq!(data.str_at(&[CLIENTS]), format!("{old}{new}"));
        assert_eq!(data.str_at(&[HEADERS[0]]), "[\"X-User\",\"X-Remote-User\"]");
        assert_eq!(data.str_at(&["requestheader-allowed-names"]), "[]");
        assert!(data.get("requestheader-uid-headers").is_none() && data.get("other").is_none());
        assert_eq!(combined(&data, &how, now).unwrap(), data);
        let without = BTreeMap::from([(CLIENTS.to_string(), new)]);
        assert!(combined(&Value::map(), &without, now).unwrap().get(PROXIES).is_none());
        assert!(
            combined(
                &value!({"client-ca-file": "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"}),
                &without,
                now
            )
            .is_err()
        );
    }
}
