//! WATCH of objects that are made when they are asked for: whenever they may have changed they are made again, and the differences are sent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream;
use object::{GroupVersionKind, Meta, Status, Value};
use registry::{Filter, Report, at_revision};
use storage::Revision;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{LAST_BOOKMARK, LONGEST, UNREAD_TIME, duration, frames, reply};
use crate::media::Transform;
use crate::options::{ListOptions, not_a_revision};
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{WatchMeter, report, table, wire};

pub async fn watch(scope: &Arc<Scope>, report: &dyn Report) -> Result<Reply, Status> {
    let Some(mut changes) = report.changes() else {
        return Err(Status::method_not_supported(&scope.group_resource(), "watch"));
    };
    let options = ListOptions::parse(scope, true)?;
    if matches!(scope.accept.transform, Transform::Table(_)) {
        table::include(scope)?;
    }
    scope.offer().check_stream(scope.accept.media)?;
    let asked = options.revision().map_err(not_a_revision)?.unwrap_or(0);
    let revision = *changes.borrow_and_update();
    let is_initial = options.send_initial_events == Some(true);
    // Earlier objects are not known, so that a watch goes on only from what is there now.
    if asked > revision || (asked > 0 && asked != revision && !is_initial) {
        let status = Status::expired(format!("too old resource version: {asked} ({revision})"));
        let frame = frames::error_event(scope.accept.media, &status);
        return Ok(reply(scope, stream::once(async move { frame })));
    }
    let now = Instant::now();
    let mut watch = MadeWatch {
        deadline: now.checked_add(duration(scope, &options)).unwrap_or(now + LONGEST),
        bookmarks: options.allow_bookmarks,
        filter: options.filter,
        meter: scope.api.meters.of(&scope.resource.resource),
        scope: scope.clone(),
        changes,
        revision,
        known: BTreeMap::new(),
        due: VecDeque::new(),
        is_first: true,
    };
    watch.compare().await;
    if !is_initial {
        watch.due.clear();
    } else if watch.bookmarks && scope.call.query("sendInitialEvents").is_some() {
        watch.due.push_back(Due::InitialEnd);
    }
    Ok(reply(scope, stream::unfold(watch, MadeWatch::next)))
}

/// One client's watch.
struct MadeWatch {
    scope: Arc<Scope>,
    changes: Receiver<Revision>,
    filter: Filter,
    bookmarks: bool,
    meter: Arc<WatchMeter>,
    deadline: Instant,
    /// The number that was read before `known` was made.
    revision: Revision,
    /// The objects that the client knows of, or will once `due` is sent, by namespace and name.
    known: BTreeMap<(String, String), Value>,
    due: VecDeque<Due>,
    /// A watch of tables has their columns in its first event only.
    is_first: bool,
}

/// Something to send.
enum Due {
    Event(&'static str, Value),
    InitialEnd,
    Bookmark,
}

impl MadeWatch {
    async fn next(mut self) -> Option<(Bytes, MadeWatch)> {
        loop {
            if let Some(due) = self.due.pop_front() {
                let frame = self.frame(due)?;
                return Some((self.counted(frame).await?, self));
            }
            let bookmark = self.next_bookmark();
            tokio::select! {
                biased;
                () = sleep_until(self.deadline) => return None,
                changed = self.changes.changed() => {
                    changed.ok()?;
                    self.revision = *self.changes.borrow_and_update();
                    timeout_at(self.deadline, self.compare()).await.ok()?;
                }
                () = sleep_until(bookmark.unwrap_or(self.deadline)), if bookmark.is_some() => {
                    self.due.push_back(Due::Bookmark);
                }
            }
        }
    }

    /// Makes the objects again, and notes what of them is new to the client.
    async fn compare(&mut self) {
        let Some(report) = self.scope.resource.report.clone() else { return };
        let made = report::made(&self.scope, &*report, &self.filter).await;
        let mut before = std::mem::take(&mut self.known);
        for mut object in made {
            object.remove(&["metadata", "resourceVersion"]);
            let key = (object.namespace().to_string(), object.name().to_string());
            let kind = match before.remove(&key) {
                None => Some("ADDED"),
                Some(known) if known != object => Some("MODIFIED"),
                Some(_) => None,
            };
            self.due.extend(kind.map(|kind| Due::Event(kind, object.clone())));
            self.known.insert(key, object);
        }
        self.due.extend(before.into_values().map(|gone| Due::Event("DELETED", gone)));
    }

    /// As bytes; None if nothing more can be sent.
    fn frame(&mut self, due: Due) -> Option<Bytes> {
        let mut out = BytesMut::new();
        match due {
            Due::InitialEnd => frames::bookmark(&self.scope, self.revision, true, &mut out),
            Due::Bookmark => frames::bookmark(&self.scope, self.revision, false, &mut out),
            Due::Event(kind, object) => {
                let media = self.scope.accept.media;
                let (of, value) = match self.shown(at_revision(object, self.revision)) {
                    Ok(shown) => shown,
                    Err(status) => {
                        // The last frame: there is none after the deadline.
                        self.due.clear();
                        self.deadline = Instant::now();
                        return Some(frames::error_event(media, &status));
                    }
                };
                wire::watch_event(media, kind, &frames::encode(media, &of, &value), &mut out);
                self.is_first = false;
                self.meter.record(out.len());
            }
        }
        Some(out.freeze())
    }

    /// The object as the client asked for it.
    fn shown(&self, object: Value) -> Result<(GroupVersionKind, Value), Status> {
        let scope = &self.scope;
        Ok(match &scope.accept.transform {
            Transform::None => (scope.resource.kind.clone(), scope.from_storage(object)?),
            Transform::Table(version) => {
                let table = table::of_event(scope, version, &object, self.is_first)?;
                (GroupVersionKind::new("meta.k8s.io", "v1", "Table"), table)
            }
            Transform::Partial(version) | Transform::PartialList(version) => {
                let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
                (kind, table::partial(scope, &object, version))
            }
        })
    }

    /// The frame counts as one of the user's answers until it was read. None if others have not been read for too long.
    async fn counted(&self, frame: Bytes) -> Option<Bytes> {
        let (answers, user) = (&self.scope.api.answers, self.scope.user());
        let room = tokio::time::timeout(UNREAD_TIME, answers.room(user, frame.len())).await.ok()?;
        Some(room.hold(frame))
    }

    /// From time to time, and once more before the end, as watches of stored objects have them.
    fn next_bookmark(&self) -> Option<Instant> {
        let now = Instant::now();
        let last = self.deadline.checked_sub(LAST_BOOKMARK)?;
        let next = last.min(now + self.scope.api.limits.bookmark_interval);
        (self.bookmarks && next > now).then_some(next)
    }
}
