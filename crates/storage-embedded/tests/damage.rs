//! Damages the files of stores and looks at what they serve then.
//!
//! A store that was closed, one that was killed and one that is running get a wrong byte or wrong sectors at a random place
//! of a file, or a whole file is deleted, emptied, cut off, swapped with another one or put back to an earlier state. Whatever
//! they answer afterwards must be what was written, or an error; a store that cannot be trusted must refuse to open. Of
//! one that refuses, `examine` must name what is lost: every key that is not as it was has to be covered by what it
//! reports. If all files are put back to an earlier state, the store is what it was then.
//!
//! ```text
//! cargo test -p ferrokube-storage-embedded --test damage -- --damages 1000 --seed 7
//! ```

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use storage::{Change, Error, Expect, KeyRange, RangeQuery, Revision, Store, WatchRequest, Write};
use storage_embedded::{EmbeddedOptions, EmbeddedStore, Loss, OpenError, Salvage, check, examine, restore};
use support::damages::{Damage, copy_store};
use support::{Arguments, soon};

const DAMAGES: usize = 80;
/// Stores are made anew after so many damages.
const DAMAGES_PER_STORE: usize = 25;
const KEYS: u32 = 30;
/// Stores that are damaged at the same time: most of the time is spent waiting for the disk.
const LANES: u64 = 4;

fn main() {
    let Some(arguments) = Arguments::read("damage") else { return };
    let (damages, seed) = (arguments.number("--damages", DAMAGES as u64) as usize, arguments.seed());
    support::hush_panics_of_redb();
    eprintln!("damage test: seed {seed}");
    let began = Instant::now();
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let numbers = (0..damages as u64).filter(move |number| number % LANES == lane);
            std::thread::spawn(move || run(seed, numbers))
        })
        .collect();
    let mut tally = Tally::default();
    lanes.into_iter().for_each(|lane| tally.add(&lane.join().expect("a lane failed")));
    eprintln!("damage test: {damages} damages, {tally}, in {:.1?}", began.elapsed());
}

fn run(seed: u64, numbers: impl Iterator<Item = u64>) -> Tally {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut tally = Tally::default();
    let mut made = None;
    for (round, number) in numbers.enumerate() {
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number));
        if round % DAMAGES_PER_STORE == 0 {
            made = Some(runtime.block_on(Made::new(&mut random)));
        }
        let made = made.as_ref().unwrap();
        let kind = [Kind::Closed, Kind::Killed, Kind::Running][round % 3];
        runtime.block_on(made.round(kind, &mut random, &mut tally));
    }
    tally
}

#[derive(Default)]
struct Tally {
    harmless: usize,
    refused: usize,
    noticed: usize,
    repaired_fully: usize,
    repaired: usize,
    beyond_repair: usize,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.harmless += other.harmless;
        self.refused += other.refused;
        self.noticed += other.noticed;
        self.repaired_fully += other.repaired_fully;
        self.repaired += other.repaired;
        self.beyond_repair += other.beyond_repair;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { harmless, refused, noticed, repaired_fully, repaired, beyond_repair } = self;
        write!(f, "{harmless} without effect, {noticed} noticed by reads while running, {refused} refused at start ")?;
        write!(
            f,
            "({repaired_fully} repaired without loss, {repaired} with a named loss, {beyond_repair} need a backup); "
        )?;
        write!(f, "0 lost silently, 0 served wrong")
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Closed,
    Killed,
    Running,
}

/// What was acknowledged.
#[derive(Clone, Default)]
struct Truth {
    /// By revision: the key, and its value or none for a deletion.
    changes: BTreeMap<Revision, (String, Option<Bytes>)>,
    compacted: Revision,
}

type Contents = BTreeMap<String, (Revision, Bytes)>;

impl Truth {
    fn revision(&self) -> Revision {
        *self.changes.keys().next_back().unwrap()
    }

    fn at(&self, revision: Revision) -> Contents {
        let mut keys = Contents::new();
        for (revision, (key, value)) in self.changes.range(..=revision) {
            match value {
                Some(value) => drop(keys.insert(key.clone(), (*revision, value.clone()))),
                None => drop(keys.remove(key)),
            }
        }
        keys
    }

    async fn write(&mut self, store: &EmbeddedStore, random: &mut StdRng) {
        let key = format!("/registry/things/{}", random.random_range(0..KEYS));
        let size = [20, 300, 2_000, 70_000][[0, 1, 1, 1, 2, 2, 2, 3][random.random_range(0..8)]];
        let value: Bytes = (0..random.random_range(0..size)).map(|_| random.random::<u8>()).collect::<Vec<_>>().into();
        let is_there = self.at(Revision::MAX).contains_key(&key);
        let value = (!is_there || random.random_range(0..6) > 0).then_some(value);
        let change = value.clone().map_or(Change::Delete, |value| Change::Put { value, ttl: None });
        let write = Write { key: key.as_str().into(), change, expect: Expect::Any };
        let revision = store.write(write).await.unwrap().revision;
        assert!(self.changes.keys().next_back().is_none_or(|last| *last < revision), "a revision was used again");
        self.changes.insert(revision, (key, value));
    }
}

