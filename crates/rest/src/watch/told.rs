//! [`ToldObjects`]: a watch of what its user may see. It remembers which objects its client was told of, so that it can tell what becomes
//! visible and what no longer is when roles change.
//!
//! Decisions stay the same between two changes of roles. An event before such a change is sent by the decisions before it; then the
//! objects as they are now are compared with those that the client was told of; later events follow by the new decisions.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Context, Poll};

use authz::{Changes, DecisionsChanged};
use cache::{Event, Item, Object, Part, Start};
use futures::StreamExt;
use futures::stream::SelectAll;
use object::Status;
use registry::{EXPIRED, Pace, ResourceStorage};
use storage::{Key, KeyRange, Revision};
use tokio::time::Instant;

use super::Converted;
use super::frames::{Chunk, Frames};
use crate::answers::Room;
use crate::scope::Scope;
use crate::view::ListContext;

/// A chunk that has so much is sent before more is looked at.
const CHUNK_BYTES: usize = 64 * 1024;
/// Remembering an object takes so much, besides the object itself.
const ENTRY_BYTES: usize = 128;
/// So often the objects are looked at again because roles changed meanwhile; after that the watch goes on and looks again later.
const LOOKS_MAX: usize = 16;
/// After the objects were looked at again, they are left alone for so many times as long as that took: roles and namespaces that change all
/// the time do not keep the server at it.
const REST_TIMES: u32 = 4;

pub struct ToldObjects {
    context: ListContext,
    changes: SelectAll<Changes>,
    /// The change of decisions that the present ones follow.
    decided: DecisionsChanged,
    /// The objects that the client was told of and not told to be gone, as it was told.
    objects: BTreeMap<Key, Arc<Object>>,
    /// The client was told of everything up to this revision when roles last changed.
    settled: Revision,
    /// Told before anything else.
    differences: VecDeque<Untold>,
    /// Items that the watch has had from the cache and not looked at.
    waiting: VecDeque<Item>,
    part: Part,
    /// The objects are not looked at again before.
    rests_until: Instant,
    /// Counts what is remembered among the answers that the user has not read.
    room: Room,
}

enum Untold {
    Change {
        kind: &'static str,
        object: Arc<Object>,
        revision: Revision,
    },
    /// The client is told how far it is, because the changes before it have older revisions.
    Bookmark(Revision),
}

impl ToldObjects {
    /// The memory of a watch that begins like this; None if it shows everything for as long as it lasts.
    pub async fn begin(
        scope: &Scope,
        start: Start,
        (part, range): (Part, &KeyRange),
        filter: &registry::Filter,
    ) -> Result<Option<Box<ToldObjects>>, Status> {
        let context = scope.view.as_ref().map(|view| view.context.clone()).filter(|context| !context.is_empty());
        let Some(context) = context else { return Ok(None) };
        let told = match start {
            Start::Now => ToldObjects::nothing(scope, context, part),
            Start::After(revision) => {
                Box::pin(ToldObjects::after(scope, context, (part, range), filter, revision)).await?
            }
        };
        Ok(Some(Box::new(told)))
    }

    /// A watch that begins with the current objects.
    fn nothing(scope: &Scope, context: ListContext, part: Part) -> ToldObjects {
        ToldObjects {
            decided: context.changed(),
            changes: futures::stream::select_all(context.changes()),
            context,
            objects: BTreeMap::new(),
            settled: 0,
            differences: VecDeque::new(),
            waiting: VecDeque::new(),
            part,
            rests_until: Instant::now(),
            room: scope.api.answers.take(scope.user(), 0),
        }
    }

    /// A watch that goes on after a revision. What its client has can only be known if roles did not change since then, and if the
    /// cache reaches back so far; otherwise the client has to list again.
    async fn after(
        scope: &Scope,
        context: ListContext,
        (part, range): (Part, &KeyRange),
        filter: &registry::Filter,
        revision: Revision,
    ) -> Result<ToldObjects, Status> {
        let mut told = ToldObjects::nothing(scope, context, part);
        let storage = scope.storage()?;
        storage.cache.wait_for(revision).await.map_err(|error| storage.read_failed(error, "watch"))?;
        let snapshot = storage.cache.snapshot_at(range, revision);
        let snapshot = snapshot.filter(|_| told.decided.revision <= revision);
        let mut objects = snapshot.ok_or_else(|| Status::expired(EXPIRED))?.objects;
        storage.select(&mut objects, filter, usize::MAX).await?;
        if told.context.changed() != told.decided {
            return Err(Status::expired(EXPIRED));
        }
        told.objects = objects.into_iter().map(|object| (object.key().clone(), object)).collect();
        told.count();
        Ok(told)
    }

