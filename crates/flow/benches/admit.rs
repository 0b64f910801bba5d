//! What priority and fairness costs a request when there is room: classification, shuffle sharding, a seat taken and given back.
//! `cargo bench -p ferrokube-flow`. It should stay under 5 µs.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use flow::{Flow, FlowSettings, Work};
use object::{Value, value};
use request::{RequestInfo, User};

const REQUESTS: u32 = 500_000;
/// As many schemas as a server has by default come before the one that matches.
const SCHEMAS_BEFORE: usize = 12;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let flow = Flow::new(FlowSettings { seats: 600 });
        let mut schemas: Vec<Value> =
            (0..SCHEMAS_BEFORE).map(|at| schema(&format!("s{at}"), at as i64 + 100, "system:nobody")).collect();
        schemas.push(schema("global-default", 9900, "system:authenticated"));
        flow.configure(&schemas, &[level()]);
        let info = RequestInfo::parse("GET", "/api/v1/namespaces/default/pods/a", &[]);
        let users: Vec<User> = (0..64).map(user).collect();
        let began = Instant::now();
        for at in 0..REQUESTS {
            let user = &users[at as usize % users.len()];
            let deadline = tokio::time::Instant::now() + Duration::from_secs(15);
            let seats = flow.admit(&info, user, deadline, |_| Work::ONE).await.unwrap();
            assert_eq!(seats.admission().schema, "global-default");
        }
        println!("admission of a request with room: {:?}", began.elapsed() / REQUESTS);
    });
}

fn user(at: u32) -> User {
    User { name: format!("user-{at}"), groups: vec!["system:authenticated".into()], ..User::default() }
}

fn level() -> Value {
    value!({
        "metadata": {"name": "global-default", "uid": "u"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 20, "lendablePercent": 50,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 128, "handSize": 6, "queueLengthLimit": 50}}
        }}
    })
}

fn schema(name: &str, precedence: i64, group: &str) -> Value {
    value!({
        "metadata": {"name": name, "uid": "u"},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": "global-default"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "Group", "group": {"name": group}}],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true
                }]
            }]
        }
    })
}
