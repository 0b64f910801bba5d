use rand::Rng;
use tokio::io::AsyncReadExt;

use super::*;

fn peer() -> Arc<Peer> {
    Peer::new(([127, 0, 0, 1], 1).into(), Arc::new([]), crate::Timeouts::default())
}

fn head() -> ArrivingHead {
    crate::connections::Connections::new(10).open([127, 0, 0, 1].into()).unwrap().head()
}

/// What arrives in these pieces as it is read.
fn read(is_http2: bool, pieces: &[&[u8]]) -> Vec<u8> {
    let mut protocol = Escaping::new((), is_http2, peer(), head()).protocol;
    let mut out = Vec::new();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        match protocol.arrived(piece) {
            Outcome::Unchanged => out.extend_from_slice(piece),
            Outcome::Instead(bytes) => out.extend(bytes),
        }
    }
    out
}

/// However the bytes arrive, they are read as `want`.
fn check(is_http2: bool, sent: &[u8], want: &[u8]) {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(shown(&read(is_http2, &[sent])), shown(want));
    for at in 0..sent.len() {
        let (first, second) = sent.split_at(at);
        assert_eq!(shown(&read(is_http2, &[first, second])), shown(want), "split at {at}");
    }
    let single: Vec<&[u8]> = sent.chunks(1).collect();
    assert_eq!(shown(&read(is_http2, &single)), shown(want));
}

#[test]
fn targets_of_http1_are_escaped() {
    for (sent, want) in [
        ("GET /a?b=c HTTP/1.1\r\n\r\n", "GET /a?b=c HTTP/1.1\r\n\r\n"),
        ("GET /a?n>2 HTTP/1.1\r\nX: <\r\n\r\n", "GET /a?n%3E2 HTTP/1.1\r\nX: <\r\n\r\n"),
        ("GET /\"`<#é HTTP/1.1\r\n\r\n", "GET /%22%60%3C%23%C3%A9 HTTP/1.1\r\n\r\n"),
        // Bytes that http::Uri takes as they are.
        ("GET /{|}^\\ HTTP/1.1\r\n\r\n", "GET /{|}^\\ HTTP/1.1\r\n\r\n"),
        // The next request, behind none, an empty and a short body.
        ("GET / HTTP/1.1\n\nGET /< HTTP/1.1\n\n", "GET / HTTP/1.1\n\nGET /%3C HTTP/1.1\n\n"),
        (
            "PUT / HTTP/1.1\r\ncontent-length: 0\r\n\r\n\r\nGET /< HTTP/1.1\r\n\r\n",
            "PUT / HTTP/1.1\r\ncontent-length: 0\r\n\r\n\r\nGET /%3C HTTP/1.1\r\n\r\n",
        ),
        (
            "PUT /> HTTP/1.1\r\nContent-Length: 8\r\n\r\nGET /> \r\nGET /< HTTP/1.1\r\n\r\n",
            "PUT /%3E HTTP/1.1\r\nContent-Length: 8\r\n\r\nGET /> \r\nGET /%3C HTTP/1.1\r\n\r\n",
        ),
    ] {
        check(false, sent.as_bytes(), want.as_bytes());
    }
}

#[test]
fn nothing_is_changed_behind_what_is_not_followed() {
    let far = format!("content-length:{}8", " ".repeat(60));
    for header in ["Transfer-Encoding: chunked", "UPGRADE: SPDY/3.1", "Content-Length: x", "Content-Length:", &far] {
        let sent = format!("POST / HTTP/1.1\r\n{header}\r\n\r\nGET /< HTTP/1.1\r\n\r\n");
        check(false, sent.as_bytes(), sent.as_bytes());
    }
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /< HTTP/1.1\r\n\r\n";
    check(false, preface.as_bytes(), preface.as_bytes());
}

/// The preface, a frame of settings, a frame of headers with this block, and a frame of data that looks like one.
fn frames(flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut frame = |kind: u8, flags: u8, payload: &[u8]| {
        sent.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        sent.extend([kind, flags, 0, 0, 0, 1]);
        sent.extend_from_slice(payload);
    };
    frame(4, 0, &[0, 3, 0, 0, 0, 100]);
    frame(1, flags, payload);
    frame(0, 1, b"\x04\x05/a>b\"");
    sent
}

#[test]
fn paths_of_http2_are_escaped() {
    let long = format!("/?{}", "<".repeat(100));
    let long_escaped = format!("/?{}", "%3C".repeat(100));
    let literal = |path: &str| {
        // :method GET and :scheme https by index, the path, and another header.
        let mut block = vec![0x82, 0x87, 0x04];
        http2_text(path, &mut block);
        block.extend(b"\x00\x01x\x01<");
        block
    };
    for (path, want) in [("/a?b=c", "/a?b=c"), ("/a?n>2", "/a?n%3E2"), (&long, &long_escaped)] {
        check(true, &frames(0x4, &literal(path)), &frames(0x4, &literal(want)));
    }
    // Padding and priority.
    let wrapped = |path: &str| [&[3, 0, 0, 0, 0, 9], literal(path).as_slice(), &[0; 3]].concat();
    check(true, &frames(0x2c, &wrapped("/<")), &frames(0x2c, &wrapped("/%3C")));
    // "/>" in Huffman's code: 011000 111111111011, padded with ones.
    let huffman = [0x82, 0x04, 0x83, 0b0110_0011, 0b1111_1110, 0b1111_1111];
    check(true, &frames(0x4, &huffman), &frames(0x4, b"\x82\x04\x04/%3E"));
}

