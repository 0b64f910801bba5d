//! What a client reads when a server breaks the rules of HTTP/1.1, and which connections it uses again.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::channel::mpsc;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use outbound::{Body, Client, ClientOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a server does with the first request of its first connection. It answers every other one with its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Polite,
    /// Answers before it reads the body, which it reads afterwards.
    Early,
    /// Answers twice at once.
    Twice,
    /// Sends bytes that belong to no answer.
    Extra,
    /// An answer with a length and with chunks.
    TwoLengths,
    /// As many answers that are none, before the answer.
    Informs(usize),
    /// Switches to a protocol that nobody asked for.
    Switches,
    /// Answers, and closes its side.
    HalfClose,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The number of the connection, the head, and the body.
type Seen = (usize, String, String);

struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    async fn start(habit: Habit) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = seen.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                // Clients that go away are part of the tests.
                tokio::spawn(serve(stream, number, habit, all.clone()));
            }
        });
        Server { address, seen }
    }

    fn request(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Body) -> Request<Body> {
        let mut builder = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(body).unwrap()
    }

    /// The connections over which requests came, in order.
    fn connections(&self) -> Vec<usize> {
        self.seen.lock().unwrap().iter().map(|seen| seen.0).collect()
    }
}

async fn serve(stream: TcpStream, number: usize, habit: Habit, all: Arc<Mutex<Vec<Seen>>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut habit = if number == 0 { habit } else { Habit::Polite };
    loop {
        let head = read_until(&mut stream, b"\r\n\r\n").await?;
        let path = head.split(' ').nth(1).unwrap_or("").to_string();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
        if habit == Habit::Early {
            stream.write_all(answer.as_bytes()).await?;
        }
        let body = read_body(&mut stream, &head).await?;
        all.lock().unwrap().push((number, head, body));
        let text = match habit {
            Habit::Early => String::new(),
            Habit::Polite | Habit::HalfClose => answer,
            Habit::Twice => format!("{answer}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen"),
            Habit::Extra => format!("{answer}bytes"),
            Habit::TwoLengths => {
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{path}\r\n0\r\n\r\n",
                    path.len()
                )
            }
            Habit::Informs(times) => format!("{}{answer}", "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(times)),
            Habit::Switches => "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".into(),
        };
        stream.write_all(text.as_bytes()).await?;
        stream.flush().await?;
        if habit == Habit::HalfClose {
            stream.shutdown().await?;
        }
        habit = Habit::Polite;
    }
}

async fn read_until(stream: &mut BufReader<TcpStream>, end: &[u8]) -> std::io::Result<String> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        read.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

