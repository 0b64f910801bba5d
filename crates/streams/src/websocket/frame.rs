//! Frames. Payloads are passed on piece by piece as they arrive, so a frame's length costs no memory.

use std::io;

use bytes::{Buf, BufMut, Bytes};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::input::Input;
use crate::output::Output;

/// The longest payload of a control frame.
const CONTROL_BYTES_MAX: usize = 125;
/// Two bytes, eight of an extended length, four of a masking key.
const HEADER_BYTES_MAX: usize = 14;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// What a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Binary,
}

/// What a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The next piece of a message; the message ends with the piece that is the last.
    Data {
        kind: Kind,
        bytes: Bytes,
        last: bool,
    },
    /// Wants a pong with the same payload.
    Ping(Bytes),
    Close,
}

/// A frame that RFC 6455 does not allow a client to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongFrame(pub &'static str);

impl From<WrongFrame> for io::Error {
    fn from(wrong: WrongFrame) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, wrong.0)
    }
}

/// Reads a client's frames.
pub struct Reader<R> {
    input: Input<R>,
    /// The data frame whose payload is being received.
    frame: Option<DataFrame>,
    /// The kind of the message that continues in the next data frame.
    unfinished: Option<Kind>,
}

#[derive(Clone, Copy)]
struct DataFrame {
    kind: Kind,
    /// Whether it is the message's last frame.
    last: bool,
    left: u64,
    /// The masking key, turned so that its first byte is for the next byte of payload.
    mask: [u8; 4],
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub fn new(source: R) -> Reader<R> {
        Reader { input: Input::new(source), frame: None, unfinished: None }
    }

    /// The next thing the client sent; None if it closed the connection between frames. Can be cancelled without losing
    /// anything.
    pub async fn next(&mut self) -> io::Result<Option<Incoming>> {
        loop {
            if self.frame.is_some() {
                return self.piece().await.map(Some);
            }
            let Some((header, length)) = self.header().await? else { return Ok(None) };
            if header.opcode >= CLOSE {
                if let Some(control) = self.control(&header, length).await? {
                    return Ok(Some(control));
                }
                continue;
            }
            self.input.take(length);
            let kind = header.kind(self.unfinished)?;
            self.unfinished = (!header.last).then_some(kind);
            self.frame = Some(DataFrame { kind, last: header.last, left: header.payload, mask: header.mask });
        }
    }

