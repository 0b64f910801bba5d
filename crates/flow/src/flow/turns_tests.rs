//! While requests wait for the CPU, levels and flows take turns.

use super::tests::{alice, level, pods, queue, schema};
use super::*;

/// Two levels, whose seats are enough for all requests, with two flows each. A flow has one queue, as long as `length_limit`.
fn flow(turns: usize, length_limit: i64) -> Arc<Flow> {
    let flow = Flow::with_turns(FlowSettings { seats: 1000 }, turns..=turns);
    let levels = [level("one", 10, queue(64, 1, length_limit)), level("other", 10, queue(64, 1, length_limit))];
    let schemas = [
        schema("a", 1, "one", "alice"),
        schema("b", 2, "one", "bob"),
        schema("c", 3, "other", "carol"),
        schema("d", 4, "other", "dave"),
    ];
    flow.configure(&schemas, &levels);
    Arc::new(flow)
}

fn backlog(flow: &Flow) -> Vec<Unstarted> {
    (0..100).map(|_| flow.spawned()).collect()
}

async fn admit(flow: &Flow, name: &str, info: &RequestInfo) -> Seats {
    let user = User { name: name.into(), ..alice() };
    flow.admit(info, &user, Instant::now() + Duration::from_secs(15), |_| Work::ONE).await.unwrap()
}

/// Requests of these users arrive together; returns in which order they ran.
async fn order(turns: usize, arriving: &[&'static str], has_backlog: bool) -> String {
    let flow = flow(turns, 1);
    let _backlog = if has_backlog { backlog(&flow) } else { Vec::new() };
    let ran = Arc::new(Mutex::new(Vec::new()));
    let run = |name: &'static str| {
        let (flow, ran) = (flow.clone(), ran.clone());
        tokio::spawn(async move {
            let seats = admit(&flow, name, &pods()).await;
            assert_eq!(seats.has_turn(), has_backlog);
            ran.lock().push(&name[..1]);
        })
    };
    futures::future::join_all(arriving.iter().map(|name| run(name))).await;
    ran.lock().concat()
}

#[tokio::test(start_paused = true)]
async fn flows_and_levels_take_turns() {
    for (turns, arriving, has_backlog, expected) in [
        (1, &["alice", "alice", "alice", "bob"][..], false, "aaab"),
        (1, &["alice", "alice", "alice", "bob"], true, "abaa"),
        // Of two requests that have a turn, tokio runs the later one first.
        (2, &["alice", "alice", "alice", "alice", "bob"], true, "aaaba"),
        (1, &["alice", "alice", "alice", "carol", "dave"], true, "adaca"),
    ] {
        assert_eq!(order(turns, arriving, has_backlog).await, expected, "{turns} turns for {arriving:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_something_else_keeps_its_seat_and_not_its_turn() {
    let flow = flow(1, 10);
    let _backlog = backlog(&flow);
    let mut first = admit(&flow, "alice", &pods()).await;
    let second = tokio::spawn({
        let flow = flow.clone();
        async move { admit(&flow, "alice", &pods()).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(first.has_turn() && !second.is_finished());
    // A watch needs no turn, and goes ahead of requests that wait for one.
    let watch = RequestInfo::parse("GET", "/api/v1/pods", &[("watch".into(), "true".into())]);
    assert!(!admit(&flow, "alice", &watch).await.has_turn());
    first.end_turn();
    first.end_turn();
    let second = second.await.unwrap();
    let seats_in_use =
        || flow.snapshot().levels.iter().map(|level| level.state.lock().queues.seats_in_use).sum::<u64>();
    assert_eq!((second.has_turn(), seats_in_use()), (true, 2));
    drop((first, second));
    assert_eq!(seats_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn clients_that_go_away_take_no_turn_with_them() {
    let flow = flow(1, 10);
    let _backlog = backlog(&flow);
    let first = admit(&flow, "alice", &pods()).await;
    let spawn = |name: &'static str| {
        let flow = flow.clone();
        tokio::spawn(async move { drop(admit(&flow, name, &pods()).await) })
    };
    let (gone, stays) = (["alice", "bob", "carol"].map(spawn), ["alice", "bob", "carol", "dave"].map(spawn));
    tokio::time::sleep(Duration::from_millis(1)).await;
    gone.iter().for_each(|task| task.abort());
    drop(first);
    // One more goes away between getting its turn and running.
    gone[0].abort();
    futures::future::join_all(stays).await.into_iter().for_each(|ended| ended.unwrap());
    assert!(admit(&flow, "dave", &pods()).await.has_turn(), "the turn is free again");
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_turn_only_are_not_refused() {
    let names = ["alice"; 100];
    assert_eq!(order(1, &names, true).await, "a".repeat(100));
}
