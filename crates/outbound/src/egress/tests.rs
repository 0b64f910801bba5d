use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::*;
use crate::Address;

const HEAD: &str = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n";

#[test]
fn files_are_validated() {
    for (body, want) in [
        ("- name: cluster\n  connection: {proxyProtocol: Direct}\n", ""),
        (
            "- name: cluster\n  connection: {proxyProtocol: Direct, transport: {uds: {udsName: /a}}}\n",
            r#"service.connection.transport: Invalid value: "direct": config must be absent for direct connect"#,
        ),
        (
            "- name: Cluster\n  connection: {proxyProtocol: HTTPConnect, transport: {tcp: {url: 'ftp://a'}}}\n",
            r#"service.connection.url: Invalid value: "ftp://a": supported connection protocols are http:// and https://"#,
        ),
        (
            "- name: nope\n  connection: {proxyProtocol: GRPC, transport: {tcp: {url: 'http://a'}}}\n",
            r#"[service.connection.uds: Required value: UDS must be set with GRPC, service.connection: Unsupported value: "nope": supported values: "cluster", "controlplane", "etcd"]"#,
        ),
        (
            "- name: etcd\n  connection: {proxyProtocol: X}\n",
            r#"service.connection.protocol: Unsupported value: "X": supported values: "Direct", "HTTPConnect", "GRPC""#,
        ),
        (
            "- name: etcd\n  connection: {proxyProtocol: Direct}\n- name: etcd\n  connection: {proxyProtocol: Direct}\n",
            r#"service.connection[1]: Duplicate value: "etcd""#,
        ),
    ] {
        let got = Egress::parse(format!("{HEAD}{body}").as_bytes()).err().unwrap_or_default();
        assert_eq!(got, want, "{body}");
    }
}

/// A proxy that answers CONNECT with `answer`, and then echoes.
async fn proxy(path: &Path, answer: &'static str) {
    let listener = UnixListener::bind(path).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(talk(stream, answer));
        }
    });
}

async fn talk(mut stream: UnixStream, answer: &str) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    assert!(request.starts_with(b"CONNECT host:443 HTTP/1.1\r\n"));
    stream.write_all(answer.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let _ = tokio::io::copy(&mut reader, &mut writer).await;
}

fn over_socket(path: &Path, protocol: &str) -> Egress {
    let path = path.display();
    let connection = format!("{{proxyProtocol: {protocol}, transport: {{uds: {{udsName: {path}}}}}}}");
    Egress::parse(format!("{HEAD}- name: cluster\n  connection: {connection}\n").as_bytes()).unwrap()
}

#[tokio::test]
async fn a_proxy_connects() {
    let folder = tempfile::tempdir().unwrap();
    let address = Address { host: "host".into(), port: 443 };
    for (at, (answer, want)) in [
        ("HTTP/1.1 200 OK\r\n\r\n", ""),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "proxy error from PROXY while dialing host:443, code 403: 403 Forbidden"),
        ("nonsense\r\n\r\n", "reading HTTP response from CONNECT to host:443 via proxy PROXY failed: malformed HTTP response \"nonsense\""),
        ("HTTP/1.1 200 OK\r\n\r\nearly", "unexpected 5 bytes of buffered data from CONNECT proxy \"PROXY\""),
    ]
    .into_iter()
    .enumerate()
    {
        let path = folder.path().join(format!("{at}.sock"));
        proxy(&path, answer).await;
        let dialed = over_socket(&path, "HTTPConnect").to_cluster().dial(&address).await;
        match dialed {
            Err(error) => assert_eq!(error.to_string().replace(&path.display().to_string(), "PROXY"), want),
            Ok(mut stream) => {
                assert_eq!(want, "");
                stream.write_all(b"hello").await.unwrap();
                let mut echoed = [0; 5];
                stream.read_exact(&mut echoed).await.unwrap();
                assert_eq!(&echoed, b"hello");
            }
        }
    }
    let gone = folder.path().join("gone.sock");
    for protocol in ["HTTPConnect", "GRPC"] {
        let error = over_socket(&gone, protocol).to_cluster().dial(&address).await.err().unwrap();
        assert!(error.to_string().contains("connect: no such file or directory"), "{error}");
    }
}

#[tokio::test]
async fn a_proxy_that_closes_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    let connection = format!("{{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'http://127.0.0.1:{port}'}}}}}}");
    let egress = Egress::parse(format!("{HEAD}- name: controlplane\n  connection: {connection}\n").as_bytes()).unwrap();
    let address = Address { host: "host".into(), port: 1 };
    let dialed = tokio::time::timeout(Duration::from_secs(20), egress.to_control_plane().dial(&address)).await.unwrap();
    let error = dialed.err().unwrap();
    assert!(
        error.to_string().starts_with("reading HTTP response from CONNECT to host:1 via proxy 127.0.0.1:"),
        "{error}"
    );
    let mut out = String::new();
    egress.meters.write(&mut out).unwrap();
    let counted = "dial_failure_count{protocol=\"http_connect\",stage=\"proxy\",transport=\"tcp\"} 1";
    assert!(out.contains(counted), "{out}");
}
