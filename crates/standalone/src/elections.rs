//! Coordinated leader election: components that want a lease announce themselves as LeaseCandidates, and one server elects the
//! candidate with the oldest emulated version. The gate CoordinatedLeaderElection is off by default.
//!
//! An election takes up to three steps, each of which follows from the stored objects alone: candidates that have not been heard
//! of lately are pinged, the server waits for their answers, and the best of those that answered becomes the holder.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use object::timestamp::{MicroTime, Time, Timestamp};
use object::{Meta, Value, value};
use semver::Version;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::follow::follow;
use rest::client::{Client, Collection, Failure, Item};

static CANDIDATES: Collection = Collection::new("coordination.k8s.io", "v1beta1", "leasecandidates");
static LEASES: Collection = Collection::new("coordination.k8s.io", "v1", "leases");
/// The lease of the server that elects.
const LOCK: &str = "leader-election-controller";
const LOCK_NAMESPACE: &str = "kube-system";
/// How often leases are looked at even if no candidate changes.
const INTERVAL: Duration = Duration::from_secs(1);
const LEASE_SECONDS: i64 = 5;
/// How long candidates have to answer, and how long an answer counts.
const ELECTION_SECONDS: i64 = 5;
/// Candidates that were not renewed for so long do not count and are removed; after half of it they are asked again.
const CANDIDATE_SECONDS: i64 = 30 * 60;
/// How often candidates that were not renewed are removed.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(60 * 60);
const STRATEGY: &str = "OldestEmulationVersion";

/// The `--coordinated-leadership-*` flags: how the servers agree on the one that elects.
#[derive(Clone, Copy, Debug)]
pub struct Leadership {
    /// How long other servers wait for the present one to renew its lease.
    pub lease: Duration,
    /// How long the present one may fail to renew it; a server that fails once stops electing at once.
    pub renew_deadline: Duration,
    /// How often the lease is renewed or tried to be acquired.
    pub retry: Duration,
}

impl Default for Leadership {
    fn default() -> Leadership {
        let seconds = Duration::from_secs;
        Leadership { lease: seconds(15), renew_deadline: seconds(10), retry: seconds(2) }
    }
}

impl Leadership {
    /// Whether a server has time to renew its lease before others take it.
    pub fn check(&self) -> Result<(), String> {
        if self.lease <= self.renew_deadline {
            return Err("--coordinated-leadership-lease-duration must be greater than \
                        --coordinated-leadership-renew-deadline"
                .into());
        }
        if self.renew_deadline <= self.retry {
            return Err("--coordinated-leadership-renew-deadline must be greater than \
                        --coordinated-leadership-retry-period"
                .into());
        }
        Ok(())
    }
}

/// Elects holders of leases while this server holds the lock.
pub async fn run(client: Client, identity: String, leadership: Leadership) {
    // Where the version is turned off there are no candidates.
    if client.list(&CANDIDATES).await.is_err_and(|failure| failure.is_not_found()) {
        return;
    }
    let changed = Notify::new();
    let hear = |_| {
        changed.notify_one();
        true
    };
    let elect = async {
        let (mut lock, mut locked) = (Lock::default(), None::<Instant>);
        let mut cleaned: Option<Instant> = None;
        loop {
            let _ = tokio::time::timeout(INTERVAL, changed.notified()).await;
            if locked.is_none_or(|since| since.elapsed() >= leadership.retry) {
                locked = lock.take(&client, &identity, leadership.lease).await.then(Instant::now);
            }
            if locked.is_some()
                && let Err(failure) = elect_all(&client).await
            {
                tracing::debug!(%failure, "an election could not be held; it is tried again");
            }
            if locked.is_some() && cleaned.is_none_or(|since| since.elapsed() >= CLEANUP_INTERVAL) {
                cleaned = remove_expired(&client).await.is_ok().then(Instant::now);
            }
        }
    };
    tokio::join!(follow(&client, &CANDIDATES, |_| true, hear), elect);
}

/// The lease of the server that elects, as this server has seen it.
#[derive(Default)]
struct Lock {
    /// Holder and time of the last renewal, and since when this server knows them.
    seen: Option<((String, String), Instant)>,
}

