use std::collections::BTreeMap;

use super::*;

/// The place of a level among so many turns.
fn turns(turns: usize) -> LevelTurns {
    LevelTurns::new(&crate::turns::Turns::new(turns..=turns), std::sync::Weak::new())
}

fn queues(limit: u64, count: usize, hand: usize, length_limit: usize, now: Instant) -> Queues {
    let mut queues = Queues::new(turns(1000), now);
    let dealer = Dealer::new(count, hand).unwrap();
    queues.configure(Discipline::Queue { dealer, queues: count, length_limit }, limit, now);
    queues
}

fn after(start: Instant, millis: u64) -> Instant {
    start + Duration::from_millis(millis)
}

fn arrive(queues: &mut Queues, hash: u64, work: Work, now: Instant) -> Arrival {
    let lengths = &Histogram::new(&[]);
    let schema = &"schema".into();
    queues.arrive(Arriving { schema, distinguisher: "", hash, work, takes_turns: true, lengths }, now)
}

#[test]
fn requests_start_wait_and_are_refused() {
    let now = Instant::now();
    let mut queues = queues(1, 1, 1, 1, now);
    let Arrival::Starts(first) = arrive(&mut queues, 0, Work::ONE, now) else { panic!("a free seat is given") };
    let Arrival::Waits(second, mut woken) = arrive(&mut queues, 0, Work::ONE, now) else { panic!("the second waits") };
    assert!(matches!(arrive(&mut queues, 0, Work::ONE, now), Arrival::Refused("queue-full")));
    assert_eq!((queues.waiting, queues.seats_in_use, queues.seats_waiting), (1, 1, 1));
    queues.finish(&first, after(now, 1));
    assert_eq!(woken.try_recv().unwrap().id, second.id);
    assert!(!queues.cancel(&second, false, after(now, 2)), "it runs already");
    queues.finish(&second, after(now, 3));
    assert!(queues.is_idle());
    assert_eq!(queues.totals, Totals { dispatched: 2, rejected: 1, ..Totals::default() });
}

#[test]
fn without_queues_the_limit_decides() {
    let now = Instant::now();
    let mut queues = Queues::new(turns(1000), now);
    queues.configure(Discipline::Reject, 1, now);
    let Arrival::Starts(first) = arrive(&mut queues, 0, Work::ONE, now) else { panic!() };
    assert!(matches!(arrive(&mut queues, 0, Work::ONE, now), Arrival::Refused("concurrency-limit")));
    queues.finish(&first, now);
    assert!(matches!(arrive(&mut queues, 0, Work::seats(5), now), Arrival::Starts(_)), "wide requests run alone");
    queues.configure(Discipline::Exempt, 0, now);
    assert!(matches!(arrive(&mut queues, 0, Work::ONE, now), Arrival::Starts(_)));
}

#[test]
fn a_request_that_gives_up_leaves_its_queue() {
    let now = Instant::now();
    let mut queues = queues(1, 1, 1, 10, now);
    let Arrival::Starts(first) = arrive(&mut queues, 0, Work::ONE, now) else { panic!() };
    let Arrival::Waits(second, _) = arrive(&mut queues, 0, Work::ONE, now) else { panic!() };
    assert!(queues.cancel(&second, true, now));
    assert_eq!((queues.waiting, queues.seats_waiting, queues.totals.timed_out), (0, 0, 1));
    queues.finish(&first, now);
    assert!(queues.is_idle());
}

#[test]
fn seats_stay_for_the_additional_latency() {
    let now = Instant::now();
    let mut queues = queues(10, 1, 1, 10, now);
    let work = Work { initial_seats: 1, final_seats: 4, additional_latency: Duration::from_millis(5) };
    let Arrival::Starts(first) = arrive(&mut queues, 0, work, now) else { panic!() };
    assert!(queues.finish(&first, now));
    assert_eq!(queues.seats_in_use, 4);
    assert!(queues.is_idle());
    queues.release(&first, after(now, 5));
    assert_eq!(queues.seats_in_use, 0);
}

