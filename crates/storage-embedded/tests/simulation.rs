//! A store on a simulated disk: for each seed a few lives, each with trouble at one call to the disk, then a power cut or an
//! orderly end.
//!
//! In every life one client writes, reads and compacts, and knows from the answers what must be there. What was acknowledged
//! is there afterwards, what was refused is not, and a write whose outcome is unknown happened entirely or not at all. No
//! revision is used twice. The seed decides everything but the timing of the store's own threads.
//!
//! ```text
//! cargo test -p ferrokube-storage-embedded --test simulation -- --seeds 10000
//! cargo test -p ferrokube-storage-embedded --test simulation -- --seeds 1 --seed 7
//! ```

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use storage::{Change, Error, Expect, KeyRange, RangeQuery, Revision, Store, Write};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};
use support::{Arguments, Plan, PowerDisk, Trouble, hush_panics_of_redb, soon};

const SEEDS: u64 = 200;
/// Seeds that run at the same time: most of the time the store waits before it tries a broken disk again.
const LANES: usize = 64;
const LIVES: u64 = 4;
const OPERATIONS: u64 = 80;
const KEYS: u64 = 8;

fn main() {
    let Some(arguments) = Arguments::read("simulation") else { return };
    hush_panics_of_redb();
    let (seeds, first) = (arguments.number("--seeds", SEEDS), arguments.number("--seed", 0));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let totals = runtime.block_on(async {
        let runs = (first..first + seeds).map(|seed| async move {
            // A panic names the seed.
            let run = tokio::spawn(simulate(seed)).await;
            run.unwrap_or_else(|_| panic!("seed {seed} failed: run it again with --seeds 1 --seed {seed}"))
        });
        let all = futures::stream::iter(runs).buffer_unordered(LANES);
        all.fold(Totals::default(), |sum, one| async move { sum.plus(one) }).await
    });
    println!("{seeds} seeds from {first}: {totals:?}");
    assert!(seeds < SEEDS || totals.troubles > seeds, "the disk had too little trouble: {totals:?}");
}

#[derive(Debug, Default)]
struct Totals {
    acknowledged: u64,
    refused: u64,
    unknown: u64,
    troubles: u64,
    power_cuts: u64,
}

impl Totals {
    fn plus(self, other: Totals) -> Totals {
        Totals {
            acknowledged: self.acknowledged + other.acknowledged,
            refused: self.refused + other.refused,
            unknown: self.unknown + other.unknown,
            troubles: self.troubles + other.troubles,
            power_cuts: self.power_cuts + other.power_cuts,
        }
    }
}

/// What the answers allow a key to be: None is absent.
struct Expected {
    keys: BTreeMap<String, HashSet<Option<Bytes>>>,
    revisions: HashSet<Revision>,
    last: Revision,
}

impl Expected {
    fn allows(&self, key: &str, found: Option<&Bytes>) -> bool {
        let nothing = HashSet::from([None]);
        self.keys.get(key).unwrap_or(&nothing).contains(&found.cloned())
    }

    /// Compares with what is there; what is seen is then known.
    fn check(&mut self, what: &str, found: &BTreeMap<String, Bytes>) {
        for number in 0..KEYS {
            let key = key(number);
            let at = found.get(&key);
            assert!(self.allows(&key, at), "{what}: {key} is {at:?}, not one of {:?}", self.keys.get(&key));
            self.keys.insert(key, HashSet::from([at.cloned()]));
        }
    }
}

fn key(number: u64) -> String {
    format!("/simulation/{number}")
}

