//! Following a collection: a list, then every change, resumed where it was cut off.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use memchr::memmem;
use object::{Meta, Value};

use rest::client::{Client, Collection, Failure, decode};

const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A change of a collection. Objects carry their metadata only.
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
    let (mut position, mut events, mut action) = (FollowPosition::default(), None, FollowAction::List);
    loop {
        let seen = match action {
            FollowAction::List => client.list(of).await.map_or_else(FollowObserved::Failed, FollowObserved::Listed),
            FollowAction::Watch(revision) => match client.watch(of, &revision).await {
                Ok(opened) => {
                    events = Some(opened);
                    FollowObserved::Opened
                }
                Err(failure) => FollowObserved::Failed(failure),
            },
            FollowAction::Read => match &mut events {
                Some(events) => events.next().await.map_or(FollowObserved::Ended, FollowObserved::Event),
                None => FollowObserved::Ended,
            },
            FollowAction::Pause => {
                tokio::time::sleep(RETRY_PAUSE).await;
                FollowObserved::Rested
            }
        };
        if let FollowObserved::Failed(failure) = &seen {
            tracing::debug!(?of, %failure, "following a collection failed; it is listed again");
        }
        let (heard, next) = position.step(seen, interesting);
        if heard.is_some_and(|delta| !hear(delta)) {
            return;
        }
        action = next;
    }
}

/// How far a collection was followed.
#[derive(Default)]
struct FollowPosition {
    /// "" before the first list.
    revision: String,
}

/// The outcome of an action.
enum FollowObserved {
    Listed(Value),
    Opened,
    Event(Bytes),
    Ended,
    Failed(Failure),
    Rested,
}

/// The next thing to do.
#[derive(Debug, PartialEq, Eq)]
enum FollowAction {
    List,
    /// Open a watch of what comes after a revision.
    Watch(String),
    /// Take the next event of the open watch.
    Read,
    Pause,
}

impl FollowPosition {
    /// A change to be heard of, if there was one, and the next action.
    fn step(&mut self, seen: FollowObserved, interesting: Interesting) -> (Option<Delta>, FollowAction) {
        match seen {
            FollowObserved::Listed(mut list) => {
                self.revision = list.resource_version().to_string();
                let items = std::mem::take(list.slot(&["items"]).make_list());
                (Some(Delta::Listed(items)), FollowAction::Watch(self.revision.clone()))
            }
            FollowObserved::Opened => (None, FollowAction::Read),
            FollowObserved::Ended => (None, FollowAction::Watch(self.revision.clone())),
            FollowObserved::Failed(_) => (None, FollowAction::Pause),
            FollowObserved::Rested => (None, FollowAction::List),
            FollowObserved::Event(event) => match read(&event, interesting) {
                Ok(FollowedEvent::Passed) => (None, FollowAction::Read),
                Ok(FollowedEvent::Bookmark(at)) => {
                    self.revision = at;
                    (None, FollowAction::Read)
                }
                // The revision is no longer to be had: begin anew with a list.
                Ok(FollowedEvent::Expired) => (None, FollowAction::List),
                Ok(FollowedEvent::Changed(change, at)) => {
                    self.revision = at;
                    (Some(change), FollowAction::Read)
                }
                Err(failure) => {
                    tracing::debug!(%failure, "an event cannot be read; the collection is listed again");
                    (None, FollowAction::Pause)
                }
            },
        }
    }
}

enum FollowedEvent {
    Passed,
    Bookmark(String),
    Expired,
    Changed(Delta, String),
}

