//! The log as tools read it that know kube-apiserver's: shapes, verbosities, and what must never be in it.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

mod support;

use std::io::BufRead;

use object::Value;
use support::Node;

const RANGE: &str = "10.0.0.0/24";
const PATH: &str = "/api/v1/namespaces?limit=1&token=s3cret";

/// The lines that a server logs, up to the one about a request to [`PATH`] with a token that is refused.
async fn lines(flags: &[&str]) -> Vec<String> {
    let (node, log) = Node::spawn_with_log(RANGE, flags);
    assert_eq!(node.stranger().await.ask_as("s3cret", "GET", PATH, &Value::Null).await.0, 401);
    let mut lines: Vec<String> = Vec::new();
    for line in log.lines() {
        lines.push(line.unwrap());
        if lines.last().is_some_and(|line| line.contains("HTTP") && line.contains("/api/v1/namespaces")) {
            return lines;
        }
    }
    panic!("the request is not logged: {lines:?}");
}

#[tokio::test]
async fn requests_are_lines_of_klog() {
    let lines = lines(&["-v=3"]).await;
    for line in &lines {
        assert!(!line.contains("s3cret"), "{line}");
        let (head, _) = line.split_once("] \"").unwrap_or_else(|| panic!("{line}"));
        let words: Vec<&str> = head.split_whitespace().collect();
        let [day, time, process, place] = words[..] else { panic!("{line}") };
        assert!(day.starts_with(['I', 'W', 'E']) && day.len() == 5 && time.len() == 15, "{line}");
        assert!(process.parse::<u32>().is_ok() && place.contains(".rs:"), "{line}");
    }
    let line = lines.last().unwrap();
    let (_, fields) = line.split_once("] ").unwrap();
    let want = "\"HTTP\" verb=\"LIST\" URI=\"/api/v1/namespaces?limit=1&token=<masked>\" latency=\"";
    assert!(fields.starts_with(want), "{line}");
    let keys: Vec<&str> = fields.split(' ').skip(1).filter_map(|field| Some(field.split_once('=')?.0)).collect();
    assert_eq!(keys, ["verb", "URI", "latency", "userAgent", "contentType", "audit-ID", "srcIP", "resp"], "{line}");
    assert!(line.ends_with(" resp=401"), "{line}");
    assert!(lines.iter().any(|line| line.contains("\"FLAG\" name=\"--secure-port\" value=\"0\"")));
}

#[tokio::test]
async fn requests_are_objects_of_component_base() {
    let lines = lines(&["-v=3", "--logging-format=json"]).await;
    let decode = |line: &String| codec::json::decode(line.as_bytes(), None, &mut codec::Notes::ignore());
    for line in &lines {
        let object = decode(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(!line.contains("s3cret") && !object.str_at(&["caller"]).is_empty(), "{line}");
        assert!(line.starts_with("{\"ts\":") && line.contains(",\"msg\":"), "{line}");
    }
    let request = decode(lines.last().unwrap()).unwrap();
    assert_eq!((request.str_at(&["msg"]), request.str_at(&["verb"])), ("HTTP", "LIST"));
    assert_eq!((request.field("v").as_int(), request.field("resp").as_int()), (Some(3), Some(401)));
}

/// Requests that nobody knows the user of: their lines are few, and cut.
#[tokio::test]
async fn strangers_do_not_fill_the_log() {
    const REQUESTS: usize = 300;
    let (node, log) = Node::spawn_with_log(RANGE, &["-v=3"]);
    // Read at once, because the server waits where nobody reads its log.
    let log = std::thread::spawn(move || {
        let mut lines: Vec<String> = Vec::new();
        for line in log.lines() {
            lines.push(line.unwrap());
            if lines.last().is_some_and(|line| line.contains("HTTP") && line.contains("limit=1")) {
                break;
            }
        }
        lines
    });
    let began = std::time::Instant::now();
    let mut client = node.stranger().await;
    let long = format!("/api/v1/namespaces/{}", "x".repeat(40_000));
    for at in 0..REQUESTS {
        let path = if at == 0 { long.as_str() } else { "/livez" };
        assert_eq!(client.ask_as("nobody's", "GET", path, &Value::Null).await.0, 401);
    }
    let seconds = began.elapsed().as_secs() as usize;
    assert_eq!(client.ask_as("nobody's", "GET", PATH, &Value::Null).await.0, 401);
    let lines = log.join().unwrap();
    assert!(lines.iter().all(|line| line.len() < 10_000));
    let refused = lines.iter().filter(|line| line.contains("unable to authenticate")).count();
    assert!((10..=10 * (seconds + 2)).contains(&refused), "{refused} lines of {REQUESTS} requests in {seconds} s");
}
