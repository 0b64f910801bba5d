//! [`Costs`]: which clients cost the server what, measured while a page asks for it.
//!
//! The table has a bounded number of rows. Where there are more clients, the one that cost least makes room: its figures move to a
//! row of its user, and from there to one row for all others. So a client that changes its name with every request is found by its
//! user, and the figures always add up.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashMap;
use object::Clock;
use parking_lot::Mutex;
use serde::Serialize;
use server::{ObservedClient, ObservedRequest, RequestObserver};
use tokio::time::Instant;

use crate::recent::RecentRequests;

/// How many rows a table has at most, beside that of all others.
const CLIENTS_MAX: usize = 256;
/// How many clients with open watches are told apart.
const WATCHERS_MAX: usize = 1024;
/// After so long a new table is begun. What is shown is the last one and this one, between one and two minutes.
const TABLE_LASTS: Duration = Duration::from_secs(60);
/// How long requests are measured after a page asked.
const LOOKS_FOR: Duration = Duration::from_secs(15);
/// The user agent of a row for several clients of a user.
const SEVERAL: &str = "(several)";

/// Figures of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClientCost {
    pub requests: u64,
    pub errors: u64,
    pub bytes: u64,
    /// Seconds of CPU time.
    pub cpu: f64,
    pub seat_seconds: f64,
}

impl ClientCost {
    fn of(seen: &ObservedRequest) -> ClientCost {
        ClientCost {
            requests: 1,
            errors: u64::from(seen.code >= 400),
            bytes: seen.bytes,
            cpu: seen.cpu.as_secs_f64(),
            seat_seconds: seen.seat_seconds,
        }
    }

    fn add(&mut self, other: ClientCost) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.cpu += other.cpu;
        self.seat_seconds += other.seat_seconds;
    }

    /// By what clients are sorted: CPU time, and where that is too little to be measured, requests.
    fn weight(&self) -> f64 {
        self.cpu + self.requests as f64 * 1e-6
    }
}

/// Figures by client since a time.
struct CostTable {
    began: Instant,
    rows: HashMap<ObservedClient, ClientCost>,
    others: ClientCost,
}

impl CostTable {
    fn new() -> CostTable {
        CostTable { began: Instant::now(), rows: HashMap::new(), others: ClientCost::default() }
    }

    fn add(&mut self, client: &ObservedClient, cost: ClientCost) {
        if let Some(row) = self.rows.get_mut(client) {
            row.add(cost);
            return;
        }
        while self.rows.len() >= CLIENTS_MAX {
            self.make_room();
        }
        self.rows.insert(client.clone(), cost);
    }

    /// Moves the figures of the client that cost least to its user's row, or to the others if they are those of such a row.
    fn make_room(&mut self) {
        let least = self.rows.iter().min_by(|(_, one), (_, other)| one.weight().total_cmp(&other.weight()));
        let Some(client) = least.map(|(client, _)| client.clone()) else { return };
        let Some(cost) = self.rows.remove(&client) else { return };
        match client == several(&client.user) {
            true => self.others.add(cost),
            false => self.rows.entry(several(&client.user)).or_default().add(cost),
        }
    }
}

/// Stands for several clients of a user.
fn several(user: &str) -> ObservedClient {
    let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    ObservedClient { user: user.to_string(), agent: SEVERAL.to_string(), address }
}

/// A client's row as it is shown.
#[derive(Debug, Serialize)]
pub struct ClientRow {
    pub user: String,
    pub agent: String,
    /// "" for several clients.
    pub address: String,
    pub watches: u64,
    #[serde(flatten)]
    pub cost: ClientCost,
}

/// The clients of the last one to two minutes.
#[derive(Debug, Serialize)]
pub struct ClientReport {
    /// How long the figures were counted.
    pub seconds: f64,
    pub rows: Vec<ClientRow>,
    /// The figures of all clients that have no row.
    pub others: ClientCost,
}

/// The measurements, which begin when a page asks and end when none does.
pub struct Costs {
    clock: Arc<dyn Clock>,
    looking: AtomicBool,
    state: Mutex<CostState>,
    watchers: Mutex<HashMap<ObservedClient, u64>>,
}

#[derive(Default)]
struct CostState {
    until: Option<Instant>,
    current: Option<CostTable>,
    last: Option<CostTable>,
    recent: RecentRequests,
}

