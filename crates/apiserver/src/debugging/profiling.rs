//! `/debug/pprof` and `/debug/flags/v`, at upstream's paths.
//!
//! Some of Go's profiles cannot be made of a program that is not written in Go; asking for one is answered with 501 and the reason.

use async_trait::async_trait;
use authz::Permitted;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use rest::{Body, Call, Reply, ReplyBody};
use server::Paths;

use super::{SetVerbosity, threads};

/// The longest body that is read: a number, or addresses.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Go's profiles, which the index lists, and what they are here.
const PROFILES: &[(&str, &str)] = &[
    ("cmdline", "The command line that the server was started with."),
    ("threadcreate", "The threads: number, state, CPU time and name."),
    ("profile", NO_CPU),
    ("symbol", NO_CPU),
    ("allocs", NO_ALLOCATIONS),
    ("heap", NO_ALLOCATIONS),
    ("block", NO_LOCKS),
    ("mutex", NO_LOCKS),
    ("goroutine", "There is no goroutine profile: tasks that wait have no stack. threadcreate lists the threads."),
    ("trace", "There is no execution trace of Go's scheduler; --tracing-config-file traces requests."),
];
const NO_CPU: &str = "CPU time is not sampled by the server itself; use perf record -g -p with its process id.";
const NO_ALLOCATIONS: &str = "There is no profile of allocations, because it would slow each of them down; \
    process_resident_memory_bytes in /metrics is what the server holds, and heaptrack shows where it was allocated.";
const NO_LOCKS: &str = "There is no profile of waiting for locks, which Go's runtime records; use perf lock.";

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

pub struct Profiling {
    set_verbosity: SetVerbosity,
    command_line: Vec<String>,
}

/// What is asked for.
pub struct Asked<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    /// As it was sent, "" if there is none.
    pub query: &'a str,
    pub body: &'a [u8],
}

/// What is sent back.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    pub code: StatusCode,
    pub headers: Vec<(HeaderName, &'static str)>,
    pub body: Bytes,
}

impl Page {
    pub fn new(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Page {
        let headers = vec![(header::CONTENT_TYPE, content_type), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
        Page { code, headers, body: body.into() }
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Page {
        self.headers.push((name, value));
        self
    }

    fn into_reply(self) -> Reply {
        let mut reply = Reply::new(self.code, "", ReplyBody::Ready(self.body));
        for (name, value) in self.headers {
            reply.headers.insert(name, HeaderValue::from_static(value));
        }
        reply
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
    pub async fn page(&self, asked: Asked<'_>) -> Page {
        match asked.path.strip_prefix("/debug/pprof") {
            Some("") => Page::new(StatusCode::FOUND, HTML, "<a href=\"/debug/pprof/\">Found</a>.\n\n")
                .with(header::LOCATION, "/debug/pprof/"),
            Some("/") => Page::new(StatusCode::OK, HTML, index()),
            Some(rest) => self.profile(rest.trim_start_matches('/'), &asked).await,
            None if asked.path == "/debug/flags/v" => self.verbosity(asked.method, asked.body),
            None => Page::new(StatusCode::OK, HTML, FLAGS_PAGE),
        }
    }

    async fn profile(&self, name: &str, asked: &Asked<'_>) -> Page {
        match name {
            "cmdline" => Page::new(StatusCode::OK, TEXT, self.command_line.join("\0")),
            "threadcreate" => match threads::list() {
                Ok(threads) => Page::new(StatusCode::OK, TEXT, threads),
                Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, format!("/proc/self/task: {error}")),
            },
            name => match PROFILES.iter().find(|(known, _)| *known == name) {
                Some((_, why)) => failed(StatusCode::NOT_IMPLEMENTED, (*why).into()),
                None => failed(StatusCode::NOT_FOUND, "Unknown profile".into()),
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
        let body = match std::mem::take(body) {
            Body::Stream(incoming) => match Limited::new(incoming, BODY_BYTES_MAX).collect().await {
                Ok(read) => read.to_bytes(),
                Err(error) => {
                    let text = format!("error reading request body: {error}\n");
                    return Some(Page::new(StatusCode::BAD_REQUEST, "text/plain", text).into_reply());
                }
            },
            Body::Ready(bytes) => bytes,
            Body::Empty | Body::Upgrade(_) => Bytes::new(),
        };
        let query = call.uri.query().unwrap_or("");
        Some(self.page(Asked { method: &call.method, path, query, body: &body }).await.into_reply())
    }

    /// Upstream does not list them either.
    fn listed(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An error as Go's pages tell it.
fn failed(code: StatusCode, why: String) -> Page {
    Page::new(code, TEXT, why + "\n").with(HeaderName::from_static("x-go-pprof"), "1")
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

    #[tokio::test]
    async fn pages_are_at_upstreams_paths() {
        let level = Arc::new(AtomicU32::new(0));
        let set = level.clone();
        let pages = Profiling::new(SetVerbosity::new(move |verbosity| {
            set.store(verbosity, Ordering::Relaxed);
            Ok(())
        }));
        for (method, path, query, body, code, text) in [
            (Method::GET, "/debug/pprof", "", "", 302, "<a href=\"/debug/pprof/\">Found</a>.\n\n"),
            (Method::GET, "/debug/pprof/", "", "", 200, "<a href='profile'>profile</a>"),
            (Method::GET, "/debug/pprof/nothing", "", "", 404, "Unknown profile\n"),
            (Method::GET, "/debug/pprof/cmdline", "", "", 200, "apiserver"),
            (Method::GET, "/debug/pprof/threadcreate", "", "", 200, "threadcreate profile: total "),
            (Method::GET, "/debug/pprof/heap", "", "", 501, "There is no profile of allocations"),
            (Method::GET, "/debug/pprof/goroutine", "debug=2", "", 501, "tasks that wait have no stack"),
            (Method::GET, "/debug/pprof/trace", "", "", 501, "--tracing-config-file"),
            (Method::GET, "/debug/pprof/profile", "seconds=5", "", 501, "perf record"),
            (Method::GET, "/debug/flags/v", "", "", 406, "unsupported http method\n"),
            (Method::PUT, "/debug/flags/v", "", "6", 200, "successfully set klog.logging.verbosity to 6\n"),
            (Method::PUT, "/debug/flags/v", "", "x", 400, "strconv.ParseUint: parsing \"x\": invalid syntax\n"),
            (Method::PUT, "/debug/flags/v", "", "+6", 400, "strconv.ParseUint: parsing \"+6\": invalid syntax\n"),
            (Method::PUT, "/debug/flags/v", "", "4294967296", 400, "\"4294967296\": value out of range\n"),
        ] {
            assert!(Profiling::has(path));
            let page = pages.page(Asked { method: &method, path, query, body: body.as_bytes() }).await;
            let shown = String::from_utf8(page.body.to_vec()).unwrap();
            assert_eq!(page.code.as_u16(), code, "{path}: {shown}");
            assert!(shown.contains(text), "{path}: {shown}");
        }
        assert_eq!(level.load(Ordering::Relaxed), 6);
        assert!(!Profiling::has("/debug/pprofile") && !Profiling::has("/debug"));
    }
}
