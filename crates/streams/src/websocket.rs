//! WebSocket, the server's side of RFC 6455.

mod frame;
mod handshake;

pub use frame::{Incoming, Kind, Reader, Writer, WrongFrame};
pub use handshake::{Handshake, Refused, is_upgrade, is_websocket, offered};

/// Status codes of close frames.
pub const CLOSE_NORMAL: u16 = 1000;
pub const CLOSE_PROTOCOL_ERROR: u16 = 1002;
