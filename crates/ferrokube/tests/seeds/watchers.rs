//! Clients that follow a kind across broken watches, and compare every event with the model.

use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use object::Randomness;
use serde_json::Value;
use storage::Revision;

use crate::client::Client;
use crate::kinds::Kind;
use crate::model::{Change, Model, Part, Shown, Stored};

/// One watcher.
pub struct Watcher {
    pub client: Client,
    pub kind: &'static Kind,
    /// It follows the objects of this side only.
    pub side: Option<&'static str>,
    /// It gets what is there from the watch itself instead of a list.
    pub is_streaming: bool,
}

/// Why a watch is over.
enum Ended {
    /// Go on from where it was.
    CutOff,
    /// Its revision is no longer to be had: begin anew.
    Expired,
}

/// What the next event must be.
struct Expected<'a> {
    kind: &'static str,
    revision: Revision,
    /// The object of the event: that before the change where it is gone.
    object: &'a Stored,
}

impl Watcher {
    /// Follows until it has seen everything up to the revision that `goal` says, once that is known.
    pub async fn run(self, mut goal: tokio::sync::watch::Receiver<Option<Revision>>) {
        let mut position = None;
        loop {
            let after = match position {
                Some(after) => Some(after),
                None if self.is_streaming => None,
                None => match self.list().await {
                    Some(at) => Some(at),
                    None => {
                        self.client.pause(100).await;
                        continue;
                    }
                },
            };
            position = after;
            let goal_now = *goal.borrow_and_update();
            if goal_now.zip(after).is_some_and(|(goal, after)| self.is_done(after, goal)) {
                return;
            }
            if matches!(self.watch(&mut position, goal.clone()).await, Ended::Expired) {
                self.client.note("begins anew");
                position = None;
            }
            self.client.pause(50).await;
        }
    }

    /// Whether there is no event for it up to the goal that it has not seen.
    fn is_done(&self, position: Revision, goal: Revision) -> bool {
        let model = self.client.model.lock().unwrap();
        self.next(&model, position).is_none_or(|expected| expected.revision > goal)
    }

    async fn list(&self) -> Option<Revision> {
        let path = [self.kind.path, "?limit=1"].concat();
        let answered = self.client.ask(Method::GET, &path, "", None).await?;
        assert_eq!(answered.code, 200, "{}", answered.body);
        let at = answered.body["metadata"]["resourceVersion"].as_str()?.parse().ok()?;
        self.client.model.lock().unwrap().list_is_fresh(answered.begun, at);
        Some(at)
    }

