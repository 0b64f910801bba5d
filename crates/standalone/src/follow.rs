//! Following a collection: a list, then every change, resumed where it was cut off.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use memchr::memmem;
use object::{Meta, Value};

use rest::client::{Client, Collection, Failure, decode};

const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What happened to a collection. Objects carry their metadata only.
pub enum Delta {
    /// Everything there is; what is not in it is gone.
    Listed(Vec<Value>),
    Set(Value),
    Gone(Value),
}

/// Which changes are worth decoding.
pub type Interesting = fn(&[u8]) -> bool;

/// Hands every change of a collection to `hear` until `hear` returns false.
pub async fn follow(client: &Client, of: &Collection, interesting: Interesting, mut hear: impl FnMut(Delta) -> bool) {
    loop {
        match once(client, of, interesting, &mut hear).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(failure) => {
                tracing::debug!(?of, %failure, "following a collection failed; it is listed again");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// One list and the watches after it. True asks to be called again.
async fn once(
    client: &Client,
    of: &Collection,
    interesting: Interesting,
    hear: &mut impl FnMut(Delta) -> bool,
) -> Result<bool, Failure> {
    let mut list = client.list(of).await?;
    let mut revision = list.resource_version().to_string();
    let items = list.slot(&["items"]).make_list();
    if !hear(Delta::Listed(std::mem::take(items))) {
        return Ok(false);
    }
    loop {
        let mut events = client.watch(of, &revision).await?;
        while let Some(event) = events.next().await {
            match read(&event, interesting)? {
                Event::Passed => {}
                Event::Bookmark(at) => revision = at,
                // The revision is no longer to be had: begin anew with a list.
                Event::Expired => return Ok(true),
                Event::Changed(change, at) => {
                    revision = at;
                    if !hear(change) {
                        return Ok(false);
                    }
                }
            }
        }
    }
}

enum Event {
    Passed,
    Bookmark(String),
    Expired,
    Changed(Delta, String),
}

fn read(event: &Bytes, interesting: Interesting) -> Result<Event, Failure> {
    let is = |kind: &[u8]| memmem::find(&event[..event.len().min(32)], kind).is_some();
    if is(b"\"ERROR\"") {
        return Ok(Event::Expired);
    }
    let gone = is(b"\"DELETED\"");
    if !gone && !is(b"\"BOOKMARK\"") && !interesting(event) {
        return Ok(Event::Passed);
    }
    let mut event = decode(event)?;
    let object = event.slot(&["object"]).take();
    let revision = object.resource_version().to_string();
    Ok(match event.str_at(&["type"]) {
        "BOOKMARK" => Event::Bookmark(revision),
        "DELETED" => Event::Changed(Delta::Gone(object), revision),
        _ => Event::Changed(Delta::Set(object), revision),
    })
}
