//! The pages: files that were built from `console/` and are part of the program, compressed.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use authn::jwt::{JwtIssuers, SignInIssuer};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use rest::{Reply, ReplyBody};
use serde_json::json;
use server::PublicPages;

use crate::answer::json_reply;
use crate::contain;

/// Where the pages are.
const ROOT: &str = "/console/";
/// Below it.
const ISSUERS: &str = "issuers";

/// Scripts and styles only from this server, no frames, no forms, nothing inline, and no text that becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(&str, &str); 8] = [
    ("content-security-policy", POLICY),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("cache-control", "no-cache"),
];

/// A file as it is checked in.
struct PackedPage {
    name: &'static str,
    media_type: &'static str,
    packed: &'static [u8],
    /// Names the content, so that browsers fetch only what is new.
    tag: OnceLock<String>,
}

/// The files of the console, and where users can sign in.
pub struct ConsolePages {
    files: [PackedPage; 4],
    /// None if the server knows no issuers.
    issuers: Option<Arc<JwtIssuers>>,
}

impl ConsolePages {
    pub fn new(issuers: Option<Arc<JwtIssuers>>) -> ConsolePages {
        let page = |name, media_type, packed| PackedPage { name, media_type, packed, tag: OnceLock::new() };
        let files = [
            page("", "text/html; charset=utf-8", include_bytes!("../pages/index.html.gz")),
            page("app.js", "text/javascript; charset=utf-8", include_bytes!("../pages/app.js.gz")),
            page("app.css", "text/css; charset=utf-8", include_bytes!("../pages/app.css.gz")),
            page("icon.svg", "image/svg+xml", include_bytes!("../pages/icon.svg.gz")),
        ];
        ConsolePages { files, issuers }
    }

    /// The issuers that browsers can sign in with, as their pages need them. It is asked for before anybody has signed in.
    fn issuers(&self) -> Reply {
        let all = self.issuers.as_ref().map(|issuers| issuers.sign_ins()).unwrap_or_default();
        let row = |one: &SignInIssuer| {
            json!({
                "issuer": one.issuer,
                "authorizationEndpoint": one.authorization_endpoint,
                "clientID": one.client_id,
                "scope": one.scope,
                "responseMode": one.response_mode,
            })
        };
        json_reply(StatusCode::OK, &json!({"items": all.iter().map(row).collect::<Vec<_>>()}))
    }
}

