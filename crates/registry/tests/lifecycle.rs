//! An object from its creation to its end, by what its strategy says: status and generation, subresources, deletions in steps,
//! creation by update, objects that are too large or unreadable, and many writers at once.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use object::{Cursor, Errors, Meta, Value, value};
use registry::{Context, Deletion, Facts, GarbageCollection, ResourceStorage, Strategy, UpdateOptions, UpdateScope};
use support::{Requests, told};

/// A kind with this row.
struct Kind(Facts);

const PLAIN: Facts =
    Facts { generation: Some(registry::is_changed), allows_unconditional_update: false, ..Facts::WITH_STATUS };
const UNCONDITIONAL: Facts = Facts { allows_unconditional_update: true, ..PLAIN };

impl Strategy for Kind {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn prepare_subresource(&self, _: &Context, new: &mut Value, old: &Value) {
        new.keep(&["spec", "selector"], old);
    }

    fn validate_status_update(&self, _: &Context, new: &Cursor, _: &Cursor, errors: &mut Errors) {
        new.at(&["status", "replicas"]).non_negative(errors);
    }

    fn validate_subresource(&self, _: &Context, new: &Cursor, _: &Cursor, errors: &mut Errors) {
        new.at(&["spec", "replicas"]).non_negative(errors);
    }
}

/// Replication controllers, which have a spec and a status, on the in-memory store.
struct World {
    storage: Arc<ResourceStorage>,
    requests: Requests,
}

impl World {
    async fn new(facts: Facts) -> World {
        let storage = support::storage("replicationcontrollers", Arc::new(Kind(facts))).await;
        World { storage, requests: Requests::default() }
    }

    fn cx(&self) -> Context<'_> {
        self.requests.cx()
    }

    async fn create(&self, object: Value) -> Result<Value, String> {
        told(self.storage.create(&self.cx(), object).await)
    }

    async fn update(&self, scope: UpdateScope, edit: &(dyn Fn(&mut Value) + Sync)) -> Result<Value, String> {
        let options = UpdateOptions { scope, ..UpdateOptions::default() };
        self.update_with(edit, &options).await
    }

    async fn update_with(&self, edit: &(dyn Fn(&mut Value) + Sync), options: &UpdateOptions) -> Result<Value, String> {
        told(self.try_update(edit, options).await)
    }

    async fn try_update(
        &self,
        edit: &(dyn Fn(&mut Value) + Sync),
        options: &UpdateOptions,
    ) -> Result<Value, registry::Error> {
        let cx = self.cx();
        let mut write = self.storage.begin(&cx, "rc", options).await?;
        loop {
            let current = write.current().await?;
            let mut object = current.clone().unwrap_or_else(|| controller(0));
            edit(&mut object);
            if let Some(outcome) = write.store(object, current.as_ref()).await? {
                return Ok(outcome.object);
            }
        }
    }

    /// Whether it is gone and whether clients get it back, and the object as it was last.
    async fn delete(&self, options: Value) -> Result<(bool, bool, Value), String> {
        let deleted = self.storage.delete(&self.cx(), "rc", &options).await;
        told(deleted.map(|deleted| (deleted.gone, deleted.show_object, deleted.object)))
    }

    async fn get(&self) -> Option<Value> {
        self.storage.get("ns", "rc").await.ok()
    }
}

fn controller(replicas: i64) -> Value {
    value!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
        "spec": {"replicas": replicas, "selector": {"a": "b"}}, "status": {"replicas": 7},
    })
}

fn numbers(object: &Value) -> [i64; 3] {
    let at = |path: &[&str]| object.at(path).as_int().unwrap_or(0);
    [at(&["spec", "replicas"]), at(&["status", "replicas"]), object.generation()]
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    use UpdateScope::{Object, Other, Status, Subresource};
    let world = World::new(UNCONDITIONAL).await;
    assert_eq!(numbers(&world.create(controller(1)).await.unwrap()), [1, 0, 1]);
    let both = |replicas: i64| {
        move |object: &mut Value| {
            object.set(&["spec", "replicas"], replicas);
            object.set(&["status", "replicas"], replicas * 10);
            object.set(&["spec", "selector", "a"], replicas.to_string());
        }
    };
    // The scope, what is written, and what is there then: replicas, those of the status, generation, and the selector.
    for (scope, replicas, want, selector) in [
        (Object, 2, [2, 0, 2], "2"),
        (Status, 3, [2, 30, 2], "2"),
        (Object, 4, [4, 30, 3], "4"),
        (Object, 4, [4, 30, 3], "4"),
        (Subresource, 5, [5, 50, 4], "4"),
        (Other, 6, [6, 60, 4], "6"),
    ] {
        let updated = world.update(scope, &both(replicas)).await.unwrap();
        assert_eq!((numbers(&updated), updated.str_at(&["spec", "selector", "a"])), (want, selector), "{replicas}");
        assert_eq!(world.get().await.unwrap(), updated);
    }
    for (scope, path) in [(Status, "status.replicas"), (Subresource, "spec.replicas")] {
        let refused = world.update(scope, &both(-1)).await.unwrap_err();
        let want = format!("{path}: Invalid value: {}", if scope == Status { -10 } else { -1 });
        assert!(refused.contains(&want), "{refused}");
    }
    // Nothing of what the server sets can be changed or lost.
    let made = world.get().await.unwrap();
    let wipe = |object: &mut Value| {
        for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
            object.metadata_mut().remove(field);
        }
    };
    let updated = world.update(Object, &wipe).await.unwrap();
    assert_eq!(updated.field("metadata"), made.field("metadata"));
}

