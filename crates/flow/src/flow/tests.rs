use object::Map;

use super::*;

pub fn level(name: &str, shares: i64, response: Value) -> Value {
    let mut object = Value::map();
    object.set(&["metadata", "name"], name);
    object.set(&["metadata", "uid"], format!("uid-of-{name}"));
    object.set(&["spec", "type"], "Limited");
    object.set(&["spec", "limited", "nominalConcurrencyShares"], shares);
    object.set(&["spec", "limited", "limitResponse"], response);
    object
}

fn reject() -> Value {
    Value::Map([("type", "Reject")].into_iter().collect::<Map>())
}

pub fn queue(queues: i64, hand_size: i64, length_limit: i64) -> Value {
    let mut response = Value::map();
    response.set(&["type"], "Queue");
    response.set(&["queuing", "queues"], queues);
    response.set(&["queuing", "handSize"], hand_size);
    response.set(&["queuing", "queueLengthLimit"], length_limit);
    response
}

pub fn schema(name: &str, precedence: i64, level: &str, user: &str) -> Value {
    let list = |value: Value| Value::List(vec![value]);
    let star = || list("*".into());
    let mut subject = Value::map();
    subject.set(&["kind"], "User");
    subject.set(&["user", "name"], user);
    let mut resource = Value::map();
    for field in ["verbs", "apiGroups", "resources", "namespaces"] {
        resource.set(&[field], star());
    }
    resource.set(&["clusterScope"], true);
    let mut rule = Value::map();
    rule.set(&["subjects"], list(subject));
    rule.set(&["resourceRules"], list(resource));
    let mut object = Value::map();
    object.set(&["metadata", "name"], name);
    object.set(&["spec", "matchingPrecedence"], precedence);
    object.set(&["spec", "priorityLevelConfiguration", "name"], level);
    object.set(&["spec", "distinguisherMethod", "type"], "ByUser");
    object.set(&["spec", "rules"], list(rule));
    object
}

pub fn alice() -> User {
    User { name: "alice".into(), groups: vec!["system:authenticated".into()], ..User::default() }
}

pub fn pods() -> RequestInfo {
    RequestInfo::parse("GET", "/api/v1/pods", &[])
}

async fn admit(flow: &Flow, user: &User) -> Result<Seats, Rejected> {
    flow.admit(&pods(), user, Instant::now() + Duration::from_secs(15), |_| Work::ONE).await
}

#[tokio::test(start_paused = true)]
async fn requests_are_classified_by_precedence() {
    let flow = Flow::new(FlowSettings { seats: 600 });
    let seats = admit(&flow, &alice()).await.unwrap();
    assert_eq!((seats.admission().schema.as_str(), seats.admission().level.as_str()), ("catch-all", "catch-all"));
    let masters = User { groups: vec!["system:masters".into()], ..alice() };
    assert_eq!(admit(&flow, &masters).await.unwrap().admission().level, "exempt");
    let levels = [level("mine", 10, queue(8, 2, 5)), level("other", 10, reject())];
    flow.configure(
        &[schema("b", 20, "other", "*"), schema("a", 10, "mine", "alice"), schema("x", 1, "gone", "*")],
        &levels,
    );
    let seats = admit(&flow, &alice()).await.unwrap();
    assert_eq!((seats.admission().schema.as_str(), seats.admission().level_uid.as_str()), ("a", "uid-of-mine"));
    let bob = User { name: "bob".into(), ..alice() };
    assert_eq!(admit(&flow, &bob).await.unwrap().admission().schema, "b");
}

