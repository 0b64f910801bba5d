//! [`RequestInfo`]: what a URL and a method mean, read once and shared by every filter.

use std::fmt;

use object::{GroupResource, GroupVersion};

/// What is asked for, by upstream's rules for reading a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path names a resource; everything else is a non-resource request such as `/healthz`.
    pub is_resource: bool,
    /// Decoded, as Go's URL.Path: what is authorized, counted, recorded and served.
    pub path: String,
    pub verb: Verb,
    /// `api` or `apis`.
    pub prefix: String,
    pub group: String,
    pub version: String,
    pub namespace: String,
    /// Whether the path is `/namespaces/<namespace>/<resource>…`. A namespace itself is not in a namespace.
    pub in_namespace: bool,
    pub resource: String,
    pub subresource: String,
    /// From the path, or from a field selector on metadata.name where the path has none.
    pub name: String,
    /// Path segments from the resource on: `[resource, name, subresource, …]`.
    pub parts: Vec<String>,
    /// Whether the path has the deprecated prefix `/watch`.
    pub is_watch_path: bool,
    /// As sent, for authorization by selector.
    pub field_selector: String,
    pub label_selector: String,
}

/// What is done. Non-resource requests use the HTTP method in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verb {
    #[default]
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// `/proxy` paths, whatever the method.
    Proxy,
    Head,
    Options,
    Post,
    Put,
    Connect,
    Trace,
    /// A method that no verb stands for: nothing but `*` allows it.
    Unknown,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Proxy => "proxy",
            Verb::Head => "head",
            Verb::Options => "options",
            Verb::Post => "post",
            Verb::Put => "put",
            Verb::Connect => "connect",
            Verb::Trace => "trace",
            Verb::Unknown => "",
        }
    }

    /// Whether the request changes nothing.
    pub fn is_read(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch | Verb::Head | Verb::Options)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RequestInfo {
    /// Reads a request's method, path (decoded by [`unescape`]) and query.
    pub fn parse(method: &str, path: &str, query: &[(String, String)]) -> RequestInfo {
        let mut info = RequestInfo {
            path: path.to_string(),
            verb: method_verb(method),
            field_selector: find(query, "fieldSelector").to_string(),
            label_selector: find(query, "labelSelector").to_string(),
            ..RequestInfo::default()
        };
        // An escaped slash separates segments like any other.
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        info.read_resource(method, &segments, query);
        info
    }

    /// Whether a resource can be found at the path. Authorizers are asked about the others, too, but upstream's routers are registered
    /// by prefix, so two slashes there lead to none of them.
    pub fn is_routed(&self) -> bool {
        self.is_resource && !self.path.starts_with("//") && (self.prefix == "api" || !self.group.is_empty())
    }

    fn read_resource(&mut self, method: &str, segments: &[&str], query: &[(String, String)]) {
        let mut rest = match segments {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                self.version = version.to_string();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                self.group = group.to_string();
                self.version = version.to_string();
                rest
            }
            _ => return,
        };
        self.prefix = segments[0].to_string();
        self.is_resource = true;
        self.verb = match method {
            "POST" => Verb::Create,
            "GET" | "HEAD" => Verb::Get,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" => Verb::Delete,
            _ => Verb::Unknown,
        };
        // The deprecated forms /api/v1/watch/... and /api/v1/proxy/...
        if rest.len() > 1 && rest[0] == "watch" {
            self.verb = Verb::Watch;
            self.is_watch_path = true;
            rest = &rest[1..];
        } else if rest.len() > 1 && rest[0] == "proxy" {
            self.verb = Verb::Proxy;
            rest = &rest[1..];
        }
        // Under /namespaces/x/ the rest names a resource in it, unless it is the namespace itself or a part of it.
        if rest[0] == "namespaces" && rest.len() > 1 {
            self.namespace = rest[1].to_string();
            if rest.len() > 2 && !self.is_part_of_namespace(rest) {
                self.in_namespace = true;
                rest = &rest[2..];
            }
        }
        let part = |at: usize| rest.get(at).map_or_else(String::new, ToString::to_string);
        (self.resource, self.name, self.subresource) = (part(0), part(1), part(2));
        self.parts = rest.iter().map(ToString::to_string).collect();
        self.refine_verb(query);
    }

    /// Whether a path goes on with a part of the namespace itself. Upstream has no resource `history` in the core group.
    fn is_part_of_namespace(&self, rest: &[&str]) -> bool {
        matches!(rest[2], "status" | "finalize") || rest[2] == "history" && rest.len() == 3 && self.group.is_empty()
    }

    /// A GET or DELETE without a name is about the collection; `watch=true` makes a list a watch, and a field selector
    /// on metadata.name tells authorizers which object a list is about.
    fn refine_verb(&mut self, query: &[(String, String)]) {
        if !self.name.is_empty() {
            return;
        }
        if self.verb == Verb::Delete {
            self.verb = Verb::DeleteCollection;
        }
        if self.verb != Verb::Get {
            return;
        }
        self.verb = if is_true(query, "watch") { Verb::Watch } else { Verb::List };
        if let Ok(selector) = object::fields::Selector::parse(&self.field_selector)
            && let Some(name) = selector.requires_exact_match("metadata.name")
            && object::names::path_segment_name(name).is_empty()
        {
            self.name = name.to_string();
        }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.as_str(), self.version.as_str())
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.as_str(), self.resource.as_str())
    }

    /// Requests that may run for as long as the client likes.
    pub fn is_long_running(&self) -> bool {
        matches!(self.verb, Verb::Watch | Verb::Proxy)
            || matches!(self.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward")
            || self.path.starts_with("/debug/pprof/")
    }
}

