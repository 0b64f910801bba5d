//! A server for the files of one folder, which ends with the program.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// Serves a folder and says where.
pub fn serve(folder: &Path) -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let folder = folder.to_path_buf();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let _ = answer(&folder, connection);
        }
    });
    Ok(format!("http://127.0.0.1:{port}"))
}

fn answer(folder: &Path, mut connection: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let name = PathBuf::from(request.split(' ').nth(1).unwrap_or(""));
    let file = name.file_name().map(|name| fs::read(folder.join(name)));
    let (status, body) = match file {
        Some(Ok(body)) => ("200 OK", body),
        _ => ("404 Not Found", Vec::new()),
    };
    write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    connection.write_all(&body)
}