impl PublicPages for ConsolePages {
    fn page(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Reply> {
        if *method != Method::GET && *method != Method::HEAD {
            return None;
        }
        match path {
            // Clients of the API get the list of paths.
            "/" => wants_html(headers).then(|| redirect("console/")),
            "/console" => Some(redirect("console/")),
            _ => {
                let name = path.strip_prefix(ROOT)?;
                if name == ISSUERS {
                    return Some(self.issuers());
                }
                let page = self.files.iter().find(|page| page.name == name)?;
                Some(page.reply(headers))
            }
        }
    }

    fn must_contain(&self, request: &HeaderMap) -> bool {
        contain::is_needed(request)
    }

    fn contain(&self, answer: &mut HeaderMap) {
        contain::contain(answer);
    }
}

impl PackedPage {
    fn reply(&self, headers: &HeaderMap) -> Reply {
        let tag = self.tag.get_or_init(|| {
            let digest = digest(&SHA256, self.packed);
            ["\"", &URL_SAFE_NO_PAD.encode(digest.as_ref().get(..12).unwrap_or(&[])), "\""].concat()
        });
        let known = headers.get_all(header::IF_NONE_MATCH).iter();
        let mut known = known.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
        let mut reply = match known.any(|one| one.strip_prefix(b"W/").unwrap_or(one) == tag.as_bytes()) {
            true => Reply::with(StatusCode::NOT_MODIFIED, HeaderMap::new(), ReplyBody::Ready(Bytes::new())),
            false => self.content(takes_gzip(headers)),
        };
        for (name, value) in HEADERS {
            reply.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Ok(tag) = HeaderValue::from_str(tag) {
            reply.headers.insert(header::ETAG, tag);
        }
        reply.headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        reply
    }

    fn content(&self, packed: bool) -> Reply {
        let unpacked = || {
            let mut bytes = Vec::new();
            // What was compressed when the program was built can be read.
            GzDecoder::new(self.packed).read_to_end(&mut bytes).expect("the pages are compressed");
            Bytes::from(bytes)
        };
        let body = if packed { Bytes::from_static(self.packed) } else { unpacked() };
        let mut reply = Reply::new(StatusCode::OK, self.media_type, ReplyBody::Ready(body));
        if packed {
            reply.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        reply
    }
}

fn redirect(to: &'static str) -> Reply {
    let mut reply = Reply::with(StatusCode::FOUND, HeaderMap::new(), ReplyBody::Ready(Bytes::new()));
    reply.headers.insert(header::LOCATION, HeaderValue::from_static(to));
    reply.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// Whether a browser navigates: others do not name HTML.
pub fn wants_html(headers: &HeaderMap) -> bool {
    names(headers, header::ACCEPT).any(|item| item == b"text/html")
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    names(headers, header::ACCEPT_ENCODING).any(|item| item == b"gzip")
}

/// The items of a list in a header, without their parameters.
fn names(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    let items = values.flat_map(|value| value.split(|byte| *byte == b','));
    items.map(|item| item.split(|byte| *byte == b';').next().unwrap_or(item).trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, name: HeaderName, value: &'static str) -> Option<Reply> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        ConsolePages::new(None).page(&Method::GET, path, &headers)
    }

    #[test]
    fn browsers_are_led_to_the_pages_and_other_clients_are_not() {
        for (path, accept, want) in [
            ("/", "text/html,application/xhtml+xml,*/*;q=0.8", Some(302)),
            ("/", "application/json", None),
            ("/", "*/*", None),
            ("/", "text/htmlx", None),
            ("/console", "*/*", Some(302)),
            ("/console/", "*/*", Some(200)),
            ("/console/app.js", "*/*", Some(200)),
            ("/console/app.css", "*/*", Some(200)),
            ("/console/icon.svg", "*/*", Some(200)),
            ("/console/issuers", "*/*", Some(200)),
            ("/console/session", "text/html", None),
            ("/console/api/now", "text/html", None),
            ("/console//app.js", "*/*", None),
            ("/console/../app.js", "*/*", None),
            ("/consolex", "text/html", None),
        ] {
            let reply = get(path, header::ACCEPT, accept);
            assert_eq!(reply.map(|reply| reply.status.as_u16()), want, "{path} {accept}");
        }
        let post = ConsolePages::new(None).page(&Method::POST, "/console/", &HeaderMap::new());
        assert!(post.is_none());
    }

    #[test]
    fn pages_are_sent_compressed_or_not_and_once() {
        let bytes = |reply: Reply| match reply.body {
            ReplyBody::Ready(bytes) => bytes,
            _ => panic!("a page is ready"),
        };
        let packed = get("/console/app.js", header::ACCEPT_ENCODING, "br, gzip;q=0.5").unwrap();
        assert_eq!(packed.headers[header::CONTENT_ENCODING], "gzip");
        let tag = packed.headers[header::ETAG].to_str().unwrap().to_string();
        let plain = bytes(get("/console/app.js", header::ACCEPT_ENCODING, "br").unwrap());
        let mut unpacked = Vec::new();
        GzDecoder::new(&bytes(packed)[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain);
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(&["\"x\", W/", &tag].concat()).unwrap());
        let again = ConsolePages::new(None).page(&Method::GET, "/console/app.js", &headers).unwrap();
        assert_eq!(again.status, StatusCode::NOT_MODIFIED);
        assert!(bytes(again).is_empty());
    }

    /// A browser loads all of it before it shows anything.
    #[test]
    fn all_pages_together_are_small() {
        let bytes: usize = ConsolePages::new(None).files.iter().map(|page| page.packed.len()).sum();
        assert!(bytes <= 150 * 1024, "{bytes}");
    }
}
