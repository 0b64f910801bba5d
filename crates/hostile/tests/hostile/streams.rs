//! Streams to pods: where they may lead, what backends get to know, and peers that do not behave.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hostile::{ADMIN, Target};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::peer::Peer;

const DEFAULT: &str = "/api/v1/namespaces/default";
const SOON: Duration = Duration::from_secs(10);
/// What may be on its way between a kubelet that floods and a client that does not read: buffers of two connections.
const UNREAD_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// CVE-2020-8555, CVE-2020-8562, CVE-2022-3294: proxies lead to pods and nodes, not to the server's own network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_reach_pods_only() {
    let target = Target::start().await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let slice = |reference: serde_json::Value| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"name": "", "port": 80}],
            "metadata": {"generateName": "s-", "labels": {"kubernetes.io/service-name": "s"}},
            "endpoints": [{"addresses": ["10.1.2.3"], "targetRef": reference}]})
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let create = |path: String, object: serde_json::Value| {
        let target = &target;
        async move {
            let answer = target.ask(ADMIN, "POST", &path, object.to_string()).await;
            assert_eq!(answer.code, 201, "{path}: {}", answer.message());
        }
    };
    create(format!("{DEFAULT}/services"), service).await;
    create(format!("{DEFAULT}/pods"), pod).await;
    for reference in [
        json!(null),
        json!({"kind": "Pod", "namespace": "kube-system", "name": "p"}),
        json!({"kind": "Pod", "namespace": "default", "name": "missing"}),
        // The pod exists, but the address is not its own.
        json!({"kind": "Pod", "namespace": "default", "name": "p"}),
    ] {
        create(slices.to_string(), slice(reference)).await;
    }
    let session = target.session().await;
    let check = async |path: &str, code: u16, says: &str| {
        let answer = session.ask(ADMIN, "GET", path, "").await;
        assert!(answer.code == code && answer.message().contains(says), "{path}: {} {}", answer.code, answer.message());
    };
    check(&format!("{DEFAULT}/services/s/proxy/"), 503, "no endpoints available for service \"s\"").await;
    check(&format!("{DEFAULT}/services/s:81/proxy/"), 503, "no service port 81 found for service \"s\"").await;
    check(&format!("{DEFAULT}/services/ftp:s:80/proxy/"), 400, "invalid service request \"ftp:s:80\"").await;
    for ip in ["127.0.0.1", "169.254.169.254", "::1"] {
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}).to_string();
        assert_eq!(session.ask(ADMIN, "PATCH", &format!("{DEFAULT}/pods/p/status"), status).await.code, 200);
        check(&format!("{DEFAULT}/pods/p:10250/proxy/"), 400, "address not allowed").await;
    }
    create("/api/v1/nodes".into(), json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})).await;
    check("/api/v1/nodes/n/proxy/", 500, "no preferred addresses found; known addresses: []").await;
    for address in ["127.0.0.1", "localhost", "169.254.1.1", "::1"] {
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}}).to_string();
        assert_eq!(session.ask(ADMIN, "PATCH", "/api/v1/nodes/n/status", status).await.code, 200);
        check("/api/v1/nodes/n/proxy/metrics", 400, "address not allowed").await;
        check("/api/v1/nodes/http:n:80/proxy/", 400, "address not allowed").await;
    }
}

/// What a backend must not get from a client: credentials, and headers by which a proxy says who the user is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backends_get_no_identity() {
    let target = Target::start().await;
    let kubelet = Kubelet::start(Habit::Quiet).await;
    kubelet.register(&target).await;
    for head in [websocket("exec?command=x&stdout=true"), spdy("exec?command=x&stdout=true"), spdy("portforward")] {
        let identity = "x-remote-user: admin\r\nx-remote-group: system:masters\r\nx-remote-extra-a: b\r\nx_remote_user: admin\r\n\
                        X_Remote-Extra_b: c\r\nimpersonate_user: admin\r\n\r\n";
        let mut client = target.connect(&[b"http/1.1"]).await;
        client.write_all(head.replace("\r\n\r\n", &format!("\r\n{identity}")).as_bytes()).await.unwrap();
        assert!(answer(&mut client).await.starts_with("HTTP/1.1 101"), "{head}");
        let seen = kubelet.request().await;
        let leaked = ["authorization:", "remote", "impersonate"].into_iter().find(|name| seen.contains(name));
        assert_eq!(leaked, None, "{seen}");
    }
}

