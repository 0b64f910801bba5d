use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

use super::*;

fn frame(first: u8, payload: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        medium @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((medium as u16).to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ mask[i % 4]));
    frame
}

/// What a client is understood to have sent: messages by their whole text, and why it ended.
async fn read(bytes: &[u8], piece: usize) -> (Vec<(Kind, Vec<u8>)>, usize, String) {
    let (mut client, server) = tokio::io::duplex(piece);
    let bytes = bytes.to_vec();
    let writing = tokio::spawn(async move {
        let _ = client.write_all(&bytes).await;
    });
    let mut reader = Reader::new(server);
    let (mut messages, mut begun, mut pings) = (Vec::new(), Vec::new(), 0);
    let end = loop {
        match reader.next().await {
            Ok(Some(Incoming::Data { kind, bytes, last })) => {
                begun.extend_from_slice(&bytes);
                if last {
                    messages.push((kind, std::mem::take(&mut begun)));
                }
            }
            Ok(Some(Incoming::Ping(_))) => pings += 1,
            Ok(Some(Incoming::Close)) => break "close".to_string(),
            Ok(None) => break "end".to_string(),
            Err(error) => break error.to_string(),
        }
    };
    drop(reader);
    writing.await.unwrap();
    (messages, pings, end)
}

#[tokio::test]
async fn messages_come_in_frames_of_all_sizes() {
    let mask = [1, 2, 3, 4];
    for length in [0, 1, 125, 126, 65_535, 65_536, 200_000] {
        let payload = vec![b'x'; length];
        let sent = [frame(0x82, &payload, mask), frame(0x89, b"hi", mask), frame(0x88, &[], mask)].concat();
        for piece in [1, 13, 100_000] {
            let got = read(&sent, piece).await;
            assert_eq!(got, (vec![(Kind::Binary, payload.clone())], 1, "close".to_string()), "{length} by {piece}");
        }
    }
    // A ping between the two frames of one message.
    let sent = [frame(0x01, b"ab", mask), frame(0x89, b"", mask), frame(0x80, b"c", mask)].concat();
    assert_eq!(read(&sent, 100).await, (vec![(Kind::Text, b"abc".to_vec())], 1, "end".to_string()));
}

#[tokio::test]
async fn what_is_not_allowed_ends_the_connection() {
    let mask = [9; 4];
    let unmasked = vec![0x82, 1, b'x'];
    let endless = [&[0x82, 0xff][..], &[0xff; 8], &mask].concat();
    for (sent, why) in [
        (unmasked, "the frame is not masked"),
        (frame(0xc2, b"x", mask), "a reserved bit is set"),
        (frame(0x83, b"x", mask), "the opcode is unknown"),
        (frame(0x8b, b"x", mask), "the opcode is unknown"),
        (frame(0x80, b"x", mask), "there is no message to continue"),
        ([frame(0x02, b"x", mask), frame(0x82, b"x", mask)].concat(), "the message before is not complete"),
        (frame(0x09, b"x", mask), "a control frame is too long or fragmented"),
        (frame(0x89, &[0; 126], mask), "a control frame is too long or fragmented"),
        (endless, "the length is out of range"),
        (frame(0x82, b"half", mask)[..8].to_vec(), "unexpected end of file"),
        (vec![0x82], "unexpected end of file"),
    ] {
        assert_eq!(read(&sent, 64).await.2, why);
    }
}

#[tokio::test]
async fn a_servers_frames_are_not_masked() {
    let (client, mut other) = tokio::io::duplex(1 << 20);
    let mut writer = Writer::new(client);
    writer.message(Kind::Binary, &[1], b"ab");
    writer.message(Kind::Text, &[], &[b'x'; 126]);
    writer.message(Kind::Text, &[], &[b'x'; 70_000]);
    writer.pong(b"p");
    writer.close(super::super::CLOSE_NORMAL).await.unwrap();
    let mut got = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut other, &mut got).await.unwrap();
    let mut want = vec![0x82, 3, 1, b'a', b'b', 0x81, 126, 0, 126];
    want.extend([b'x'; 126]);
    want.extend([0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
    want.extend([b'x'; 70_000]);
    want.extend([0x8a, 1, b'p', 0x88, 2, 0x03, 0xe8]);
    assert_eq!(got, want);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any bytes end in a close, an end or an error; never in a panic, and never in more data than came.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (messages, _, _) = runtime.block_on(read(&bytes, piece));
        prop_assert!(messages.iter().map(|(_, text)| text.len()).sum::<usize>() <= bytes.len());
    }
}
