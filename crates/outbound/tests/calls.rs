//! A client against real servers: good ones, and those that fail in every way a server can.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use outbound::{Certificate, Client, ClientOptions, Credentials, Protocols, Request, Roots, Token};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    certificate: rustls_pki_types::CertificateDer<'static>,
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    Authority { pem: made.pem(), certificate: made.der().clone(), issuer: Issuer::new(params, key) }
}

/// A certificate and its key, signed by an authority.
struct Leaf {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

fn leaf(authority: &Authority, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Leaf {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    Leaf { certificate: params.signed_by(&key, &authority.issuer).unwrap(), key }
}

impl Leaf {
    fn config(&self, client_authority: Option<&Authority>) -> ServerConfig {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let builder = match client_authority {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(authority.certificate.clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        builder.with_single_cert(vec![self.certificate.der().clone()], key).unwrap()
    }
}

/// What a server does with each connection after the handshake: reads one request, writes these bytes, and waits if told so.
#[derive(Clone)]
enum Then {
    Write(Vec<u8>),
    /// Writes, and never ends the connection.
    WriteAndHang(Vec<u8>),
    /// Answers with the request itself.
    Echo,
}

fn http(status: &str, headers: &str, body: &str) -> Then {
    Then::Write(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

async fn serve(config: Option<ServerConfig>, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let acceptor = config.map(|config| TlsAcceptor::from(Arc::new(config)));
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, then) = (acceptor.clone(), then.clone());
            tokio::spawn(async move {
                match acceptor {
                    None => converse(stream, then).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            converse(stream, then).await;
                        }
                    }
                }
            });
        }
    });
    address
}

async fn converse(mut stream: impl outbound::Stream, then: Then) {
    let mut read = vec![0; 64 * 1024];
    let got = stream.read(&mut read).await.unwrap_or(0);
    match then {
        Then::Write(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
        Then::WriteAndHang(bytes) => {
            let _ = stream.write_all(&bytes).await;
            std::future::pending::<()>().await;
        }
        Then::Echo => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {got}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&read[..got]).await;
        }
    }
    let _ = stream.shutdown().await;
}

async fn post(client: &Client, url: &str) -> Result<String, String> {
    post_within(client, url, Duration::from_secs(5)).await
}

async fn post_within(client: &Client, url: &str, time: Duration) -> Result<String, String> {
    let request = Request {
        url,
        address: None,
        body: Bytes::from_static(b"{}"),
        deadline: tokio::time::Instant::now() + time,
        response_bytes_max: 1 << 20,
    };
    let answer = client.post(&request).await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(answer.to_vec()).unwrap())
}

fn client(roots: Roots) -> Client {
    Client::new(&ClientOptions { roots, ..ClientOptions::default() }).unwrap()
}

fn pem(authority: &Authority) -> Roots {
    Roots::Pem(authority.pem.clone().into_bytes())
}

