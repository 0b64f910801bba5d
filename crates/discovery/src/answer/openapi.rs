//! `/openapi/v2`, the index of `/openapi/v3`, and its documents.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, LOCATION, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use object::Timestamp;
use registry::Catalog;
use rest::{Call, Reply, ReplyBody, accept};

use super::Discovery;
use crate::openapi::{Document, Form, url};
use crate::{conditional, extensions};

/// The media types of a version of OpenAPI, and what is answered for each.
type FormChoice = (&'static str, Form, &'static str);
type Forms = [FormChoice; 3];

const V2_FORMS: Forms = [
    ("json", Form::Json, "application/json"),
    ("com.github.proto-openapi.spec.v2@v1.0+protobuf", Form::Proto, V2_PROTO),
    ("com.github.proto-openapi.spec.v2.v1.0+protobuf", Form::Proto, V2_PROTO),
];
const V3_FORMS: Forms = [
    ("json", Form::Json, "application/json"),
    ("com.github.proto-openapi.spec.v3.v1.0+protobuf", Form::Proto, V3_PROTO),
    ("com.github.proto-openapi.spec.v3@v1.0+protobuf", Form::Proto, V3_PROTO),
];
// The older names are no media types by the letter, so they are asked for and never answered.
const V2_PROTO: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTO: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

const YEAR_SECONDS: i64 = 365 * 24 * 60 * 60;

pub async fn answer(discovery: &Discovery, call: &Call) -> Reply {
    let (catalog, snapshot) = discovery.shared.snapshot();
    let now = discovery.shared.api.clock.now();
    match call.info.path.strip_prefix("/openapi/v3") {
        None => {
            let mut headers = HeaderMap::new();
            headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
            headers.append(VARY, HeaderValue::from_static("Accept"));
            let Some((form, media)) = choose(call, forms(call, &V2_FORMS)) else {
                return empty(StatusCode::NOT_ACCEPTABLE, headers);
            };
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
            let document = snapshot.documents.v2().clone();
            match ready(call, document.clone(), catalog, form, now).await {
                Some((etag, bytes)) => conditional::reply(call, headers, &etag, document.modified(now), || bytes),
                None => empty(StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new()),
            }
        }
        Some("") => {
            // Upstream leaves the type to be guessed, and this is the guess.
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            let extended = extensions::are_asked_for(call);
            match blocking(move || snapshot.documents.index(&catalog, now, extended)).await {
                Some(index) => conditional::reply(call, headers, "", now, || index.into()),
                None => empty(StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new()),
            }
        }
        Some(rest) => {
            let name = rest.strip_prefix('/').unwrap_or(rest);
            match snapshot.documents.v3(name) {
                None if name == extensions::DOCUMENT => {
                    let mut headers = HeaderMap::new();
                    headers.insert(VARY, HeaderValue::from_static("Accept"));
                    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                    conditional::reply(call, headers, "", now, || extensions::document().into())
                }
                Some(document) => group_version(call, name, document.clone(), catalog, now).await,
                None => empty(StatusCode::NOT_FOUND, HeaderMap::new()),
            }
        }
    }
}

async fn group_version(
    call: &Call,
    name: &str,
    document: Arc<Document>,
    catalog: Arc<Catalog>,
    now: Timestamp,
) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    let Some((form, media)) = choose(call, forms(call, &V3_FORMS)) else {
        return empty(StatusCode::NOT_ACCEPTABLE, headers);
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    let Some((etag, bytes)) = ready(call, document.clone(), catalog, form, now).await else {
        return empty(StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new());
    };
    if let Some(hash) = call.query("hash").filter(|hash| !hash.is_empty() && !extensions::are_asked_for(call)) {
        if hash != etag {
            headers.insert(http::header::ETAG, conditional::header(&format!("\"{etag}\"")));
            headers.insert(LOCATION, conditional::header(&url(name, &etag)));
            return empty(StatusCode::MOVED_PERMANENTLY, headers);
        }
        // A document of this name and this hash never changes.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        let expires = conditional::http_date(Timestamp::new(now.secs + YEAR_SECONDS, 0)).replace("GMT", "UTC");
        headers.insert(EXPIRES, conditional::header(&expires));
    }
    conditional::reply(call, headers, &etag, document.modified(now), || bytes)
}

/// The forms of a document. There is no protobuf of extensions.
fn forms<'f>(call: &Call, all: &'f Forms) -> &'f [FormChoice] {
    if extensions::are_asked_for(call) { &all[..1] } else { all }
}

/// The first clause that names one of the forms.
fn choose(call: &Call, forms: &[FormChoice]) -> Option<(Form, &'static str)> {
    let header = match accept::header(&call.headers) {
        "" => "*/*",
        header => header,
    };
    accept::parse(header).into_iter().find_map(|clause| {
        let fits = |subkind: &str| {
            (clause.kind == "*" || clause.kind == "application") && (clause.subkind == "*" || clause.subkind == subkind)
        };
        forms.iter().find(|(subkind, _, _)| fits(subkind)).map(|(_, form, media)| (*form, *media))
    })
}

/// A document and its hash. What has to be written first is written on a blocking thread.
async fn ready(
    call: &Call,
    document: Arc<Document>,
    catalog: Arc<Catalog>,
    form: Form,
    now: Timestamp,
) -> Option<(String, Bytes)> {
    let extended = extensions::are_asked_for(call);
    let get = move || {
        if extended {
            return document.extended(&catalog);
        }
        let bytes = document.bytes(&catalog, form);
        (document.etag(&catalog, now).to_string(), bytes)
    };
    blocking(get).await
}

/// None if the runtime ends or the work ends in a bug: the request fails, and the next one tries again.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn empty(status: StatusCode, headers: HeaderMap) -> Reply {
    Reply::with(status, headers, ReplyBody::Ready(Bytes::new()))
}