    /// One watch: how it ended, and where it got to.
    async fn watch(
        &self,
        position: &mut Option<Revision>,
        mut goal: tokio::sync::watch::Receiver<Option<Revision>>,
    ) -> Ended {
        let begin = match position {
            Some(after) => format!("resourceVersion={after}"),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_string(),
        };
        let selector = self.side.map_or_else(String::new, |side| format!("&labelSelector=side%3D{side}"));
        let time = 1 + self.client.randomness.below(20);
        let options = format!("?watch=true&allowWatchBookmarks=true&timeoutSeconds={time}&{begin}{selector}");
        let begun = self.client.model.lock().unwrap().begin();
        let calm = self.client.store.calm();
        let path = [self.kind.path, &options].concat();
        let opening = self.client.open(Method::GET, &path, "", String::new());
        let response = self.client.soon("a watch", opening).await;
        self.client.note(&format!("watch {begin}{selector} -> {}", response.status()));
        if response.status() != 200 {
            let is_excused = calm.is_none() || calm != self.client.store.calm();
            assert!(is_excused || response.status() == 410, "a watch got {}", response.status());
            return if response.status() == 410 { Ended::Expired } else { Ended::CutOff };
        }
        let mut body = response.into_body();
        let mut rest = Vec::new();
        // Objects that were there when the watch began, until the bookmark after them.
        let mut initial: Vec<Shown> = Vec::new();
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = tokio::time::sleep(Duration::from_secs(60)) => panic!("{}: the watch did not end", self.client.name),
                // Whether the goal is reached is looked at between watches.
                Ok(()) = goal.changed() => return Ended::CutOff,
            };
            let Some(Ok(frame)) = frame else { return Ended::CutOff };
            rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| &data[..]));
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                if let Some(ended) = self.hear(&event, position, &mut initial, begun.floor) {
                    return ended;
                }
            }
        }
    }

    fn hear(
        &self,
        event: &Value,
        position: &mut Option<Revision>,
        initial: &mut Vec<Shown>,
        floor: Revision,
    ) -> Option<Ended> {
        let (kind, object) = (event["type"].as_str().unwrap_or_default(), &event["object"]);
        if kind == "ERROR" {
            self.client.note(&format!("watch error {} {}", object["code"], object["message"]));
            let compacted = self.client.model.lock().unwrap().compacted;
            return Some(match object["code"].as_u64() {
                Some(410) => {
                    self.client.model.lock().unwrap().count(|totals| totals.expired += 1);
                    let is_gone = position.is_none_or(|position| position < compacted);
                    assert!(
                        is_gone,
                        "a watch at {position:?} expired, and only what is before {compacted} was forgotten"
                    );
                    Ended::Expired
                }
                Some(500..) => Ended::CutOff,
                _ => panic!("a watch got {object}"),
            });
        }
        let revision: Revision =
            object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap();
        self.client.note(&format!("{kind} {revision}"));
        let mut model = self.client.model.lock().unwrap();
        model.count(|totals| totals.events += 1);
        assert!(revision <= model.newest, "an event of the future: {event}");
        let Some(after) = *position else {
            match kind {
                "ADDED" => initial.push(Shown::of(self.kind, object)),
                "BOOKMARK" => {
                    assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{event}");
                    initial.sort_by(|a, b| a.key.cmp(&b.key));
                    model.list(self.kind, self.side, initial, revision, Part::default());
                    assert!(revision >= floor, "stale initial events: of {revision}, after {floor} was known");
                    *position = Some(revision);
                }
                _ => panic!("{event} amid initial events"),
            }
            return None;
        };
        let next = self.next(&model, after);
        if kind == "BOOKMARK" {
            let missed = next.filter(|next| next.revision <= revision).map(|next| next.revision);
            assert!(missed.is_none(), "{}: a bookmark at {revision}, and {missed:?} was not told", self.client.name);
            *position = Some(revision.max(after));
            return None;
        }
        let next =
            next.unwrap_or_else(|| panic!("{}: {event} after {after}, where nothing happened", self.client.name));
        let shown = Shown::of(self.kind, object);
        assert_eq!(
            (kind, revision, shown.number),
            (next.kind, next.revision, next.object.number),
            "{}: the event after {after}",
            self.client.name
        );
        *position = Some(revision);
        if kind != "DELETED" {
            model.identify(&shown);
        }
        None
    }

    /// The next event after a revision.
    fn next<'a>(&self, model: &'a Model, after: Revision) -> Option<Expected<'a>> {
        let changes = model.changes.iter().filter(|change| change.revision > after && self.kind.has(&change.key));
        changes.into_iter().find_map(|change| self.event(change))
    }

    fn event<'a>(&self, change: &'a Change) -> Option<Expected<'a>> {
        let is_its = |stored: &&Stored| self.side.is_none_or(|side| stored.side == side);
        let (now, before) = (change.now.as_ref().filter(is_its), change.before.as_ref().filter(is_its));
        let (kind, object) = match (before, now) {
            (None, Some(now)) => ("ADDED", now),
            (Some(_), Some(now)) => ("MODIFIED", now),
            (Some(before), None) => ("DELETED", before),
            (None, None) => return None,
        };
        Some(Expected { kind, revision: change.revision, object })
    }
}