async fn simulate(seed: u64) -> Totals {
    let mut random = StdRng::seed_from_u64(seed);
    let mut totals = Totals::default();
    let mut disk = PowerDisk::default();
    let mut expected = Expected { keys: BTreeMap::new(), revisions: HashSet::new(), last: 0 };
    for life in 0..LIVES {
        let what = format!("seed {seed}, life {life}");
        let wal_bytes = [8 << 10, 64 << 10][random.random_range(0..2)];
        let options = EmbeddedOptions { backend: Some(disk.factory()), wal_bytes, ..EmbeddedOptions::at("in-memory") };
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(options).unwrap_or_else(|e| panic!("{what}: {e}")));
        let now = store.progress().await.unwrap();
        assert!(now >= expected.last, "{what}: revision {now} after {}", expected.last);
        expected.check(&what, &present(&store).await.unwrap());
        let troubles = [Trouble::Broken, Trouble::Full, Trouble::Short, Trouble::SyncLost];
        disk.plan(Some(Plan {
            trouble: troubles[random.random_range(0..troubles.len())],
            first_call: disk.calls() + random.random_range(0..250),
            calls: random.random_range(1..12),
        }));
        for number in 0..OPERATIONS {
            operate(&store, &mut random, &mut expected, &mut totals, &what, number).await;
        }
        totals.troubles += u64::from(disk.had_trouble());
        disk = end(disk, store, &mut random, &mut expected, &mut totals, &what).await;
    }
    totals
}

/// Ends a life: the power goes, or the disk is mended, the store recovers and is closed.
async fn end(
    disk: PowerDisk,
    store: Arc<dyn Store>,
    random: &mut StdRng,
    expected: &mut Expected,
    totals: &mut Totals,
    what: &str,
) -> PowerDisk {
    if random.random_bool(0.6) {
        totals.power_cuts += 1;
        let next = disk.cut(random);
        drop(store);
        return next;
    }
    disk.plan(None);
    soon(what, async {
        while store
            .create("/recovered".into(), Bytes::new(), None)
            .await
            .is_err_and(|e| !matches!(e, Error::KeyExists(_)))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    expected.check(what, &present(&store).await.unwrap());
    store.close().await;
    drop(store);
    disk
}

async fn present(store: &Arc<dyn Store>) -> Result<BTreeMap<String, Bytes>, Error> {
    let page = store.range(RangeQuery::new(KeyRange::prefix("/simulation/"))).await?;
    Ok(page.entries.iter().map(|entry| (entry.key.to_string(), entry.value.clone())).collect())
}

async fn operate(
    store: &Arc<dyn Store>,
    random: &mut StdRng,
    expected: &mut Expected,
    totals: &mut Totals,
    what: &str,
    number: u64,
) {
    let key = key(random.random_range(0..KEYS));
    match random.random_range(0..20) {
        // Reads come from memory: they are answered whatever the disk does.
        0..3 => {
            let found = store.get(key.as_bytes(), None).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = found.entry.map(|entry| entry.value.clone());
            assert!(expected.allows(&key, found.as_ref()), "{what}: {key} reads {found:?}");
        }
        3 => {
            let now = store.progress().await.unwrap();
            // A broken disk may keep history from being dropped, which is no harm.
            let _ = store.compact(now).await;
        }
        choice => {
            let value = Bytes::from(format!("{number}:{}", "x".repeat(random.random_range(0..3000))));
            let change = if choice < 6 { Change::Delete } else { Change::Put { value: value.clone(), ttl: None } };
            let wanted = if choice < 6 { None } else { Some(value) };
            let write = Write { key: key.clone().into(), change, expect: Expect::Any };
            note(expected, totals, what, key, wanted, store.write(write).await);
        }
    }
}

/// Takes over what an answer says.
fn note(
    expected: &mut Expected,
    totals: &mut Totals,
    what: &str,
    key: String,
    wanted: Option<Bytes>,
    answer: Result<storage::Written, Error>,
) {
    match answer {
        Ok(written) => {
            totals.acknowledged += 1;
            assert!(expected.revisions.insert(written.revision), "{what}: revision {} again", written.revision);
            expected.last = expected.last.max(written.revision);
            expected.keys.insert(key, HashSet::from([wanted]));
        }
        Err(Error::NotFound) => {
            assert!(expected.allows(&key, None), "{what}: {key} is said not to be there");
            expected.keys.insert(key, HashSet::from([None]));
        }
        Err(Error::Unavailable(_)) => totals.refused += 1,
        Err(Error::OutcomeUnknown(_)) => {
            totals.unknown += 1;
            expected.keys.entry(key).or_insert_with(|| HashSet::from([None])).insert(wanted);
        }
        Err(other) => panic!("{what}: a write answers {other:?}"),
    }
}