    /// The next header and its length; it is not used up.
    async fn header(&mut self) -> io::Result<Option<(FrameHeader, usize)>> {
        loop {
            if let Some(parsed) = FrameHeader::parse(self.input.received())? {
                return Ok(Some(parsed));
            }
            let is_between = self.input.received().is_empty();
            if !self.input.receive().await? {
                return if is_between { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    async fn control(&mut self, header: &FrameHeader, length: usize) -> io::Result<Option<Incoming>> {
        let payload = usize::try_from(header.payload).unwrap_or(usize::MAX);
        if !header.last || payload > CONTROL_BYTES_MAX {
            return Err(WrongFrame("a control frame is too long or fragmented").into());
        }
        if !self.input.receive_at_least(length + payload).await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.take(length);
        let mut bytes = self.input.take(payload);
        unmask(&mut bytes, header.mask);
        match header.opcode {
            CLOSE => Ok(Some(Incoming::Close)),
            PING => Ok(Some(Incoming::Ping(bytes.freeze()))),
            PONG => Ok(None),
            _ => Err(WrongFrame("the opcode is unknown").into()),
        }
    }

    async fn piece(&mut self) -> io::Result<Incoming> {
        let Some(mut frame) = self.frame else { return Err(WrongFrame("there is no frame").into()) };
        if frame.left > 0 && self.input.received().is_empty() && !self.input.receive().await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = self.input.take(usize::try_from(frame.left).unwrap_or(usize::MAX));
        unmask(&mut bytes, frame.mask);
        frame.mask.rotate_left(bytes.len() % 4);
        frame.left -= bytes.len() as u64;
        let last = frame.left == 0 && frame.last;
        self.frame = (frame.left > 0).then_some(frame);
        Ok(Incoming::Data { kind: frame.kind, bytes: bytes.freeze(), last })
    }
}

/// A frame's header.
#[derive(Clone, Copy)]
struct FrameHeader {
    last: bool,
    opcode: u8,
    payload: u64,
    mask: [u8; 4],
}

impl FrameHeader {
    /// The header at the beginning of these bytes and its length; None if it is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<(FrameHeader, usize)>, WrongFrame> {
        let mut rest = bytes.get(..HEADER_BYTES_MAX.min(bytes.len())).unwrap_or(bytes);
        let (Ok(first), Ok(second)) = (rest.try_get_u8(), rest.try_get_u8()) else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err(WrongFrame("a reserved bit is set"));
        }
        if second & 0x80 == 0 {
            return Err(WrongFrame("the frame is not masked"));
        }
        let payload = match second & 0x7f {
            126 => rest.try_get_u16().map(u64::from),
            127 => rest.try_get_u64(),
            short => Ok(u64::from(short)),
        };
        let (Ok(payload), Ok(mask)) = (payload, rest.try_get_u32()) else { return Ok(None) };
        if payload > i64::MAX as u64 {
            return Err(WrongFrame("the length is out of range"));
        }
        let header = FrameHeader { last: first & 0x80 != 0, opcode: first & 0x0f, payload, mask: mask.to_be_bytes() };
        Ok(Some((header, bytes.len().min(HEADER_BYTES_MAX) - rest.len())))
    }

    /// The kind of message that a data frame belongs to.
    fn kind(&self, unfinished: Option<Kind>) -> Result<Kind, WrongFrame> {
        match (self.opcode, unfinished) {
            (CONTINUATION, Some(kind)) => Ok(kind),
            (TEXT, None) => Ok(Kind::Text),
            (BINARY, None) => Ok(Kind::Binary),
            (CONTINUATION, None) => Err(WrongFrame("there is no message to continue")),
            (TEXT | BINARY, Some(_)) => Err(WrongFrame("the message before is not complete")),
            _ => Err(WrongFrame("the opcode is unknown")),
        }
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = bytes.chunks_exact_mut(8);
    for word in &mut words {
        let mut value = [0; 8];
        value.copy_from_slice(word);
        word.copy_from_slice(&(u64::from_ne_bytes(value) ^ wide).to_ne_bytes());
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

/// Writes a server's frames. They leave together with [`Writer::flush`].
pub struct Writer<W> {
    output: Output<W>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub fn new(sink: W) -> Writer<W> {
        Writer { output: Output::new(sink) }
    }

    /// Adds a message of one frame whose payload is both parts.
    pub fn message(&mut self, kind: Kind, prefix: &[u8], payload: &[u8]) {
        let opcode = if kind == Kind::Text { TEXT } else { BINARY };
        self.add(opcode, prefix, payload);
    }

    pub fn pong(&mut self, payload: &[u8]) {
        self.add(PONG, &[], payload);
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

    /// Sends a close frame and ends the connection.
    pub async fn close(&mut self, code: u16) -> io::Result<()> {
        self.add(CLOSE, &code.to_be_bytes(), &[]);
        self.output.close().await
    }

    fn add(&mut self, opcode: u8, prefix: &[u8], payload: &[u8]) {
        let length = prefix.len() + payload.len();
        let frame = self.output.frame(length);
        frame.put_u8(0x80 | opcode);
        match length {
            short @ 0..=125 => frame.put_u8(short as u8),
            medium @ 126..=0xffff => {
                frame.put_u8(126);
                frame.put_u16(medium as u16);
            }
            long => {
                frame.put_u8(127);
                frame.put_u64(long as u64);
            }
        }
        frame.put_slice(prefix);
        frame.put_slice(payload);
    }
}

#[cfg(test)]
mod tests;