/// Clients that do not read, send half frames, wrong frames or floods, and kubelets that do: others are served as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_misbehave_harm_no_one_else() {
    let target = Target::start().await;
    let kubelet = Kubelet::start(Habit::Flood).await;
    kubelet.register(&target).await;
    let mut open = Vec::new();
    for head in
        [websocket("exec?command=x&stdout=true"), websocket("attach?stdout=true"), spdy("exec?command=x&stdout=true")]
    {
        let mut client = target.connect(&[b"http/1.1"]).await;
        client.write_all(head.as_bytes()).await.unwrap();
        assert!(answer(&mut client).await.starts_with("HTTP/1.1 101"), "{head}");
        open.push(client);
    }
    // Nothing is read: what the kubelet could send must stop growing.
    let sent = kubelet.stuck().await;
    assert!(sent < 3 * UNREAD_BYTES_MAX, "{sent} bytes were taken from a kubelet for clients that do not read");
    let began = Instant::now();
    assert_eq!(target.ask(ADMIN, "GET", &format!("{DEFAULT}/pods/p"), "").await.code, 200);
    assert!(began.elapsed() < SOON);
    drop(open);
    for wrong in
        [&[0x82, 1, 0][..], &[0xf2, 0x81, 0, 0, 0, 0, 1], &[0x88, 0xff, 0xff], &[0x82, 0x82, 0, 0, 0, 0, 255, 99]]
    {
        let quiet = Kubelet::start(Habit::Quiet).await;
        quiet.register(&target).await;
        let mut client = target.connect(&[b"http/1.1"]).await;
        client.write_all(websocket("exec?command=x&stdin=true").as_bytes()).await.unwrap();
        assert!(answer(&mut client).await.starts_with("HTTP/1.1 101"));
        client.write_all(wrong).await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(SOON, client.read_to_end(&mut rest)).await;
        assert!(ended.is_ok() || wrong.starts_with(&[0x88]), "{wrong:?} does not end the session");
        drop(client);
        // The kubelet's end is closed with the client's.
        tokio::time::timeout(SOON, quiet.closed()).await.unwrap();
    }
    for habit in [Habit::HalfFrame, Habit::Garbage, Habit::Reset] {
        for head in [websocket("exec?command=x&stdout=true"), spdy("exec?command=x&stdout=true"), tunnel("portforward")]
        {
            let kubelet = Kubelet::start(habit).await;
            kubelet.register(&target).await;
            let mut client = target.connect(&[b"http/1.1"]).await;
            client.write_all(head.as_bytes()).await.unwrap();
            assert!(answer(&mut client).await.starts_with("HTTP/1.1 101"), "{head}");
            kubelet.request().await;
            if habit == Habit::Reset {
                // The client learns that the kubelet is gone.
                client.write_all(&[0x82, 0x81, 0, 0, 0, 0, b'x']).await.unwrap();
                let mut rest = Vec::new();
                let ended = tokio::time::timeout(SOON, client.read_to_end(&mut rest)).await;
                assert!(ended.is_ok(), "{head} goes on without a kubelet");
            }
            drop(client);
            tokio::time::timeout(SOON, kubelet.closed()).await.unwrap();
        }
    }
}

fn websocket(subresource: &str) -> String {
    format!(
        "GET {DEFAULT}/pods/p/{subresource} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\nconnection: Upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: v5.channel.k8s.io\r\n\r\n"
    )
}

/// SPDY inside WebSocket messages.
fn tunnel(subresource: &str) -> String {
    websocket(subresource).replace("v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io")
}

fn spdy(subresource: &str) -> String {
    format!(
        "POST {DEFAULT}/pods/p/{subresource} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ADMIN}\r\nconnection: Upgrade\r\n\
         upgrade: SPDY/3.1\r\nx-stream-protocol-version: v4.channel.k8s.io\r\ncontent-length: 0\r\n\r\n"
    )
}

/// The head of the response.
async fn answer(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut head = Vec::new();
    let reading = async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
    };
    tokio::time::timeout(SOON, reading).await.unwrap();
    String::from_utf8(head).unwrap()
}

/// What a kubelet does after it has accepted the streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Habit {
    Quiet,
    /// Writes to stdout for ever.
    Flood,
    HalfFrame,
    Garbage,
    /// Resets the connection in the middle of a frame, when the first bytes arrive: the client's, or a ping of the server's.
    Reset,
}