fn http2_text(text: &str, out: &mut Vec<u8>) {
    match text.len() {
        short @ ..0x7f => out.push(short as u8),
        long => out.extend([0x7f, (long - 0x7f) as u8 | 0x80, ((long - 0x7f) >> 7) as u8]),
    }
    out.extend_from_slice(text.as_bytes());
}

#[test]
fn other_frames_of_http2_pass() {
    // A path that enters the dynamic table, headers that go on in the next frame, and blocks that are broken.
    check(true, &frames(0x4, b"\x44\x02/<"), &frames(0x4, b"\x44\x02/<"));
    check(true, &frames(0x0, b"\x04\x02/<"), &frames(0x0, b"\x04\x02/<"));
    for broken in [&b"\x04"[..], b"\x04\x05/<", b"\x04\x7f\xff\xff\xff\xff\x0f/<", b"\xff", b"\x04\x81\x00"] {
        check(true, &frames(0x4, broken), &frames(0x4, broken));
    }
    let padded = [0xff, 0x04, 0x02, b'/', b'<'];
    check(true, &frames(0xc, &padded), &frames(0xc, &padded));
    // A frame that is too large ends it.
    let mut sent = frames(0x4, b"\x82");
    sent.extend([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]);
    sent.extend(frames(0x4, b"\x04\x02/<"));
    check(true, &sent, &sent);
}

#[test]
fn random_bytes_are_read_the_same_however_they_arrive() {
    let mut rng = rand::rng();
    let parts: [&[u8]; 12] = [
        b"GET ",
        b" HTTP/1.1\r\n",
        b"\r\n",
        b"<",
        b"\n",
        b"content-length: 3\r\n",
        b"upgrade: x\r\n",
        b"\0\0\x04\x01\x04\0\0\0\x01",
        b"\x04\x02/<",
        b"\0\0\x01\0\0\0\0\0\x01",
        b"\xff",
        b" ",
    ];
    for _ in 0..2000 {
        for is_http2 in [false, true] {
            let mut sent = Vec::new();
            for _ in 0..rng.random_range(1..20) {
                sent.extend_from_slice(parts[rng.random_range(0..parts.len())]);
            }
            let whole = read(is_http2, &[&sent]);
            let (first, rest) = sent.split_at(rng.random_range(0..=sent.len()));
            let (second, third) = rest.split_at(rng.random_range(0..=rest.len()));
            assert_eq!(read(is_http2, &[first, second, third]), whole, "{sent:?}");
        }
    }
}

#[tokio::test]
async fn readers_with_small_buffers_get_everything() {
    let sent = format!("GET /?{} HTTP/1.1\r\n\r\n", "<>".repeat(300));
    let mut stream = Escaping::new(sent.as_bytes(), false, peer(), head());
    let mut got = Vec::new();
    let mut buffer = [0; 7];
    loop {
        match stream.read(&mut buffer).await.unwrap() {
            0 => break,
            length => got.extend_from_slice(&buffer[..length]),
        }
    }
    assert_eq!(String::from_utf8(got).unwrap(), format!("GET /?{} HTTP/1.1\r\n\r\n", "%3C%3E".repeat(300)));
}

#[test]
fn heads_are_measured_until_they_end() {
    let frame = |kind: u8, flags: u8, length: usize| {
        let mut frame = (length as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags, 0, 0, 0, 1]);
        frame.resize(frame.len() + length, 0);
        frame
    };
    const END: u8 = 0x4;
    let mut frames = http2::Frames::default();
    frames.arrived(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    for (kind, flags, length, want) in [
        (4, 0, 6, 0),
        (1, 0, 1000, 1009),
        (9, 0, 500, 1518),
        (9, END, 50, 0),
        (0, 0, 300, 0),
        (1, END, 100, 0),
        (1, 0, 1, 10),
    ] {
        frames.arrived(&frame(kind, flags, length));
        assert_eq!(frames.unfinished_head(), want, "{kind} {length}");
    }
}

/// An address that has too much of unfinished requests loses the connection that would add to it.
#[tokio::test]
async fn too_much_of_unfinished_requests_ends_a_connection() {
    let sent = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(100_000));
    let connections = crate::connections::Connections::new(10_000);
    let place = || connections.open([127, 0, 0, 1].into()).unwrap();
    let mut held = Vec::new();
    let refused = loop {
        let place = place();
        let mut stream = Escaping::new(sent.as_bytes(), false, peer(), place.head());
        let mut read = vec![0; sent.len()];
        match stream.read_exact(&mut read).await {
            Ok(_) => held.push((stream, place)),
            Err(error) => break error,
        }
        assert!(held.len() < 1000, "nothing is refused");
    };
    assert!(refused.to_string().contains("unfinished requests"), "{refused}");
    // A request that is being answered has no unfinished head.
    let (stream, _) = &mut held[0];
    stream.is_answering();
    let mut stream = Escaping::new(sent.as_bytes(), false, peer(), place().head());
    assert!(stream.read_exact(&mut vec![0; sent.len()]).await.is_ok());
}
