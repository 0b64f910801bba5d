//! AdmissionReview: what a webhook is asked, and what it answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codec::Notes;
use object::{GroupVersionKind, GroupVersionResource, Status, Value};

use super::configuration::ReviewVersion;
use crate::Attributes;
use crate::matching::Matched;
use crate::versioned::Versioned;

/// The objects of a request in the version that a webhook asks for.
pub struct Subject<'a> {
    pub matched: &'a Matched,
    pub form: &'a Versioned,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
}

impl ReviewVersion {
    fn group_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The JSON of a review.
pub fn request(version: ReviewVersion, uid: &str, attributes: &Attributes<'_>, subject: &Subject<'_>) -> Vec<u8> {
    let mut out = ReviewJson(Vec::with_capacity(1024));
    out.raw("{\"kind\":\"AdmissionReview\",\"apiVersion\":");
    out.text(version.group_version());
    out.raw(",\"request\":{\"uid\":");
    out.text(uid);
    out.kind("kind", &subject.matched.kind);
    out.resource("resource", &subject.matched.resource);
    out.optional("subResource", attributes.subresource);
    out.kind("requestKind", attributes.kind);
    out.resource("requestResource", attributes.resource);
    out.optional("requestSubResource", attributes.subresource);
    out.optional("name", attributes.name);
    out.optional("namespace", attributes.cx.namespace);
    out.optional("operation", attributes.operation.as_str());
    out.user(attributes);
    out.object("object", subject.form, subject.object);
    out.object("oldObject", subject.form, subject.old);
    out.raw(if attributes.cx.dry_run { ",\"dryRun\":true" } else { ",\"dryRun\":false" });
    out.raw(",\"options\":");
    out.value(attributes.options);
    out.raw("}}");
    out.0
}

/// Writes the JSON of a request.
struct ReviewJson(Vec<u8>);

impl ReviewJson {
    fn raw(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, value: &Value) {
        codec::json::encode(value, None, &mut self.0);
    }

    fn text(&mut self, text: &str) {
        self.value(&Value::from(text));
    }

    /// A member that is left out where it is "".
    fn optional(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.raw(",\"");
            self.raw(name);
            self.raw("\":");
            self.text(text);
        }
    }

    fn triple(&mut self, name: &str, group: &str, version: &str, last: (&str, &str)) {
        self.raw(",\"");
        self.raw(name);
        self.raw("\":{\"group\":");
        self.text(group);
        self.raw(",\"version\":");
        self.text(version);
        self.raw(",\"");
        self.raw(last.0);
        self.raw("\":");
        self.text(last.1);
        self.raw("}");
    }

    fn kind(&mut self, name: &str, kind: &GroupVersionKind) {
        self.triple(name, &kind.group, &kind.version, ("kind", &kind.kind));
    }

    fn resource(&mut self, name: &str, resource: &GroupVersionResource) {
        self.triple(name, &resource.group, &resource.version, ("resource", &resource.resource));
    }

    fn object(&mut self, name: &str, form: &Versioned, object: Option<&Value>) {
        self.raw(",\"");
        self.raw(name);
        self.raw("\":");
        match object {
            Some(object) => form.encode(object, &mut self.0),
            None => self.raw("null"),
        }
    }

    fn user(&mut self, attributes: &Attributes<'_>) {
        let user = attributes.cx.user;
        let mut info = object::Map::new();
        if !user.name.is_empty() {
            info.insert("username", user.name.as_str());
        }
        if !user.uid.is_empty() {
            info.insert("uid", user.uid.as_str());
        }
        let texts = |values: &[String]| values.iter().map(|value| Value::from(value.as_str())).collect::<Vec<_>>();
        if !user.groups.is_empty() {
            info.insert("groups", texts(&user.groups));
        }
        if !user.extra.is_empty() {
            let extra =
                user.extra.iter().map(|(key, values)| (object::Str::from(key.as_str()), Value::from(texts(values))));
            info.insert("extra", Value::Map(extra.collect()));
        }
        self.raw(",\"userInfo\":");
        self.value(&Value::Map(info));
    }
}

