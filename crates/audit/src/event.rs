//! [`Event`]: one line of the audit log, in the fields and the order of `audit.k8s.io/v1`.

use bytes::Bytes;
use object::timestamp::MicroTime;
use object::{Str, Timestamp, Value, quote};
use request::User;

use crate::policy::Level;

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

impl Stage {
    pub const ALL: [Stage; 4] = [Stage::RequestReceived, Stage::ResponseStarted, Stage::ResponseComplete, Stage::Panic];

    pub fn as_str(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }

    pub fn parse(text: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

/// The event of a request at one stage.
#[derive(Clone, Debug)]
pub struct Event {
    pub level: Level,
    pub audit_id: Str,
    pub stage: Stage,
    pub request_uri: String,
    pub verb: &'static str,
    pub user: User,
    pub impersonated_user: Option<User>,
    /// How impersonation was constrained, "" if it was not.
    pub impersonation_constraint: Str,
    pub source_ips: Vec<Str>,
    pub user_agent: Str,
    pub object_ref: Option<ObjectRef>,
    pub response_status: Option<ResponseStatus>,
    /// JSON.
    pub request_object: Option<Bytes>,
    /// JSON.
    pub response_object: Option<Bytes>,
    pub received: Timestamp,
    pub stage_time: Timestamp,
    /// Sorted by key.
    pub annotations: Vec<(Str, String)>,
}

/// The object a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRef {
    pub resource: Str,
    pub namespace: Str,
    pub name: Str,
    pub uid: Str,
    pub api_group: Str,
    pub api_version: Str,
    pub resource_version: Str,
    pub subresource: Str,
}

/// How a request was answered: the code, and the rest of the Status if the answer was one.
#[derive(Clone, Debug, Default)]
pub struct ResponseStatus {
    pub code: u16,
    pub status: Option<Value>,
}

impl ResponseStatus {
    /// That of an answer which is a Status object.
    pub fn of(status: Value) -> ResponseStatus {
        let code = status.field("code").as_int().and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
        ResponseStatus { code, status: Some(status) }
    }
}

impl Event {
    /// Appends the event as JSON, without a newline.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\"");
        self.write_fields(out);
        out.push(b'}');
    }

    fn write_fields(&self, out: &mut Vec<u8>) {
        text(out, "level", self.level.as_str());
        text(out, "auditID", &self.audit_id);
        text(out, "stage", self.stage.as_str());
        text(out, "requestURI", &self.request_uri);
        text(out, "verb", self.verb);
        member(out, "user");
        write_user(&self.user, out);
        if let Some(user) = &self.impersonated_user {
            member(out, "impersonatedUser");
            write_user(user, out);
        }
        if !self.impersonation_constraint.is_empty() {
            member(out, "authenticationMetadata");
            object(out, &[("impersonationConstraint", &self.impersonation_constraint)]);
        }
        if !self.source_ips.is_empty() {
            let addresses: Vec<Value> = self.source_ips.iter().map(|address| address.as_str().into()).collect();
            member(out, "sourceIPs");
            encode(&Value::List(addresses), out);
        }
        if !self.user_agent.is_empty() {
            text(out, "userAgent", &self.user_agent);
        }
        if let Some(reference) = &self.object_ref {
            member(out, "objectRef");
            reference.write(out);
        }
        if let Some(status) = &self.response_status {
            member(out, "responseStatus");
            status.write(out);
        }
        for (name, json) in [("requestObject", &self.request_object), ("responseObject", &self.response_object)] {
            if let Some(json) = json {
                member(out, name);
                out.extend_from_slice(json.trim_ascii_end());
            }
        }
        text(out, "requestReceivedTimestamp", &MicroTime(self.received).to_string());
        text(out, "stageTimestamp", &MicroTime(self.stage_time).to_string());
        if !self.annotations.is_empty() {
            let annotations = self.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            member(out, "annotations");
            encode(&Value::Map(annotations.collect()), out);
        }
    }

