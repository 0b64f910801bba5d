//! Passes a request on to a backend and its response back; the parts that every proxy to another API server needs are public.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use outbound::{Address, Client, Error};
use registry::Target;
use request::User;
use rest::{Body, Call, ForwardBody, ForwardClient, NoHeader, Reply, Unreachable};

use crate::Backend;

/// How long a backend may take to tell what it serves.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// The beginning of headers in which this server tells backends more about the user.
const EXTRA: &str = "X-Remote-Extra-";
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
        let upgrades = rest::is_upgrade(&call.headers);
        let client = match self.client() {
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
        let headers = match headers_for(call, &address, from, audit_id, self.settings.sends_uid) {
            Ok(headers) => headers,
            Err(why) => return unreachable(upgrades, &why.to_string()),
        };
        let path = path_of(call);
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
            Err(Unreachable::Failed(why) | Unreachable::Broken(why)) => unreachable(upgrades, &why),
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
            return Reply::text(StatusCode::BAD_GATEWAY, message);
        }
        remove_cors(&mut reply);
        reply
    }
}

/// The client's headers, without those that only this server should see or set. Fails if something about the user fits no header:
/// without it the other server would take the user for somebody else.
pub fn headers_for(
    call: &Call,
    address: &Address,
    from: IpAddr,
    audit_id: &str,
    sends_uid: bool,
) -> Result<HeaderMap, NoHeader> {
    let mut headers = rest::passed_on(&call.headers);
    // The other server's own name takes its place.
    headers.remove(header::HOST);
    let uid = if sends_uid { call.user.uid.as_str() } else { "" };
    set_identity(&mut headers, &call.user, uid)?;
    rest::append_forwarded_for(&mut headers, from);
    for (name, text) in [
        ("X-Forwarded-Uri", request::escaped(&call.info.path).as_str()),
        ("X-Forwarded-Host", &address.to_string()),
        ("X-Forwarded-Proto", "https"),
        ("Audit-Id", audit_id),
    ] {
        headers.insert(field_name(name)?, rest::header_value(name, text)?);
    }
    Ok(headers)
}

/// Says in headers who the user is. What a client said about it is not among them ([`rest::passed_on`]).
pub fn set_identity(headers: &mut HeaderMap, user: &User, uid: &str) -> Result<(), NoHeader> {
    let mut add = |name: &str, text: &str| -> Result<(), NoHeader> {
        headers.append(field_name(name)?, rest::header_value(name, text)?);
        Ok(())
    };
    add("X-Remote-User", &user.name)?;
    if !uid.is_empty() {
        add("X-Remote-Uid", uid)?;
    }
    for group in &user.groups {
        add("X-Remote-Group", group)?;
    }
    for (key, values) in &user.extra {
        let name = [EXTRA, &escaped_key(key)].concat();
        for value in values {
            add(&canonical(&name), value)?;
        }
    }
    Ok(())
}

fn field_name(name: &str) -> Result<HeaderName, NoHeader> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| NoHeader(name.to_string()))
}

/// The name as Go writes it: the first letter of each word is a capital.
fn canonical(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + &rest.to_ascii_lowercase()
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

/// A key as part of a header's name: what a name cannot contain is percent-encoded.
fn escaped_key(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    object::percent_encode(key, is_plain, &mut out);
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

/// The path that was authorized and the query, as they are sent to another server: what the client escaped without need is not.
pub fn path_of(call: &Call) -> String {
    let mut path = request::escaped(&call.info.path);
    path.push_str(&query_of(call));
    path
}

/// The query with its question mark, sorted by key; "" if there is none.
fn query_of(call: &Call) -> String {
    let mut sorted: Vec<&(String, String)> = call.query.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = String::new();
    for (key, value) in sorted {
        out.push(if out.is_empty() { '?' } else { '&' });
        object::query_escape(key, &mut out);
        out.push('=');
        object::query_escape(value, &mut out);
    }
    out
}

/// The answer to a request that the other server did not get, or did not answer.
pub fn unreachable(upgrades: bool, why: &str) -> Reply {
    let what = if upgrades { "error dialing backend" } else { "error trying to reach service" };
    refused(StatusCode::SERVICE_UNAVAILABLE, &format!("{what}: {why}"))
}

/// A failure as upstream's proxy writes it.
pub fn refused(status: StatusCode, why: &str) -> Reply {
    Reply::plain(status, format!("{why}\n"))
}

/// Sends requests to one address.
pub struct Connection {
    pub client: Arc<Client>,
    pub address: Address,
}

#[async_trait]
impl ForwardClient for Connection {
    async fn send(&self, _: &Target, request: Request<ForwardBody>) -> Result<Response<Incoming>, Unreachable> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_string();
        let uri = Uri::builder().scheme("https").authority(self.address.to_string()).path_and_query(path).build();
        parts.uri = uri.map_err(|error| Unreachable::Failed(error.to_string()))?;
        let body = body.map_err(Into::into).boxed_unsync();
        let sent = self.client.send(Request::from_parts(parts, body)).await;
        sent.map_err(|error| match error {
            Error::NotAllowed(why) => Unreachable::NotAllowed(why),
            Error::Connect(why) | Error::Settings(why) => Unreachable::Failed(why),
            other => Unreachable::Broken(other.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_fits_no_header_is_refused() {
        let check = |user: User, want: Result<(), &str>| {
            let got = set_identity(&mut HeaderMap::new(), &user, &user.uid).map_err(|error| error.to_string());
            assert_eq!(
                got,
                want.map_err(|name| format!("net/http: invalid header field value for {name:?}")),
                "{user:?}"
            );
        };
        let named = |name: &str| User { name: name.into(), ..User::default() };
        let alice = || named("alice");
        for bad in ["a\nb", "a\r\nx-remote-group: system:masters", "a\0", "\u{7f}", " a", "a ", "a\t", "\u{1b}[0m"] {
            check(named(bad), Err("X-Remote-User"));
            check(User { uid: bad.into(), ..alice() }, Err("X-Remote-Uid"));
            check(User { groups: vec!["devs".into(), bad.into()], ..alice() }, Err("X-Remote-Group"));
            let extra = vec![("example.com/a-b".into(), vec!["fits".into(), bad.into()])];
            check(User { extra, ..alice() }, Err("X-Remote-Extra-Example.com%2fa-B"));
        }
        // Every byte of a key can be escaped.
        let extra = vec![("a\nb\0ü ".into(), vec!["x".into()])];
        check(User { groups: vec!["ü b\tc".into()], extra, ..named("ü") }, Ok(()));
    }

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
        set_identity(&mut headers, &user, "").unwrap();
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
