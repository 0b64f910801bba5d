use object::SystemClock;

use super::*;

fn costs() -> Arc<Costs> {
    Arc::new(Costs::new(Arc::new(SystemClock)))
}

fn client(user: &str, agent: &str) -> ObservedClient {
    ObservedClient { user: user.into(), agent: agent.into(), address: IpAddr::V4(Ipv4Addr::LOCALHOST) }
}

fn request(user: &str, agent: &str, cpu_ms: u64) -> ObservedRequest {
    ObservedRequest {
        client: client(user, agent),
        audit_id: "id".into(),
        verb: "list",
        target: "/api/v1/pods".into(),
        group: String::new(),
        resource: "pods".into(),
        code: 200,
        message: String::new(),
        warnings: Vec::new(),
        groups: Vec::new(),
        reason: String::new(),
        annotations: Vec::new(),
        is_long_running: false,
        bytes: 10,
        took: Duration::ZERO,
        authenticated: Duration::ZERO,
        admitted: Duration::ZERO,
        authorization: Duration::ZERO,
        cpu: Duration::from_millis(cpu_ms),
        seat_seconds: 0.5,
        flow: None,
    }
}

fn watch(user: &str) -> ObservedRequest {
    ObservedRequest { is_long_running: true, ..request(user, "", 0) }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_counted_while_no_page_asks() {
    let costs = costs();
    costs.ended(request("alice", "", 5));
    assert!(costs.clients(10).rows.is_empty());
    costs.look();
    assert!(costs.is_looking());
    costs.ended(request("alice", "", 5));
    assert_eq!(costs.clients(10).rows.len(), 1);
    tokio::time::sleep(LOOKS_FOR - Duration::from_secs(1)).await;
    costs.look();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(costs.is_looking());
    tokio::time::sleep(LOOKS_FOR).await;
    assert!(!costs.is_looking());
    assert!(costs.clients(10).rows.is_empty() && costs.requests(10, |_| true).is_empty());
}

#[tokio::test(start_paused = true)]
async fn figures_are_those_of_the_last_two_minutes_at_most() {
    let costs = costs();
    costs.look();
    for minute in 0..4u64 {
        costs.ended(request("alice", "", 1));
        let report = costs.clients(10);
        assert_eq!(report.rows[0].cost.requests, (minute + 1).min(2));
        assert!(report.seconds < 2.0 * TABLE_LASTS.as_secs_f64());
        for _ in 0..6 {
            costs.look();
            tokio::time::sleep(TABLE_LASTS / 6).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_culprit_is_found_among_any_number_of_names() {
    // Whom the requests come from, and the first row that must be shown.
    let one_name: fn(u64) -> (String, String) = |_| ("culprit".into(), "storm/1.0".into());
    let many_agents: fn(u64) -> (String, String) = |at| ("culprit".into(), format!("agent-{at}"));
    for (culprit, want) in [(one_name, "storm/1.0"), (many_agents, SEVERAL)] {
        let costs = costs();
        costs.look();
        for at in 0..20_000u64 {
            let (user, agent) = culprit(at);
            costs.ended(request(&user, &agent, 2));
            costs.ended(request(&format!("user-{}", at % 1000), "kubectl", 1));
        }
        let report = costs.clients(10);
        assert_eq!((report.rows[0].user.as_str(), report.rows[0].agent.as_str()), ("culprit", want));
        let counted = report.rows.iter().map(|row| row.cost.requests).sum::<u64>() + report.others.requests;
        assert_eq!(counted, 40_000);
        assert!(costs.state.lock().current.as_ref().unwrap().rows.len() <= CLIENTS_MAX);
    }
}

#[tokio::test(start_paused = true)]
async fn open_watches_are_known_although_nobody_looked_when_they_began() {
    let costs = costs();
    for at in 0..2 * WATCHERS_MAX {
        costs.opened(&client(&at.to_string(), ""));
    }
    costs.opened(&client("0", ""));
    costs.look();
    let shown = |user: &str| {
        let rows = costs.clients(usize::MAX).rows;
        rows.into_iter().find(|row| row.user == user).map_or(0, |row| row.watches)
    };
    assert_eq!((shown("0"), shown("1"), shown("2000")), (2, 1, 0));
    costs.ended(watch("0"));
    // This one was never counted.
    costs.ended(watch("2000"));
    assert_eq!((shown("0"), shown("1"), shown("2000")), (1, 1, 0));
    costs.ended(watch("0"));
    assert_eq!(shown("0"), 0);
}
