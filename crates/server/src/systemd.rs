//! Notifies systemd of the server's state, as `sd_notify` does.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Sends a state such as `READY=1` to the socket that `NOTIFY_SOCKET` named. A leading `@` is an abstract name.
pub fn notify(socket: &Path, state: &str) -> io::Result<()> {
    let address = match socket.as_os_str().as_bytes() {
        [b'@', name @ ..] => files::abstract_address(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_arrives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        notify(&path, "READY=1").unwrap();
        let mut buffer = [0; 16];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1");
        assert!(notify(Path::new("@no-such-abstract-socket"), "READY=1").is_err());
    }
}