    /// The event as the legacy format of the log has it, without a newline.
    pub fn legacy(&self) -> String {
        let list = |groups: &[String]| groups.iter().map(|group| quote(group)).collect::<Vec<_>>().join(",");
        let (user, groups) = match (self.user.name.as_str(), &self.user.groups[..]) {
            ("", _) => ("<none>", "<none>".to_string()),
            (name, []) => (name, "<none>".to_string()),
            (name, groups) => (name, list(groups)),
        };
        let (as_user, as_groups) = match &self.impersonated_user {
            None => ("<self>", "<lookup>".to_string()),
            Some(user) if user.groups.is_empty() => (user.name.as_str(), "<lookup>".to_string()),
            Some(user) => (user.name.as_str(), list(&user.groups)),
        };
        let namespace = self.object_ref.as_ref().map(|reference| reference.namespace.as_str());
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).unwrap_or("<none>");
        let response = self.response_status.as_ref().map_or("<deferred>".to_string(), |status| status.code.to_string());
        let address = self.source_ips.first().map_or("<unknown>", Str::as_str);
        format!(
            "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={} asgroups={} user-agent={} namespace={} uri={} response=\"{response}\"",
            nanos(self.received),
            quote(&self.audit_id),
            quote(self.stage.as_str()),
            quote(address),
            quote(self.verb),
            quote(user),
            quote(&groups),
            quote(as_user),
            quote(&as_groups),
            quote(&self.user_agent),
            quote(namespace),
            quote(&self.request_uri),
        )
    }

    /// Drops the request's and the response's object and says so.
    pub fn truncate(&mut self) {
        self.request_object = None;
        self.response_object = None;
        self.annotate("audit.k8s.io/truncated", "true".to_string());
    }

    /// Sets an annotation unless it is set already.
    pub fn annotate(&mut self, key: &str, value: String) {
        match self.annotations.binary_search_by(|(known, _)| known.as_str().cmp(key)) {
            Err(place) => self.annotations.insert(place, (key.into(), value)),
            Ok(place) if self.annotations[place].1 == value => {}
            Ok(place) => {
                let kept = &self.annotations[place].1;
                tracing::warn!(audit_id = %self.audit_id, key, value, kept, "an audit annotation is set already");
            }
        }
    }
}

/// RFC 3339 with as many digits of the fraction as there are.
fn nanos(time: Timestamp) -> String {
    let seconds = object::timestamp::Time(time).to_string();
    match format!("{:09}", time.nanos).trim_end_matches('0') {
        "" => seconds,
        fraction => format!("{}.{fraction}Z", seconds.trim_end_matches('Z')),
    }
}

impl ObjectRef {
    fn write(&self, out: &mut Vec<u8>) {
        object(
            out,
            &[
                ("resource", &self.resource),
                ("namespace", &self.namespace),
                ("name", &self.name),
                ("uid", &self.uid),
                ("apiGroup", &self.api_group),
                ("apiVersion", &self.api_version),
                ("resourceVersion", &self.resource_version),
                ("subresource", &self.subresource),
            ],
        );
    }
}

impl ResponseStatus {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"metadata\":{}");
        if let Some(status) = &self.status {
            for name in ["status", "message", "reason", "details"] {
                let value = status.field(name);
                // Details are written even if they say nothing.
                if !value.is_empty() || (name == "details" && value.as_map().is_some()) {
                    member(out, name);
                    encode(value, out);
                }
            }
        }
        member(out, "code");
        encode(&Value::Int(self.code.into()), out);
        out.push(b'}');
    }
}

fn write_user(user: &User, out: &mut Vec<u8>) {
    let start = out.len();
    for (name, value) in [("username", &user.name), ("uid", &user.uid)] {
        if !value.is_empty() {
            text(out, name, value);
        }
    }
    if !user.groups.is_empty() {
        member(out, "groups");
        encode(&Value::from(user.groups.clone()), out);
    }
    if !user.extra.is_empty() {
        member(out, "extra");
        encode(&Value::Map(user.extra.iter().map(|(key, values)| (key.as_str(), values.clone())).collect()), out);
    }
    open(out, start);
}

