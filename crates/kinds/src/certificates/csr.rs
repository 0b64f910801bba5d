//! CertificateSigningRequests: a request, who made it, what approvers and signers say about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gox509::{Certificate, CertificateRequest, pem};
use object::duration::Duration;
use object::timestamp::Time;
use object::{Cursor, Errors, Map, Meta, Value};
use registry::{Context, Effects, Error, Facts, FieldRefusal, Strategy, Undo, columns};

use super::Durations;
use crate::common::checks::Checks;
use crate::common::signers;

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const EXPIRATION_SECONDS_MIN: i64 = 600;
/// Condition types that are either there and true, or not there.
const TRUE_ONLY: [&str; 3] = ["Approved", "Denied", "Failed"];
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub struct SigningRequest {
    pub durations: Arc<Durations>,
}

const FACTS: Facts = Facts {
    name: |_, _| Vec::new(),
    checks_updated_generate_name: true,
    resets: &[&["spec"], &["status"]],
    status_resets: &[&["spec"], &["status", "conditions"]],
    other_resets: &[("approval", &[&["spec"], &["status", "certificate"]])],
    selectable_fields: object::strs!["spec.signerName"],
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITH_STATUS
};

impl Strategy for SigningRequest {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn effects(&self) -> Option<&dyn Effects> {
        Some(self)
    }

    fn prepare_create(&self, cx: &Context, object: &mut Value) {
        for field in ["username", "uid", "groups", "extra"] {
            object.remove(&["spec", field]);
        }
        let user = cx.user;
        for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
            if !text.is_empty() {
                object.set(&["spec", field], text.as_str());
            }
        }
        let strings = |items: &[String]| Value::List(items.iter().map(|item| Value::from(item.as_str())).collect());
        if !user.groups.is_empty() {
            object.set(&["spec", "groups"], strings(&user.groups));
        }
        if !user.extra.is_empty() {
            let extra: Map = user.extra.iter().map(|(key, values)| (key.clone(), strings(values))).collect();
            object.set(&["spec", "extra"], extra);
        }
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        validate(object, None, errors);
        validate_declared(object, None, errors);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        new.keep(&["spec"], old);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_change(new, old, Writer::Object, errors);
    }

    fn prepare_status_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        for kind in ["Approved", "Denied"] {
            keep_conditions(new, old, kind);
        }
        stamp_conditions(cx, new, old);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_change(new, old, Writer::Signer, errors);
    }

    fn prepare_subresource(&self, cx: &Context, new: &mut Value, old: &Value) {
        stamp_conditions(cx, new, old);
        let conditions = new.at(&["status", "conditions"]).clone();
        new.keep(&["spec"], old);
        new.keep(&["status"], old);
        if conditions.is_null() {
            new.remove(&["status", "conditions"]);
        } else {
            new.set(&["status", "conditions"], conditions);
        }
    }

    fn validate_subresource(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        validate_change(new, old, Writer::Approver, errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let signer = object.str_at(&["spec", "signerName"]);
        let seconds = object.at(&["spec", "expirationSeconds"]).as_int();
        let duration = seconds.map_or("<none>".to_string(), |seconds| Duration::from_secs(seconds).human());
        vec![
            object.name().into(),
            columns::age(cx, object),
            if signer.is_empty() { "<none>" } else { signer }.into(),
            object.str_at(&["spec", "username"]).into(),
            duration.into(),
            condition_cell(object).into(),
        ]
    }
}

#[async_trait]
impl Effects for SigningRequest {
    async fn begin_update(
        &self,
        cx: &Context<'_>,
        new: &mut Value,
        old: &Value,
    ) -> Result<Option<Box<dyn Undo>>, Error> {
        Ok(if cx.dry_run { None } else { self.durations.begin(new, old) })
    }
}

/// Who writes, which decides what may change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Object,
    Signer,
    Approver,
}

fn validate_change(new: &Cursor, old: &Cursor, writer: Writer, errors: &mut Errors) {
    validate(new, Some(old), errors);
    let conditions = new.at(&["status", "conditions"]);
    let count = |object: &Cursor, kind: &str| of_type(object, kind).count();
    for kind in TRUE_ONLY.iter().filter(|kind| count(new, kind) < count(old, kind)) {
        conditions.forbidden(errors, format!("updates may not remove a condition of type {kind:?}"));
    }
    if writer != Writer::Approver {
        for kind in ["Approved", "Denied"].iter().filter(|kind| count(new, kind) > count(old, kind)) {
            conditions.forbidden(errors, format!("updates may not add a condition of type {kind:?}"));
        }
    }
    let (certificate, old_certificate) = (new.at(&["status", "certificate"]), old.at(&["status", "certificate"]));
    if certificate.str() != old_certificate.str() {
        if writer != Writer::Signer {
            certificate.forbidden(errors, "updates may not set certificate content");
        } else if !old_certificate.is_empty() {
            certificate.forbidden(errors, "updates may not modify existing certificate content");
        }
    }
    validate_declared(new, Some(old), errors);
}