#[tokio::test]
async fn a_status_is_created_where_the_kind_says_so() {
    for (keeps_status_on_create, want) in [(false, 0), (true, 7)] {
        let world = World::new(Facts { keeps_status_on_create, ..PLAIN }).await;
        let made = world.create(controller(1)).await.unwrap();
        assert_eq!(numbers(&made)[1], want);
    }
}

#[tokio::test]
async fn versions_are_required_or_not() {
    let edits: [(&str, fn(&mut Value)); 3] = [
        ("none", |object| drop(object.metadata_mut().remove("resourceVersion"))),
        ("zero", |object| object.set_meta_str("resourceVersion", "0")),
        ("stale", |object| object.set_meta_str("resourceVersion", "1")),
    ];
    for allows_unconditional_update in [true, false] {
        let world = World::new(Facts { allows_unconditional_update, ..PLAIN }).await;
        world.create(controller(1)).await.unwrap();
        for (what, edit) in edits {
            let fine = allows_unconditional_update && what != "stale";
            assert_eq!(
                world.update(UpdateScope::Object, &edit).await.is_ok(),
                fine,
                "{allows_unconditional_update} {what}"
            );
        }
        let made = world.get().await.unwrap();
        for (version, fine) in [(made.resource_version(), true), ("1", false), ("", false)] {
            let options = UpdateOptions { resource_version: Some(version.into()), ..UpdateOptions::default() };
            assert_eq!(world.update_with(&|_| {}, &options).await.is_ok(), fine, "{version}");
        }
    }
}

#[tokio::test]
async fn updates_create_where_the_kind_or_the_request_says_so() {
    let precondition = "Precondition failed";
    for (allows_create_on_update, create, uid, want) in [
        (false, false, None, Err("replicationcontrollers \"rc\" not found")),
        (true, false, None, Ok(1)),
        (false, true, None, Ok(1)),
        (false, true, Some("u"), Err(precondition)),
    ] {
        let world = World::new(Facts { allows_create_on_update, ..UNCONDITIONAL }).await;
        let options = UpdateOptions { create, uid: uid.map(String::from), ..UpdateOptions::default() };
        let got = world.update_with(&|_| {}, &options).await;
        match want {
            Ok(generation) => assert_eq!(got.unwrap().generation(), generation),
            Err(why) => assert!(got.unwrap_err().contains(why)),
        }
        assert_eq!(world.get().await.is_some(), want.is_ok());
    }
}

#[tokio::test]
async fn deletions_in_two_steps_wait_for_the_object() {
    let world = World::new(Facts {
        deletion: Deletion::Marked(|object| object.set(&["metadata", "annotations", "marked"], "yes")),
        may_finish: |object| object.at(&["spec", "minReadySeconds"]).as_int().unwrap_or(0) == 0,
        ..UNCONDITIONAL
    });
    let world = world.await;
    let mut waits = controller(1);
    waits.set(&["spec", "minReadySeconds"], 5);
    world.create(waits).await.unwrap();
    let (gone, shown, marked) = world.delete(Value::map()).await.unwrap();
    assert_eq!((gone, shown, marked.str_at(&["metadata", "annotations", "marked"])), (false, true, "yes"));
    assert!(marked.is_deleting());
    // Nothing happens until the object may go; then the update that lets it go removes it.
    let (gone, _, again) = world.delete(Value::map()).await.unwrap();
    assert_eq!((gone, again.resource_version()), (false, marked.resource_version()));
    world.update(UpdateScope::Object, &|object| object.set(&["spec", "replicas"], 0)).await.unwrap();
    assert!(world.get().await.is_some());
    world.update(UpdateScope::Object, &|object| object.set(&["spec", "minReadySeconds"], 0)).await.unwrap();
    assert_eq!(world.get().await, None);
}