/// The files of a store: after closing it, and as they were while it ran; both with an earlier state.
struct Made {
    directory: tempfile::TempDir,
    closed: State,
    killed: State,
    /// Earlier states: closed in order some time before both, and of the same run as `killed`.
    earlier: State,
    running: State,
}

struct State {
    name: &'static str,
    truth: Truth,
}

impl State {
    /// Copies the store as it is on disk now.
    fn copy(store: &Path, name: &'static str, truth: &Truth) -> State {
        copy_store(store, &store.with_file_name(name));
        State { name, truth: truth.clone() }
    }

    /// The database may be in the middle of a commit while it is copied; a kill would be one moment.
    fn is_whole(&self, directory: &Path) -> bool {
        let probe = directory.join("probe");
        copy_store(&directory.join(self.name), &probe);
        check(&probe).is_ok_and(|report| report.revision == self.truth.revision())
    }
}

impl Made {
    async fn new(random: &mut StdRng) -> Made {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let mut truth = Truth::default();
        let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
        for _ in 0..random.random_range(40..100) {
            truth.write(&store, random).await;
        }
        store.close().await;
        let earlier = State::copy(&path, "earlier", &truth);
        let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
        for _ in 0..random.random_range(20..60) {
            truth.write(&store, random).await;
        }
        truth.compacted = truth.revision() - random.random_range(5..50);
        store.compact(truth.compacted).await.unwrap();
        for _ in 0..random.random_range(5..40) {
            truth.write(&store, random).await;
        }
        store.close().await;
        let closed = State::copy(&path, "closed", &truth);
        for _ in 0..20 {
            let store = EmbeddedStore::open(EmbeddedOptions::at(&path)).unwrap();
            for _ in 0..random.random_range(1..20) {
                truth.write(&store, random).await;
            }
            let running = State::copy(&path, "running", &truth);
            if random.random_bool(0.3) {
                // A backup brings everything into the database.
                let backup = directory.path().join("backup");
                store.backup(&backup).await.unwrap();
                std::fs::remove_file(backup).unwrap();
            }
            for _ in 0..random.random_range(1..20) {
                truth.write(&store, random).await;
            }
            let killed = State::copy(&path, "killed", &truth);
            store.close().await;
            if [&running, &killed].into_iter().all(|state| state.is_whole(directory.path())) {
                return Made { directory, closed, killed, earlier, running };
            }
        }
        panic!("no copy of a running store was whole");
    }

    async fn round(&self, kind: Kind, random: &mut StdRng, tally: &mut Tally) {
        let (state, olds) = match kind {
            Kind::Killed => (&self.killed, [&self.running, &self.closed]),
            Kind::Closed | Kind::Running => (&self.closed, [&self.earlier; 2]),
        };
        let old = olds[random.random_range(0..2)];
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("store");
        copy_store(&self.directory.path().join(state.name), &path);
        // Without a cache, so that history is read from the file.
        let options = EmbeddedOptions { cache_bytes: 0, ..EmbeddedOptions::at(&path) };
        let running = (kind == Kind::Running).then(|| EmbeddedStore::open(options.clone()).unwrap());
        let damage = Damage::draw(random, kind == Kind::Running);
        let place = damage.apply(&path, &self.directory.path().join(old.name), random);
        let what = format!("{kind:?}, {place}");
        let truth = if damage == Damage::AllOld { &old.truth } else { &state.truth };
        let mut round = Round { truth: truth.clone(), what, has_noticed: false, random };
        if let Some(store) = running {
            round.look(&store).await;
            round.back_up(&store).await;
            store.close().await;
        }
        match EmbeddedStore::open(options.clone()) {
            Err(error) => {
                tally.refused += 1;
                round.repair(&path, &error, tally).await;
            }
            Ok(store) => {
                round.look(&store).await;
                for _ in 0..5 {
                    round.truth.write(&store, round.random).await;
                }
                round.look(&store).await;
                round.back_up(&store).await;
                store.close().await;
                match EmbeddedStore::open(options) {
                    Ok(store) => round.look(&store).await,
                    Err(error) => {
                        round.has_noticed = true;
                        round.expect_damage(&error);
                    }
                }
                tally.harmless += usize::from(!round.has_noticed);
            }
        }
        tally.noticed += usize::from(round.has_noticed);
    }
}

/// A store with some damage.
struct Round<'a> {
    truth: Truth,
    what: String,
    has_noticed: bool,
    random: &'a mut StdRng,
}

