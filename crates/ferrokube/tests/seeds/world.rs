//! One seed: a server on a faulty store, its clients, and what happens to the store and the time meanwhile.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrokube::object::{Clock, Timestamp};
use ferrokube::{Api, GroupResource, Server, User};
use http::Method;
use object::{Randomness, SeededRandomness};
use storage::memory::MemoryStore;
use storage::{KeyRange, Store, Subscription, WatchRequest};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Client;
use crate::kinds::{DEFINITIONS, KINDS, definition};
use crate::model::{Follow, Model};
use crate::store::{FaultyStore, Weather};
use crate::watchers::Watcher;
use crate::writers;

const WRITERS: usize = 4;
const REQUESTS: usize = 18;
/// More clients than names, so that names that are generated are taken now and then.
const SUFFIXES: [&str; 8] = ["bbbbb", "ccccc", "ddddd", "fffff", "ggggg", "hhhhh", "jjjjj", "kkkkk"];
/// What a server needs to start, with much to spare: no time passes while something can be done.
const START_TIME: Duration = Duration::from_secs(30);
const START: Timestamp = Timestamp { secs: 1_795_000_000, nanos: 0 };

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub requests: usize,
    pub failed: usize,
    pub changes: usize,
    pub events: usize,
    pub expired: usize,
}

/// The time of the runtime, which stands still while anything is to be done, and is set forwards and backwards.
#[derive(Clone)]
struct SteppedClock {
    began: Instant,
    offset_seconds: Arc<AtomicI64>,
}

impl Totals {
    pub fn add(&mut self, other: Totals) {
        let Totals { requests, failed, changes, events, expired } = other;
        self.requests += requests;
        self.failed += failed;
        self.changes += changes;
        self.events += events;
        self.expired += expired;
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        let passed = self.began.elapsed();
        let seconds = START.secs + passed.as_secs().cast_signed() + self.offset_seconds.load(Ordering::Relaxed);
        Timestamp::new(seconds, passed.subsec_nanos())
    }
}

/// Few names are generated, so that some are taken.
struct FewNames(SeededRandomness);

impl Randomness for FewNames {
    fn number(&self) -> u64 {
        self.0.number()
    }

    fn name_suffix(&self) -> String {
        SUFFIXES[self.0.below(SUFFIXES.len())].into()
    }
}

struct World {
    memory: MemoryStore,
    store: Arc<FaultyStore>,
    model: Arc<Mutex<Model>>,
    clock: SteppedClock,
    server: Server,
    randomness: SeededRandomness,
    _following: Subscription,
}

/// Plays a seed; panics where the server does what it must not. The lines of the model say what happened.
pub async fn play(seed: u64, model: Arc<Mutex<Model>>) -> Totals {
    let began = Instant::now();
    let world = World::begin(seed, model).await;
    world.define().await;
    // A start waits for threads, so that it ends at one time or another.
    tokio::time::sleep_until(began + START_TIME).await;
    let (goal, told) = watch::channel(None);
    let mut watchers = JoinSet::new();
    for (kind, side, is_streaming) in
        [(0, None, false), (0, Some("left"), false), (0, None, true), (1, None, false), (1, Some("right"), true)]
    {
        let client = world.client(&format!("watcher {}", watchers.len()));
        let watcher = Watcher { client, kind: &KINDS[kind], side, is_streaming };
        watchers.spawn(watcher.run(told.clone()));
    }
    let mut clients = JoinSet::new();
    for number in 0..WRITERS {
        clients.spawn(writers::run(world.client(&format!("writer {number}")), REQUESTS));
    }
    world.trouble(&mut clients, &mut watchers).await;
    world.store.set_weather(Weather::default());
    // Everything works again, and what happened meanwhile is seen by everyone.
    tokio::time::sleep(Duration::from_secs(5)).await;
    writers::run(world.client("last"), REQUESTS).await;
    let newest = world.model.lock().unwrap().newest;
    goal.send_replace(Some(newest));
    let patience = Duration::from_secs(120);
    let all = async { while join(&mut watchers).await {} };
    tokio::time::timeout(patience, all).await.expect("watchers that have seen everything");
    world.server.stop().await;
    let model = world.model.lock().unwrap();
    model.check_numbers();
    model.totals()
}