fn of_type<'a>(object: &Cursor<'a>, kind: &str) -> impl Iterator<Item = Cursor<'a>> {
    object.at(&["status", "conditions"]).each().filter(move |condition| condition.field("type").str() == kind)
}

/// What upstream declares on the type: a request is approved or denied. What already is both may stay so.
fn validate_declared(object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let both = |object: &Cursor| ["Approved", "Denied"].iter().all(|kind| of_type(object, kind).next().is_some());
    if both(object) && !old.is_some_and(both) {
        let (approved, denied) = (r#"conditions[{"type": "Approved"}]"#, r#"conditions[{"type": "Denied"}]"#);
        let detail = format!("must specify at most one of: `{approved}`, `{denied}`");
        object.at(&["status", "conditions"]).invalid_as(errors, format!("{{{approved}, {denied}}}"), detail);
    }
}

fn validate(object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let spec = object.field("spec");
    let request = spec.field("request");
    if let Err(problem) = check_request(request.str()) {
        request.invalid(errors, problem);
    }
    validate_usages(&spec.field("usages"), old.map(|old| old.at(&["spec", "usages"])), errors);
    let signer = spec.field("signerName");
    let was_legacy = old.is_some_and(|old| old.at(&["spec", "signerName"]).str() == LEGACY_SIGNER);
    if signer.str() == LEGACY_SIGNER && !was_legacy {
        signer.bad(errors, "the legacy signerName is not allowed via this API version");
    } else {
        signers::signer_name(&signer, errors);
    }
    let expiration = spec.field("expirationSeconds");
    if expiration.opt_int().is_some_and(|seconds| seconds < EXPIRATION_SECONDS_MIN) {
        expiration.invalid(errors, "may not specify a duration less than 600 seconds (10 minutes)");
    }
    validate_conditions(object, old, errors);
    validate_certificate(object, old, errors);
}

fn check_request(encoded: &str) -> Result<(), String> {
    let text = STANDARD.decode(encoded).unwrap_or_default();
    CertificateRequest::parse_pem(&text)?.check_signature()
}

fn validate_usages(usages: &Cursor, old: Option<Cursor>, errors: &mut Errors) {
    usages.must_be_set(errors, "");
    let unknown = |usages: &Cursor| usages.strs().any(|usage| !USAGES.contains(&usage));
    let repeated = |usages: &Cursor| usages.strs().collect::<BTreeSet<_>>().len() < usages.len();
    if !old.as_ref().is_some_and(unknown) {
        for usage in usages.each() {
            usage.one_of(errors, &USAGES);
        }
    }
    if !old.as_ref().is_some_and(repeated) {
        let mut seen = BTreeSet::new();
        for usage in usages.each().filter(|usage| !seen.insert(usage.str())) {
            usage.duplicate(errors);
        }
    }
}

fn validate_conditions(object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let types = |object: &Cursor| {
        object.at(&["status", "conditions"]).each().map(|c| c.field("type").str().to_string()).collect::<Vec<_>>()
    };
    let old = old.map(types).unwrap_or_default();
    let may_be_empty = old.iter().any(String::is_empty);
    let may_repeat = old.iter().collect::<BTreeSet<_>>().len() < old.len();
    let mut seen = BTreeSet::new();
    for condition in object.at(&["status", "conditions"]).each() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if !may_be_empty {
            kind.require(errors);
        }
        let allowed: &[&str] = if TRUE_ONLY.contains(&kind.str()) { &["True"] } else { &["False", "True", "Unknown"] };
        status.require_one_of(errors, allowed);
        if !seen.insert(kind.str()) && !may_repeat {
            errors.duplicate(kind.path(), kind.str());
        }
    }
}

fn validate_certificate(object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let certificate = object.at(&["status", "certificate"]);
    let old = old.map(|old| old.at(&["status", "certificate"]).str());
    if old.is_some_and(|old| old == certificate.str() || check_certificates(old).is_err()) {
        return;
    }
    if let Err(problem) = check_certificates(certificate.str()) {
        certificate.invalid_as(errors, "<certificate data>", problem);
    }
}

fn check_certificates(encoded: &str) -> Result<(), String> {
    if encoded.is_empty() {
        return Ok(());
    }
    let text = STANDARD.decode(encoded).unwrap_or_default();
    let mut count = 0;
    for block in pem::blocks(&text) {
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {}", object::quote(&block.label)));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_string());
        }
        count += 1;
        if Certificate::parse_all(&block.bytes)?.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_string());
        }
    }
    if count == 0 { Err("must contain at least one CERTIFICATE PEM block".to_string()) } else { Ok(()) }
}