impl Costs {
    pub fn new(clock: Arc<dyn Clock>) -> Costs {
        Costs { clock, looking: AtomicBool::default(), state: Mutex::default(), watchers: Mutex::default() }
    }

    /// Measures from now on, for as long as this is called again and again.
    pub fn look(self: &Arc<Self>) {
        let begins = {
            let mut state = self.state.lock();
            state.until = Some(Instant::now() + LOOKS_FOR);
            state.current.get_or_insert_with(CostTable::new);
            !self.looking.swap(true, Ordering::Relaxed)
        };
        if begins {
            tokio::spawn(stop_later(Arc::downgrade(self)));
        }
    }

    pub fn clients(&self, most: usize) -> ClientReport {
        let (state, watchers) = (self.state.lock(), self.watchers.lock());
        let mut rows: HashMap<&ObservedClient, ClientCost> = HashMap::new();
        let mut others = ClientCost::default();
        let tables = || state.last.iter().chain(&state.current);
        for table in tables() {
            table.rows.iter().for_each(|(client, cost)| rows.entry(client).or_default().add(*cost));
            others.add(table.others);
        }
        for client in watchers.keys() {
            rows.entry(client).or_default();
        }
        let mut sorted: Vec<(&ObservedClient, ClientCost)> = rows.into_iter().collect();
        sorted.sort_by(|(_, one), (_, other)| other.weight().total_cmp(&one.weight()));
        sorted.iter().skip(most).for_each(|(_, cost)| others.add(*cost));
        let row = |(client, cost): &(&ObservedClient, ClientCost)| ClientRow {
            user: client.user.clone(),
            agent: client.agent.clone(),
            address: if client.address.is_unspecified() { String::new() } else { client.address.to_string() },
            watches: watchers.get(*client).copied().unwrap_or(0),
            cost: *cost,
        };
        let seconds = tables().next().map_or(0.0, |table| table.began.elapsed().as_secs_f64());
        ClientReport { seconds, rows: sorted.iter().take(most).map(row).collect(), others }
    }

    /// The last requests that a caller wants, the newest first.
    pub fn requests(&self, most: usize, wants: impl Fn(&ObservedRequest) -> bool) -> Vec<serde_json::Value> {
        self.state.lock().recent.requests(most, wants)
    }

    /// The last requests that failed or were warned, the newest first.
    pub fn errors(&self, most: usize) -> Vec<serde_json::Value> {
        self.state.lock().recent.errors(most)
    }
}

/// Ends the measurements and forgets them when no page has asked for a while.
async fn stop_later(costs: Weak<Costs>) {
    loop {
        let until = {
            let Some(costs) = costs.upgrade() else { return };
            let mut state = costs.state.lock();
            match state.until.filter(|until| *until > Instant::now()) {
                Some(until) => until,
                None => {
                    *state = CostState::default();
                    costs.looking.store(false, Ordering::Relaxed);
                    return;
                }
            }
        };
        tokio::time::sleep_until(until).await;
    }
}

impl RequestObserver for Costs {
    fn is_looking(&self) -> bool {
        self.looking.load(Ordering::Relaxed)
    }

    fn opened(&self, client: &ObservedClient) {
        let mut watchers = self.watchers.lock();
        let known = if watchers.len() < WATCHERS_MAX {
            Some(watchers.entry(client.clone()).or_default())
        } else {
            watchers.get_mut(client)
        };
        if let Some(count) = known {
            *count += 1;
        }
    }

    fn ended(&self, seen: ObservedRequest) {
        if seen.is_long_running {
            let mut watchers = self.watchers.lock();
            if let Some(count) = watchers.get_mut(&seen.client) {
                *count -= 1;
                if *count == 0 {
                    watchers.remove(&seen.client);
                }
            }
        }
        if !self.is_looking() {
            return;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        // None if the measurements have ended in this moment.
        let Some(current) = &mut state.current else { return };
        if current.began.elapsed() >= TABLE_LASTS {
            state.last = Some(std::mem::replace(current, CostTable::new()));
        }
        current.add(&seen.client, ClientCost::of(&seen));
        state.recent.add(seen, self.clock.now());
    }
}

#[cfg(test)]
mod tests;
