//! [`Links`]: URLs of a proxied server, changed so that they lead through the proxy.

use futures::StreamExt;
use http::{HeaderValue, header};
use registry::Target;

use super::html::Pages;
use super::proxy::clean;
use crate::reply::{Reply, ReplyBody};

/// Where a proxied server is, and where its clients find it.
#[derive(Clone, Debug)]
pub struct Links {
    /// The path of the proxy, to which the server's own paths are appended.
    prefix: String,
    /// The names by which URLs can mean the server: its address, with and without the port, and the client's `Host`.
    own: [String; 2],
    asked: String,
}

impl Links {
    /// `asked` is the request's path, which ends with the `proxied` one; `host` is the request's `Host`.
    pub fn new(target: &Target, asked: &str, proxied: &str, host: String) -> Links {
        let suffix =
            if asked.ends_with('/') && !proxied.ends_with('/') { format!("{proxied}/") } else { proxied.into() };
        let prefix = asked.strip_suffix(suffix.as_str()).unwrap_or(asked).to_string();
        let default = if target.tls { 443 } else { 80 };
        let bare = if target.port == default { target.host.clone() } else { target.authority() };
        Links { prefix, own: [target.authority(), bare], asked: host }
    }

    /// A path of the server, as clients of the proxy find it.
    pub fn proxied_path(&self, path: &str, is_directory: bool) -> String {
        let mut joined = clean(&format!("{}/{}", self.prefix, path.trim_end_matches('/')));
        joined.truncate(joined.trim_end_matches('/').len());
        if is_directory {
            joined.push('/');
        }
        joined
    }

    /// Changes the links of a response: where it redirects to, and those in a page.
    pub fn rewrite(self, reply: &mut Reply) {
        if let Some(location) = reply.headers.get(header::LOCATION) {
            let changed = location.to_str().map(|location| HeaderValue::from_str(&self.url(location)));
            if let Ok(Ok(changed)) = changed {
                reply.headers.insert(header::LOCATION, changed);
            }
            return;
        }
        let text = |name| reply.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or("");
        let is_page = text(header::CONTENT_TYPE).split(';').next().unwrap_or("").trim() == "text/html";
        if !is_page || !text(header::CONTENT_ENCODING).is_empty() {
            return;
        }
        let body = std::mem::replace(&mut reply.body, ReplyBody::Ready(Default::default()));
        reply.body = match body {
            ReplyBody::Stream { chunks, estimate } => {
                reply.headers.remove(header::CONTENT_LENGTH);
                ReplyBody::Stream { chunks: Pages::new(self).rewrite(chunks).boxed(), estimate }
            }
            other => other,
        };
    }

    /// A URL that leads through the proxy, if it leads to the server.
    pub fn url(&self, url: &str) -> String {
        let (scheme_and_host, rest) = split(url);
        let host = scheme_and_host.map_or("", |text| text.split_once("//").map_or("", |(_, host)| host));
        let is_own = host.is_empty() || self.own.iter().any(|own| own == host) || host == self.asked;
        let ends = rest.find(['?', '#']).unwrap_or(rest.len());
        let (path, tail) = rest.split_at(ends);
        if !is_own || !path.starts_with('/') {
            return url.to_string();
        }
        let kept = if host == self.asked { scheme_and_host.unwrap_or("") } else { "" };
        if path.starts_with(&self.prefix) {
            return format!("{kept}{path}{tail}");
        }
        format!("{kept}{}{tail}", self.proxied_path(path, path.ends_with('/')))
    }
}

/// The scheme and host of an absolute URL, `https://host`, or of one without scheme, `//host`; and what follows.
fn split(url: &str) -> (Option<&str>, &str) {
    let scheme = match url.find("://") {
        Some(at) if url[..at].bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) => at + 3,
        _ if url.starts_with("//") => 2,
        _ => return (None, url),
    };
    let host = url[scheme..].find(['/', '?', '#']).map_or(url.len(), |at| scheme + at);
    (Some(&url[..host]), &url[host..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_the_server_lead_through_the_proxy() {
        let target = Target { host: "10.0.0.1".into(), port: 8080, ..Target::default() };
        let links = Links::new(&target, "/api/v1/pods/p/proxy/a/b", "/a/b", "localhost:8001".into());
        for (url, want) in [
            ("/x", "/api/v1/pods/p/proxy/x"),
            ("/x/?q=/y#z", "/api/v1/pods/p/proxy/x/?q=/y#z"),
            ("/", "/api/v1/pods/p/proxy/"),
            ("x/y", "x/y"),
            ("?q", "?q"),
            ("#here", "#here"),
            ("http://10.0.0.1:8080/x", "/api/v1/pods/p/proxy/x"),
            ("http://10.0.0.1/x", "http://10.0.0.1/x"),
            ("http://localhost:8001/x", "http://localhost:8001/api/v1/pods/p/proxy/x"),
            ("//localhost:8001/x", "//localhost:8001/api/v1/pods/p/proxy/x"),
            ("https://example.com/x", "https://example.com/x"),
            ("//example.com/x", "//example.com/x"),
            ("mailto:a@b", "mailto:a@b"),
            ("/api/v1/pods/p/proxy/x", "/api/v1/pods/p/proxy/x"),
            ("/a/../../b", "/api/v1/pods/p/b"),
        ] {
            assert_eq!(links.url(url), want, "{url}");
        }
        assert_eq!(links.proxied_path("/a/b", false), "/api/v1/pods/p/proxy/a/b");
    }
}