impl Lock {
    /// Acquires or renews the lock; false if another server holds it.
    async fn take(&mut self, client: &Client, identity: &str, lasts: Duration) -> bool {
        let renewed = MicroTime(client.api.clock.now()).to_string();
        let mut lease = match client.get(&LEASES.within(LOCK_NAMESPACE).item(LOCK)).await {
            Ok(lease) => lease,
            Err(failure) if failure.is_not_found() => new_lease(LOCK_NAMESPACE, LOCK),
            Err(_) => return false,
        };
        if self.is_held_by_another(&lease, identity, Instant::now()) {
            return false;
        }
        if lease.str_at(&["spec", "holderIdentity"]) != identity {
            let transitions = lease.at(&["spec", "leaseTransitions"]).as_int().unwrap_or(-1);
            lease.set(&["spec", "leaseTransitions"], transitions + 1);
            lease.set(&["spec", "acquireTime"], renewed.as_str());
        }
        lease.set(&["spec", "holderIdentity"], identity);
        lease.set(&["spec", "leaseDurationSeconds"], i64::try_from(lasts.as_secs()).unwrap_or(i64::MAX));
        lease.set(&["spec", "renewTime"], renewed.as_str());
        write_lease(client, &lease).await.is_ok()
    }

    /// Whether another server has renewed the lease since it could have run out. What counts is when this server saw the
    /// renewal: the clocks of two servers may differ.
    fn is_held_by_another(&mut self, lease: &Value, identity: &str, now: Instant) -> bool {
        let [holder, renewed] = ["holderIdentity", "renewTime"].map(|field| lease.str_at(&["spec", field]).to_string());
        if holder == identity || holder.is_empty() {
            return false;
        }
        let record = (holder, renewed);
        let since = match &self.seen {
            Some((seen, since)) if *seen == record => *since,
            _ => {
                self.seen = Some((record, now));
                now
            }
        };
        let lasts =
            lease.at(&["spec", "leaseDurationSeconds"]).as_int().and_then(|seconds| u64::try_from(seconds).ok());
        now.saturating_duration_since(since) < Duration::from_secs(lasts.unwrap_or_default())
    }
}

/// Removes candidates that were not renewed.
async fn remove_expired(client: &Client) -> Result<(), Failure> {
    let now = client.api.clock.now();
    let list = client.list_whole(&CANDIDATES).await?;
    for candidate in list.list_at(&["items"]).iter().filter(|candidate| is_candidate_expired(candidate, now)) {
        let options =
            value!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": (candidate.uid())}});
        client.delete(&candidate_item(candidate), &options).await?;
    }
    Ok(())
}

/// One step of every election that is needed.
async fn elect_all(client: &Client) -> Result<(), Failure> {
    let now = client.api.clock.now();
    let list = client.list_whole(&CANDIDATES).await?;
    let mut by_lease: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for candidate in list.list_at(&["items"]) {
        if is_candidate_expired(candidate, now) {
            continue;
        }
        let lease = candidate.str_at(&["spec", "leaseName"]).to_string();
        by_lease.entry((candidate.namespace().to_string(), lease)).or_default().push(candidate.clone());
    }
    for ((namespace, name), candidates) in by_lease {
        let lease = match client.get(&LEASES.within(&namespace).item(&name)).await {
            Ok(lease) => Some(lease),
            Err(failure) if failure.is_not_found() => None,
            Err(failure) => return Err(failure),
        };
        match step(now, lease.as_ref(), &candidates) {
            Ok(Step::Nothing) => {}
            Ok(Step::Ping(pinged)) => {
                for mut candidate in pinged {
                    candidate.set(&["spec", "pingTime"], MicroTime(now).to_string());
                    client.replace(&candidate_item(&candidate), &candidate).await?;
                }
            }
            Ok(Step::Elect { strategy, holder }) => {
                let lease = lease.unwrap_or_else(|| new_lease(&namespace, &name));
                if let Some(elected) = elected(lease, &strategy, holder.as_deref(), now) {
                    tracing::info!(namespace, name, holder, "elected");
                    write_lease(client, &elected).await?;
                }
            }
            Err(why) => tracing::warn!(namespace, name, why, "no leader can be elected"),
        }
    }
    Ok(())
}

