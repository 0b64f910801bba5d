//! Create, update and delete on the in-memory store: what is stored, what is refused, and what happens when another write
//! comes first.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::BoxFuture;
use object::{Cursor, Errors, Meta, Value, value};
use registry::{Context, Deletion, Effects, Error, Facts, ResourceStorage, Strategy, Undo, UpdateOptions};
use support::{Requests, told};

/// Config maps whose strategy counts what is done to them.
struct World {
    storage: Arc<ResourceStorage>,
    requests: Requests,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    undone: AtomicUsize,
    committed: AtomicUsize,
    removed: AtomicUsize,
}

struct Counting {
    counts: Arc<Counts>,
    facts: Facts,
}

struct Reserved(Arc<Counts>);

#[async_trait]
impl Undo for Reserved {
    async fn undo(self: Box<Self>) {
        self.0.undone.fetch_add(1, Ordering::SeqCst);
    }

    async fn commit(self: Box<Self>) {
        self.0.committed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Strategy for Counting {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn effects(&self) -> Option<&dyn Effects> {
        Some(self)
    }

    fn validate(&self, _: &Context, object: &Cursor, errors: &mut Errors) {
        if object.field("data").field("refuse").is_set() {
            object.field("data").invalid(errors, "refused");
        }
    }
}

#[async_trait]
impl Effects for Counting {
    async fn begin_create(&self, _: &Context<'_>, _: &mut Value) -> Result<Option<Box<dyn Undo>>, Error> {
        Ok(Some(Box::new(Reserved(self.counts.clone()))))
    }

    async fn begin_update(&self, _: &Context<'_>, _: &mut Value, _: &Value) -> Result<Option<Box<dyn Undo>>, Error> {
        Ok(Some(Box::new(Reserved(self.counts.clone()))))
    }

    async fn after_delete(&self, _: &Context<'_>, _: &Value) {
        self.counts.removed.fetch_add(1, Ordering::SeqCst);
    }
}

impl World {
    /// Deletions take `grace` seconds, 0 or 30; None is at once.
    async fn new(grace: Option<i64>) -> World {
        let deletion = match grace {
            None => Deletion::Immediate,
            Some(0) => Deletion::Graceful(|_, options| options.field("gracePeriodSeconds").as_int().unwrap_or(0)),
            Some(_) => Deletion::Graceful(|_, options| options.field("gracePeriodSeconds").as_int().unwrap_or(30)),
        };
        let facts = Facts { allows_unconditional_update: false, deletion, ..Facts::WITH_STATUS };
        let counts = Arc::new(Counts::default());
        let storage = support::storage("configmaps", Arc::new(Counting { counts: counts.clone(), facts })).await;
        World { storage, requests: Requests::default(), counts }
    }

    fn cx(&self) -> Context<'_> {
        self.requests.cx()
    }

    async fn create(&self, object: Value) -> Result<Value, String> {
        told(self.storage.create(&self.cx(), object).await)
    }

    async fn update(&self, name: &str, change: &mut Merge<'_>, options: &UpdateOptions) -> Result<Value, String> {
        self.update_as(&self.cx(), name, change, options).await
    }

    async fn update_as(
        &self,
        cx: &Context<'_>,
        name: &str,
        change: &mut Merge<'_>,
        options: &UpdateOptions,
    ) -> Result<Value, String> {
        told(self.try_update(cx, name, change, options).await)
    }

    async fn try_update(
        &self,
        cx: &Context<'_>,
        name: &str,
        change: &mut Merge<'_>,
        options: &UpdateOptions,
    ) -> Result<Value, Error> {
        let mut write = self.storage.begin(cx, name, options).await?;
        loop {
            let current = write.current().await?;
            let object = change.wanted(current.clone()).await;
            if let Some(outcome) = write.store(object, current.as_ref()).await? {
                return Ok(outcome.object);
            }
        }
    }

    async fn delete(&self, name: &str, options: Value) -> Result<(bool, Value), String> {
        let deleted = self.storage.delete(&self.cx(), name, &options).await;
        told(deleted.map(|deleted| (deleted.gone, deleted.object)))
    }

    async fn get(&self, name: &str) -> Option<Value> {
        self.storage.get("ns", name).await.ok()
    }

    /// Undone, committed and removed so far.
    fn counts(&self) -> [usize; 3] {
        [&self.counts.undone, &self.counts.committed, &self.counts.removed].map(|count| count.load(Ordering::SeqCst))
    }
}

fn map(name: &str, data: Value) -> Value {
    value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": (data)})
}

/// Sets one key of the data, then whatever `edit` does. While it is asked for the first time, `meanwhile` happens.
struct Merge<'a> {
    key: &'static str,
    edit: fn(&mut Value),
    meanwhile: Option<BoxFuture<'a, ()>>,
    /// How many keys the data had each time it was asked; None where there was no object.
    seen: Vec<Option<usize>>,
}

