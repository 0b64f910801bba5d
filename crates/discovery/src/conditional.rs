//! Answers that a client may already have: ETag, Last-Modified, and 304 in place of what did not change.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use object::Timestamp;
use rest::{Call, Reply, ReplyBody};
use time::OffsetDateTime;
use time::format_description::FormatItem;
use time::macros::format_description;

const HTTP_DATE: &[FormatItem<'_>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// The date as HTTP writes it.
pub fn http_date(at: Timestamp) -> String {
    let at = OffsetDateTime::from_unix_timestamp(at.secs).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    at.format(HTTP_DATE).unwrap_or_default()
}

/// A header value out of text that we made ourselves.
pub fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// Whether the client has this version, as Go's file server decides it: by tag if it sent one, else by time.
pub fn is_fresh(call: &Call, etag: &str, modified: Timestamp) -> bool {
    if call.method != Method::GET && call.method != Method::HEAD {
        return false;
    }
    if call.headers.contains_key(http::header::IF_NONE_MATCH) {
        return matches_tag(call.header("if-none-match"), etag);
    }
    let since = time::PrimitiveDateTime::parse(call.header("if-modified-since"), HTTP_DATE);
    since.is_ok_and(|since| modified.secs <= since.assume_utc().unix_timestamp())
}

/// A list of tags or `*`; weak tags are as good as strong ones here.
fn matches_tag(list: &str, etag: &str) -> bool {
    let tag = |item: &str| item.trim().strip_prefix("W/").unwrap_or(item.trim()) == etag;
    !etag.is_empty() && list.split(',').any(|item| item.trim() == "*" || tag(item))
}

/// A whole document, or 304 with what belongs to it. `headers` are those that go with both.
pub fn reply(
    call: &Call,
    mut headers: HeaderMap,
    etag: &str,
    modified: Timestamp,
    body: impl FnOnce() -> Bytes,
) -> Reply {
    let etag = if etag.is_empty() { String::new() } else { format!("\"{etag}\"") };
    if !etag.is_empty() {
        headers.insert(ETAG, header(&etag));
    }
    if is_fresh(call, &etag, modified) {
        headers.remove(CONTENT_TYPE);
        return Reply::with(StatusCode::NOT_MODIFIED, headers, ReplyBody::Ready(Bytes::new()));
    }
    headers.insert(LAST_MODIFIED, header(&http_date(modified)));
    Reply::with(StatusCode::OK, headers, ReplyBody::Ready(body()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_tags() {
        assert_eq!(http_date(Timestamp::new(1_794_734_740, 0)), "Sun, 15 Nov 2026 09:25:40 GMT");
        for (list, want) in
            [("\"A\"", true), ("W/\"A\", \"B\"", true), ("*", true), ("\"B\"", false), ("A", false), ("", false)]
        {
            assert_eq!(matches_tag(list, "\"A\""), want, "{list}");
        }
    }
}