    /// Looks whether roles have changed, and wakes the task when they do.
    pub fn poll_changes(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = self.changes.poll_next_unpin(cx) {}
    }

    /// Whether there is something to tell that is here already.
    pub fn is_busy(&self) -> bool {
        !self.differences.is_empty() || !self.waiting.is_empty()
    }

    /// Whether roles have changed since decisions were made.
    pub fn is_outdated(&self) -> bool {
        self.context.changed() != self.decided
    }

    /// Takes over what came from the cache.
    pub fn add(&mut self, items: Vec<Item>) {
        self.waiting.extend(items);
    }

    /// Tells what is to be told. `seen` is the revision up to which the cache has nothing else for the watch.
    pub async fn tell(mut self: Box<Self>, frames: Arc<Frames>, seen: Option<Revision>, one_by_one: bool) -> Converted {
        let mut out = Chunk::default();
        let flow = match self.run(&frames, seen, one_by_one, &mut out).await {
            Ok(flow) => flow,
            Err(status) => frames.fail(&status, &mut out),
        };
        self.count();
        (out, flow, Some(self))
    }

    async fn run(
        &mut self,
        frames: &Frames,
        mut seen: Option<Revision>,
        one_by_one: bool,
        out: &mut Chunk,
    ) -> Result<ControlFlow<()>, Status> {
        let storage = frames.scope.storage()?.clone();
        let mut pace = Pace::begin();
        while out.is_empty() || !one_by_one && out.len() < CHUNK_BYTES {
            let before = out.len();
            let mut work = 0;
            let flow = if let Some(difference) = self.differences.pop_front() {
                tell_difference(frames, difference, out).await
            } else if let Some(item) = self.waiting.pop_front() {
                if self.is_behind(&item) {
                    self.waiting.push_front(item);
                    self.settle(frames, &storage).await?;
                    continue;
                }
                self.tell_item(frames, &item, &mut work, out).await?
            } else if let Some(seen) = seen.take().filter(|_| self.is_outdated()) {
                let changed = self.context.changed().revision;
                if seen < changed {
                    // The cache hears of the revision a little later than of the role. If it does not in time, this is tried again.
                    let _ = storage.cache.wait_for(changed).await;
                    break;
                }
                self.settle(frames, &storage).await?;
                continue;
            } else {
                break;
            };
            if flow.is_break() {
                return Ok(flow);
            }
            pace.worked(work + out.len() - before).await;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether an event is later than a change of roles that was not looked at.
    fn is_behind(&self, item: &Item) -> bool {
        let Item::Event(event) = item else { return false };
        self.is_outdated() && event.revision > self.context.changed().revision
    }

    async fn tell_item(
        &mut self,
        frames: &Frames,
        item: &Item,
        work: &mut usize,
        out: &mut Chunk,
    ) -> Result<ControlFlow<()>, Status> {
        match item {
            Item::Initial(object) => {
                if !self.shows(frames, object, work).await? {
                    return Ok(ControlFlow::Continue(()));
                }
                self.objects.insert(object.key().clone(), object.clone());
                Ok(tell(frames, "ADDED", object, object.revision(), out).await)
            }
            Item::InitialDone(revision) => Ok(frames.initial_done(*revision, out)),
            Item::Event(event) if event.revision <= self.settled => Ok(ControlFlow::Continue(())),
            Item::Event(event) => self.tell_event(frames, event, work, out).await,
        }
    }

    /// Tells of an event; what it is to the client follows from what it was told of.
    async fn tell_event(
        &mut self,
        frames: &Frames,
        event: &Event,
        work: &mut usize,
        out: &mut Chunk,
    ) -> Result<ControlFlow<()>, Status> {
        let Some(key) = event.subject().map(|object| object.key().clone()) else {
            return Ok(ControlFlow::Continue(()));
        };
        if let Some(object) = &event.object
            && self.shows(frames, object, work).await?
        {
            let known = self.objects.insert(key, object.clone());
            let ready = frames.storage.prepare([object.clone()]).await;
            let Some(known) = known else { return Ok(frames.change("ADDED", event, ready.only(), out)) };
            let before = frames.storage.prepare([known]).await;
            let tells = frames.filter.tells_of(ready.only(), before.only(), work)?;
            return Ok(match tells {
                true => frames.change("MODIFIED", event, ready.only(), out),
                false => ControlFlow::Continue(()),
            });
        }
        Ok(match self.objects.remove(&key) {
            Some(known) => tell(frames, "DELETED", &known, event.revision, out).await,
            None => ControlFlow::Continue(()),
        })
    }

    /// Whether the client is shown an object, by the decisions that are in use.
    async fn shows(&mut self, frames: &Frames, object: &Arc<Object>, work: &mut usize) -> Result<bool, Status> {
        // New decisions are not for events before them: what they show comes when all of them are.
        let is_known = match self.is_outdated() {
            true => self.context.knows(object),
            false => self.context.find_out(object, self.decided).await?,
        };
        if !is_known {
            return Ok(false);
        }
        let ready = frames.storage.prepare([object.clone()]).await;
        frames.matches(ready.only(), work)
    }

    /// Decides anew, and finds out what that changes for the client.
    async fn settle(&mut self, frames: &Frames, storage: &ResourceStorage) -> Result<(), Status> {
        tokio::time::sleep_until(self.rests_until).await;
        let (began, mut looks) = (Instant::now(), 0);
        let (objects, revision) = loop {
            let changed = self.context.changed();
            self.context.forget();
            let snapshot = storage.cache.snapshot(&self.part);
            let mut objects = snapshot.objects;
            storage.select(&mut objects, &frames.filter, usize::MAX).await?;
            looks += 1;
            self.decided = changed;
            if !self.is_outdated() || looks == LOOKS_MAX {
                break (objects, snapshot.revision);
            }
        };
        let now: BTreeMap<Key, Arc<Object>> =
            objects.into_iter().map(|object| (object.key().clone(), object)).collect();
        let gone = self.objects.iter().filter(|(key, _)| !now.contains_key(*key)).map(|(_, object)| {
            let at = if self.decided.revision > 0 { self.decided.revision } else { revision };
            Untold::Change { kind: "DELETED", object: object.clone(), revision: at.max(object.revision()) }
        });
        let here = now.iter().filter_map(|(key, object)| {
            let kind = match self.objects.get(key) {
                None => "ADDED",
                Some(known) if known.revision() != object.revision() => "MODIFIED",
                Some(_) => return None,
            };
            Some(Untold::Change { kind, object: object.clone(), revision: object.revision() })
        });
        let mut differences: VecDeque<Untold> = gone.chain(here).collect();
        if !differences.is_empty() && frames.bookmarks {
            differences.push_back(Untold::Bookmark(revision));
        }
        self.differences.append(&mut differences);
        self.rests_until = Instant::now() + began.elapsed() * REST_TIMES;
        (self.objects, self.settled) = (now, revision);
        Ok(())
    }

    fn count(&mut self) {
        self.room.resize(self.objects.len() * ENTRY_BYTES);
    }
}

async fn tell_difference(frames: &Frames, difference: Untold, out: &mut Chunk) -> ControlFlow<()> {
    match difference {
        Untold::Change { kind, object, revision } => tell(frames, kind, &object, revision, out).await,
        Untold::Bookmark(revision) => {
            frames.bookmark(revision, false, out);
            ControlFlow::Continue(())
        }
    }
}

async fn tell(
    frames: &Frames,
    kind: &'static str,
    object: &Arc<Object>,
    revision: Revision,
    out: &mut Chunk,
) -> ControlFlow<()> {
    let ready = frames.storage.prepare([object.clone()]).await;
    frames.tell(kind, ready.only(), revision, out)
}
