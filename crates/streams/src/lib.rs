//! What is spoken on a connection after `101 Switching Protocols`, and [`Cork`], which HTTP/2 connections write through.
//!
//! exec and attach arrive as WebSocket channels and leave as SPDY/3.1 streams ([`remote_command`]), port-forward arrives as
//! SPDY inside WebSocket messages and leaves as plain SPDY ([`tunnel`]), logs and watches are sent as WebSocket messages
//! ([`messages`]), and everything else is copied byte by byte ([`relay`]). Nothing is kept in memory but what was read
//! at once, so a peer that stops reading stops only its own stream.

mod cork;
mod input;
pub mod messages;
mod output;
mod relay;
pub mod remote_command;
mod spdy;
mod tunnel;
pub mod websocket;
mod woken;

pub use cork::Cork;
pub use relay::relay;
pub use tunnel::tunnel;
pub use woken::WokenTasks;
