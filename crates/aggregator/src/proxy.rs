//! Passes a request on to a backend and its response back; the parts that every proxy to another API server needs are public.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use outbound::{Address, Client};
use registry::Target;
use request::User;
use rest::{Body, Call, Dial, ForwardBody, Reply, ReplyBody, Unreachable};

use crate::Backend;

/// How long a backend may take to tell what it serves.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The beginning of headers in which this server tells backends more about the user.
const EXTRA: &str = "x-remote-extra-";
/// Whether a page may read a response is decided by this server.
const CORS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

impl Backend {
    /// Answers a request that was authorized. `from` is the client's address.
    pub async fn answer(&self, call: &Call, body: Body, from: IpAddr, audit_id: &str) -> Reply {
        if !self.is_available() {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
        }
        let upgrades = matches!(body, Body::Upgrade(_));
        let client = match if upgrades { self.upgrading() } else { self.client() } {
            Ok(client) => client.clone(),
            Err(why) => return refused(StatusCode::INTERNAL_SERVER_ERROR, why),
        };
        let address = match self.resolve().await {
            Ok(address) => address,
            Err(why) => {
                tracing::warn!(name = %self.name, why, "the Service of an APIService cannot be resolved");
                return refused(StatusCode::SERVICE_UNAVAILABLE, "service unavailable");
            }
        };
        let path = format!("{}{}", call.info.path, query_of(call));
        let headers = headers_for(call, &address, from, audit_id, self.settings.sends_uid);
        let target = Target { tls: true, host: address.host.clone(), port: address.port, path, ..Target::default() };
        let connection = Connection { client, address };
        let sent = rest::forward(&connection, &target, call.method.clone(), &headers, body);
        let sent = match is_discovery(call) {
            true => tokio::time::timeout(DISCOVERY_TIMEOUT, sent)
                .await
                .unwrap_or_else(|_| Err(Unreachable::Failed("context deadline exceeded".into()))),
            false => sent.await,
        };
        match sent {
            Ok(reply) => self.checked(reply, upgrades),
            Err(Unreachable::NotAllowed(why)) => refused(StatusCode::BAD_REQUEST, &why),
            Err(Unreachable::Broken(why)) if upgrades => refused(StatusCode::SERVICE_UNAVAILABLE, &why),
            Err(Unreachable::Failed(why) | Unreachable::Broken(why)) => {
                let what = if upgrades { "error dialing backend" } else { "error trying to reach service" };
                refused(StatusCode::SERVICE_UNAVAILABLE, &format!("{what}: {why}"))
            }
        }
    }

    /// What a backend answered, unless it is something that must not reach the client.
    fn checked(&self, mut reply: Reply, upgrades: bool) -> Reply {
        let switched = reply.status == StatusCode::SWITCHING_PROTOCOLS;
        if switched != upgrades && (switched || reply.status.as_u16() < 400) {
            let why = format!("invalid upgrade response: status code {}", reply.status.as_u16());
            return refused(StatusCode::SERVICE_UNAVAILABLE, &why);
        }
        let redirects = reply.status.is_redirection() && reply.headers.contains_key(header::LOCATION);
        if redirects && self.settings.reject_redirects {
            let message = "the backend attempted to redirect this request, which is not permitted";
            let body = ReplyBody::Ready(Bytes::from_static(message.as_bytes()));
            return Reply::new(StatusCode::BAD_GATEWAY, "text/plain; charset=utf-8", body);
        }
        remove_cors(&mut reply);
        reply
    }
}

/// The client's headers, without those that only this server should see or set.
pub fn headers_for(call: &Call, address: &Address, from: IpAddr, audit_id: &str, sends_uid: bool) -> HeaderMap {
    let mut headers = rest::passed_on(&call.headers);
    // The other server's own name takes its place.
    headers.remove(header::HOST);
    set_identity(&mut headers, &call.user);
    if !sends_uid {
        headers.remove("x-remote-uid");
    }
    let before: Vec<&str> = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    let forwarded = before.into_iter().map(str::to_string).chain([from.to_string()]).collect::<Vec<_>>().join(", ");
    let mut set = |name: &'static str, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    set("x-forwarded-for", &forwarded);
    set("x-forwarded-uri", &call.info.path);
    set("x-forwarded-host", &address.to_string());
    set("x-forwarded-proto", "https");
    set("audit-id", audit_id);
    headers
}

