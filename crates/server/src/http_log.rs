//! One line for each request, as kube-apiserver logs them: at verbosity 3, and at 2 those that were slow. No header but the user agent
//! and the content type is logged, and no credential that clients put into a URL.

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, header};
use object::shown;
use rest::Call;
use tracing::Level;

use crate::metrics::Labels;

/// Requests that take longer are logged at verbosity 2.
const SLOW: Duration = Duration::from_millis(500);
/// Parameters of a URL that clients put credentials into.
const CREDENTIALS: &[&str] = &["access_token", "api_key", "apikey", "id_token", "password", "secret", "token"];

/// What is known of a request when it arrives.
pub struct HttpLog {
    verb: &'static str,
    uri: String,
    user_agent: String,
    content_type: String,
    audit_id: String,
    client: SocketAddr,
    long_running: bool,
}

impl HttpLog {
    /// None where neither line is logged, which costs as much as a look at two flags.
    pub fn of(call: &Call, audit_id: &str, client: SocketAddr, long_running: bool) -> Option<Box<HttpLog>> {
        if !tracing::enabled!(target: "v2", Level::DEBUG) {
            return None;
        }
        let headers = &call.headers;
        Some(Box::new(HttpLog {
            verb: Labels::of(&call.info, &call.method, headers, false).verb,
            uri: shown(&without_credentials(&call.uri)).into_owned(),
            user_agent: shown(text(headers, &header::USER_AGENT)).into_owned(),
            content_type: shown(text(headers, &header::CONTENT_TYPE)).into_owned(),
            audit_id: shown(audit_id).into_owned(),
            client,
            long_running,
        }))
    }

    /// Logs the request, which has ended with this status.
    pub fn write(&self, code: u16, took: Duration) {
        let HttpLog { verb, uri, user_agent, content_type, audit_id, client, long_running } = self;
        let latency = object::duration::Duration(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
        if code == http::StatusCode::SWITCHING_PROTOCOLS.as_u16() {
            tracing::debug!(
                target: "v3", verb, URI = uri, %latency, userAgent = user_agent, contentType = content_type,
                "audit-ID" = audit_id, srcIP = %client, hijacked = true, "HTTP"
            );
        } else {
            tracing::debug!(
                target: "v3", verb, URI = uri, %latency, userAgent = user_agent, contentType = content_type,
                "audit-ID" = audit_id, srcIP = %client, resp = code, "HTTP"
            );
        }
        if took > SLOW && !long_running {
            tracing::debug!(
                target: "v2", verb, URI = uri, %latency, userAgent = user_agent, "audit-ID" = audit_id, srcIP = %client,
                resp = code, "Slow request"
            );
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// Path and query, without the values of parameters that are credentials.
fn without_credentials(uri: &http::Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_string() };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if CREDENTIALS.contains(&name.to_ascii_lowercase().as_str()) => format!("{name}=<masked>"),
        _ => pair.to_string(),
    });
    format!("{}?{}", uri.path(), masked.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_logged_without_credentials_and_cut() {
        for (uri, want) in [
            ("/livez", "/livez"),
            ("/api/v1/pods?limit=1&continue=abc", "/api/v1/pods?limit=1&continue=abc"),
            ("/x/proxy/?Access_Token=s3cret&a=b&password=p", "/x/proxy/?Access_Token=<masked>&a=b&password=<masked>"),
        ] {
            assert_eq!(without_credentials(&uri.parse().unwrap()), want);
        }
        assert_eq!(shown(&"ä".repeat(5000)).len(), object::SHOWN_BYTES + 3);
    }
}