async fn read_body(stream: &mut BufReader<TcpStream>, head: &str) -> std::io::Result<String> {
    let head = head.to_lowercase();
    if head.contains("transfer-encoding: chunked") {
        let mut body = String::new();
        loop {
            let size = read_until(stream, b"\r\n").await?;
            let chunk = read_until(stream, b"\r\n").await?;
            if size.trim() == "0" {
                return Ok(body);
            }
            body.push_str(chunk.trim_end());
        }
    }
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn client() -> Client {
    Client::new(&ClientOptions::default()).unwrap()
}

/// The response's body, or the error.
async fn send(client: &Client, request: Request<Body>) -> Result<String, String> {
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok("switched".into());
    }
    assert!(
        !(response.headers().contains_key("content-length") && response.headers().contains_key("transfer-encoding")),
        "{:?}",
        response.headers()
    );
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

/// A body that comes when it is sent, of unknown length.
fn stream() -> (mpsc::UnboundedSender<&'static str>, Body) {
    let (chunks, body) = mpsc::unbounded();
    let frames =
        futures::StreamExt::map(body, |text: &str| Ok::<_, Failure>(Frame::data(Bytes::from_static(text.as_bytes()))));
    (chunks, StreamBody::new(frames).boxed_unsync())
}

/// Whatever a server does, the next request gets its own answer; the connection is used again only if nothing was wrong.
#[tokio::test]
async fn connections_are_used_again_only_after_a_certain_answer() {
    for (habit, first, again) in [
        (Habit::Polite, Ok("/1"), true),
        (Habit::Twice, Ok("/1"), false),
        (Habit::Extra, Ok("/1"), false),
        (Habit::TwoLengths, Ok("/1"), false),
        (Habit::HalfClose, Ok("/1"), false),
        (Habit::Switches, Ok("switched"), false),
        (Habit::Informs(3), Ok("/1"), true),
        (Habit::Informs(100_000), Err("net/http: too many 1xx informational responses"), false),
    ] {
        let server = Server::start(habit).await;
        let client = client();
        let one = server.request(Method::GET, "/1", &[], outbound::body(""));
        assert_eq!(send(&client, one).await.as_deref().map_err(String::as_str), first, "{habit:?}");
        for path in ["/2", "/3"] {
            let next = server.request(Method::POST, path, &[], outbound::body("body"));
            assert_eq!(send(&client, next).await.as_deref(), Ok(path), "{habit:?}");
        }
        let connections = server.connections();
        assert_eq!(connections[1] == 0, again, "{habit:?}: {connections:?}");
    }
}

/// An answer that came before the request was sent leaves a connection that nobody else gets.
#[tokio::test]
async fn early_answers_end_the_connection() {
    let server = Server::start(Habit::Early).await;
    let client = client();
    let (chunks, body) = stream();
    chunks.unbounded_send("begin").unwrap();
    let one = server.request(Method::POST, "/1", &[], body);
    assert_eq!(send(&client, one).await.as_deref(), Ok("/1"));
    chunks.unbounded_send("end").unwrap();
    drop(chunks);
    // The server has the whole body before it reads what comes next.
    while server.connections().is_empty() {
        tokio::task::yield_now().await;
    }
    for path in ["/2", "/3"] {
        let next = server.request(Method::GET, path, &[], outbound::body(""));
        assert_eq!(send(&client, next).await.as_deref(), Ok(path));
    }
    let seen = server.seen.lock().unwrap().clone();
    assert_eq!((seen[0].0, seen[0].2.as_str()), (0, "beginend"));
    assert!(seen[1..].iter().all(|(connection, ..)| *connection != 0), "{seen:?}");
}

/// What a request says about its length is what its body is.
#[tokio::test]
async fn lengths_and_bodies_travel_together() {
    let lies = [("content-length", "70"), ("transfer-encoding", "gzip, chunked")];
    for lie in lies.iter().map(|lie| std::slice::from_ref(lie)).chain([&lies[..], &[]]) {
        for (method, body, framing) in [
            (Method::GET, "", ""),
            (Method::DELETE, "", ""),
            (Method::POST, "", "content-length: 0"),
            (Method::DELETE, "body", "content-length: 4"),
            (Method::POST, "body", "content-length: 4"),
            (Method::GET, "streamed", "transfer-encoding: chunked"),
            (Method::PUT, "streamed", "transfer-encoding: chunked"),
        ] {
            for upgrade in [&[][..], &[("upgrade", "foo")], &[("connection", "upgrade"), ("upgrade", "foo")]] {
                let server = Server::start(Habit::Polite).await;
                let client = client();
                let (chunks, streamed) = stream();
                let sent = if framing.contains("chunked") { streamed } else { outbound::body(body) };
                chunks.unbounded_send("streamed").unwrap();
                drop(chunks);
                let headers: Vec<_> = lie.iter().chain(upgrade).copied().collect();
                let shown = format!("{method} {body:?} {headers:?}");
                let one = server.request(method.clone(), "/1", &headers, sent);
                assert_eq!(send(&client, one).await.as_deref(), Ok("/1"), "{shown}");
                let next = server.request(Method::GET, "/2", &[], outbound::body(""));
                assert_eq!(send(&client, next).await.as_deref(), Ok("/2"), "{shown}");
                let seen = server.seen.lock().unwrap().clone();
                let head = seen[0].1.to_lowercase();
                let said: Vec<&str> = head
                    .lines()
                    .filter(|line| line.starts_with("content-length") || line.starts_with("transfer-encoding"))
                    .collect();
                assert_eq!(said.join(","), framing, "{shown}");
                assert_eq!(seen[0].2, body, "{shown}");
                // Nobody else gets the connection of a request that asked for another protocol.
                assert_eq!(seen[1].0 == 0, upgrade.is_empty(), "{shown}");
            }
        }
    }
}

/// A server that switches before it has the whole request is not handed the client's connection.
#[tokio::test]
async fn protocols_are_switched_after_the_request() {
    struct Case(bool, Result<&'static str, &'static str>);
    for Case(is_sent, want) in
        [Case(true, Ok("switched")), Case(false, Err("the server switched protocols before it had the whole request"))]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let (chunks, body) = stream();
        chunks.unbounded_send("begin").unwrap();
        if is_sent {
            chunks.close_channel();
        }
        let end = if is_sent { &b"0\r\n\r\n"[..] } else { b"begin\r\n" };
        tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            read_until(&mut stream, end).await.unwrap();
            let switch = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
            stream.write_all(switch).await.unwrap();
            stream.flush().await.unwrap();
            std::future::pending::<()>().await;
        });
        let one = server.request(Method::POST, "/1", &[("connection", "upgrade"), ("upgrade", "x")], body);
        assert_eq!(send(&client(), one).await.as_deref().map_err(String::as_str), want);
    }
}