fn method_verb(method: &str) -> Verb {
    match method {
        "GET" => Verb::Get,
        "HEAD" => Verb::Head,
        "POST" => Verb::Post,
        "PUT" => Verb::Put,
        "PATCH" => Verb::Patch,
        "DELETE" => Verb::Delete,
        "OPTIONS" => Verb::Options,
        "CONNECT" => Verb::Connect,
        "TRACE" => Verb::Trace,
        _ => Verb::Unknown,
    }
}

fn find<'a>(query: &'a [(String, String)], name: &str) -> &'a str {
    query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

/// Query booleans as upstream's conversion reads them: what is there is true unless it says otherwise.
fn is_true(query: &[(String, String)], name: &str) -> bool {
    let given = query.iter().find(|(key, _)| key == name);
    given.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
}

/// Percent-decodes; None if an escape is broken.
pub fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let (decoded, after) = match (byte, after) {
            (b'%', [high, low, after @ ..]) => (hex(*high)? << 4 | hex(*low)?, after),
            (b'%', _) => return None,
            _ => (*byte, after),
        };
        out.push(decoded);
        rest = after;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, url: &str, want: &str) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let query: Vec<(String, String)> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect();
        let i = RequestInfo::parse(method, &unescape(path).unwrap(), &query);
        let got = format!(
            "{} {} g={} v={} ns={} r={} sub={} n={}",
            i.is_resource, i.verb, i.group, i.version, i.namespace, i.resource, i.subresource, i.name
        );
        assert_eq!(got, want, "{method} {url}");
    }

    #[test]
    fn paths_read_as_upstream_reads_them() {
        for (method, url, want) in [
            ("GET", "/api/v1/pods", "true list g= v=v1 ns= r=pods sub= n="),
            ("GET", "/api/v1/pods?watch=1", "true watch g= v=v1 ns= r=pods sub= n="),
            ("GET", "/api/v1/pods?watch=", "true watch g= v=v1 ns= r=pods sub= n="),
            ("GET", "/api/v1/pods?watch=f", "true watch g= v=v1 ns= r=pods sub= n="),
            ("GET", "/api/v1/pods?watch=False", "true list g= v=v1 ns= r=pods sub= n="),
            ("GET", "/api/v1/namespaces/a/pods/b/log", "true get g= v=v1 ns=a r=pods sub=log n=b"),
            ("GET", "/api/v1/namespaces/a", "true get g= v=v1 ns=a r=namespaces sub= n=a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "true update g= v=v1 ns=a r=namespaces sub=finalize n=a"),
            ("POST", "/api/v1/namespaces/a/history", "true create g= v=v1 ns=a r=namespaces sub=history n=a"),
            ("GET", "/apis/x/v1/namespaces/a/history", "true list g=x v=v1 ns=a r=history sub= n="),
            ("GET", "/api/v1/watch/namespaces/a/pods", "true watch g= v=v1 ns=a r=pods sub= n="),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/a/deployments",
                "true deletecollection g=apps v=v1 ns=a r=deployments sub= n=",
            ),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d", "true patch g=apps v=v1 ns=a r=deployments sub= n=d"),
            ("GET", "/healthz", "false get g= v= ns= r= sub= n="),
            ("GET", "/api/v1", "false get g= v= ns= r= sub= n="),
            ("POST", "/version", "false post g= v= ns= r= sub= n="),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name=x", "true list g= v=v1 ns= r=pods sub= n=x"),
            (
                "DELETE",
                "/api/v1/pods?fieldSelector=metadata.name=x",
                "true deletecollection g= v=v1 ns= r=pods sub= n=",
            ),
            ("GET", "/api/v1/watch/pods?fieldSelector=metadata.name=x", "true watch g= v=v1 ns= r=pods sub= n="),
            ("GET", "/api/v1/nodes/a%2Fb", "true get g= v=v1 ns= r=nodes sub=b n=a"),
            ("GET", "/api/v1/nodes/%2F", "true list g= v=v1 ns= r=nodes sub= n="),
            ("GET", "/api/v1/nodes/%61//", "true get g= v=v1 ns= r=nodes sub= n=a"),
            ("GET", "/api/v1/nodes//a", "true list g= v=v1 ns= r=nodes sub=a n="),
            ("GET", "/api/v1/namespaces//a/pods", "true get g= v=v1 ns= r=a sub= n=pods"),
            ("GET", "/api//v1/nodes", "true get g= v= ns= r=v1 sub= n=nodes"),
            ("GET", "//api/v1/nodes", "true list g= v=v1 ns= r=nodes sub= n="),
            ("GET", "/apis//apps/v1/deployments", "true get g= v=apps ns= r=v1 sub= n=deployments"),
            ("GET", "/%61pi%2fv1/pods", "true list g= v=v1 ns= r=pods sub= n="),
            ("OPTIONS", "/api/v1/pods", "true  g= v=v1 ns= r=pods sub= n="),
            ("PROPFIND", "/api/v1/pods", "true  g= v=v1 ns= r=pods sub= n="),
            ("PROPFIND", "/metrics", "false  g= v= ns= r= sub= n="),
            ("TRACE", "/metrics", "false trace g= v= ns= r= sub= n="),
        ] {
            check(method, url, want);
        }
    }

    #[test]
    fn scopes_are_those_of_the_path() {
        for (path, in_namespace) in [
            ("/api/v1/namespaces/a", false),
            ("/api/v1/namespaces/a/status", false),
            ("/api/v1/namespaces/a/namespaces", true),
            ("/api/v1/namespaces/a/namespaces/a", true),
            ("/api/v1/watch/namespaces/a/pods/b", true),
            ("/api/v1/namespaces/a/pods/proxy-x:80/proxy", true),
            ("/api/v1/namespaces/a/pods/proxy-x:80/proxy/", true),
            ("/api/v1/namespaces/a/pods/proxy/proxy//b%2Fc/", true),
            ("/api/v1//namespaces/a/pods/b", false),
            ("/api/v1/nodes/n/proxy/metrics", false),
            ("/apis/apps/v1/deployments", false),
        ] {
            let info = RequestInfo::parse("GET", &unescape(path).unwrap(), &[]);
            assert_eq!(info.in_namespace, in_namespace, "{path}");
        }
    }

    #[test]
    fn resources_are_below_one_slash() {
        for (path, is_routed) in [
            ("/api/v1/pods", true),
            ("/apis/apps/v1/deployments", true),
            ("/api/v1//pods", true),
            ("//api/v1/pods", false),
            ("/apis//v1/pods", false),
            ("/metrics", false),
        ] {
            assert_eq!(RequestInfo::parse("GET", path, &[]).is_routed(), is_routed, "{path}");
        }
    }

    #[test]
    fn paths_are_decoded_once() {
        for (path, want) in [
            ("/%6detrics", Some("/metrics")),
            ("/a%2fb%2Fc", Some("/a/b/c")),
            ("/%2561", Some("/%61")),
            ("/a%00b+c", Some("/a\0b+c")),
            ("/%zz", None),
            ("/%", None),
            ("/%4", None),
        ] {
            assert_eq!(unescape(path).as_deref(), want, "{path}");
        }
    }
}
