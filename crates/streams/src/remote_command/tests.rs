use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

/// A kubelet in a test: accepts every stream and notes what it gets.
struct Kubelet {
    connection: DuplexStream,
}

impl Kubelet {
    /// The next frame: (stream or control type, flags, payload).
    async fn frame(&mut self) -> (u32, u8, Vec<u8>) {
        let (first, second) = (self.connection.read_u32().await.unwrap(), self.connection.read_u32().await.unwrap());
        let mut payload = vec![0; (second & 0xff_ffff) as usize];
        self.connection.read_exact(&mut payload).await.unwrap();
        (first, (second >> 24) as u8, payload)
    }

    async fn accept(&mut self, streams: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..streams {
            let (kind, _, payload) = self.frame().await;
            assert_eq!(kind, 0x8003_0001);
            let text = String::from_utf8_lossy(&payload).into_owned();
            let known = ["error", "stdin", "stdout", "stderr", "resize"];
            names.push(known.into_iter().find(|name| text.contains(name)).unwrap().to_string());
            self.connection.write_all(&[0x80, 3, 0, 2, 0, 0, 0, 4]).await.unwrap();
            self.connection.write_all(&payload[..4]).await.unwrap();
        }
        names
    }

    async fn send(&mut self, stream: u32, bytes: &[u8], fin: bool) {
        self.connection.write_u32(stream).await.unwrap();
        self.connection.write_u32(u32::from(fin) << 24 | bytes.len() as u32).await.unwrap();
        self.connection.write_all(bytes).await.unwrap();
    }
}

/// A client in a test.
struct Client {
    connection: DuplexStream,
}