fn read(event: &Bytes, interesting: Interesting) -> Result<FollowedEvent, Failure> {
    let is = |kind: &[u8]| memmem::find(&event[..event.len().min(32)], kind).is_some();
    if is(b"\"ERROR\"") {
        return Ok(FollowedEvent::Expired);
    }
    let gone = is(b"\"DELETED\"");
    if !gone && !is(b"\"BOOKMARK\"") && !interesting(event) {
        return Ok(FollowedEvent::Passed);
    }
    let mut event = decode(event)?;
    let object = event.slot(&["object"]).take();
    let revision = object.resource_version().to_string();
    Ok(match event.str_at(&["type"]) {
        "BOOKMARK" => FollowedEvent::Bookmark(revision),
        "DELETED" => FollowedEvent::Changed(Delta::Gone(object), revision),
        _ => FollowedEvent::Changed(Delta::Set(object), revision),
    })
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    /// What is observed: `list@5 a b`, `opened`, `added@6 a`, `modified@6 a`, `deleted@6 a`, `bookmark@6`, `boring@6 a`, `expired`, `nonsense`, `ended`,
    /// `failed`, `rested`.
    fn observed(text: &str) -> FollowObserved {
        let mut words = text.split(' ');
        let first = words.next().unwrap();
        let (what, revision) = first.split_once('@').unwrap_or((first, ""));
        let object = |name: &str| value!({"metadata": {"name": name}});
        let event = |kind: &str, name: &str| {
            let metadata = format!(r#"{{"name":"{name}","resourceVersion":"{revision}"}}"#);
            FollowObserved::Event(Bytes::from(format!(r#"{{"type":"{kind}","object":{{"metadata":{metadata}}}}}"#)))
        };
        match what {
            "list" => {
                let items: Vec<Value> = words.map(object).collect();
                FollowObserved::Listed(value!({"metadata": {"resourceVersion": revision}, "items": items}))
            }
            "opened" => FollowObserved::Opened,
            "ended" => FollowObserved::Ended,
            "rested" => FollowObserved::Rested,
            "failed" => FollowObserved::Failed(Failure { code: 503, message: String::new() }),
            "nonsense" => FollowObserved::Event("{".into()),
            "expired" => event("ERROR", ""),
            "bookmark" => event("BOOKMARK", ""),
            "deleted" => event("DELETED", words.next().unwrap()),
            kind => event(&kind.to_uppercase(), words.next().unwrap()),
        }
    }

    fn shown(heard: Option<Delta>, action: &FollowAction) -> String {
        let heard = match heard {
            None => String::new(),
            Some(Delta::Listed(all)) => format!("all[{}] ", all.iter().map(Meta::name).collect::<Vec<_>>().join(" ")),
            Some(Delta::Set(object)) => format!("set {} ", object.name()),
            Some(Delta::Gone(object)) => format!("gone {} ", object.name()),
        };
        let action = match action {
            FollowAction::List => "list".to_string(),
            FollowAction::Watch(at) => format!("watch@{at}"),
            FollowAction::Read => "read".to_string(),
            FollowAction::Pause => "pause".to_string(),
        };
        heard + &action
    }

    /// What is seen, one after the other, and what is heard of and done each time.
    #[test]
    fn a_collection_is_followed_whatever_happens() {
        for (seen, expected) in [
            (&["list@5 a b", "opened", "added@6 c"][..], &["all[a b] watch@5", "read", "set c read"][..]),
            (&["list@5", "opened", "deleted@7 a", "ended"], &["all[] watch@5", "read", "gone a read", "watch@7"]),
            // A bookmark moves the place where the next watch begins, and so does no event that is passed over.
            (
                &["list@5", "opened", "bookmark@9", "ended", "opened"],
                &["all[] watch@5", "read", "read", "watch@9", "read"],
            ),
            (&["list@5", "opened", "boring@8 a", "ended"], &["all[] watch@5", "read", "read", "watch@5"]),
            // A watch that ends before its first event begins where it began.
            (
                &["list@5", "opened", "ended", "opened", "ended"],
                &["all[] watch@5", "read", "watch@5", "read", "watch@5"],
            ),
            // What was missed is in the next list, whose absent objects are gone.
            (&["list@5 a", "opened", "expired", "list@20 b"], &["all[a] watch@5", "read", "list", "all[b] watch@20"]),
            (
                &["list@5", "opened", "added@6 a", "expired", "failed", "rested", "list@9 a"],
                &["all[] watch@5", "read", "set a read", "list", "pause", "list", "all[a] watch@9"],
            ),
            // A failure is followed by a pause, never at once by the next request.
            (&["failed", "rested", "failed", "rested", "list@5"], &["pause", "list", "pause", "list", "all[] watch@5"]),
            (&["list@5", "failed", "rested", "list@6"], &["all[] watch@5", "pause", "list", "all[] watch@6"]),
            (
                &["list@5", "opened", "nonsense", "rested", "list@6"],
                &["all[] watch@5", "read", "pause", "list", "all[] watch@6"],
            ),
            // A list that is older than what was heard before is believed: the store was restored.
            (
                &["list@5", "opened", "added@6 a", "expired", "list@3"],
                &["all[] watch@5", "read", "set a read", "list", "all[] watch@3"],
            ),
        ] {
            let mut position = FollowPosition::default();
            let interesting: Interesting = |event| memmem::find(event, b"BORING").is_none();
            for (at, (seen, expected)) in seen.iter().zip(expected).enumerate() {
                let (heard, action) = position.step(observed(seen), interesting);
                assert_eq!(shown(heard, &action), *expected, "step {at}: {seen}");
            }
            assert_eq!(seen.len(), expected.len(), "{seen:?}");
        }
    }
}