/// The next step for one lease.
#[derive(Debug, PartialEq)]
enum Step {
    Nothing,
    /// Ask these candidates whether they are alive.
    Ping(Vec<Value>),
    /// Make this candidate the holder; None where the strategy is another controller's.
    Elect {
        strategy: String,
        holder: Option<String>,
    },
}

fn step(now: Timestamp, lease: Option<&Value>, candidates: &[Value]) -> Result<Step, String> {
    if !is_needed(now, lease, candidates)? {
        return Ok(Step::Nothing);
    }
    let mut pinged = Vec::new();
    let mut waiting = false;
    for candidate in candidates {
        let (ping, renew) = (time(candidate, "pingTime"), time(candidate, "renewTime"));
        let answered = ping.is_none_or(|ping| renew.is_some_and(|renew| renew >= ping));
        if !answered && is_within(ping, ELECTION_SECONDS, now) {
            waiting = true;
        } else if !is_within(renew, ELECTION_SECONDS, now) && answered {
            pinged.push(candidate.clone());
        }
    }
    if !pinged.is_empty() {
        return Ok(Step::Ping(pinged));
    }
    if waiting {
        return Ok(Step::Nothing);
    }
    let alive = |candidate: &&Value| is_within(time(candidate, "renewTime"), ELECTION_SECONDS, now);
    let alive: Vec<Value> = candidates.iter().filter(alive).cloned().collect();
    if alive.is_empty() {
        return Err("no available candidates".into());
    }
    let strategy = strategy_of(&alive)?;
    let holder = match strategy.as_str() {
        STRATEGY => Some(best(&alive).ok_or("no candidate has versions that can be read")?.name().to_string()),
        _ => None,
    };
    Ok(Step::Elect { strategy, holder })
}

/// Whether the lease has no holder, or a better one could be had, or candidates have not been heard of for long.
fn is_needed(now: Timestamp, lease: Option<&Value>, candidates: &[Value]) -> Result<bool, String> {
    let Some(lease) = lease else { return Ok(true) };
    let holder = lease.str_at(&["spec", "holderIdentity"]);
    let is_old = |candidate: &Value| !is_within(time(candidate, "renewTime"), CANDIDATE_SECONDS / 2, now);
    if holder.is_empty() || is_lease_expired(lease, now) || candidates.iter().any(is_old) {
        return Ok(true);
    }
    if strategy_of(candidates)? != STRATEGY {
        return Ok(false);
    }
    Ok(best(candidates).is_some_and(|best| best.name() != holder))
}

/// The strategy of the candidates with the newest binary, who must agree.
fn strategy_of(candidates: &[Value]) -> Result<String, String> {
    let mut chosen: Option<(&Value, Version)> = None;
    for candidate in candidates {
        let version = version(candidate, "binaryVersion").unwrap_or(Version::new(0, 0, 0));
        match &chosen {
            Some((first, newest)) => match newest.cmp_precedence(&version) {
                Ordering::Less => chosen = Some((candidate, version)),
                Ordering::Equal if strategy(first) != strategy(candidate) => {
                    return Err(format!(
                        "candidates {:?}, {:?} at same binary version but received differing strategies {}, {}",
                        first.name(),
                        candidate.name(),
                        strategy(first),
                        strategy(candidate)
                    ));
                }
                _ => {}
            },
            None => chosen = Some((candidate, version)),
        }
    }
    chosen.map(|(candidate, _)| strategy(candidate).to_string()).ok_or_else(|| "no candidates".into())
}

fn strategy(candidate: &Value) -> &str {
    candidate.str_at(&["spec", "strategy"])
}

/// The candidate with the oldest emulated version, then the oldest binary, then the oldest object.
fn best(candidates: &[Value]) -> Option<&Value> {
    let ranked = candidates.iter().filter_map(|candidate| {
        let created = Time::parse(candidate.meta_str("creationTimestamp")).map_or(0, |Time(created)| created.secs);
        Some((version(candidate, "emulationVersion")?, version(candidate, "binaryVersion")?, created, candidate))
    });
    let by_rank = ranked.min_by(|a, b| a.0.cmp_precedence(&b.0).then(a.1.cmp_precedence(&b.1)).then(a.2.cmp(&b.2)));
    by_rank.map(|(.., candidate)| candidate)
}

