//! A model that keeps every state of a store, and the history beside it: each read of each revision and time gives what the model has,
//! or fails; through restarts, crashes, compactions, merges, deletions of old files and damage.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use history::{Archive, Clock, CommonStep, Error, Options, Origin, Recorder, What, attributed};
use proptest::prelude::*;
use storage::memory::MemoryStore;
use storage::{Change, Expect, KeyRange, RangeQuery, Revision, Store, Write, Written};

const KEYS: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: usize,
        text: u8,
        bytes: usize,
    },
    Delete {
        key: usize,
    },
    /// Requests by several users write these keys in one step; if `is_refused`, one of them fails and nothing is written.
    Together {
        keys: BTreeSet<usize>,
        text: u8,
        is_refused: bool,
    },
    /// The store forgets everything before now.
    Compact,
    /// The recorder ends properly and another one begins.
    Restart,
    /// The process ends as it is.
    Kill,
    Maintain,
    Pass {
        millis: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..KEYS, any::<u8>(), 0usize..3000).prop_map(|(key, text, bytes)| Step::Put { key, text, bytes }),
        3 => (0..KEYS).prop_map(|key| Step::Delete { key }),
        3 => (proptest::collection::btree_set(0..KEYS, 1..5), any::<u8>(), any::<bool>())
            .prop_map(|(keys, text, is_refused)| Step::Together { keys, text, is_refused }),
        2 => Just(Step::Compact),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
        2 => Just(Step::Maintain),
        4 => (1i64..5000).prop_map(|millis| Step::Pass { millis }),
    ]
}

fn key_of(key: usize) -> String {
    format!("/registry/{}/{key}", if key.is_multiple_of(2) { "a" } else { "b" })
}

/// What a key has: the value and the revisions.
type State = BTreeMap<String, (Bytes, Revision, Revision, i64)>;

struct World {
    directory: tempfile::TempDir,
    options: Options,
    store: MemoryStore,
    time: Arc<AtomicI64>,
    running: Option<(Arc<Recorder>, Arc<dyn Store>)>,
    state: State,
    /// What there was after each revision, when, and who made it.
    past: BTreeMap<Revision, (State, i64, Option<String>)>,
    users: u64,
    kills: u64,
}

impl World {
    fn new(change: impl FnOnce(&mut Options)) -> World {
        let directory = tempfile::tempdir().unwrap();
        let time = Arc::new(AtomicI64::new(1_000_000));
        let now = time.clone();
        let clock = Clock { now: Arc::new(move || now.load(Ordering::Relaxed)), ..Clock::default() };
        let mut options = Options { journal_bytes: 8 << 10, clock, ..Options::at(directory.path().join("history")) };
        change(&mut options);
        let store = MemoryStore::default();
        let (state, past) = Default::default();
        World { directory, options, store, time, running: None, state, past, users: 0, kills: 0 }
    }

    /// A world in which these steps were taken, and then everything was recorded that the store forgets.
    async fn after(steps: Vec<Step>, change: impl FnOnce(&mut Options)) -> World {
        let mut world = World::new(change);
        world.start().await;
        for step in steps.into_iter().chain([Step::Maintain, Step::Compact]) {
            world.take(step).await;
        }
        world
    }

    async fn start(&mut self) {
        let archive = Archive::open(self.options.clone()).unwrap();
        let (recorder, store) = Recorder::start(Arc::new(self.store.clone()), archive);
        recorder.caught_up().await.unwrap();
        self.running = Some((recorder, store));
        if self.past.is_empty() {
            let revision = self.store.progress().await.unwrap();
            self.past.insert(revision, (self.state.clone(), self.now(), None));
        }
    }

    fn now(&self) -> i64 {
        self.time.load(Ordering::Relaxed)
    }

