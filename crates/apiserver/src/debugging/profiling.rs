//! `/debug/pprof` and `/debug/flags/v`, at upstream's paths.
//!
//! Some of Go's profiles cannot be made of a program that is not written in Go; asking for one is answered with 501 and the reason.

use async_trait::async_trait;
use authz::Permitted;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use rest::{Body, Call, Reply, ReplyBody};
use server::Paths;

#[cfg(feature = "profiles")]
use super::cpu;
use super::{SetVerbosity, threads};

/// The longest body that is read: a number.
const BODY_BYTES_MAX: usize = 1024;

/// Go's profiles, which the index lists, and what they are here.
const PROFILES: &[(&str, &str)] = &[
    ("cmdline", "The command line that the server was started with."),
    ("threadcreate", "The threads: number, state, CPU time and name."),
    ("profile", "CPU time by function, sampled for 30 seconds or as many as ?seconds= says, for go tool pprof."),
    ("symbol", "Says that there are no symbols to ask for: profiles contain the names of functions."),
    ("allocs", NO_ALLOCATIONS),
    ("heap", NO_ALLOCATIONS),
    ("block", NO_LOCKS),
    ("mutex", NO_LOCKS),
    ("goroutine", "There is no goroutine profile: tasks that wait have no stack. threadcreate lists the threads."),
    ("trace", "There is no execution trace of Go's scheduler; --tracing-config-file traces requests."),
];
const NO_ALLOCATIONS: &str = "There is no profile of allocations, because it would slow each of them down; \
    process_resident_memory_bytes in /metrics is what the server holds, and heaptrack shows where it was allocated.";
const NO_LOCKS: &str = "There is no profile of waiting for locks, which Go's runtime records; use perf lock.";

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

pub struct Profiling {
    set_verbosity: SetVerbosity,
    command_line: Vec<String>,
}

/// The answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    pub code: StatusCode,
    pub content_type: &'static str,
    pub location: Option<&'static str>,
    /// Whether it is a file to be saved, and under which name.
    pub file: Option<&'static str>,
    pub body: Bytes,
}

impl Page {
    fn new(code: StatusCode, content_type: &'static str, text: impl Into<String>) -> Page {
        Page { code, content_type, location: None, file: None, body: text.into().into() }
    }

    fn into_reply(self) -> Reply {
        let mut reply = Reply::new(self.code, self.content_type, ReplyBody::Ready(self.body.clone()));
        reply.headers.extend(self.headers());
        reply
    }

    /// All headers but Content-Type.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(location) = self.location {
            headers.insert(header::LOCATION, HeaderValue::from_static(location));
        }
        if let Some(file) = self.file {
            headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(file));
        }
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers
    }
}

impl Profiling {
    pub fn new(set_verbosity: SetVerbosity) -> Profiling {
        Profiling { set_verbosity, command_line: std::env::args_os().map(|one| one.to_string_lossy().into()).collect() }
    }

    /// Whether there is a page at a path.
    pub fn has(path: &str) -> bool {
        let below = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        below("/debug/pprof") || below("/debug/flags")
    }

    /// The page at a path that [`Profiling::has`].
    pub async fn page(&self, method: &Method, path: &str, query: &str, body: &[u8]) -> Page {
        match path.strip_prefix("/debug/pprof") {
            Some("") => Page {
                location: Some("/debug/pprof/"),
                ..Page::new(StatusCode::FOUND, HTML, "<a href=\"/debug/pprof/\">Found</a>.\n\n")
            },
            Some("/") => Page::new(StatusCode::OK, HTML, index()),
            Some("/profile") => cpu_profile(query).await,
            Some(rest) => self.profile(rest.strip_prefix('/').unwrap_or(rest)),
            None if path == "/debug/flags/v" => self.verbosity(method, body),
            None => Page::new(StatusCode::OK, HTML, FLAGS_PAGE),
        }
    }

    fn profile(&self, name: &str) -> Page {
        match name {
            "cmdline" => Page::new(StatusCode::OK, TEXT, self.command_line.join("\0")),
            "symbol" => Page::new(StatusCode::OK, TEXT, "num_symbols: 0\n"),
            "threadcreate" => match threads::list() {
                Ok(threads) => Page::new(StatusCode::OK, TEXT, threads),
                Err(error) => Page::new(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("/proc/self/task: {error}\n")),
            },
            name => match PROFILES.iter().find(|(known, _)| *known == name) {
                Some((_, why)) => Page::new(StatusCode::NOT_IMPLEMENTED, TEXT, format!("{why}\n")),
                None => Page::new(StatusCode::NOT_FOUND, TEXT, "Unknown profile\n"),
            },
        }
    }