#[tokio::test]
async fn responses_become_what_client_go_makes_of_them() {
    let trusted = authority("us");
    let server = leaf(&trusted, &["localhost"], |_| {});
    let status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no, thanks","reason":"Mine","code":418}"#;
    let big = "x".repeat((1 << 20) + 1);
    let cases = [
        (http("200 OK", "", "{}"), Ok("{}".to_string())),
        (http("200 OK", "", ""), Err("0-length response with status code: 200 and content type: application/json".into())),
        (http("500 Internal Server Error", "", "oops\n"), Err("an error on the server (\"oops\") has prevented the request from succeeding".into())),
        (http("500 Internal Server Error", "Content-Type: application/json\r\n", "{}"), Err("an error on the server (\"unknown\") has prevented the request from succeeding".into())),
        (http("404 Not Found", "Content-Type: text/plain\r\n", "404 page not found"), Err("the server could not find the requested resource".into())),
        (http("302 Found", "Location: https://127.0.0.1:1/\r\n", ""), Err("the server responded with the status code 302 but did not return more information".into())),
        (http("418 Teapot", "", status), Err("no, thanks".into())),
        (http("200 OK", "", &big), Err("unexpected error when reading response body. Please retry. Original error: the response is larger than 1048576 bytes".into())),
        (Then::Write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc".to_vec()), Err("unexpected error when reading response body. Please retry. Original error: unexpected EOF".into())),
    ];
    for (then, expected) in cases {
        let address = serve(Some(server.config(None)), then).await;
        let url = format!("https://localhost:{}/x", address.port());
        assert_eq!(post(&client(pem(&trusted)), &url).await, expected);
    }
}

#[tokio::test]
async fn connections_that_fail_are_told_in_gos_words() {
    let (trusted, other) = (authority("us"), authority("others"));
    let twin = authority("us");
    let server = leaf(&trusted, &["localhost", "*.example"], |_| {});
    let old = leaf(&trusted, &["localhost"], |params| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let wrong_use = leaf(&trusted, &["localhost"], |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    });
    let nameless = leaf(&trusted, &[], |_| {});
    let ok = || http("200 OK", "", "{}");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let plain = serve(None, ok()).await;
    let garbage = serve(None, Then::Write(vec![0xff; 64])).await;
    let silent = serve(None, Then::Write(Vec::new())).await;
    let good = serve(Some(server.config(None)), ok()).await;
    let expired = serve(Some(old.config(None)), ok()).await;
    let client_only = serve(Some(wrong_use.config(None)), ok()).await;
    let unnamed = serve(Some(nameless.config(None)), ok()).await;
    let wants_certificate = serve(Some(server.config(Some(&trusted))), ok()).await;
    let malformed = serve(Some(server.config(None)), Then::Write(b"nonsense\r\n\r\n".to_vec())).await;
    let unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    let cases = [
        ("localhost", free, pem(&trusted), "connect: connection refused"),
        ("localhost", plain, pem(&trusted), "http: server gave HTTP response to HTTPS client"),
        ("localhost", garbage, pem(&trusted), "tls: first record does not look like a TLS handshake"),
        ("localhost", silent, pem(&trusted), "EOF"),
        ("localhost", good, pem(&other), unknown),
        (
            "localhost",
            good,
            pem(&twin),
            "certificate signed by unknown authority (possibly because of \"x509: ECDSA verification failure\" while trying to verify candidate authority certificate \"us\")",
        ),
        (
            "127.0.0.1",
            good,
            pem(&trusted),
            "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        ("localhost", expired, pem(&trusted), "x509: certificate has expired or is not yet valid: current time"),
        ("localhost", expired, pem(&trusted), "is after 2021-01-01T00:00:00Z"),
        ("localhost", client_only, pem(&trusted), "x509: certificate specifies an incompatible key usage"),
        (
            "localhost",
            unnamed,
            pem(&trusted),
            "x509: certificate is not valid for any names, but wanted to match localhost",
        ),
        ("localhost", wants_certificate, pem(&trusted), "remote error: tls: certificate required"),
        (
            "localhost",
            malformed,
            pem(&trusted),
            "net/http: HTTP/1.x transport connection broken: malformed HTTP response",
        ),
    ];
    for (host, address, roots, expected) in cases {
        let url = format!("https://{host}:{}/x?timeout=5s", address.port());
        let error = post(&client(roots), &url).await.unwrap_err();
        assert!(error.starts_with(&format!("Post \"{url}\": ")) && error.contains(expected), "{error}\n{expected}");
    }
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let trusted = authority("us");
    let server = leaf(&trusted, &["localhost"], |_| {});
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab".to_vec();
    let cases = [
        (Some(server.config(None)), Vec::new(), "context deadline exceeded"),
        (
            Some(server.config(None)),
            head,
            "unexpected error when reading response body. Please retry. Original error: context deadline exceeded",
        ),
        // A TCP server that never answers the handshake.
        (None, Vec::new(), "context deadline exceeded"),
        (
            Some(server.config(None)),
            b"HTTP/1.1 503 x\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "context deadline exceeded",
        ),
    ];
    for (config, bytes, expected) in cases {
        let address = serve(config, Then::WriteAndHang(bytes)).await;
        let url = format!("https://localhost:{}/x", address.port());
        let error = post_within(&client(pem(&trusted)), &url, Duration::from_millis(300)).await.unwrap_err();
        assert!(error.ends_with(expected), "{error}");
    }
}

#[tokio::test]
async fn a_self_signed_authority_is_its_own_server() {
    let mut params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let roots = Roots::Pem(certificate.pem().into_bytes());
    let server = Leaf { certificate, key };
    let address = serve(Some(server.config(None)), http("200 OK", "", "{}")).await;
    let url = |host: &str| format!("https://{host}:{}/", address.port());
    assert_eq!(post(&client(roots.clone()), &url("localhost")).await, Ok("{}".into()));
    assert!(post(&client(roots), &url("127.0.0.1")).await.is_err());
    assert_eq!(post(&client(Roots::Insecure), &url("127.0.0.1")).await, Ok("{}".into()));
}

#[tokio::test]
async fn credentials_are_shown_and_read_again_when_they_change() {
    let trusted = authority("us");
    let server = leaf(&trusted, &["hook.ns.svc"], |_| {});
    let (me, stranger) = (leaf(&trusted, &["me"], |_| {}), leaf(&authority("others"), &["me"], |_| {}));
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("me.crt"), folder.path().join("me.key"));
    let write = |leaf: &Leaf| {
        std::fs::write(&certificate, leaf.certificate.pem()).unwrap();
        std::fs::write(&key, leaf.key.serialize_pem()).unwrap();
    };
    write(&stranger);
    let address = serve(Some(server.config(Some(&trusted))), Then::Echo).await;
    let options = ClientOptions {
        roots: pem(&trusted),
        server_name: Some("hook.ns.svc".into()),
        credentials: Credentials {
            certificate: Some(Certificate::Files { certificate: certificate.clone(), key: key.clone() }),
            token: Some(Token::Text("secret".into())),
            impersonation: vec![("impersonate-group".into(), "a".into()), ("impersonate-group".into(), "b".into())],
            ..Credentials::default()
        },
        protocols: Protocols::Http1,
        user_agent: "kube-apiserver-admission".into(),
        ..ClientOptions::default()
    };
    let client = Client::new(&options).unwrap();
    let request = Request {
        url: "https://hook.ns.svc:443/p?timeout=1s",
        address: Some(outbound::Address { host: "127.0.0.1".into(), port: address.port() }),
        body: Bytes::from_static(b"{}"),
        deadline: tokio::time::Instant::now() + Duration::from_secs(5),
        response_bytes_max: 1 << 20,
    };
    assert!(client.post(&request).await.is_err());
    // Files are compared by their time of change.
    let later = std::time::SystemTime::now() + Duration::from_secs(5);
    write(&me);
    std::fs::File::options().append(true).open(&certificate).unwrap().set_modified(later).unwrap();
    let echoed = client.post(&request).await.unwrap();
    let echoed = String::from_utf8(echoed.to_vec()).unwrap().to_lowercase();
    for line in [
        "post /p?timeout=1s http/1.1",
        "host: hook.ns.svc:443",
        "authorization: bearer secret",
        "user-agent: kube-apiserver-admission",
        "impersonate-group: a",
        "impersonate-group: b",
        "content-type: application/json",
        "accept: application/json, */*",
    ] {
        assert!(echoed.contains(line), "{line}: {echoed}");
    }
}

#[tokio::test]
async fn an_upgrade_hands_over_the_connection() {
    let trusted = authority("us");
    let server = leaf(&trusted, &["localhost"], |_| {});
    let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\nhello".to_vec();
    let address = serve(Some(server.config(None)), Then::Write(answer)).await;
    let options = ClientOptions { roots: pem(&trusted), protocols: Protocols::Http1, ..ClientOptions::default() };
    let request = http::Request::get(format!("https://localhost:{}/", address.port()))
        .header("connection", "upgrade")
        .header("upgrade", "test")
        .body(outbound::body(Bytes::new()))
        .unwrap();
    let mut response = Client::new(&options).unwrap().send(request).await.unwrap();
    assert_eq!(response.status(), 101);
    let mut raw = hyper_util::rt::TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    let mut bytes = [0; 5];
    raw.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"hello");
}

#[test]
fn settings_that_cannot_be_used_are_told_at_once() {
    let cases = [
        (
            ClientOptions { roots: Roots::Pem(b"x".to_vec()), ..ClientOptions::default() },
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
        (
            ClientOptions { roots: Roots::File("/nonexistent/ca".into()), ..ClientOptions::default() },
            "open /nonexistent/ca: no such file or directory",
        ),
        (
            ClientOptions { server_name: Some("a b".into()), ..ClientOptions::default() },
            "x509: invalid server name \"a b\"",
        ),
    ];
    for (options, expected) in cases {
        let error = Client::new(&options).err().unwrap().to_string();
        assert_eq!(error, expected);
    }
}