#[tokio::test(start_paused = true)]
async fn a_full_level_rejects_and_others_go_on() {
    let flow = Flow::new(FlowSettings { seats: 10 });
    flow.configure(&[schema("a", 10, "mine", "alice")], &[level("mine", 5, reject())]);
    let mut taken = Vec::new();
    let rejected = loop {
        match admit(&flow, &alice()).await {
            Ok(seats) => taken.push(seats),
            Err(rejected) => break rejected,
        }
    };
    assert_eq!((taken.len(), rejected.retry_after, rejected.admission.level.as_str()), (5, 1, "mine"));
    let bob = User { name: "bob".into(), ..alice() };
    assert!(admit(&flow, &bob).await.is_ok());
    taken.pop();
    assert!(admit(&flow, &alice()).await.is_ok());
    let mut metrics = String::new();
    flow.write_metrics(&mut metrics).unwrap();
    for line in [
        "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"a\",priority_level=\"mine\",reason=\"concurrency-limit\"} 1",
        "apiserver_flowcontrol_current_executing_requests{flow_schema=\"a\",priority_level=\"mine\"} 4",
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"mine\"} 5",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_seats_the_deadline_or_the_client() {
    let flow = Arc::new(Flow::new(FlowSettings { seats: 2 }));
    flow.configure(&[schema("a", 10, "mine", "alice")], &[level("mine", 1, queue(1, 1, 5))]);
    let mut taken = Vec::new();
    while let Ok(Ok(seats)) = tokio::time::timeout(Duration::from_millis(1), admit(&flow, &alice())).await {
        taken.push(seats);
    }
    // The request that timed out above has left the queue.
    assert_eq!(flow.snapshot().levels.iter().map(|level| level.state.lock().queues.waiting).sum::<usize>(), 0);
    let late = flow.admit(&pods(), &alice(), Instant::now() + Duration::from_millis(20), |_| Work::ONE).await;
    assert!(late.is_err());
    let waits = tokio::spawn({
        let flow = flow.clone();
        async move { admit(&flow, &alice()).await.is_ok() }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    taken.clear();
    assert!(waits.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn unwanted_levels_stay_until_they_are_idle() {
    let flow = Flow::new(FlowSettings { seats: 100 });
    flow.configure(&[schema("a", 10, "mine", "alice")], &[level("mine", 5, reject())]);
    let seats = admit(&flow, &alice()).await.unwrap();
    flow.configure(&[], &[]);
    flow.adjust();
    assert!(flow.dump("dump_priority_levels").unwrap().contains("mine"));
    drop(seats);
    flow.adjust();
    assert!(!flow.dump("dump_priority_levels").unwrap().contains("mine"));
}

#[tokio::test(start_paused = true)]
async fn idle_seats_are_lent() {
    let flow = Flow::new(FlowSettings { seats: 100 });
    let mut lender = level("lender", 50, queue(1, 1, 50));
    lender.set(&["spec", "limited", "lendablePercent"], 90i64);
    let levels = [lender, level("mine", 50, queue(1, 1, 500))];
    flow.configure(&[schema("a", 10, "mine", "alice")], &levels);
    let (info, user) = (pods(), alice());
    let deadline = Instant::now() + Duration::from_secs(600);
    let mut waiting = futures::stream::FuturesUnordered::new();
    for _ in 0..90 {
        waiting.push(flow.admit(&info, &user, deadline, |_| Work::ONE));
    }
    let mut taken = Vec::new();
    let mut take = async |waiting: &mut futures::stream::FuturesUnordered<_>| {
        while let Ok(Some(seats)) =
            tokio::time::timeout(Duration::from_millis(1), futures::StreamExt::next(waiting)).await
        {
            taken.push(seats);
        }
        taken.len()
    };
    let before = take(&mut waiting).await;
    for _ in 0..3 {
        tokio::time::sleep(ADJUSTMENT_PERIOD).await;
        flow.adjust();
    }
    let after = take(&mut waiting).await;
    assert!(before < after && after >= 80, "{before} {after}");
}

#[tokio::test(start_paused = true)]
async fn seats_can_be_given_back_and_taken_again() {
    let flow = Arc::new(Flow::new(FlowSettings { seats: 10 }));
    flow.configure(&[schema("a", 10, "mine", "alice")], &[level("mine", 5, reject())]);
    let mut taken = Vec::new();
    while let Ok(seats) = admit(&flow, &alice()).await {
        taken.push(seats);
    }
    let away = taken.pop().unwrap().give_back().unwrap();
    let other = admit(&flow, &alice()).await.unwrap();
    let returning = tokio::spawn(away.take_again());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!returning.is_finished());
    drop(other);
    assert_eq!(returning.await.unwrap().admission().schema, "a");
}

#[tokio::test(start_paused = true)]
async fn a_level_without_seats_of_its_own_runs_one_request() {
    let flow = Flow::new(FlowSettings { seats: 4 });
    let levels: Vec<Value> = (0..20)
        .map(|n| {
            let mut level = level(&format!("level-{n}"), 1, queue(8, 2, 5));
            level.set(&["spec", "limited", "lendablePercent"], 100i64);
            level
        })
        .collect();
    flow.configure(&[schema("a", 10, "level-7", "alice")], &levels);
    let admitted = tokio::time::timeout(Duration::from_millis(1), admit(&flow, &alice())).await;
    assert!(admitted.is_ok_and(|seats| seats.is_ok()));
}