/// Waits for the next task to end; false if there is none. Its panic is ours.
async fn join(tasks: &mut JoinSet<()>) -> bool {
    match tasks.join_next().await {
        None => false,
        Some(Ok(())) => true,
        Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl World {
    async fn begin(seed: u64, model: Arc<Mutex<Model>>) -> World {
        let randomness = SeededRandomness::new(seed);
        let memory = MemoryStore::new();
        let request = WatchRequest::after(KeyRange::prefix("/"), 1);
        let following = memory.subscribe(request, Arc::new(Follow(model.clone()))).await.unwrap();
        let in_commit = randomness.below(2) == 0;
        let store = Arc::new(FaultyStore::new(memory.clone(), in_commit, randomness.number()));
        let clock = SteppedClock { began: Instant::now(), offset_seconds: Arc::default() };
        let resources = [("", "configmaps"), ("apiextensions.k8s.io", "customresourcedefinitions")]
            .map(|(g, r)| GroupResource::new(g, r));
        let server = Server::builder()
            .api(Api::only(resources))
            .bare()
            .without_listener()
            .store(store.clone())
            .clock(clock.clone())
            .randomness(FewNames(SeededRandomness::new(randomness.number())))
            .options(|options| options.authorization.modes = vec!["AlwaysAllow".into()])
            .start();
        let server = server.await.unwrap();
        World { memory, store, model, clock, server, randomness, _following: following }
    }

    fn client(&self, name: &str) -> Client {
        let groups = vec![User::MASTERS.to_string(), User::AUTHENTICATED.to_string()];
        let user = User { name: "seeds".into(), groups, ..User::default() };
        let service = self.server.in_process(user);
        Client::new(name.into(), service, self.model.clone(), self.store.clone(), self.randomness.number())
    }

    /// Creates the custom resource. It is served when its definition is established.
    async fn define(&self) {
        let client = self.client("definition");
        let body = definition().to_string();
        let response = client.open(Method::POST, DEFINITIONS, "application/json", body).await;
        assert_eq!(response.status(), 201);
        let is_served = async {
            while client.open(Method::GET, KINDS[1].path, "", String::new()).await.status() != 200 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        client.soon("the custom resource", is_served).await;
    }

    /// Lets things go wrong until all clients have made their requests.
    async fn trouble(&self, clients: &mut JoinSet<()>, watchers: &mut JoinSet<()>) {
        loop {
            let pause = Duration::from_millis(20 + self.randomness.below(300) as u64);
            tokio::select! {
                biased;
                is_one = join(clients) => {
                    if !is_one {
                        return;
                    }
                }
                _ = join(watchers) => panic!("a watcher has ended"),
                () = tokio::time::sleep(pause) => self.step(),
            }
        }
    }

    /// One of the things that can go wrong.
    fn step(&self) {
        let below = |end| self.randomness.below(end);
        let note = |line: String| self.model.lock().unwrap().note("world", &line);
        match below(10) {
            0..3 => {
                let weather = Weather {
                    pause_millis: [0, 5, 50, 400][below(4)],
                    failing: below(20),
                    unanswered: below(15),
                    lost: below(10),
                };
                note(format!("{weather:?}"));
                self.store.set_weather(weather);
            }
            3 | 4 => {
                let weather = Weather { pause_millis: [0, 1, 20][below(3)], ..Weather::default() };
                note(format!("{weather:?}"));
                self.store.set_weather(weather);
            }
            5 | 6 => {
                note("all watches are cut off".into());
                self.store.cut_off();
            }
            7 | 8 => {
                let offset = below(14_400) as i64 - 7_200;
                note(format!("the clock is set to {offset} s from what it was"));
                self.clock.offset_seconds.store(offset, Ordering::Relaxed);
            }
            _ => {
                let mut model = self.model.lock().unwrap();
                let to = model.newest.saturating_sub_unsigned(below(15) as u64).max(1);
                model.compacted = model.compacted.max(to);
                model.note("world", &format!("compacted to {to}"));
                drop(model);
                // A store in memory does it at once.
                futures::FutureExt::now_or_never(self.memory.compact(to)).unwrap().unwrap();
            }
        }
    }
}