impl Round<'_> {
    /// Everything that is answered is right; errors say that something is damaged.
    async fn look(&mut self, store: &EmbeddedStore) {
        let what = self.what.clone();
        let revision = self.truth.revision();
        assert_eq!(store.progress().await.unwrap(), revision, "{what}: the revision");
        assert!(contents(store, None).await.unwrap() == self.truth.at(revision), "{what}: the present is wrong");
        let compacted = self.truth.compacted;
        for at in [compacted, self.random.random_range(compacted..=revision), revision - 1] {
            match contents(store, Some(at)).await {
                Ok(found) => assert!(found == self.truth.at(at), "{what}: revision {at} is wrong"),
                Err(error) => self.expect_corrupt(&error),
            }
        }
        let mut stream = store.watch(WatchRequest::after(KeyRange::all(), compacted)).await.unwrap();
        let mut expected = self.truth.changes.range(compacted + 1..);
        loop {
            let batch = match soon("events", stream.next()).await.unwrap() {
                Ok(batch) => batch,
                Err(error) => return self.expect_corrupt(&error),
            };
            for event in batch.events {
                let (revision, (key, value)) = expected.next().expect("an event that never happened");
                assert_eq!((event.revision, event.key.to_string()), (*revision, key.clone()), "{what}");
                assert!(event.entry.as_ref().map(|entry| &entry.value) == value.as_ref(), "{what}: {revision}");
            }
            if batch.revision >= revision {
                return assert_eq!(expected.next(), None, "{what}: events are missing");
            }
        }
    }

    /// A backup is refused, or right.
    async fn back_up(&mut self, store: &EmbeddedStore) {
        let directory = tempfile::tempdir().unwrap();
        let (backup, restored) = (directory.path().join("backup"), directory.path().join("restored"));
        match store.backup(&backup).await {
            Err(error) => {
                self.expect_corrupt(&error);
                assert!(!backup.exists(), "{}: a refused backup was left behind", self.what);
            }
            Ok(report) => {
                assert_eq!(report.revision, self.truth.revision());
                restore(&backup, &restored, 0).unwrap();
                let store = EmbeddedStore::open(EmbeddedOptions::at(&restored)).unwrap();
                let found = contents(&store, None).await.unwrap();
                assert!(found == self.truth.at(Revision::MAX), "{}: damage was copied", self.what);
            }
        }
    }

    fn expect_corrupt(&mut self, error: &Error) {
        self.has_noticed = true;
        let is_named = matches!(error, Error::Corrupt { .. } | Error::Unavailable(_));
        assert!(is_named, "{}: {error:?}", self.what);
    }

    fn expect_damage(&self, error: &OpenError) {
        let is_named =
            matches!(error, OpenError::Corrupt { .. } | OpenError::NewerFormat { .. } | OpenError::Io { .. });
        assert!(is_named && error.to_string().contains("store"), "{}: {error}", self.what);
    }

    /// What is kept of a store that was refused is right, and what is not kept is named.
    async fn repair(&mut self, path: &Path, error: &OpenError, tally: &mut Tally) {
        self.expect_damage(error);
        match check(path) {
            Err(error) => self.expect_damage(&error),
            Ok(_) => panic!("{}: refused and whole: {error}", self.what),
        }
        let salvage = match examine(path) {
            Ok(salvage) => salvage,
            Err(error) => {
                tally.beyond_repair += 1;
                eprintln!("needs a backup: {}: {error}", self.what);
                return self.expect_damage(&error);
            }
        };
        let target = path.with_file_name("repaired");
        salvage.write(&target, 1000).unwrap();
        let store = EmbeddedStore::open(EmbeddedOptions::at(&target)).unwrap();
        assert!(store.progress().await.unwrap() > self.truth.revision(), "{}: revisions come again", self.what);
        let (found, expected) = (contents(&store, None).await.unwrap(), self.truth.at(Revision::MAX));
        let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
        for key in keys {
            let (kept, right) = (found.get(key), expected.get(key));
            if let Some((revision, value)) = kept {
                let written = &self.truth.changes[revision];
                assert!(written.0 == *key && written.1.as_ref() == Some(value), "{}: {key} was made up", self.what);
            }
            let since = kept.map_or(0, |(revision, _)| *revision);
            assert!(
                kept == right || self.explains(&salvage, key, since),
                "{}: {key}: {:?}",
                self.what,
                salvage.losses()
            );
        }
        *(if salvage.losses().is_empty() { &mut tally.repaired_fully } else { &mut tally.repaired }) += 1;
    }

    /// Whether what is reported as lost covers a change of the key after a revision.
    fn explains(&self, salvage: &Salvage, key: &str, since: Revision) -> bool {
        let changes = self.truth.changes.range(since + 1..);
        let lost: Vec<_> = changes.filter(|(_, (changed, _))| changed == key).map(|(revision, _)| *revision).collect();
        salvage.losses().iter().any(|loss| match loss {
            Loss::Value(lost) => lost.to_string() == key,
            Loss::Keys(_) | Loss::Numbers => true,
            Loss::End(after) => lost.iter().any(|revision| revision > after),
            Loss::Changes { first, last, .. } => lost.iter().any(|revision| (first..=last).contains(&revision)),
        })
    }
}

async fn contents(store: &EmbeddedStore, at: Option<Revision>) -> storage::Result<Contents> {
    let page = store.range(RangeQuery { at, ..RangeQuery::new(KeyRange::all()) }).await?;
    let entry = |entry: &storage::Entry| (entry.key.to_string(), (entry.mod_revision, entry.value.clone()));
    Ok(page.entries.iter().map(|found| entry(found)).collect())
}