impl Merge<'_> {
    fn set(key: &'static str) -> Merge<'static> {
        Merge { key, edit: |_| {}, meanwhile: None, seen: Vec::new() }
    }

    fn edit(edit: fn(&mut Value)) -> Merge<'static> {
        Merge { edit, ..Merge::set("") }
    }
}

fn while_asked<'a>(key: &'static str, meanwhile: impl Future<Output = ()> + Send + 'a) -> Merge<'a> {
    Merge { key, edit: |_| {}, meanwhile: Some(Box::pin(meanwhile)), seen: Vec::new() }
}

impl Merge<'_> {
    async fn wanted(&mut self, existing: Option<Value>) -> Value {
        self.seen.push(existing.as_ref().map(|old| old.field("data").as_map().map_or(0, |data| data.len())));
        let mut object = existing.unwrap_or_else(|| map("m", Value::map()));
        if !self.key.is_empty() {
            object.set(&["data", self.key], "x");
        }
        (self.edit)(&mut object);
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile.await;
        }
        object
    }
}

fn plain() -> UpdateOptions {
    UpdateOptions::default()
}

fn apply() -> UpdateOptions {
    UpdateOptions { create: true, ..UpdateOptions::default() }
}

#[tokio::test]
async fn creations_are_stored_once() {
    let world = World::new(None).await;
    let mut sent = map("m", value!({"a": "b"}));
    sent.set(&["metadata", "uid"], "mine");
    let made = world.create(sent.clone()).await.unwrap();
    assert_ne!(made.uid(), "mine");
    assert_eq!((made.namespace(), made.meta_str("creationTimestamp")), ("ns", "2023-11-14T22:13:20Z"));
    assert_eq!(world.get("m").await, Some(made));
    assert_eq!(world.create(sent).await, Err(r#"configmaps "m" already exists"#.into()));
    let refused = world.create(map("r", value!({"refuse": "1"}))).await.unwrap_err();
    assert!(refused.starts_with(r#"ConfigMap "r" is invalid: data: Invalid value"#), "{refused}");
    assert_eq!(world.counts(), [2, 1, 0], "what was reserved is given back if the creation fails");
    let mut elsewhere = map("o", Value::map());
    elsewhere.set(&["metadata", "namespace"], "other");
    let why = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(world.create(elsewhere).await, Err(why.into()));
}

#[tokio::test]
async fn updates_see_what_was_written_meanwhile() {
    let world = World::new(None).await;
    world.create(map("m", value!({"a": "b"}))).await.unwrap();
    let mut change = while_asked("mine", async {
        world.update("m", &mut Merge::set("other"), &plain()).await.unwrap();
    });
    let updated = world.update("m", &mut change, &plain()).await.unwrap();
    assert_eq!(change.seen, [Some(1), Some(2)]);
    assert_eq!(updated.field("data"), &value!({"a": "b", "mine": "x", "other": "x"}));
    assert_eq!(world.counts(), [1, 3, 0], "only the attempt that lost is undone");

    // Writing what is there already does not make a new version.
    let again = world.update("m", &mut Merge::set(""), &plain()).await.unwrap();
    assert_eq!(again.resource_version(), updated.resource_version());
}

#[tokio::test]
async fn updates_of_what_is_created_or_deleted_meanwhile() {
    let world = World::new(None).await;
    let not_found = r#"configmaps "m" not found"#;
    assert_eq!(world.update("m", &mut Merge::set("a"), &plain()).await, Err(not_found.into()));

    // Another request creates the object first: the change is made to that one.
    let mut change = while_asked("mine", async {
        world.create(map("m", value!({"other": "x"}))).await.unwrap();
    });
    let updated = world.update("m", &mut change, &apply()).await.unwrap();
    assert_eq!(change.seen, [None, Some(1)]);
    assert_eq!(updated.field("data"), &value!({"mine": "x", "other": "x"}));

    // Another request deletes it: an update is refused, an apply creates it again.
    for (options, want) in [(plain(), Err(not_found)), (apply(), Ok(1))] {
        let _ = world.create(map("m", value!({"other": "x"}))).await;
        let mut change = while_asked("again", async {
            world.delete("m", Value::map()).await.unwrap();
        });
        let got = world.update("m", &mut change, &options).await;
        let keys = got.as_ref().map(|object| object.field("data").as_map().unwrap().len());
        assert_eq!(keys.map_err(String::as_str), want);
    }
}

#[tokio::test]
async fn updates_are_of_the_object_that_was_meant() {
    let world = World::new(None).await;
    let made = world.create(map("m", Value::map())).await.unwrap();
    let uid = |uid: &str| UpdateOptions { uid: Some(uid.into()), ..plain() };
    assert!(world.update("m", &mut Merge::set("a"), &uid(made.uid())).await.is_ok());
    let refused = world.update("m", &mut Merge::set("b"), &uid("other")).await.unwrap_err();
    let want = format!("Precondition failed: UID in precondition: other, UID in object meta: {}", made.uid());
    assert!(refused.ends_with(&want), "{refused}");
    let cases: [(fn(&mut Value), &str); 5] = [
        (|o| o.set_meta_str("resourceVersion", "1"), registry::MODIFIED),
        (
            |o| o.set_meta_str("resourceVersion", ""),
            "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        ),
        (|o| o.set_meta_str("resourceVersion", "x"), r#"strconv.ParseUint: parsing "x": invalid syntax"#),
        (|o| o.set_meta_str("uid", "other"), "metadata.uid: Invalid value: \"other\": field is immutable"),
        (|o| o.set(&["data", "refuse"], "1"), "refused"),
    ];
    for (edit, want) in cases {
        let refused = world.update("m", &mut Merge::edit(edit), &plain()).await.unwrap_err();
        assert!(refused.ends_with(want), "{refused}\n{want}");
    }
    let dry = Context { dry_run: true, ..world.cx() };
    let changed = world.update_as(&dry, "m", &mut Merge::set("dry"), &plain()).await;
    assert_eq!(changed.unwrap().str_at(&["data", "dry"]), "x");
    assert_eq!(world.get("m").await.unwrap().field("data"), &value!({"a": "x"}));
}

#[tokio::test]
async fn finalizers_hold_objects_until_the_last_is_gone() {
    let world = World::new(None).await;
    let mut held = map("m", Value::map());
    held.set(&["metadata", "finalizers"], vec!["example.com/a", "example.com/b"]);
    world.create(held).await.unwrap();
    let (gone, marked) = world.delete("m", Value::map()).await.unwrap();
    assert_eq!((gone, marked.meta_str("deletionTimestamp")), (false, "2023-11-14T22:13:20Z"));
    let (_, again) = world.delete("m", Value::map()).await.unwrap();
    assert_eq!(again.resource_version(), marked.resource_version(), "a second deletion changes nothing");

    let mut more = Merge::edit(|o| o.set(&["metadata", "finalizers"], vec!["example.com/a", "example.com/c"]));
    let refused = world.update("m", &mut more, &plain()).await.unwrap_err();
    assert!(refused.contains("no new finalizers can be added if the object is being deleted"), "{refused}");
    let mut fewer = Merge::edit(|o| o.set(&["metadata", "finalizers"], vec!["example.com/b"]));
    world.update("m", &mut fewer, &plain()).await.unwrap();
    assert!(world.get("m").await.is_some());
    let mut none = Merge::edit(|o| {
        o.metadata_mut().remove("finalizers");
    });
    world.update("m", &mut none, &plain()).await.unwrap();
    assert_eq!((world.get("m").await, world.counts()[2]), (None, 1));
}

#[tokio::test]
async fn dependents_are_left_to_the_garbage_collector() {
    let world = World::new(None).await;
    for (name, options, gone, want) in [
        ("a", value!({}), true, vec![]),
        ("b", value!({"propagationPolicy": "Background"}), true, vec![]),
        ("c", value!({"propagationPolicy": "Foreground"}), false, vec!["foregroundDeletion"]),
        ("d", value!({"propagationPolicy": "Orphan"}), false, vec!["orphan"]),
        ("e", value!({"orphanDependents": true}), false, vec!["orphan"]),
    ] {
        world.create(map(name, Value::map())).await.unwrap();
        let (was_gone, object) = world.delete(name, options.clone()).await.unwrap();
        assert_eq!((was_gone, object.finalizers().collect::<Vec<_>>()), (gone, want), "{options:?}");
    }
    world.create(map("kept", Value::map())).await.unwrap();
    for (options, want) in [
        (value!({"propagationPolicy": "No"}), "Unsupported value"),
        (value!({"propagationPolicy": "Orphan", "orphanDependents": true}), "cannot be both set"),
        (value!({"preconditions": {"uid": "u"}}), "the UID in the precondition (u) does not match"),
        (
            value!({"preconditions": {"resourceVersion": "1"}}),
            "the ResourceVersion in the precondition (1) does not match",
        ),
    ] {
        let refused = world.delete("kept", options).await.unwrap_err();
        assert!(refused.contains(want), "{refused}");
    }
}

impl World {
    /// Deletes `m`. While admission is asked for the first time, `meanwhile` happens. Returns how often it is asked, too.
    async fn delete_while(
        &self,
        options: &Value,
        meanwhile: impl Future<Output = ()>,
    ) -> Result<(registry::Deleted, usize), Error> {
        let (cx, mut meanwhile, mut asked) = (self.cx(), Some(meanwhile), 0);
        let mut removal = self.storage.begin_removal(&cx, "m", options).await?;
        loop {
            let planned = removal.plan().await?;
            asked += usize::from(planned.asks_about().is_some());
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile.await;
            }
            if let Some(deleted) = removal.commit(planned).await? {
                return Ok((deleted, asked));
            }
        }
    }
}

#[tokio::test]
async fn deletions_see_what_was_written_meanwhile() {
    for grace in [None, Some(0)] {
        let world = World::new(grace).await;
        world.create(map("m", Value::map())).await.unwrap();
        let holding = async {
            let mut change = Merge::edit(|o| o.set(&["metadata", "finalizers"], vec!["example.com/a"]));
            world.update("m", &mut change, &plain()).await.unwrap();
        };
        let (deleted, asked) = world.delete_while(&Value::map(), holding).await.unwrap();
        assert!(!deleted.gone, "the finalizer that was added meanwhile holds it");
        assert_eq!((asked, world.counts()[2]), (2, 0));
    }
}

#[tokio::test]
async fn grace_periods_only_get_shorter() {
    let world = World::new(Some(30)).await;
    world.create(map("m", Value::map())).await.unwrap();
    let dry = Context { dry_run: true, ..world.cx() };
    world.storage.delete(&dry, "m", &value!({"gracePeriodSeconds": 0})).await.unwrap();
    for (asked, want) in [
        (value!({}), Some((30, "2023-11-14T22:13:50Z"))),
        (value!({"gracePeriodSeconds": 60}), Some((30, "2023-11-14T22:13:50Z"))),
        (value!({"gracePeriodSeconds": 10}), Some((10, "2023-11-14T22:13:30Z"))),
        (value!({"gracePeriodSeconds": 0}), None),
    ] {
        let (gone, object) = world.delete("m", asked.clone()).await.unwrap();
        assert_eq!(gone, want.is_none(), "{asked:?}");
        if let Some((seconds, at)) = want {
            assert_eq!(object.at(&["metadata", "deletionGracePeriodSeconds"]).as_int(), Some(seconds));
            assert_eq!(object.meta_str("deletionTimestamp"), at, "{asked:?}");
        }
    }
    assert_eq!((world.get("m").await, world.counts()[2]), (None, 1));
}

/// What another request does while a write is being prepared, and what becomes of the write.
#[tokio::test]
async fn preconditions_are_asked_of_the_object_that_is_there_at_last() {
    // Whether the object is only changed meanwhile or replaced by another of the same name; what the write says about it.
    for (replaced, by_uid, by_version, want) in [
        (false, false, false, Ok(())),
        (false, true, false, Ok(())),
        (false, false, true, Err("ResourceVersion in precondition")),
        (true, false, false, Ok(())),
        (true, true, false, Err("UID in precondition")),
        (true, true, true, Err("UID in precondition")),
    ] {
        let world = World::new(None).await;
        let made = world.create(map("m", Value::map())).await.unwrap();
        let options = UpdateOptions {
            uid: by_uid.then(|| made.uid().to_string()),
            resource_version: by_version.then(|| made.resource_version().to_string()),
            ..plain()
        };
        let mut change = while_asked("mine", async {
            if replaced {
                world.delete("m", Value::map()).await.unwrap();
                world.create(map("m", Value::map())).await.unwrap();
            } else {
                world.update("m", &mut Merge::set("other"), &plain()).await.unwrap();
            }
        });
        let updated = world.update("m", &mut change, &options).await;
        let stored = world.get("m").await.unwrap();
        assert_eq!(stored.field("data").field("mine").is_null(), want.is_err(), "{replaced} {by_uid} {by_version}");
        match want {
            Ok(()) => assert_eq!(updated, Ok(stored)),
            Err(why) => assert!(updated.unwrap_err().contains(why), "{replaced} {by_uid} {by_version}"),
        }
        assert_eq!(world.counts()[0], 1, "what the first attempt reserved is given back");
    }
}

#[tokio::test]
async fn deletions_are_of_the_object_that_was_meant() {
    let not_found = "configmaps \"m\" not found";
    for (grace, meanwhile, by_uid, want) in [
        (None, "update", true, Ok(true)),
        (None, "delete", false, Err(not_found)),
        (None, "replace", false, Ok(true)),
        (None, "replace", true, Err("the UID in the precondition")),
        // With a grace period of zero the object is marked first, and the mark is tried again as a removal is.
        (Some(0), "update", true, Ok(true)),
        (Some(0), "delete", false, Err(not_found)),
        (Some(0), "replace", true, Err("the UID in the precondition")),
        (Some(30), "update", true, Ok(false)),
        (Some(30), "delete", false, Ok(false)),
    ] {
        let case = format!("{grace:?} {meanwhile} {by_uid}");
        let world = World::new(grace).await;
        let made = world.create(map("m", Value::map())).await.unwrap();
        let options = match by_uid {
            true => value!({"preconditions": {"uid": (made.uid())}}),
            false => Value::map(),
        };
        let other = async {
            if meanwhile == "update" {
                world.update("m", &mut Merge::set("other"), &plain()).await.unwrap();
                return;
            }
            let now = if grace == Some(30) { Value::map() } else { value!({"gracePeriodSeconds": 0}) };
            world.delete("m", now).await.unwrap();
            if meanwhile == "replace" {
                world.create(map("m", Value::map())).await.unwrap();
            }
        };
        let deleted = world.delete_while(&options, other).await;
        match (told(deleted), want) {
            (Ok((deleted, _)), Ok(gone)) => {
                assert_eq!((deleted.gone, world.get("m").await.is_none()), (gone, gone), "{case}");
                let removed_first = usize::from(meanwhile == "replace");
                assert_eq!(world.counts()[2], usize::from(gone) + removed_first, "{case}");
            }
            (Err(got), Err(want)) => assert!(got.contains(want), "{case}: {got}"),
            (got, want) => panic!("{case}: {got:?}, not {want:?}"),
        }
        let is_left = matches!(want, Err(why) if why != not_found) || want == Ok(false);
        assert_eq!(world.get("m").await.is_some(), is_left, "{case}");
    }
}

/// A draft that is neither committed nor refused, as when its request ends, gives back what it has reserved.
#[tokio::test]
async fn drafts_that_are_dropped_give_back() {
    let world = World::new(None).await;
    let cx = world.cx();
    drop(world.storage.begin_new(&cx, map("m", Value::map())).check().await.unwrap());
    world.create(map("m", Value::map())).await.unwrap();
    let options = plain();
    let write = world.storage.begin(&cx, "m", &options).await.unwrap();
    let current = write.current().await.unwrap();
    drop(write.check(current.clone().unwrap(), current.as_ref()).await.unwrap());
    tokio::task::yield_now().await;
    assert_eq!(world.counts(), [2, 1, 0]);
}

/// The last finalizer is removed while another request writes the object.
#[tokio::test]
async fn the_last_finalizer_is_removed_from_what_is_there_at_last() {
    for (adds_label, removed) in [(true, 1), (false, 1)] {
        let world = World::new(None).await;
        let mut held = map("m", Value::map());
        held.set(&["metadata", "finalizers"], vec!["example.com/a", "example.com/b"]);
        world.create(held).await.unwrap();
        world.delete("m", Value::map()).await.unwrap();
        // `b` goes by itself, or another request changes something else.
        let meanwhile: fn(&mut Value) = match adds_label {
            true => |o| o.set(&["metadata", "labels"], value!({"a": "b"})),
            false => |o| o.set(&["metadata", "finalizers"], vec!["example.com/a"]),
        };
        let mut change = while_asked("", async {
            world.update("m", &mut Merge::edit(meanwhile), &plain()).await.unwrap();
        });
        change.edit = |o| drop(o.metadata_mut().remove("finalizers"));
        let last = world.update("m", &mut change, &plain()).await.unwrap();
        assert_eq!(change.seen.len(), 2, "the removal was tried again");
        assert_eq!((last.labels().count() == 1, last.is_deleting()), (adds_label, true));
        assert_eq!((world.get("m").await, world.counts()[2]), (None, removed));
    }
}

/// A kind that generates the same name each time, as if chance had it so.
#[tokio::test]
async fn clients_are_told_when_no_generated_name_is_free() {
    struct Fixed;
    impl Strategy for Fixed {
        fn facts(&self) -> &Facts {
            &Facts { generates_names: false, ..Facts::WITH_STATUS }
        }
    }
    let storage = support::storage("configmaps", Arc::new(Fixed)).await;
    let requests = Requests::default();
    let prefixed = value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m"}});
    let create = async || storage.create(&requests.cx(), prefixed.clone()).await;
    assert_eq!(told(create().await).unwrap().name(), "m");
    let why = told(create().await).unwrap_err();
    assert_eq!(
        why,
        "configmaps \"m\" already exists, the server was not able to generate a unique name for the object"
    );
}