/// What a webhook answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    pub allowed: bool,
    /// `status`: why not, in its own words.
    pub result: Option<Value>,
    pub patch: Vec<u8>,
    /// "" where there is no patch.
    pub patch_type: String,
    pub audit_annotations: Vec<(String, String)>,
    pub warnings: Vec<String>,
}

/// Why an answer is none: the text, and whether it could not even be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    Undecodable(String),
    Invalid(String),
}

/// Reads the answer to a review with this uid.
pub fn response(version: ReviewVersion, uid: &str, mutating: bool, bytes: &[u8]) -> Result<Response, Unusable> {
    let decoded = codec::json::decode(bytes, None, &mut Notes::ignore());
    let review = decoded.map_err(|error| Unusable::Undecodable(undecodable(&error.to_string())))?;
    if review.as_map().is_none() {
        let what = review.type_name();
        return Err(Unusable::Undecodable(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type struct {{ \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    check_kind(version, &review)?;
    let response = review.field("response");
    let invalid = |text: String| Err(Unusable::Invalid(text));
    if response.as_map().is_none() {
        return invalid("webhook response was absent".into());
    }
    if version == ReviewVersion::V1 && response.str_at(&["uid"]) != uid {
        let got = object::quote(response.str_at(&["uid"]));
        return invalid(format!("expected response.uid={}, got {got}", object::quote(uid)));
    }
    if version == ReviewVersion::V1 && (review.str_at(&["apiVersion"]), review.str_at(&["kind"])) == ("", "") {
        return invalid("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=".into());
    }
    let patch = STANDARD
        .decode(response.str_at(&["patch"]))
        .map_err(|error| Unusable::Undecodable(format!("json: error decoding base64 binary: {error}")))?;
    let stated = response.field("patchType");
    let patch_type = match version {
        ReviewVersion::V1 => checked_patch_type(mutating, &patch, stated).map_err(Unusable::Invalid)?,
        ReviewVersion::V1Beta1 if mutating && !patch.is_empty() => "JSONPatch".to_string(),
        ReviewVersion::V1Beta1 => String::new(),
    };
    let annotations = response.field("auditAnnotations").as_map();
    let annotation = |(key, value): (&str, &Value)| Some((key.to_string(), value.as_str()?.to_string()));
    Ok(Response {
        allowed: response.field("allowed").as_bool() == Some(true),
        result: Some(response.field("status")).filter(|status| status.as_map().is_some()).cloned(),
        patch: if mutating { patch } else { Vec::new() },
        patch_type,
        audit_annotations: annotations.map(|map| map.iter().filter_map(annotation).collect()).unwrap_or_default(),
        warnings: response.list_at(&["warnings"]).iter().filter_map(Value::as_str).map(str::to_string).collect(),
    })
}

/// An answer of another known kind is decoded as that, one of an unknown kind not at all.
fn check_kind(version: ReviewVersion, review: &Value) -> Result<(), Unusable> {
    let (given_version, kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
    let is_own = given_version == version.group_version() && kind == "AdmissionReview";
    if is_own || (given_version.is_empty() && kind.is_empty()) {
        return Ok(());
    }
    let (group, short) = given_version.split_once('/').unwrap_or(("", given_version));
    let shown = format!("{group}/{short}, Kind={kind}");
    let is_known = matches!(given_version, "admission.k8s.io/v1" | "admission.k8s.io/v1beta1");
    if kind == "AdmissionReview" && is_known {
        if version == ReviewVersion::V1Beta1 {
            return Ok(());
        }
        return Err(Unusable::Invalid(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {shown}"
        )));
    }
    Err(Unusable::Undecodable(format!(
        "no kind {} is registered for version {} in scheme \"pkg/util/webhook/webhook.go:63\"",
        object::quote(kind),
        object::quote(given_version)
    )))
}

fn undecodable(error: &str) -> String {
    format!("couldn't get version/kind; json parse error: {error}")
}

fn checked_patch_type(mutating: bool, patch: &[u8], stated: &Value) -> Result<String, String> {
    let refuse = |text: &str| Err(text.to_string());
    match (mutating, patch.is_empty(), stated.as_str()) {
        (false, false, _) => refuse("validating webhook may not return response.patch"),
        (false, true, Some(_)) => refuse("validating webhook may not return response.patchType"),
        (false, true, None) => Ok(String::new()),
        (true, false, None) => refuse("webhook returned response.patch but not response.patchType"),
        (true, true, Some(_)) => refuse("webhook returned response.patchType but not response.patch"),
        (true, _, Some("")) => refuse("webhook returned invalid response.patchType of \"\""),
        (true, _, stated) => Ok(stated.unwrap_or("").to_string()),
    }
}

/// The refusal of a webhook as the client gets it.
pub fn refusal(webhook: &str, result: Option<&Value>) -> Status {
    let mut status = result.map(Status::from_value).unwrap_or_else(|| Status::bad_request(""));
    let code = result.map_or(0, |result| result.field("code").as_int().unwrap_or(0));
    if result.is_none() {
        status.reason = object::Reason::Unknown;
    }
    if code < 400 {
        status.code = 400;
    }
    let denied = format!("admission webhook {} denied the request", object::quote(webhook));
    let reason = status.reason.as_str();
    status.message = match (status.message.as_str(), reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    status
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn answers_that_do_not_fit_are_told_in_upstreams_words() {
        let ok = r#""uid":"u","allowed":true"#;
        let v1 =
            |response: &str| format!(r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"{response}}}"#);
        let with = |members: &str| v1(&format!(r#","response":{{{ok}{members}}}"#));
        let cases = [
            (true, with(""), Ok(true)),
            (true, v1(""), Err("webhook response was absent")),
            (true, v1(r#","response":{"uid":"x","allowed":true}"#), Err("expected response.uid=\"u\", got \"x\"")),
            (true, with(r#","patch":"W10=""#), Err("webhook returned response.patch but not response.patchType")),
            (
                true,
                with(r#","patchType":"JSONPatch""#),
                Err("webhook returned response.patchType but not response.patch"),
            ),
            (false, with(r#","patch":"W10=""#), Err("validating webhook may not return response.patch")),
            (false, with(r#","patchType":"JSONPatch""#), Err("validating webhook may not return response.patchType")),
            (true, format!(r#"{{"response":{{{ok}}}}}"#), Err("got /, Kind=")),
            (
                true,
                r#"{"apiVersion":"v1","kind":"Pod"}"#.to_string(),
                Err("no kind \"Pod\" is registered for version \"v1\""),
            ),
            (true, "nonsense".to_string(), Err("couldn't get version/kind; json parse error: invalid character")),
        ];
        for (mutating, answer, expected) in cases {
            let got = response(ReviewVersion::V1, "u", mutating, answer.as_bytes());
            match (got, expected) {
                (Ok(got), Ok(allowed)) => assert_eq!(got.allowed, allowed),
                (Err(Unusable::Invalid(text) | Unusable::Undecodable(text)), Err(part)) => {
                    assert!(text.contains(part), "{text}\n{part}");
                }
                (got, _) => panic!("{answer}: {got:?}"),
            }
        }
        // Nothing but the response itself was checked in v1beta1.
        let old = r#"{"response":{"uid":"x","allowed":true,"patch":"W10="}}"#;
        let got = response(ReviewVersion::V1Beta1, "u", true, old.as_bytes()).unwrap();
        assert_eq!((got.patch.as_slice(), got.patch_type.as_str()), (&b"[]"[..], "JSONPatch"));
    }

    #[test]
    fn refusals_say_who_refused() {
        let cases = [
            (None, 400, "", "admission webhook \"w\" denied the request without explanation"),
            (Some(value!({"code": 200})), 400, "", "admission webhook \"w\" denied the request without explanation"),
            (Some(value!({"reason": "Mine"})), 400, "Mine", "admission webhook \"w\" denied the request: Mine"),
            (
                Some(value!({"code": 403, "message": "no", "reason": "Forbidden"})),
                403,
                "Forbidden",
                "admission webhook \"w\" denied the request: no",
            ),
        ];
        for (result, code, reason, message) in cases {
            let status = refusal("w", result.as_ref());
            assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (code, reason, message));
        }
    }
}