    async fn write(&mut self, key: usize, change: Change) {
        let key = key_of(key);
        let (_, store) = self.running.clone().unwrap();
        self.users += 1;
        let user = format!("user-{}", self.users);
        let origin = Origin { user: user.clone(), ..Origin::default() };
        let write = Write { key: key.as_str().into(), change, expect: Expect::Any };
        let written = match self.users.is_multiple_of(3) {
            true => store.write(write).await,
            false => attributed(Some(Arc::new(origin)), store.write(write)).await,
        };
        let Ok(written) = written else { return };
        let user = (!self.users.is_multiple_of(3)).then_some(user);
        self.note(&key, &written, user);
        // What is written later must not be said to have been made now.
        self.running.as_ref().unwrap().0.caught_up().await.unwrap();
    }

    fn note(&mut self, key: &str, written: &Written, user: Option<String>) {
        match &written.entry {
            Some(entry) => {
                let is = (entry.value.clone(), entry.create_revision, entry.mod_revision, entry.version);
                self.state.insert(key.to_string(), is);
            }
            None => drop(self.state.remove(key)),
        }
        self.past.insert(written.revision, (self.state.clone(), self.now(), user));
    }

    /// Writes keys in one step, each by a user of its own.
    async fn write_together(&mut self, keys: BTreeSet<usize>, text: u8, is_refused: bool) {
        let (recorder, store) = self.running.clone().unwrap();
        let step = CommonStep::of(keys.len());
        let mut requests = Vec::new();
        for (at, key) in keys.into_iter().enumerate() {
            self.users += 1;
            let (key, user) = (key_of(key), format!("user-{}", self.users));
            let origin = Arc::new(Origin { user: user.clone(), ..Origin::default() });
            let change = Change::Put { value: vec![text; 20].into(), ttl: None };
            // No key is at revision 1.
            let expect = if at == 0 && is_refused { Expect::At(1) } else { Expect::Any };
            let write = Write { key: key.as_str().into(), change, expect };
            let (store, step) = (store.clone(), step.clone());
            let request = async move { attributed(Some(origin), store.write(write)).await };
            let run = step.run(key.as_str().into(), request, |written| written.is_ok());
            requests.push((key, user, tokio::spawn(run)));
        }
        let mut made = Vec::new();
        for (key, user, request) in requests {
            match request.await.unwrap() {
                Ok(written) => made.push((key, user, written)),
                Err(_) => assert!(is_refused),
            }
        }
        assert!(made.is_empty() || !is_refused, "all or nothing");
        made.sort_by_key(|(_, _, written)| written.revision);
        for (key, user, written) in made {
            self.note(&key, &written, Some(user));
        }
        recorder.caught_up().await.unwrap();
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Put { key, text, bytes } => {
                let value =
                    (0..bytes).map(|at| if at % 50 == 0 { text.wrapping_add(at as u8) } else { text }).collect();
                self.write(key, Change::Put { value, ttl: None }).await;
            }
            Step::Delete { key } => self.write(key, Change::Delete).await,
            Step::Together { keys, text, is_refused } => self.write_together(keys, text, is_refused).await,
            Step::Compact => {
                let revision = self.store.progress().await.unwrap();
                self.store.compact(revision).await.unwrap();
            }
            Step::Restart => {
                self.running.as_ref().unwrap().0.close().await;
                self.running = None;
                self.start().await;
            }
            Step::Kill => {
                // Aborted tasks let go of the directory a moment later, so the next one gets a copy.
                self.kills += 1;
                let copy = self.directory.path().join(self.kills.to_string());
                copy_files(&self.options.directory, &copy);
                self.running = None;
                self.options.directory = copy;
                self.start().await;
            }
            Step::Maintain => {
                let archive = self.running.as_ref().unwrap().0.archive().clone();
                while archive.maintain().unwrap() {}
            }
            Step::Pass { millis } => drop(self.time.fetch_add(millis, Ordering::Relaxed)),
        }
    }

    /// Reads every revision and time; returns how many of the revisions could be read.
    async fn check(&self) -> usize {
        let (recorder, store) = self.running.clone().unwrap();
        let archive = recorder.archive();
        let mut readable = 0;
        for (at, (revision, (state, time, user))) in self.past.iter().enumerate() {
            let prefix = ["/registry/a/", "/registry/b/", "/registry/", "/registry/a/2"][at % 4];
            match read_in_pages(&*store, prefix, *revision, at % 5).await {
                Ok(found) => {
                    let wanted: State = state
                        .iter()
                        .filter(|(key, _)| key.starts_with(prefix))
                        .map(|(k, v)| (k.clone(), v.clone()))
                        .collect();
                    assert_eq!(found, wanted, "{prefix} at {revision}");
                    readable += 1;
                }
                Err(storage::Error::Compacted { .. } | storage::Error::Corrupt { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            for key in 0..KEYS {
                let key = key_of(key);
                let range = KeyRange::single(key.as_str());
                let Ok(page) = store.range(RangeQuery::new(range).at(*revision).recorded(true)).await else { continue };
                let found = page
                    .entries
                    .first()
                    .map(|entry| (entry.value.clone(), entry.create_revision, entry.mod_revision, entry.version));
                assert_eq!(found, state.get(&key).cloned(), "{key} at {revision}");
            }
            if let Ok(moment) = archive.moment(*time) {
                let last = self.past.iter().rev().find(|(_, (_, then, _))| then <= time).map(|(last, _)| *last);
                assert_eq!(Some(moment.revision), last, "at the time {time}");
            }
            let mut heads = Vec::new();
            let each = archive.each_change(revision - 1, *revision, |head| {
                heads.push(head);
                true
            });
            if each.is_ok() && at > 0 {
                assert_eq!(heads.len(), 1, "one change at {revision}");
                assert_eq!(heads[0].origin.as_ref().map(|origin| &origin.user), user.as_ref());
                assert_eq!(heads[0].time, *time);
            }
        }
        for key in 0..KEYS {
            self.check_changes(archive, &key_of(key));
        }
        readable
    }

    /// The changes of a key are those of the model: none missing, none invented.
    fn check_changes(&self, archive: &Archive, key: &str) {
        let Ok(found) = archive.changes_of(key.as_bytes(), Revision::MAX, 1000) else { return };
        let mut wanted = Vec::new();
        let states: Vec<_> = self.past.iter().collect();
        for pair in states.windows(2) {
            let (before, after) = (pair[0].1.0.get(key), pair[1].1.0.get(key));
            if before != after {
                let what = match (before, after) {
                    (None, _) => What::Created,
                    (_, None) => What::Deleted,
                    _ => What::Updated,
                };
                wanted.push((*pair[1].0, what));
            }
        }
        wanted.reverse();
        let found: Vec<_> = found.iter().map(|head| (head.revision, head.what)).collect();
        assert_eq!(found[..], wanted[..found.len()], "changes of {key}");
    }
}

async fn read_in_pages(store: &dyn Store, prefix: &str, at: Revision, limit: usize) -> storage::Result<State> {
    let (mut found, mut range, mut total) = (State::new(), KeyRange::prefix(prefix), None);
    loop {
        let mut query = RangeQuery::new(range.clone()).at(at).recorded(true);
        query.limit = (limit > 0).then_some(limit);
        let page = store.range(query).await?;
        let left = *total.get_or_insert(found.len() + page.count);
        assert_eq!(left, found.len() + page.count, "the count of {prefix} at {at}");
        for entry in &page.entries {
            let is = (entry.value.clone(), entry.create_revision, entry.mod_revision, entry.version);
            found.insert(entry.key.to_string(), is);
        }
        match page.entries.last().filter(|_| page.more) {
            Some(last) => range = range.after(&last.key),
            None => return Ok(found),
        }
    }
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_revision_and_time_is_what_it_was(steps in proptest::collection::vec(step(), 1..120)) {
        run(async {
            let world = World::after(steps, |_| {}).await;
            let readable = world.check().await;
            assert_eq!(readable, world.past.len(), "nothing was lost");
        });
    }

    #[test]
    fn what_is_deleted_because_of_its_size_or_age_is_refused_and_the_rest_is_right(
        steps in proptest::collection::vec(step(), 1..120), bytes in 1u64..40
    ) {
        run(async {
            let world = World::after(steps, |options| {
                options.bytes = bytes << 10;
                options.age = Duration::from_secs(60);
            })
            .await;
            assert!(world.check().await >= 1, "the present can be read");
        });
    }

    /// A copy that is made while the history is recorded has every change up to its revision, and goes on from there.
    #[test]
    fn copies_end_where_they_should_and_go_on(
        before in proptest::collection::vec(step(), 1..60), after in proptest::collection::vec(step(), 1..60)
    ) {
        run(async {
            let steps = |steps: Vec<Step>| steps.into_iter().filter(|step| !matches!(step, Step::Compact));
            let mut world = World::new(|_| {});
            world.start().await;
            for step in steps(before) {
                world.take(step).await;
            }
            let until = *world.past.keys().last().unwrap();
            for step in steps(after) {
                world.take(step).await;
            }
            let copy = world.directory.path().join("copy");
            let status = history::copy(&world.options.directory, &copy, until).unwrap().unwrap();
            assert!(status.recorded.is_some_and(|recorded| recorded >= until), "{status:?}");
            let (recorder, _) = world.running.clone().unwrap();
            let (whole, copy) = (recorder.archive(), Archive::open(Options::at(copy)).unwrap());
            for key in (0..KEYS).map(key_of) {
                let heads = |archive: &Archive| archive.changes_of(key.as_bytes(), until, 1000).unwrap();
                assert_eq!(heads(&copy), heads(whole), "{key}");
                assert_eq!(copy.changes_of(key.as_bytes(), Revision::MAX, 1000).unwrap(), heads(whole), "{key}");
                for revision in world.past.keys().filter(|revision| **revision < until) {
                    let first = whole.first_after(key.as_bytes(), *revision).unwrap();
                    let first = first.filter(|change| change.head.revision <= until);
                    assert_eq!(copy.first_after(key.as_bytes(), *revision).unwrap(), first, "{key} after {revision}");
                }
            }
            // A store that is restored from the backup goes on much later.
            drop(copy);
            let copy = world.directory.path().join("copy");
            history::continue_at(&copy, until + 1_000_000).unwrap();
            let copy = Archive::open(Options::at(copy)).unwrap();
            assert_eq!(copy.recorded(), Some(until + 1_000_000));
            let first = *world.past.keys().next().unwrap();
            assert!(copy.each_change(first, until + 1_000_000, |_| true).is_ok(), "there is no gap");
        });
    }

    #[test]
    fn damage_is_noticed(
        steps in proptest::collection::vec(step(), 30..100), file in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(), change in 1u8..=255, cut in any::<bool>()
    ) {
        run(async {
            let mut world = World::after(steps, |_| {}).await;
            world.running.take().unwrap().0.close().await;
            let mut paths: Vec<_> =
                std::fs::read_dir(&world.options.directory).unwrap().map(|entry| entry.unwrap().path()).collect();
            paths.retain(|path| path.metadata().unwrap().len() > 0);
            paths.sort();
            let path = &paths[file.index(paths.len())];
            let mut bytes = std::fs::read(path).unwrap();
            let at = at.index(bytes.len());
            match cut {
                true => bytes.truncate(at),
                false => bytes[at] ^= change,
            }
            std::fs::write(path, bytes).unwrap();
            world.start().await;
            world.write(0, Change::Put { value: Bytes::from_static(b"after"), ttl: None }).await;
            assert!(world.check().await >= 1, "the present can be read");
        });
    }
}

/// A crash can leave files of before and after a step beside each other.
#[test]
fn files_of_before_and_after_a_merge_together_are_read_as_one_history() {
    run(async {
        let mut world = World::new(|_| {});
        world.start().await;
        for at in 0..200 {
            world.take(Step::Put { key: at % KEYS, text: at as u8, bytes: 900 }).await;
        }
        let both = world.directory.path().join("both");
        copy_files(&world.options.directory, &both);
        world.take(Step::Maintain).await;
        copy_files(&world.options.directory, &both);
        std::fs::write(both.join("chunk-7-9.new"), b"half").unwrap();
        world.running.take().unwrap().0.close().await;
        world.options.directory = both;
        world.take(Step::Compact).await;
        world.start().await;
        assert_eq!(world.check().await, world.past.len());
        let merged = world.running.as_ref().unwrap().0.archive().status().files;
        assert!(merged < 10, "{merged} files");
        let left = std::fs::read_dir(&world.options.directory).unwrap().count() - 1;
        assert_eq!(left, merged, "what was merged is gone, and the lock is there");
    });
}

/// A recorder that was away while the store forgot begins again, and says that it does not know.
#[test]
fn what_happened_while_nothing_was_recorded_is_not_guessed() {
    run(async {
        let mut world = World::new(|_| {});
        world.start().await;
        world.take(Step::Put { key: 0, text: 1, bytes: 10 }).await;
        let known = *world.past.keys().last().unwrap();
        world.running.take().unwrap().0.close().await;
        for value in ["two", "three"] {
            let (key, value) = (key_of(0), Bytes::from_static(value.as_bytes()));
            let change = Change::Put { value, ttl: None };
            world.store.write(Write { key: key.as_str().into(), change, expect: Expect::Any }).await.unwrap();
        }
        world.take(Step::Compact).await;
        world.start().await;
        let (recorder, store) = world.running.clone().unwrap();
        let read = read_in_pages(&*store, "/registry/", known, 0).await;
        assert!(matches!(read, Err(storage::Error::Compacted { .. })), "{read:?}");
        let first = recorder.archive().first_after(key_of(0).as_bytes(), known);
        assert!(matches!(first, Err(Error::NotKept(_))), "{first:?}");
        assert_eq!(recorder.counts().1, 1);
    });
}

/// A store that was restored to an older state goes on with revisions that the history knows already.
#[test]
fn a_history_of_another_store_is_set_aside() {
    run(async {
        let mut world = World::new(|_| {});
        world.start().await;
        for at in 0..20 {
            world.take(Step::Put { key: at % KEYS, text: at as u8, bytes: 10 }).await;
        }
        world.running.take().unwrap().0.close().await;
        (world.store, world.state, world.past) = Default::default();
        world.start().await;
        world.take(Step::Put { key: 0, text: 1, bytes: 10 }).await;
        world.take(Step::Compact).await;
        assert_eq!(world.check().await, world.past.len());
        assert!(world.options.directory.join("aside").is_dir());
    });
}

/// Pods change a little at a time: what is kept of them is a fraction of what was written.
#[test]
fn versions_of_an_object_take_little_room() {
    run(async {
        let mut world = World::new(|options| options.journal_bytes = 256 << 10);
        world.start().await;
        let store = world.running.as_ref().unwrap().1.clone();
        let mut seed = 1u64;
        let mut digits = |count: usize| -> String {
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from_digit((seed >> 60) as u32, 16).unwrap()
            };
            (0..count).map(|_| next()).collect()
        };
        let objects: Vec<String> = (0..100).map(|_| digits(2000)).collect();
        for version in 0..40 {
            for (at, object) in objects.iter().enumerate() {
                let value = Bytes::from([object.as_str(), &digits(40), &version.to_string()].concat());
                let key = format!("/registry/pods/ns/{at}");
                let change = Change::Put { value, ttl: None };
                store.write(Write { key: key.into(), change, expect: Expect::Any }).await.unwrap();
            }
        }
        let archive = world.running.as_ref().unwrap().0.archive().clone();
        world.running.as_ref().unwrap().0.caught_up().await.unwrap();
        while archive.maintain().unwrap() {}
        let status = archive.status();
        assert!(status.changes == 4000 && status.raw_bytes > 7_000_000, "{status:?}");
        assert!(status.bytes * 10 <= status.raw_bytes * 3, "{status:?}");
    });
}
