use std::fs;

use object::{ManualClock, SystemClock, Timestamp};
use request::{RequestInfo, User};

use super::rotate::{RotatingFile, Rotation};
use super::*;
use crate::{Auditor, Policy, Record, Request};

const EVERYTHING: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]";

fn options(path: &std::path::Path, mode: Mode) -> LogOptions {
    LogOptions {
        path: path.to_owned(),
        format: LogFormat::Json,
        max_megabytes: 0,
        max_age_days: 0,
        max_backups: 0,
        compress: false,
        mode,
        batch: BatchOptions { buffer: 100, max_size: 10, max_wait: Duration::from_millis(5), throttle: None },
        truncation: None,
    }
}

fn begin(auditor: &Auditor) -> Arc<Record> {
    let info = RequestInfo::parse("POST", "/api/v1/namespaces/ns/pods", &[]);
    let (user, source_ips) = (User::anonymous(), vec!["127.0.0.1".into()]);
    let request = Request {
        info: &info,
        user: &user,
        audit_id: "id",
        uri: "/api/v1/namespaces/ns/pods",
        user_agent: &"x".repeat(2000),
        source_ips,
    };
    auditor.begin(&request).unwrap()
}

fn auditor(options: LogOptions) -> Auditor {
    let backend = Backend::log(options, Arc::default()).unwrap();
    Auditor::new(Policy::read(EVERYTHING.as_bytes()).unwrap(), vec![backend], Arc::new(SystemClock))
}

async fn serve(auditor: &Auditor) {
    let record = begin(auditor);
    assert!(record.received().await);
    let mut object = object::Value::map();
    object.set(&["metadata", "name"], "x");
    record.request_object(&object, |_| b"{\"kind\":\"Pod\"}".to_vec());
    record.annotate("authorization.k8s.io/decision", "allow");
    record.response_json(&bytes::Bytes::from_static(b"{\n  \"kind\": \"Pod\"\n}\n"));
    record.response_complete(201);
}

#[tokio::test]
async fn every_mode_writes_every_event() {
    for mode in [Mode::Batch, Mode::Blocking, Mode::BlockingStrict] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/audit.log");
        let auditor = auditor(options(&path, mode));
        for _ in 0..20 {
            serve(&auditor).await;
        }
        auditor.stop().await;
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 40, "{mode:?}");
        let last = text.lines().last().unwrap();
        for part in [
            "\"stage\":\"ResponseComplete\"",
            "\"requestObject\":{\"kind\":\"Pod\"}",
            "\"responseObject\":{\"kind\":\"Pod\"}",
            "\"name\":\"x\"",
            "\"code\":201",
            "\"annotations\":{\"authorization.k8s.io/decision\":\"allow\"}",
            "...TRUNCATED",
        ] {
            assert!(last.contains(part), "{part} {last}");
        }
    }
}

#[tokio::test]
async fn a_strict_backend_fails_requests_and_others_do_not() {
    for (mode, goes_on) in [(Mode::Blocking, true), (Mode::BlockingStrict, false)] {
        // Nothing can be written to this device.
        let auditor = auditor(options(std::path::Path::new("/dev/full"), mode));
        assert_eq!(begin(&auditor).received().await, goes_on, "{mode:?}");
        let mut metrics = String::new();
        auditor.write_metrics(&mut metrics).unwrap();
        assert!(metrics.contains("apiserver_audit_error_total{plugin=\"log\"} 1"), "{metrics}");
        assert_eq!(metrics.contains("apiserver_audit_requests_rejected_total 1"), !goes_on, "{metrics}");
    }
}

#[test]
fn large_events_lose_their_objects() {
    let truncation = Some(Truncation { max_event_bytes: 1000, max_batch_bytes: 10_000 });
    let mut event = crate::event::tests::event();
    event.response_object = Some(vec![b'1'; 2000].into());
    assert!(encode(&event, truncation).is_none(), "at level Metadata nothing can be left out");
    event.level = Level::RequestResponse;
    let json = String::from_utf8(encode(&event, truncation).unwrap()).unwrap();
    assert!(json.contains("\"audit.k8s.io/truncated\":\"true\"") && !json.contains("responseObject"), "{json}");
    event.request_uri = "x".repeat(3000);
    assert!(encode(&event, truncation).is_none());
}

#[test]
fn files_rotate_by_size_and_old_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let rotation = Rotation { max_megabytes: 1, max_age_days: 2, max_backups: 2, compress: true };
    let day = |n: i64| Box::new(ManualClock::new(Timestamp::new(1_700_000_000 + n * 86_400, 123_000_000)));
    let names = || {
        let mut names: Vec<String> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let line = vec![b'x'; 600 << 10];
    for n in 0..4 {
        let mut file = RotatingFile::open(&path, rotation, day(n)).unwrap();
        file.write(&line).unwrap();
    }
    assert_eq!(names(), ["audit-2023-11-16T22-13-20.123.log.gz", "audit-2023-11-17T22-13-20.123.log.gz", "audit.log"]);
    let mut file = RotatingFile::open(&path, rotation, day(10)).unwrap();
    file.write(&line).unwrap();
    assert_eq!(names(), ["audit-2023-11-24T22-13-20.123.log.gz", "audit.log"]);
}

/// A webhook that takes calls and never answers costs a bounded number of bytes, those of calls that are under way among them.
#[tokio::test]
async fn a_webhook_that_stands_still_holds_a_bounded_number_of_bytes() {
    const EVENT_BYTES: usize = 1 << 20;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    let options = WebhookOptions {
        client: outbound::Client::new(&outbound::ClientOptions::default()).unwrap(),
        url,
        mode: Mode::Batch,
        initial_backoff: Duration::from_secs(10),
        batch: BatchOptions { buffer: 10_000, max_size: 1, max_wait: Duration::from_millis(1), throttle: None },
        truncation: None,
    };
    let numbers: Arc<Numbers> = Arc::default();
    let backend = Backend::webhook(options, numbers.clone());
    let auditor = Auditor::new(Policy::read(EVERYTHING.as_bytes()).unwrap(), vec![backend], Arc::new(SystemClock));
    let pushed = 3 * BUFFER_BYTES_MAX / EVENT_BYTES;
    for _ in 0..pushed {
        let record = begin(&auditor);
        record.request_object(&object::Value::map(), |_| vec![b'1'; EVENT_BYTES]);
        record.response_complete(201);
        // Lets batches begin.
        tokio::task::yield_now().await;
    }
    let mut text = String::new();
    numbers.write(&mut text).unwrap();
    let lost = text.lines().find_map(|line| line.strip_prefix("apiserver_audit_error_total{plugin=\"buffered\"} "));
    let lost: usize = lost.unwrap_or_else(|| panic!("nothing was lost: {text}")).parse().unwrap();
    assert!(pushed - lost <= BUFFER_BYTES_MAX / EVENT_BYTES + 1, "{pushed} {lost}");
    accepting.abort();
}