struct Kubelet {
    port: u16,
    requests: Mutex<tokio::sync::mpsc::UnboundedReceiver<String>>,
    sent: Arc<AtomicU64>,
    open: Arc<AtomicU64>,
}

impl Kubelet {
    async fn start(habit: Habit) -> Kubelet {
        let Peer { listener, acceptor, port, .. } = Peer::bind("node").await;
        let (heads, requests) = tokio::sync::mpsc::unbounded_channel();
        let (sent, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counted, opened) = (sent.clone(), open.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, heads) = (acceptor.clone(), heads.clone());
                let (sent, open) = (counted.clone(), opened.clone());
                tokio::spawn(async move {
                    open.fetch_add(1, Ordering::SeqCst);
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = serve(stream, habit, heads, sent).await;
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Kubelet { port, requests: Mutex::new(requests), sent, open }
    }

    /// Makes it the kubelet of the pod `p`.
    async fn register(&self, target: &Target) {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}});
        let session = target.session().await;
        session.ask(ADMIN, "POST", "/api/v1/nodes", node.to_string()).await;
        assert_eq!(session.ask(ADMIN, "PATCH", "/api/v1/nodes/n/status", status.to_string()).await.code, 200);
        session.ask(ADMIN, "POST", &format!("{DEFAULT}/pods"), pod.to_string()).await;
    }

    /// The head of the next request, in small letters.
    async fn request(&self) -> String {
        let next = std::future::poll_fn(|cx| self.requests.lock().unwrap().poll_recv(cx));
        tokio::time::timeout(SOON, next).await.unwrap().unwrap().to_lowercase()
    }

    /// How much could be sent when no more is taken.
    async fn stuck(&self) -> u64 {
        let mut before = u64::MAX;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.sent.load(Ordering::SeqCst);
            if now == before || now > 3 * UNREAD_BYTES_MAX {
                return now;
            }
            before = now;
        }
    }

    /// Returns when no connection is open.
    async fn closed(&self) {
        while self.open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The beginning of a SPDY data frame of stream 3.
const HALF_A_FRAME: [u8; 9] = [0, 0, 0, 3, 0, 0, 100, 0, b'x'];

async fn serve(
    mut stream: tokio_rustls::server::TlsStream<TcpStream>,
    habit: Habit,
    heads: tokio::sync::mpsc::UnboundedSender<String>,
    sent: Arc<AtomicU64>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let _ = heads.send(String::from_utf8_lossy(&head).into_owned());
    let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\
                  x-stream-protocol-version: v4.channel.k8s.io\r\n\r\n";
    stream.write_all(switch.as_bytes()).await?;
    stream.flush().await?;
    if habit == Habit::Reset {
        stream.get_ref().0.set_zero_linger()?;
    }
    let (mut reads, mut writes) = tokio::io::split(stream);
    let is_translated = String::from_utf8_lossy(&head).contains("v5.channel.k8s.io");
    // Translated sessions open the streams 1 for errors and 3 for stdout or stdin.
    for number in [1u8, 3].into_iter().filter(|_| is_translated) {
        let (_, second) = (reads.read_u32().await?, reads.read_u32().await?);
        let mut payload = vec![0; (second & 0xff_ffff) as usize];
        reads.read_exact(&mut payload).await?;
        writes.write_all(&[0x80, 3, 0, 2, 0, 0, 0, 4, 0, 0, 0, number]).await?;
        writes.flush().await?;
    }
    let misbehave = async {
        match habit {
            Habit::Quiet => std::future::pending().await,
            Habit::HalfFrame | Habit::Reset => writes.write_all(&HALF_A_FRAME).await?,
            Habit::Garbage => writes.write_all(&[0xff; 4096]).await?,
            Habit::Flood => loop {
                let frame = [&[0, 0, 0, 3, 0, 0, 128, 0][..], &[b'x'; 32768]].concat();
                writes.write_all(&frame).await?;
                sent.fetch_add(frame.len() as u64, Ordering::SeqCst);
            },
        }
        writes.flush().await?;
        std::future::pending::<std::io::Result<()>>().await
    };
    let mut sink = vec![0; 4096];
    let reading = async {
        while reads.read(&mut sink).await? > 0 && habit != Habit::Reset {}
        std::io::Result::Ok(())
    };
    tokio::select! {
        ended = misbehave => ended,
        ended = reading => ended,
    }
}
