//! The server's life as its surroundings see it: ready, serving, draining, gone; and certificates that change meanwhile.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clients::Process;
use difftest::Client;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SOON: Duration = Duration::from_secs(30);

async fn code(client: &Client, path: &str) -> Result<u16, String> {
    let request = Request::get(path).header("host", "x").header("authorization", "Bearer admin-token");
    let response = client.send(request.body(Full::<Bytes>::default()).unwrap()).await?;
    Ok(response.status().as_u16())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_is_orderly() {
    let folder = tempfile::tempdir().unwrap();
    let socket_path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&socket_path).unwrap();
    let flags = ["--shutdown-delay-duration=2s", "--shutdown-watch-termination-grace-period=1s"];
    let server = Process::start_with(&flags, &[("NOTIFY_SOCKET", &socket_path)]).await;
    assert_eq!(told(&socket), "READY=1");
    let client = Client::new(server.address, "admin-token").unwrap();

    // A watch, and a request whose body is still on its way.
    let stream = client.connect(&[b"h2"]).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("https://x{MAPS}?watch=1")).header("authorization", "Bearer admin-token");
    let watch = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let mut slow = client.connect(&[b"http/1.1"]).await.unwrap();
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"late"}}"#;
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token\r\ncontent-length: {}\r\n\r\n",
        object.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();

    server.terminate();
    assert_eq!(told(&socket), "STOPPING=1");
    // Not ready any more, but alive and serving until the delay is over.
    assert_eq!(code(&client, "/readyz").await, Ok(500));
    assert_eq!(code(&client, "/livez").await, Ok(200));
    assert_eq!(code(&client, MAPS).await, Ok(200));
    let ended = tokio::time::timeout(SOON, watch.into_body().collect()).await.expect("the watch is sent away");
    ended.expect("it ends as a watch does, not as a broken connection");
    // By now the door is closed, and what was under way still finishes.
    assert!(code(&client, MAPS).await.is_err());
    slow.write_all(object.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    drop(slow);
    assert_eq!(tokio::task::spawn_blocking(move || server.wait()).await.unwrap(), Some(0));
}

fn told(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_chosen_by_name_and_read_again() {
    let folder = tempfile::tempdir().unwrap();
    write_certificate(folder.path(), "default", "first.example");
    write_certificate(folder.path(), "named", "named.example");
    let flag = |name: &str, file: &str| format!("--{name}={}", folder.path().join(file).display());
    let sni = format!("{},{}", folder.path().join("named.crt").display(), folder.path().join("named.key").display());
    let flags = [
        flag("tls-cert-file", "default.crt"),
        flag("tls-private-key-file", "default.key"),
        format!("--tls-sni-cert-key={sni}"),
        "--tls-min-version=VersionTLS13".to_string(),
        "--strict-transport-security-directives=max-age=60".to_string(),
        "--cors-allowed-origins=//page.example(:|$)".to_string(),
    ];
    let server = Process::start(&flags.each_ref().map(String::as_str)).await;
    let shown = async |name: &str| shown_certificate(&server, name).await;
    let (first, named) = (read(folder.path(), "default.crt"), read(folder.path(), "named.crt"));
    assert_eq!(shown("whatever.example").await, first);
    assert_eq!(shown("named.example").await, named);
    write_certificate(folder.path(), "default", "second.example");
    let second = read(folder.path(), "default.crt");
    let changed = async {
        while shown("whatever.example").await != second {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(SOON, changed).await.expect("the new certificate is shown");
    let client = Client::new(server.address, "admin-token").unwrap();
    let stream = client.connect(&[b"http/1.1"]).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::options("/api").header("host", "x").header("origin", "https://page.example");
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()["access-control-allow-origin"], "https://page.example");
    assert_eq!(response.headers()["strict-transport-security"], "max-age=60");
    server.stop();
}

fn write_certificate(folder: &Path, file: &str, host: &str) {
    let made = rcgen::generate_simple_self_signed(vec![host.to_string()]).unwrap();
    std::fs::write(folder.join(format!("{file}.key")), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join(format!("{file}.crt")), made.cert.pem()).unwrap();
}

fn read(folder: &Path, file: &str) -> CertificateDer<'static> {
    use rustls_pki_types::pem::PemObject;
    CertificateDer::from_pem_file(folder.join(file)).unwrap()
}

/// The certificate a client that asks for this name is shown.
async fn shown_certificate(server: &Process, name: &str) -> CertificateDer<'static> {
    let config = difftest::trusting().unwrap();
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from(name.to_string()).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let certificates = stream.get_ref().1.peer_certificates().unwrap();
    certificates[0].clone().into_owned()
}