/// The lease after an election; None if it stays what it is.
fn elected(existing: Value, strategy: &str, holder: Option<&str>, now: Timestamp) -> Option<Value> {
    let mut lease = existing.clone();
    let current = existing.str_at(&["spec", "holderIdentity"]);
    lease.set(&["spec", "strategy"], strategy);
    let is_new = existing.uid().is_empty();
    if is_new {
        lease.set(&["spec", "leaseDurationSeconds"], LEASE_SECONDS);
        lease.set(&["spec", "renewTime"], MicroTime(now).to_string());
    }
    if let Some(holder) = holder.filter(|holder| *holder != current) {
        if current.is_empty() || is_lease_expired(&existing, now) {
            lease.remove(&["spec", "preferredHolder"]);
            lease.remove(&["spec", "acquireTime"]);
            lease.set(&["spec", "holderIdentity"], holder);
            lease.set(&["spec", "leaseDurationSeconds"], LEASE_SECONDS);
            lease.set(&["spec", "renewTime"], MicroTime(now).to_string());
        } else {
            // The present holder gives the lease up for this one.
            lease.set(&["spec", "preferredHolder"], holder);
        }
    }
    (is_new || lease != existing).then_some(lease)
}

fn is_lease_expired(lease: &Value, now: Timestamp) -> bool {
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).as_int();
    seconds.is_none_or(|seconds| !is_within(time(lease, "renewTime"), seconds, now))
}

fn is_candidate_expired(candidate: &Value, now: Timestamp) -> bool {
    !is_within(time(candidate, "renewTime"), CANDIDATE_SECONDS, now)
}

/// Whether something happened no longer than so many seconds ago.
fn is_within(then: Option<Timestamp>, seconds: i64, now: Timestamp) -> bool {
    then.is_some_and(|then| Timestamp { secs: then.secs.saturating_add(seconds), ..then } >= now)
}

fn time(object: &Value, field: &str) -> Option<Timestamp> {
    MicroTime::parse(object.str_at(&["spec", field])).ok().map(|MicroTime(time)| time)
}

/// A version as people write it: `v1.37`, `1.37.0-rc.1`.
fn version(candidate: &Value, field: &str) -> Option<Version> {
    let text = candidate.str_at(&["spec", field]).trim().trim_start_matches('v');
    let numbers = text.find(['-', '+']).map_or(text, |end| &text[..end]);
    let missing = 3usize.checked_sub(numbers.split('.').count())?;
    Version::parse(&format!("{numbers}{}{}", ".0".repeat(missing), &text[numbers.len()..])).ok()
}

fn candidate_item(candidate: &Value) -> Item {
    CANDIDATES.within(candidate.namespace()).item(candidate.name())
}

fn new_lease(namespace: &str, name: &str) -> Value {
    value!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": namespace, "name": name}, "spec": {}
    })
}

