//! SPDY/3.1, the client's side, as far as kubelets and container runtimes speak it: without flow control and server push.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::input::Input;
use crate::output::Output;

const HEADER_BYTES: usize = 8;
/// The longest part of a control frame that is looked at.
const CONTROL_BYTES: usize = 8;
const FLAG_FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// The beginning of a zlib stream with SPDY/3's dictionary, given by its checksum. What follows are stored blocks, which do
/// not refer to the dictionary, so it is not needed here; and headers that kubelets send say nothing we want to know.
const ZLIB_HEADER: [u8; 6] = [0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2];

/// What a kubelet sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The next piece of a stream's data; `fin` with the last one.
    Data {
        stream: u32,
        bytes: Bytes,
        fin: bool,
    },
    /// A stream was accepted.
    Reply {
        stream: u32,
        fin: bool,
    },
    Reset {
        stream: u32,
    },
    Ping(u32),
    GoAway,
}

/// Reads a kubelet's frames.
pub(crate) struct Reader<R> {
    input: Input<R>,
    data: Option<Data>,
    /// Bytes of a control frame that are of no interest.
    skip: usize,
}

/// A data frame whose payload is being received.
#[derive(Clone, Copy)]
struct Data {
    stream: u32,
    left: usize,
    fin: bool,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub fn new(source: R) -> Reader<R> {
        Reader { input: Input::new(source), data: None, skip: 0 }
    }

    /// The next frame; None at the end of the connection. Can be cancelled without losing anything.
    pub async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            while self.skip > 0 {
                if self.input.received().is_empty() && !self.input.receive().await? {
                    return Ok(None);
                }
                self.skip -= self.input.take(self.skip).len();
            }
            if self.data.is_some() {
                return self.piece().await;
            }
            if !self.input.receive_at_least(HEADER_BYTES).await? {
                return Ok(None);
            }
            let mut header = self.input.received();
            let (first, second) = (header.get_u32(), header.get_u32());
            let (flags, length) = ((second >> 24) as u8, (second & 0x00ff_ffff) as usize);
            if first & 0x8000_0000 == 0 {
                self.input.take(HEADER_BYTES);
                self.data = Some(Data { stream: first, left: length, fin: flags & FLAG_FIN != 0 });
                continue;
            }
            let read = length.min(CONTROL_BYTES);
            if !self.input.receive_at_least(HEADER_BYTES + read).await? {
                return Ok(None);
            }
            self.input.take(HEADER_BYTES);
            let body = self.input.take(read);
            self.skip = length - read;
            if let Some(frame) = control(first as u16, flags, &body) {
                return Ok(Some(frame));
            }
        }
    }

    async fn piece(&mut self) -> io::Result<Option<Frame>> {
        let Some(mut data) = self.data else { return Ok(None) };
        if data.left > 0 && self.input.received().is_empty() && !self.input.receive().await? {
            return Ok(None);
        }
        let bytes = self.input.take(data.left).freeze();
        data.left -= bytes.len();
        self.data = (data.left > 0).then_some(data);
        Ok(Some(Frame::Data { stream: data.stream, bytes, fin: data.fin && data.left == 0 }))
    }
}

/// A control frame of a kind that matters, from its first bytes.
fn control(kind: u16, flags: u8, mut body: &[u8]) -> Option<Frame> {
    let number = body.try_get_u32().unwrap_or(0);
    let (stream, fin) = (number & 0x7fff_ffff, flags & FLAG_FIN != 0);
    match kind {
        SYN_REPLY => Some(Frame::Reply { stream, fin }),
        HEADERS if fin => Some(Frame::Data { stream, bytes: Bytes::new(), fin }),
        RST_STREAM => Some(Frame::Reset { stream }),
        PING => Some(Frame::Ping(number)),
        GOAWAY => Some(Frame::GoAway),
        _ => None,
    }
}

/// Writes frames to a kubelet. They leave together with [`Writer::flush`].
pub(crate) struct Writer<W> {
    output: Output<W>,
    /// The next stream's number; a client's are odd.
    next_stream: u32,
    next_ping: u32,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub fn new(sink: W) -> Writer<W> {
        Writer { output: Output::new(sink), next_stream: 1, next_ping: 1 }
    }

    /// Opens a stream with one header and returns its number.
    pub fn open(&mut self, name: &str, value: &str) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut headers = BytesMut::new();
        headers.put_u32(1);
        for text in [name, value] {
            headers.put_u32(text.len() as u32);
            headers.put_slice(text.as_bytes());
        }
        // One compressed stream runs through the header blocks of a connection; only the first begins it.
        let begin: &[u8] = if stream == 1 { &ZLIB_HEADER } else { &[] };
        let mut body = BytesMut::new();
        body.put_u32(stream);
        body.put_u32(0);
        body.put_u16(0);
        body.put_slice(begin);
        // A block with the headers and an empty one, at which Go's decompressor hands out what it has.
        for block in [&headers[..], &[]] {
            body.put_u8(0);
            body.put_u16_le(block.len() as u16);
            body.put_u16_le(!(block.len() as u16));
            body.put_slice(block);
        }
        self.control(SYN_STREAM, &body);
        stream
    }

    pub fn data(&mut self, stream: u32, bytes: &[u8], fin: bool) {
        let frame = self.output.frame(bytes.len());
        frame.put_u32(stream);
        frame.put_u32(u32::from(fin) << 24 | bytes.len() as u32);
        frame.put_slice(bytes);
    }

    /// Asks for a sign of life.
    pub fn ping(&mut self) {
        let number = self.next_ping;
        self.next_ping = self.next_ping.wrapping_add(2);
        self.control(PING, &number.to_be_bytes());
    }

    /// Answers a kubelet's ping.
    pub fn pong(&mut self, number: u32) {
        self.control(PING, &number.to_be_bytes());
    }

    /// Whether the frames must leave before more are added.
    pub fn is_full(&self) -> bool {
        self.output.is_full()
    }

    /// Whether all frames have left.
    pub fn is_flushed(&self) -> bool {
        self.output.is_flushed()
    }

    /// Sends the frames. Can be cancelled and called again.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.output.flush().await
    }

    fn control(&mut self, kind: u16, body: &[u8]) {
        let frame = self.output.frame(body.len());
        frame.put_u32(0x8003_0000 | u32::from(kind));
        frame.put_u32(body.len() as u32);
        frame.put_slice(body);
    }
}

#[cfg(test)]
mod tests;