    fn verbosity(&self, method: &Method, body: &[u8]) -> Page {
        const PLAIN: &str = "text/plain";
        if method != Method::PUT {
            return Page::new(StatusCode::NOT_ACCEPTABLE, PLAIN, "unsupported http method\n");
        }
        let given = String::from_utf8_lossy(body);
        let digits = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
        let level = match given.parse::<u32>() {
            Ok(level) if digits => Ok(level),
            _ => {
                let why = if digits { "value out of range" } else { "invalid syntax" };
                Err(format!("strconv.ParseUint: parsing {}: {why}", object::quote(&given)))
            }
        };
        match level.and_then(|level| self.set_verbosity.set(level)) {
            Ok(()) => {
                let text = format!("successfully set klog.logging.verbosity to {given}\n");
                Page::new(StatusCode::OK, PLAIN, text)
            }
            Err(why) => Page::new(StatusCode::BAD_REQUEST, PLAIN, format!("{why}\n")),
        }
    }
}

#[async_trait]
impl Paths for Profiling {
    async fn answer(&self, call: &Permitted<Call>, body: &mut Body) -> Option<Reply> {
        let path = call.info.path.as_str();
        if !Profiling::has(path) {
            return None;
        }
        let body = match std::mem::take(body).split().1 {
            Body::Stream(incoming) => match Limited::new(incoming, BODY_BYTES_MAX).collect().await {
                Ok(read) => read.to_bytes(),
                Err(error) => {
                    let text = format!("error reading request body: {error}\n");
                    return Some(Page::new(StatusCode::BAD_REQUEST, "text/plain", text).into_reply());
                }
            },
            Body::Ready(bytes) => bytes,
            Body::Empty | Body::Upgradable(..) => Bytes::new(),
        };
        let query = call.uri.query().unwrap_or_default();
        Some(self.page(&call.method, path, query, &body).await.into_reply())
    }

    /// Upstream does not list them either.
    fn listed(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(not(feature = "profiles"))]
async fn cpu_profile(_: &str) -> Page {
    Page::new(StatusCode::NOT_IMPLEMENTED, TEXT, "the feature profiles was left out of this program\n")
}

#[cfg(feature = "profiles")]
async fn cpu_profile(query: &str) -> Page {
    let seconds = match cpu::seconds(query) {
        Ok(seconds) => seconds,
        Err(why) => return Page::new(StatusCode::BAD_REQUEST, TEXT, format!("{why}\n")),
    };
    match cpu::profile(seconds).await {
        Ok(body) => Page {
            file: Some("attachment; filename=\"profile\""),
            body,
            ..Page::new(StatusCode::OK, "application/octet-stream", "")
        },
        Err(why) => {
            let text = format!("Could not enable CPU profiling: {why}\n");
            Page::new(StatusCode::INTERNAL_SERVER_ERROR, TEXT, text)
        }
    }
}

fn index() -> String {
    let line = |(name, what): &(&str, &str)| format!("<tr><td><a href='{name}'>{name}</a></td><td>{what}</td></tr>\n");
    format!(
        "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\n<table>\n{}</table>\n\
         </body>\n</html>\n",
        PROFILES.iter().map(line).collect::<String>()
    )
}

const FLAGS_PAGE: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\n\
    flags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const AVAILABLE: [&str; 4] = ["cmdline", "profile", "symbol", "threadcreate"];

    #[tokio::test]
    async fn pages_are_at_upstreams_paths() {
        let level = Arc::new(AtomicU32::new(0));
        let set = level.clone();
        let pages = Profiling::new(SetVerbosity::new(move |verbosity| {
            set.store(verbosity, Ordering::Relaxed);
            Ok(())
        }));
        for (method, path, body, code, text) in [
            (Method::GET, "/debug/pprof", "", 302, "<a href=\"/debug/pprof/\">Found</a>.\n\n"),
            (Method::GET, "/debug/pprof/symbol", "", 200, "num_symbols: 0\n"),
            (Method::GET, "/debug/pprof/nothing", "", 404, "Unknown profile\n"),
            (Method::GET, "/debug/flags/v", "", 406, "unsupported http method\n"),
            (Method::PUT, "/debug/flags/v", "6", 200, "successfully set klog.logging.verbosity to 6\n"),
            (Method::PUT, "/debug/flags/v", "x", 400, "strconv.ParseUint: parsing \"x\": invalid syntax\n"),
            (Method::PUT, "/debug/flags/v", "+6", 400, "strconv.ParseUint: parsing \"+6\": invalid syntax\n"),
            (
                Method::PUT,
                "/debug/flags/v",
                "4294967296",
                400,
                "strconv.ParseUint: parsing \"4294967296\": value out of range\n",
            ),
        ] {
            assert!(Profiling::has(path));
            let page = pages.page(&method, path, "", body.as_bytes()).await;
            assert_eq!((page.code.as_u16(), &*page.body), (code, text.as_bytes()), "{path}");
        }
        assert_eq!(level.load(Ordering::Relaxed), 6);
        for (name, what) in PROFILES {
            assert!(index().contains(name));
            // A CPU profile is refused before it begins, because there can be only one in a process.
            let page = pages.page(&Method::GET, &format!("/debug/pprof/{name}"), "seconds=9999", b"").await;
            assert_eq!(page.code != StatusCode::NOT_IMPLEMENTED, AVAILABLE.contains(name), "{name}");
            assert!(AVAILABLE.contains(name) || page.body == format!("{what}\n"), "{name}");
        }
        assert!(!Profiling::has("/debug/pprofile") && !Profiling::has("/debug"));
    }
}