async fn write_lease(client: &Client, lease: &Value) -> Result<Value, Failure> {
    let leases = LEASES.within(lease.namespace());
    match lease.uid() {
        "" => client.create(&leases, lease).await,
        _ => client.replace(&leases.item(lease.name()), lease).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { secs: 10_000, nanos: 0 };

    fn ago(seconds: i64) -> String {
        MicroTime(Timestamp::new(NOW.secs - seconds, 0)).to_string()
    }

    /// name, emulated version, seconds since the last ping (-1: never) and renewal.
    fn candidate(name: &str, emulated: &str, ping: i64, renew: i64) -> Value {
        let mut candidate = value!({
            "metadata": {"name": name, "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "leaseName": "lease", "strategy": STRATEGY, "binaryVersion": "1.37.0",
                "emulationVersion": emulated, "renewTime": (ago(renew))
            }
        });
        if ping >= 0 {
            candidate.set(&["spec", "pingTime"], ago(ping));
        }
        candidate
    }

    fn lease(holder: &str, renewed: i64) -> Value {
        value!({"metadata": {"uid": "u"}, "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 5, "strategy": STRATEGY, "renewTime": (ago(renewed))
        }})
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_runs_out_by_the_time_that_passes_here() {
        // Renewed an hour ago, now, or in an hour, as a clock that jumps would say.
        for renewed in [3600, 0, -3600] {
            let (mut lock, lease) = (Lock::default(), lease("other", renewed));
            assert!(lock.is_held_by_another(&lease, "me", Instant::now()), "it is seen for the first time");
            tokio::time::advance(Duration::from_secs(4)).await;
            assert!(lock.is_held_by_another(&lease, "me", Instant::now()), "{renewed}");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(!lock.is_held_by_another(&lease, "me", Instant::now()), "{renewed}");
            let renewed_again = super::tests::lease("other", renewed - 1);
            assert!(lock.is_held_by_another(&renewed_again, "me", Instant::now()), "it was renewed");
            assert!(!lock.is_held_by_another(&renewed_again, "other", Instant::now()), "it is its own");
        }
        let free = value!({"spec": {"holderIdentity": ""}});
        assert!(!Lock::default().is_held_by_another(&free, "me", Instant::now()));
    }

    #[test]
    fn elections_go_step_by_step() {
        let check = |lease: Option<&Value>, candidates: &[Value], want: &str| {
            let got = match step(NOW, lease, candidates) {
                Ok(Step::Nothing) => "nothing".to_string(),
                Ok(Step::Ping(pinged)) => {
                    format!("ping {}", pinged.iter().map(|candidate| candidate.name()).collect::<Vec<_>>().join(" "))
                }
                Ok(Step::Elect { holder, .. }) => format!("elect {}", holder.unwrap_or_default()),
                Err(why) => why,
            };
            assert_eq!(got, want, "{candidates:?}");
        };
        let (old, new) = (candidate("old", "1.36", -1, 60), candidate("new", "v1.37.0", -1, 60));
        check(None, &[old.clone(), new.clone()], "ping old new");
        check(None, &[candidate("old", "1.36", 1, 60), candidate("new", "1.37", 2, 1)], "nothing");
        check(None, &[candidate("old", "1.36", 2, 1), candidate("new", "1.37", 2, 1)], "elect old");
        check(None, &[candidate("old", "1.36", 6, 60), candidate("new", "1.37", 6, 1)], "elect new");
        check(None, &[candidate("gone", "1.36", 6, 60)], "no available candidates");
        check(Some(&lease("old", 1)), &[old.clone(), new.clone()], "nothing");
        check(Some(&lease("new", 1)), &[old.clone(), new.clone()], "ping old new");
        check(Some(&lease("old", 6)), &[old.clone(), new], "ping old new");
        check(Some(&lease("old", 1)), &[candidate("old", "1.36", -1, 1000)], "ping old");
        let mut third_party = candidate("old", "1.36", -1, 1);
        third_party.set(&["spec", "strategy"], "example.com/mine");
        check(None, &[third_party.clone()], "elect ");
        check(Some(&lease("x", 1)), &[third_party.clone()], "nothing");
        let differing = "candidates \"old\", \"old\" at same binary version but received differing strategies \
                         example.com/mine, OldestEmulationVersion";
        check(Some(&lease("x", 1)), &[third_party, old], differing);
    }

    #[test]
    fn leases_are_given_or_asked_for() {
        let check = |existing: Value, holder: &str, want: Option<(&str, &str)>| {
            let got = elected(existing, STRATEGY, Some(holder), NOW);
            let shown = got
                .as_ref()
                .map(|lease| (lease.str_at(&["spec", "holderIdentity"]), lease.str_at(&["spec", "preferredHolder"])));
            assert_eq!(shown, want, "{holder}");
        };
        check(new_lease("ns", "lease"), "a", Some(("a", "")));
        check(lease("a", 1), "a", None);
        check(lease("a", 1), "b", Some(("a", "b")));
        check(lease("a", 6), "b", Some(("b", "")));
        check(lease("", 1), "b", Some(("b", "")));
    }
}