#[tokio::test]
async fn deletions_raise_the_generation_and_show_what_the_kind_says() {
    // The kind, its finalizers, and then: gone, shown, generation, grace period.
    let grace_period = |_: &Value, options: &Value| options.field("gracePeriodSeconds").as_int().unwrap_or(30);
    let graceful = Facts { deletion: Deletion::Graceful(grace_period), ..PLAIN };
    let returned = Facts { returns_deleted_object: true, ..PLAIN };
    let held = vec!["example.com/held"];
    for (facts, finalizers, options, want) in [
        (PLAIN, vec![], value!({}), (true, false, 1, None)),
        (returned, vec![], value!({}), (true, true, 1, None)),
        (PLAIN, held.clone(), value!({}), (false, true, 2, Some(0))),
        (graceful, vec![], value!({}), (false, true, 2, Some(30))),
        (graceful, vec![], value!({"gracePeriodSeconds": 0}), (true, false, 2, Some(0))),
        (graceful, held, value!({"gracePeriodSeconds": 0}), (false, true, 2, Some(0))),
    ] {
        let world = World::new(facts).await;
        let mut object = controller(1);
        if !finalizers.is_empty() {
            object.set(&["metadata", "finalizers"], finalizers);
        }
        world.create(object).await.unwrap();
        let dry = Context { dry_run: true, ..world.cx() };
        let would = world.storage.delete(&dry, "rc", &options).await.unwrap();
        assert_eq!((would.gone, world.get().await.unwrap().is_deleting()), (want.0, false));
        let (gone, shown, last) = world.delete(options.clone()).await.unwrap();
        let grace = last.at(&["metadata", "deletionGracePeriodSeconds"]).as_int();
        assert_eq!((gone, shown, last.generation(), grace), want, "{options:?}");
        assert_eq!(world.get().await.is_none(), gone);
    }
}

#[tokio::test]
async fn kinds_refuse_deletions_in_their_words() {
    let own = Facts {
        protected: Some((&["rc"], "it is needed")),
        precondition_words: Some("no"),
        allows_unconditional_update: true,
        ..PLAIN
    };
    let world = World::new(own).await;
    world.create(controller(1)).await.unwrap();
    for (verb, options, want) in [
        ("delete", value!({}), "replicationcontrollers \"rc\" is forbidden: it is needed"),
        (
            "deletecollection",
            value!({"preconditions": {"uid": "u"}}),
            ": no: UID in precondition: u, UID in object meta: ",
        ),
        (
            "deletecollection",
            value!({"preconditions": {"resourceVersion": "1"}}),
            ": no: ResourceVersion in precondition: 1, ",
        ),
        ("deletecollection", value!({}), ""),
    ] {
        let cx = Context { verb, ..world.cx() };
        match told(world.storage.delete(&cx, "rc", &options).await) {
            Ok(deleted) => assert!(deleted.gone && want.is_empty()),
            Err(why) => assert!(!want.is_empty() && why.contains(want), "{why}"),
        }
    }
}

#[tokio::test]
async fn kinds_decide_about_dependents() {
    use GarbageCollection::{Background, Orphan, Unsupported};
    for (garbage_collection, options, want) in [
        (Background, value!({}), vec![]),
        (Orphan, value!({}), vec!["orphan"]),
        (Orphan, value!({"propagationPolicy": "Background"}), vec![]),
        (Orphan, value!({"orphanDependents": false}), vec![]),
        (Background, value!({"orphanDependents": true}), vec!["orphan"]),
        (Unsupported, value!({"propagationPolicy": "Foreground"}), vec![]),
    ] {
        let world = World::new(Facts { garbage_collection, ..PLAIN }).await;
        world.create(controller(1)).await.unwrap();
        let (gone, _, last) = world.delete(options.clone()).await.unwrap();
        let held: Vec<&str> = last.finalizers().collect();
        assert_eq!((gone, &held), (want.is_empty(), &want), "{options:?}");
    }
    // A finalizer that is there already says it, unless the deletion does.
    for (options, want) in [
        (value!({}), vec!["foregroundDeletion"]),
        (value!({"propagationPolicy": "Orphan"}), vec!["orphan"]),
        (value!({"propagationPolicy": "Background"}), vec![]),
    ] {
        let world = World::new(PLAIN).await;
        let mut object = controller(1);
        object.set(&["metadata", "finalizers"], vec!["foregroundDeletion"]);
        world.create(object).await.unwrap();
        let (_, _, last) = world.delete(options.clone()).await.unwrap();
        let held: Vec<&str> = if want.is_empty() { Vec::new() } else { last.finalizers().collect() };
        assert_eq!(held, want, "{options:?}");
        assert_eq!(world.get().await.is_none(), want.is_empty());
    }
}

