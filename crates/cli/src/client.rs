//! One request to a running server, as the administrator of its data directory.

use std::sync::Arc;

use gox509::tls::ServerVerifier;
use gox509::{KeyPair, Pool};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;

use apiserver::Pki;

/// Asks for a token of a service account that is valid for a day.
pub async fn service_account_token(pki: &Pki, server: &str, namespace: &str, name: &str) -> Result<String, String> {
    let body = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}"#;
    let path = ::request::path(["api", "v1", "namespaces", namespace, "serviceaccounts", name, "token"]);
    let path = path.map_err(|error| error.to_string())?;
    let reply = request(pki, server, "POST", &path, Some(body.into())).await?;
    let reply = codec::json::decode(&reply, None, &mut codec::Notes::ignore()).map_err(|error| error.to_string())?;
    match reply.str_at(&["status", "token"]) {
        "" => Err(reply.str_at(&["message"]).to_string()),
        token => Ok(token.to_string()),
    }
}

/// Sends a request, with JSON if there is a body; returns the body of the answer, whatever the answer is.
pub async fn request(
    pki: &Pki,
    server: &str,
    method: &str,
    path: &str,
    body: Option<Vec<u8>>,
) -> Result<Vec<u8>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let url: http::Uri = server.parse().map_err(|error| format!("{server} is not a URL: {error}"))?;
    let host = url.host().ok_or_else(|| format!("{server} names no host"))?.to_string();
    let port = url.port_u16().unwrap_or(443);
    let stream = tokio::net::TcpStream::connect((host.trim_matches(['[', ']']), port))
        .await
        .map_err(|error| format!("cannot reach {server}: {error}; is ferrokube running?"))?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_string()).map_err(|error| text(&error))?;
    let connector = TlsConnector::from(Arc::new(tls(pki)?));
    let stream = connector.connect(name, stream).await.map_err(|error| text(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::HOST, &host)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Full::new(bytes::Bytes::from(body.unwrap_or_default())))
        .map_err(|error| text(&error))?;
    let response = sender.send_request(request).await.map_err(|error| text(&error))?;
    Ok(response.into_body().collect().await.map_err(|error| text(&error))?.to_bytes().into())
}

fn tls(pki: &Pki) -> Result<rustls::ClientConfig, String> {
    let read = |path: &std::path::Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let roots = Pool::from_client_pem(&read(&pki.ca)?)?;
    let pair = KeyPair::parse(&read(&pki.admin_cert)?, &read(&pki.admin_key)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = provider.key_provider.load_private_key(pair.key).map_err(|error| error.to_string())?;
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(ServerVerifier::new(Some(Box::new(Arc::new(roots)))))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(pair.chain, key))));
    Ok(config)
}