#[test]
fn surplus_queues_go_when_they_are_empty() {
    let now = Instant::now();
    let mut queues = queues(100, 8, 1, 10, now);
    let started: Vec<Ticket> = (0..8)
        .map(|hash| match arrive(&mut queues, hash, Work::ONE, now) {
            Arrival::Starts(ticket) => ticket,
            _ => panic!("there are seats for all"),
        })
        .collect();
    queues.configure(Discipline::Queue { dealer: Dealer::new(2, 1).unwrap(), queues: 2, length_limit: 10 }, 100, now);
    started.iter().for_each(|ticket| {
        queues.finish(ticket, now);
    });
    assert!(queues.queues.len() == 2 && queues.is_idle() && queues.seats_in_use == 0);
}

/// Many requests of one flow do not keep those of another waiting: both get the same number of seats over time.
#[test]
fn flows_get_equal_parts() {
    let start = Instant::now();
    let mut queues = queues(4, 2, 1, 10_000, start);
    let mut receivers = Vec::new();
    let mut running: Vec<Ticket> = Vec::new();
    for n in 0..400 {
        // Flow 0 sends nine of ten requests.
        let hash = u64::from(n % 10 == 0);
        match arrive(&mut queues, hash, Work::ONE, start) {
            Arrival::Starts(ticket) => running.push(ticket),
            Arrival::Waits(_, woken) => receivers.push(woken),
            Arrival::Refused(why) => panic!("{why}"),
        }
    }
    let mut finished: BTreeMap<Option<u64>, usize> = BTreeMap::new();
    for millis in 1..=15 {
        for ticket in std::mem::take(&mut running) {
            *finished.entry(ticket.queue).or_default() += 1;
            queues.finish(&ticket, after(start, millis * 10));
        }
        receivers.retain_mut(|woken| woken.try_recv().map(|ticket| running.push(ticket)).is_err());
    }
    let counts: Vec<usize> = finished.into_values().collect();
    assert!(counts.len() == 2 && counts[0].abs_diff(counts[1]) <= 8, "{counts:?}");
}

/// Whatever happens in whatever order, the sums that are kept are those that a count finds.
#[test]
fn sums_are_kept_right() {
    let start = Instant::now();
    let mut queues = queues(3, 4, 2, 5, start);
    let mut numbers: u64 = 7;
    let mut random = |below: u64| {
        numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (numbers >> 33) % below
    };
    let (mut running, mut waiting): (Vec<Ticket>, Vec<(Ticket, oneshot::Receiver<Ticket>)>) = Default::default();
    for step in 0..20_000 {
        let now = start + Duration::from_micros(step);
        match random(3) {
            0 => match arrive(&mut queues, random(1_000), Work::seats(1 + random(4)), now) {
                Arrival::Starts(ticket) => running.push(ticket),
                Arrival::Waits(ticket, woken) => waiting.push((ticket, woken)),
                Arrival::Refused(_) => {}
            },
            1 if !running.is_empty() => {
                let ticket = running.swap_remove(random(running.len() as u64) as usize);
                queues.finish(&ticket, now);
            }
            _ if !waiting.is_empty() => {
                let (ticket, _) = waiting.swap_remove(random(waiting.len() as u64) as usize);
                assert!(queues.cancel(&ticket, false, now));
            }
            _ => {}
        }
        waiting.retain_mut(|(_, woken)| woken.try_recv().map(|ticket| running.push(ticket)).is_err());
        let (active, seats) = (
            queues.queues.iter().filter(|queue| queue.is_active()).count(),
            queues.queues.iter().map(|queue| queue.seats_in_use + queue.sums.max_seats).sum::<u64>(),
        );
        assert_eq!((queues.active, queues.seats_in_use + queues.seats_waiting), (active, seats), "step {step}");
        assert_eq!((queues.waiting, queues.executing()), (waiting.len(), running.len()), "step {step}");
    }
    assert!(queues.totals.dispatched > 1_000 && queues.totals.cancelled > 1_000);
}