impl Client {
    async fn send(&mut self, payload: &[u8]) {
        let mut frame = vec![0x82, 0x80 | payload.len() as u8, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        self.connection.write_all(&frame).await.unwrap();
    }

    async fn message(&mut self) -> Vec<u8> {
        let mut head = [0; 2];
        self.connection.read_exact(&mut head).await.unwrap();
        let length = match head[1] {
            126 => usize::from(self.connection.read_u16().await.unwrap()),
            127 => self.connection.read_u64().await.unwrap() as usize,
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.connection.read_exact(&mut payload).await.unwrap();
        payload
    }
}

async fn start(options: StreamOptions) -> (Client, Kubelet, tokio::task::JoinHandle<Result<Bytes, Ended>>) {
    let (client, ours) = duplex(1 << 16);
    let (kubelet, backend) = duplex(1 << 16);
    let running = tokio::spawn(async move {
        let mut session = Session::open(ours, options).await.unwrap();
        let result = session.run(backend).await;
        match &result {
            Ok(message) => session.finish(message).await,
            Err(_) => session.abandon().await,
        }
        result
    });
    (Client { connection: client }, Kubelet { connection: kubelet }, running)
}

#[tokio::test]
async fn streams_go_both_ways_and_end_with_the_status() {
    let options = StreamOptions { stdin: true, stdout: true, stderr: true, tty: false };
    let (mut client, mut kubelet, running) = start(options).await;
    assert_eq!(client.message().await, [1], "the connection stands");
    assert_eq!(kubelet.accept(4).await, ["error", "stdin", "stdout", "stderr"]);
    client.send(b"\0hello").await;
    assert_eq!(kubelet.frame().await, (3, 0, b"hello".to_vec()));
    client.send(b"\x04{\"Width\":1}").await;
    client.send(b"\x09what").await;
    client.send(b"\xff\0").await;
    assert_eq!(kubelet.frame().await, (3, 1, Vec::new()), "stdin ends, the rest is ignored");
    kubelet.send(5, b"out", false).await;
    assert_eq!(client.message().await, b"\x01out");
    kubelet.send(7, b"err", true).await;
    assert_eq!(client.message().await, b"\x02err");
    kubelet.send(1, b"{}", true).await;
    kubelet.send(5, b"last", true).await;
    assert_eq!(client.message().await, b"\x01last");
    assert_eq!(client.message().await, b"\x03{}");
    assert_eq!(client.message().await, [0x03, 0xe8], "a normal close");
    assert_eq!(running.await.unwrap(), Ok(Bytes::from_static(b"{}")));
}

#[tokio::test]
async fn a_terminal_has_a_size_and_no_stderr() {
    let options = StreamOptions { stdin: true, stdout: true, stderr: true, tty: true };
    let (mut client, mut kubelet, running) = start(options).await;
    client.message().await;
    assert_eq!(kubelet.accept(4).await, ["error", "stdin", "stdout", "resize"]);
    client.send(b"\x04{\"Width\":80,\"Height\":24}").await;
    assert_eq!(kubelet.frame().await, (7, 0, b"{\"Width\":80,\"Height\":24}".to_vec()));
    // The kubelet goes away without a word, as it does when the command was successful and it speaks an old protocol.
    drop(kubelet);
    assert_eq!(client.message().await, [3]);
    assert_eq!(running.await.unwrap(), Ok(Bytes::new()));
}

#[tokio::test]
async fn clients_that_leave_or_break_the_protocol_end_the_session() {
    for wrong in [&b"\xff"[..], b"\xff\0\0", b"\xff\x07", b""] {
        let (mut client, mut kubelet, running) =
            start(StreamOptions { stdout: true, ..StreamOptions::default() }).await;
        client.message().await;
        kubelet.accept(2).await;
        if wrong.is_empty() {
            drop(client);
        } else {
            client.send(wrong).await;
        }
        assert_eq!(running.await.unwrap(), Err(Ended::ByClient), "{wrong:?}");
    }
}

#[tokio::test]
async fn pings_are_answered_on_both_sides() {
    let (mut client, mut kubelet, _running) = start(StreamOptions { stdout: true, ..StreamOptions::default() }).await;
    client.message().await;
    kubelet.accept(2).await;
    client.connection.write_all(&[0x89, 0x81, 0, 0, 0, 0, b'p']).await.unwrap();
    assert_eq!(client.message().await, b"p");
    kubelet.connection.write_all(&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 2]).await.unwrap();
    assert_eq!(kubelet.frame().await, (0x8003_0006, 0, vec![0, 0, 0, 2]));
}

#[tokio::test(start_paused = true)]
async fn kubelets_are_pinged_and_idle_sessions_end() {
    let (mut client, mut kubelet, running) = start(StreamOptions { stdout: true, ..StreamOptions::default() }).await;
    client.message().await;
    kubelet.accept(2).await;
    assert_eq!(kubelet.frame().await, (0x8003_0006, 0, vec![0, 0, 0, 1]));
    let reading = tokio::spawn(async move {
        let mut sink = Vec::new();
        let _ = kubelet.connection.read_to_end(&mut sink).await;
    });
    assert_eq!(running.await.unwrap(), Err(Ended::Idle));
    reading.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn kubelets_that_do_not_accept_streams_are_given_up() {
    let (mut client, kubelet, running) = start(StreamOptions { stdout: true, ..StreamOptions::default() }).await;
    client.message().await;
    assert_eq!(running.await.unwrap(), Err(Ended::ByKubelet("Timeout occurred".into())));
    drop(kubelet);
}

#[tokio::test]
async fn what_a_client_sent_before_it_left_reaches_the_kubelet() {
    let options = StreamOptions { stdin: true, stdout: true, ..StreamOptions::default() };
    let (mut client, mut kubelet, running) = start(options).await;
    client.message().await;
    kubelet.accept(3).await;
    for piece in [&b"\0one"[..], b"\0two", b"\xff\0"] {
        client.send(piece).await;
    }
    drop(client);
    assert_eq!(kubelet.frame().await, (3, 0, b"one".to_vec()));
    assert_eq!(kubelet.frame().await, (3, 0, b"two".to_vec()));
    assert_eq!(kubelet.frame().await, (3, 1, Vec::new()));
    assert_eq!(running.await.unwrap(), Err(Ended::ByClient));
}

#[tokio::test]
async fn a_flood_stops_while_the_client_does_not_read_and_arrives_whole() {
    let (mut client, mut kubelet, running) = start(StreamOptions { stdout: true, ..StreamOptions::default() }).await;
    client.message().await;
    kubelet.accept(2).await;
    let sent: Vec<u8> = (0..4_000_000u32).map(|n| (n % 251) as u8).collect();
    let flood = sent.clone();
    let (told, mut written) = tokio::sync::watch::channel(0);
    let flooding = tokio::spawn(async move {
        for piece in flood.chunks(30_000) {
            kubelet.send(3, piece, false).await;
            told.send_modify(|bytes| *bytes += piece.len());
        }
        kubelet.send(3, b"", true).await;
        kubelet.send(1, b"", true).await;
        kubelet
    });
    // Both pipes hold 64 KiB, and the session what it read at once and what it has not sent yet.
    while tokio::time::timeout(Duration::from_millis(100), written.changed()).await.is_ok() {}
    assert!(*written.borrow() < 1_000_000, "{} bytes were taken", *written.borrow());
    let mut got = Vec::new();
    while got.len() < sent.len() {
        let message = client.message().await;
        assert_eq!(message[0], 1);
        got.extend_from_slice(&message[1..]);
    }
    assert!(got == sent);
    assert_eq!(client.message().await, [3]);
    assert_eq!(running.await.unwrap(), Ok(Bytes::new()));
    drop(flooding.await.unwrap());
}