/// Signers cannot change what approvers said: as long as there are as many conditions of a type, the old ones stay.
fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    let is = |condition: &&Value| condition.str_at(&["type"]) == kind;
    let olds: Vec<Value> = old.list_at(&["status", "conditions"]).iter().filter(is).cloned().collect();
    let Some(list) = new.at_mut(&["status", "conditions"]).and_then(Value::as_list_mut) else { return };
    let news: Vec<&mut Value> = list.iter_mut().filter(|condition| condition.str_at(&["type"]) == kind).collect();
    if news.len() == olds.len() {
        for (new, old) in news.into_iter().zip(olds) {
            *new = old;
        }
    }
}

fn stamp_conditions(cx: &Context, new: &mut Value, old: &Value) {
    let now = Time(cx.now).to_string();
    let Some(list) = new.at_mut(&["status", "conditions"]).and_then(Value::as_list_mut) else { return };
    for condition in list {
        if condition.str_at(&["lastUpdateTime"]).is_empty() {
            condition.set(&["lastUpdateTime"], now.as_str());
        }
        if condition.str_at(&["lastTransitionTime"]).is_empty() {
            let same = |other: &&Value| {
                ["type", "status"].iter().all(|field| other.str_at(&[field]) == condition.str_at(&[field]))
                    && !other.str_at(&["lastTransitionTime"]).is_empty()
            };
            let before = old.list_at(&["status", "conditions"]).iter().find(same);
            let time = before.map_or(now.clone(), |before| before.str_at(&["lastTransitionTime"]).to_string());
            condition.set(&["lastTransitionTime"], time);
        }
    }
}

fn condition_cell(object: &Value) -> String {
    let has = |kind: &str| object.list_at(&["status", "conditions"]).iter().any(|c| c.str_at(&["type"]) == kind);
    let mut cell = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_string();
    if has("Failed") {
        cell.push_str(",Failed");
    }
    if !object.str_at(&["status", "certificate"]).is_empty() {
        cell.push_str(",Issued");
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    fn encoded(mutate: impl Fn(&mut Vec<u8>)) -> String {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(vec!["a.example".to_string()]).expect("fine names");
        let mut der = params.serialize_request(&key).expect("a request").der().to_vec();
        mutate(&mut der);
        let body = STANDARD.encode(der);
        STANDARD.encode(format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n"))
    }

    fn check(request: &str) -> Check {
        let spec = format!("{{request: {request}, usages: [client auth], signerName: example.com/s}}");
        let mut check = Check::new(
            SigningRequest { durations: Arc::default() },
            &format!("{{metadata: {{name: a}}, spec: {spec}}}"),
        );
        check.user.name = "alice".into();
        check.user.groups = vec!["devs".into()];
        check
    }

    #[test]
    fn requests_are_read() {
        let fine = encoded(|_| {});
        check(&fine).create(&[
            ("", ""),
            (
                "spec: {request: Z2FyYmFnZQ==, usages: null, signerName: bad}",
                "spec.request: Invalid value: \"Z2FyYmFnZQ==\": PEM block type must be CERTIFICATE REQUEST
                 spec.usages: Required value
                 spec.signerName: Invalid value: \"bad\": must be a fully qualified domain and path of the form \
                 'example.com/signer-name'",
            ),
            (
                "spec: {usages: [any, any], signerName: kubernetes.io/legacy-unknown, expirationSeconds: 599}",
                "spec.usages[1]: Duplicate value: \"any\"
                 spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed \
                 via this API version
                 spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
            ),
        ]);
        for (request, problem) in [
            (encoded(|der| der.truncate(100)), "asn1: syntax error: data truncated"),
            (
                encoded(|der| {
                    if let Some(last) = der.last_mut() {
                        *last ^= 1
                    }
                }),
                "x509: ECDSA verification failure",
            ),
        ] {
            let want = format!("spec.request: Invalid value: \"{request}\": {problem}");
            check(&request).create(&[("", &want)]);
        }
    }

    #[test]
    fn the_server_says_who_asks() {
        check(&encoded(|_| {})).stored(&[("", "spec: {username: alice, groups: [devs]}")]);
    }

    #[test]
    fn signers_do_not_approve() {
        let approve = "status: {conditions: [{type: Approved, status: 'True'}]}";
        check(&encoded(|_| {})).update_status(&[
            ("", approve, "status.conditions: Forbidden: updates may not add a condition of type \"Approved\""),
            (approve, approve, ""),
            (
                "",
                "status: {certificate: Z2FyYmFnZQ==}",
                "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block",
            ),
        ]);
    }

    #[test]
    fn cells_show_the_state() {
        check("x").cells(&[
            ("", "a <unknown> example.com/s  <none> Pending"),
            (
                "{spec: {expirationSeconds: 3600}, status: {certificate: x, conditions: [{type: Approved}]}}",
                "a <unknown> example.com/s  60m Approved,Issued",
            ),
        ]);
    }
}