/// Says in headers who the user is. What a client said about it is not among them ([`rest::passed_on`]).
pub fn set_identity(headers: &mut HeaderMap, user: &User) {
    let mut add = |name: &str, text: &str| {
        let (name, value) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(text.as_bytes()));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    };
    add("x-remote-user", &user.name);
    if !user.uid.is_empty() {
        add("x-remote-uid", &user.uid);
    }
    user.groups.iter().for_each(|group| add("x-remote-group", group));
    for (key, values) in &user.extra {
        let name = format!("{EXTRA}{}", escaped_key(key));
        values.iter().for_each(|value| add(&name, value));
    }
}

/// A key as part of a header's name: what a name cannot contain is percent-encoded.
fn escaped_key(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~' => {
                out.push(char::from(byte));
            }
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Removes the headers in which the other server says which pages may read the response.
pub fn remove_cors(reply: &mut Reply) {
    CORS.iter().for_each(|name| drop(reply.headers.remove(name)));
}

/// `/apis/<group>/<version>` itself.
fn is_discovery(call: &Call) -> bool {
    !call.info.is_resource && call.info.path.trim_matches('/').split('/').count() == 3
}

/// The query with its question mark, sorted by key; "" if there is none.
pub fn query_of(call: &Call) -> String {
    let escape = |text: &str, out: &mut String| {
        for byte in text.bytes() {
            match byte {
                b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
                b' ' => out.push('+'),
                byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
                byte => out.push_str(&format!("%{byte:02X}")),
            }
        }
    };
    let mut sorted: Vec<&(String, String)> = call.query.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = String::new();
    for (key, value) in sorted {
        out.push(if out.is_empty() { '?' } else { '&' });
        escape(key, &mut out);
        out.push('=');
        escape(value, &mut out);
    }
    out
}

/// A failure as upstream's proxy writes it.
pub fn refused(status: StatusCode, why: &str) -> Reply {
    let body = ReplyBody::Ready(format!("{why}\n").into());
    let mut reply = Reply::new(status, "text/plain; charset=utf-8", body);
    reply.headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// Sends requests to one address.
pub struct Connection {
    pub client: Arc<Client>,
    pub address: Address,
}

#[async_trait]
impl Dial for Connection {
    async fn send(&self, _: &Target, request: Request<ForwardBody>) -> Result<Response<Incoming>, Unreachable> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_string();
        let uri = Uri::builder().scheme("https").authority(self.address.to_string()).path_and_query(path).build();
        parts.uri = uri.map_err(|error| Unreachable::Failed(error.to_string()))?;
        let body = body.map_err(Into::into).boxed_unsync();
        let sent = self.client.send(Request::from_parts(parts, body)).await;
        sent.map_err(|error| Unreachable::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_server_says_who_the_user_is() {
        let mut headers = HeaderMap::new();
        for name in [
            "x-remote-user",
            "X-Remote-Group",
            "x_remote_user",
            "x-remote-uid",
            "x-remote-extra-scopes",
            "impersonate_user",
        ] {
            headers
                .insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("system:masters"));
        }
        headers.insert("accept", HeaderValue::from_static("*/*"));
        headers.insert("connection", HeaderValue::from_static("x-remote-user, X-Remote-Group"));
        let mut headers = rest::passed_on(&headers);
        let user = User {
            name: "alice".into(),
            groups: vec!["devs".into(), "ops".into()],
            extra: vec![("example.com/a b%".into(), vec!["1".into(), "2".into()])],
            ..User::default()
        };
        set_identity(&mut headers, &user);
        let mut shown: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect();
        shown.sort();
        let expected = [
            "accept=*/*",
            "x-remote-extra-example.com%2fa%20b%25=1",
            "x-remote-extra-example.com%2fa%20b%25=2",
            "x-remote-group=devs",
            "x-remote-group=ops",
            "x-remote-user=alice",
        ];
        assert_eq!(shown, expected);
    }
}
