//! gzip for large responses, which client-go accepts by default.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use http::HeaderValue;
use rest::{Aborted, Call, Chunks, Reply, ReplyBody};

/// Smaller answers are sent as they are: compressing them costs more than it saves.
const THRESHOLD_BYTES: usize = 128 * 1024;

/// Whether the response may be compressed; one that has no end never is.
pub fn is_accepted(call: &Call) -> bool {
    let is_gzip = |item: &str| item.split(';').next().unwrap_or("").trim() == "gzip";
    !call.info.is_long_running() && call.header("accept-encoding").split(',').any(is_gzip)
}

/// Compresses responses that are large enough. A stream counts with its estimated length.
pub fn compress(mut reply: Reply, accepted: bool) -> Reply {
    if !accepted || !reply.status.is_success() {
        return reply;
    }
    let body = match reply.body {
        ReplyBody::Ready(bytes) if bytes.len() >= THRESHOLD_BYTES => {
            let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
            match rest::aside(bytes.len(), || encoder.write_all(&bytes).and_then(|()| encoder.finish())) {
                Ok(packed) => ReplyBody::Ready(counted(packed, bytes)),
                Err(_) => {
                    reply.body = ReplyBody::Ready(bytes);
                    return reply;
                }
            }
        }
        ReplyBody::Stream { chunks, estimate } if estimate >= THRESHOLD_BYTES => {
            ReplyBody::Stream { chunks: compress_stream(chunks), estimate }
        }
        other => {
            reply.body = other;
            return reply;
        }
    };
    reply.body = body;
    reply.headers.insert(http::header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let encoding = HeaderValue::from_static("Accept-Encoding");
    if !reply.headers.get_all(http::header::VARY).iter().any(|value| value == encoding) {
        reply.headers.append(http::header::VARY, encoding);
    }
    reply
}

/// Compressed bytes with those they were made of, which count among the answers that are not read yet for as long as they are kept.
struct Packed {
    packed: Vec<u8>,
    _plain: Bytes,
}

impl AsRef<[u8]> for Packed {
    fn as_ref(&self) -> &[u8] {
        &self.packed
    }
}

fn counted(packed: Vec<u8>, plain: Bytes) -> Bytes {
    if packed.is_empty() { Bytes::new() } else { Bytes::from_owner(Packed { packed, _plain: plain }) }
}

/// Compresses a stream chunk by chunk.
fn compress_stream(chunks: Chunks) -> Chunks {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    futures::stream::unfold((chunks, Some(encoder)), |(mut chunks, encoder)| async move {
        let mut encoder = encoder?;
        match chunks.next().await {
            Some(Ok(chunk)) => match rest::aside(chunk.len(), || encoder.write_all(&chunk)) {
                Ok(()) => {
                    let ready = std::mem::take(encoder.get_mut());
                    Some((Ok(counted(ready, chunk)), (chunks, Some(encoder))))
                }
                Err(_) => Some((Err(Aborted), (chunks, None))),
            },
            Some(Err(cut)) => Some((Err(cut), (chunks, None))),
            None => Some((encoder.finish().map(Bytes::from).map_err(|_| Aborted), (chunks, None))),
        }
    })
    .filter(|chunk| std::future::ready(chunk.as_ref().map_or(true, |chunk| !chunk.is_empty())))
    .boxed()
}