/// Managed fields are dropped from an object that is too large with them; without them it is refused.
#[tokio::test]
async fn objects_too_large_lose_their_managed_fields() {
    const LIMIT: usize = 1_572_864;
    let entry = |bytes: usize| {
        let fields = Value::Raw(object::Raw::new(format!(r#"{{"f:{}":{{}}}}"#, "x".repeat(bytes))));
        value!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": (fields)})
    };
    for (annotation, managed, want) in
        [(10, 10, Some(1)), (200_000, LIMIT, Some(0)), (LIMIT, 10, None), (LIMIT, LIMIT, None)]
    {
        let world = World::new(UNCONDITIONAL).await;
        let large = |object: &mut Value| {
            object.set(&["spec", "selector", "large"], "y".repeat(annotation));
            object.set(&["metadata", "managedFields"], vec![entry(managed)]);
        };
        let managers = |object: Value| object.list_at(&["metadata", "managedFields"]).len();
        let mut object = controller(1);
        large(&mut object);
        assert_eq!(world.create(object).await.ok().map(managers), want, "{annotation} {managed}");
        if want.is_none() {
            world.create(controller(1)).await.unwrap();
        }
        let updated = world.update(UpdateScope::Object, &large).await;
        assert_eq!(updated.ok().map(managers), want, "{annotation} {managed}");
    }
}

#[tokio::test]
async fn unreadable_objects_are_named_and_can_be_removed() {
    let world = World::new(PLAIN).await;
    let storage = &world.storage;
    let not_found = "replicationcontrollers \"rc\" not found";
    assert_eq!(told(storage.delete_unreadable(&world.cx(), "rc").await), Err(not_found.into()));
    world.create(controller(1)).await.unwrap();
    let why = told(storage.delete_unreadable(&world.cx(), "rc").await).unwrap_err();
    assert!(why.contains("unsafe deletion is not allowed because the object is decodable from storage"), "{why}");
    let key = storage.key("ns", "rc");
    let there = storage.store.get(&key, None).await.unwrap().entry.unwrap();
    storage.store.update(key, Bytes::from_static(b"not an object"), there.mod_revision, None).await.unwrap();
    for (what, failed) in [
        ("get", told(storage.get("ns", "rc").await).is_err()),
        ("update", world.update(UpdateScope::Object, &|_| {}).await.is_err()),
        ("delete", world.delete(Value::map()).await.is_err()),
        ("create", world.create(controller(1)).await.is_err()),
    ] {
        assert!(failed, "{what}");
    }
    let dry = Context { dry_run: true, ..world.cx() };
    storage.delete_unreadable(&dry, "rc").await.unwrap();
    assert!(told(storage.get("ns", "rc").await).is_err_and(|why| why != not_found));
    storage.delete_unreadable(&world.cx(), "rc").await.unwrap();
    assert!(world.create(controller(1)).await.is_ok());
}

/// Every one of many increments is counted, and of many deletions one is answered with the object.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_lose_nothing() {
    let world = Arc::new(World::new(UNCONDITIONAL).await);
    world.create(controller(0)).await.unwrap();
    let add = |object: &mut Value| {
        let replicas = object.at(&["spec", "replicas"]).as_int().unwrap_or(0);
        object.set(&["spec", "replicas"], replicas + 1);
    };
    let writers = (0..8).map(|_| {
        let world = world.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                world.update(UpdateScope::Object, &add).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let counted = world.get().await.unwrap();
    assert_eq!(numbers(&counted), [200, 0, 201]);
    let deleting = (0..8).map(|_| {
        let world = world.clone();
        tokio::spawn(async move { world.delete(Value::map()).await })
    });
    let mut gone = 0;
    for deleted in deleting.collect::<Vec<_>>() {
        match deleted.await.unwrap() {
            Ok((is_gone, _, object)) => {
                gone += 1;
                assert_eq!((is_gone, object.uid()), (true, counted.uid()));
            }
            Err(why) => assert_eq!(why, "replicationcontrollers \"rc\" not found"),
        }
    }
    assert_eq!(gone, 1);
}