/// Writes an object of the members that are not empty.
fn object(out: &mut Vec<u8>, members: &[(&str, &Str)]) {
    let start = out.len();
    for (name, value) in members.iter().filter(|(_, value)| !value.is_empty()) {
        text(out, name, value);
    }
    open(out, start);
}

/// Makes an object of the members written since `start`, each of which begins with a comma.
fn open(out: &mut Vec<u8>, start: usize) {
    match out.get_mut(start) {
        Some(comma) => *comma = b'{',
        None => out.push(b'{'),
    }
    out.push(b'}');
}

fn member(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    member(out, name);
    encode(&Value::String(value.into()), out);
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    codec::json::encode(value, None, out);
}

#[cfg(test)]
pub(crate) mod tests {
    use object::Status;

    use super::*;

    pub fn event() -> Event {
        Event {
            level: Level::Metadata,
            audit_id: "id-1".into(),
            stage: Stage::ResponseComplete,
            request_uri: "/api/v1/namespaces/ns/pods/x?a=<b>".into(),
            verb: "get",
            user: User { name: "alice".into(), groups: vec!["devs".into()], ..User::default() },
            impersonated_user: None,
            impersonation_constraint: "".into(),
            source_ips: vec!["127.0.0.1".into()],
            user_agent: "kubectl".into(),
            object_ref: Some(ObjectRef {
                resource: "pods".into(),
                namespace: "ns".into(),
                name: "x".into(),
                api_version: "v1".into(),
                ..ObjectRef::default()
            }),
            response_status: Some(ResponseStatus { code: 200, status: None }),
            request_object: None,
            response_object: None,
            received: Timestamp::new(1_700_000_000, 1_500_000),
            stage_time: Timestamp::new(1_700_000_000, 2_500_000),
            annotations: Vec::new(),
        }
    }

    #[test]
    fn json() {
        let mut event = event();
        event.annotate("b", "2".into());
        event.annotate("a", "1".into());
        event.annotate("a", "other".into());
        event.response_object = Some(Bytes::from_static(b"{\"kind\":\"Pod\"}\n"));
        let mut out = Vec::new();
        event.write_json(&mut out);
        let want = concat!(
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id-1","stage":"ResponseComplete","#,
            r#""requestURI":"/api/v1/namespaces/ns/pods/x?a=\u003cb\u003e","verb":"get","user":{"username":"alice","groups":["devs"]},"#,
            r#""sourceIPs":["127.0.0.1"],"userAgent":"kubectl","#,
            r#""objectRef":{"resource":"pods","namespace":"ns","name":"x","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"#,
            r#""responseObject":{"kind":"Pod"},"requestReceivedTimestamp":"2023-11-14T22:13:20.001500Z","#,
            r#""stageTimestamp":"2023-11-14T22:13:20.002500Z","annotations":{"a":"1","b":"2"}}"#,
        );
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn legacy() {
        let want = "2023-11-14T22:13:20.0015Z AUDIT: id=\"id-1\" stage=\"ResponseComplete\" ip=\"127.0.0.1\" method=\"get\" \
                    user=\"alice\" groups=\"\\\"devs\\\"\" as=\"<self>\" asgroups=\"<lookup>\" user-agent=\"kubectl\" \
                    namespace=\"ns\" uri=\"/api/v1/namespaces/ns/pods/x?a=<b>\" response=\"200\"";
        assert_eq!(event().legacy(), want);
    }

    #[test]
    fn a_status_is_kept_without_its_type() {
        let mut event = event();
        let status = Status::bad_request("no");
        event.response_status = Some(ResponseStatus::of(status.to_value()));
        let mut out = Vec::new();
        event.write_json(&mut out);
        let text = String::from_utf8(out).unwrap();
        let want =
            r#""responseStatus":{"metadata":{},"status":"Failure","message":"no","reason":"BadRequest","code":400}"#;
        assert!(text.contains(want), "{text}");
    }
}
