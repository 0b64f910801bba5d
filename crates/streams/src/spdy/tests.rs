use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

use super::*;

async fn read(bytes: Vec<u8>, piece: usize) -> Vec<Frame> {
    let (mut kubelet, ours) = tokio::io::duplex(piece);
    let writing = tokio::spawn(async move {
        let _ = kubelet.write_all(&bytes).await;
    });
    let mut reader = Reader::new(ours);
    let mut frames: Vec<Frame> = Vec::new();
    while let Ok(Some(frame)) = reader.next().await {
        match (frames.last_mut(), frame) {
            // The pieces of one frame, put together again.
            (Some(Frame::Data { stream, bytes, fin }), Frame::Data { stream: same, bytes: more, fin: ended })
                if *stream == same && !*fin =>
            {
                *bytes = [&bytes[..], &more[..]].concat().into();
                *fin = ended;
            }
            (_, frame) => frames.push(frame),
        }
    }
    drop(reader);
    writing.await.unwrap();
    frames
}

fn control(kind: u16, flags: u8, body: &[u8]) -> Vec<u8> {
    let length = (u32::from(flags) << 24 | body.len() as u32).to_be_bytes();
    [&(0x8003_0000 | u32::from(kind)).to_be_bytes()[..], &length, body].concat()
}

fn data(stream: u32, fin: bool, bytes: &[u8]) -> Vec<u8> {
    [&stream.to_be_bytes()[..], &(u32::from(fin) << 24 | bytes.len() as u32).to_be_bytes(), bytes].concat()
}

#[tokio::test]
async fn frames_are_read_in_pieces_of_any_size() {
    let sent = [
        control(SYN_REPLY, 0, &[0, 0, 0, 1, 0x78, 0xbb, 1, 2, 3, 4, 5, 6]),
        data(5, false, &[b'x'; 10_000]),
        control(4, 0, &[0; 100]),
        data(5, true, b""),
        control(PING, 0, &[0, 0, 0, 2]),
        control(RST_STREAM, 0, &[0, 0, 0, 7, 0, 0, 0, 5]),
        control(GOAWAY, 0, &[0; 8]),
    ]
    .concat();
    let want = vec![
        Frame::Reply { stream: 1, fin: false },
        Frame::Data { stream: 5, bytes: vec![b'x'; 10_000].into(), fin: true },
        Frame::Ping(2),
        Frame::Reset { stream: 7 },
        Frame::GoAway,
    ];
    for piece in [1, 7, 5000, 100_000] {
        let mut got = read(sent.clone(), piece).await;
        // The ignored settings frame stands between two frames of one stream.
        got.retain(|frame| !matches!(frame, Frame::Data { bytes, .. } if bytes.is_empty()));
        assert_eq!(got, want, "in pieces of {piece}");
    }
}

#[tokio::test]
async fn streams_are_opened_with_stored_header_blocks() {
    let (ours, mut kubelet) = tokio::io::duplex(1 << 16);
    let mut writer = Writer::new(ours);
    assert_eq!(writer.open("streamtype", "error"), 1);
    assert_eq!(writer.open("streamtype", "stdin"), 3);
    writer.data(3, b"hi", false);
    writer.data(3, b"", true);
    writer.ping();
    writer.flush().await.unwrap();
    drop(writer);
    let mut got = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut kubelet, &mut got).await.unwrap();
    let headers = |value: &str| {
        let length = value.len() as u8;
        let mut block = vec![0, 0, 0, 1, 0, 0, 0, 10];
        block.extend(b"streamtype");
        block.extend([0, 0, 0, length]);
        block.extend(value.as_bytes());
        let stored = [&[0, block.len() as u8, 0, !(block.len() as u8), 0xff][..], &block].concat();
        [stored, vec![0, 0, 0, 0xff, 0xff]].concat()
    };
    let first = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &ZLIB_HEADER, &headers("error")].concat();
    let second = [&[0, 0, 0, 3, 0, 0, 0, 0, 0, 0][..], &headers("stdin")].concat();
    let want = [
        control(SYN_STREAM, 0, &first),
        control(SYN_STREAM, 0, &second),
        data(3, false, b"hi"),
        data(3, true, b""),
        control(PING, 0, &[0, 0, 0, 1]),
    ];
    assert_eq!(got, want.concat());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let length = bytes.len();
        let frames = runtime.block_on(read(bytes, piece));
        let data = frames.iter().map(|frame| if let Frame::Data { bytes, .. } = frame { bytes.len() } else { 0 });
        prop_assert!(data.sum::<usize>() <= length);
    }
}
