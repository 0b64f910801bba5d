//! Kubeconfig files: how clients find the server and prove who they are.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{Pki, pki};

/// The administrator's kubeconfig, everything inlined so that the file can be moved.
pub fn admin(pki: &Pki, address: SocketAddr) -> std::io::Result<String> {
    admin_of(pki, &url(address))
}

/// Where a server is reached that listens on an address.
pub fn url(address: SocketAddr) -> String {
    format!("https://{}", reachable(address))
}

fn admin_of(pki: &Pki, server: &str) -> std::io::Result<String> {
    let (certificate, key) = (read(&pki.admin_cert)?, read(&pki.admin_key)?);
    with_certificate(pki, server, "kubernetes-admin", &certificate, &pki::as_sec1(&key))
}

fn read(path: &Path) -> std::io::Result<String> {
    fs::read_to_string(path).map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// A kubeconfig with a client certificate and its key, both in PEM.
pub fn with_certificate(pki: &Pki, server: &str, user: &str, certificate: &str, key: &str) -> std::io::Result<String> {
    let (certificate, key) = (STANDARD.encode(certificate), STANDARD.encode(key));
    compose(pki, server, user, &format!("client-certificate-data: {certificate}\n    client-key-data: {key}"))
}

/// A kubeconfig with a bearer token.
pub fn with_token(pki: &Pki, server: &str, user: &str, token: &str) -> std::io::Result<String> {
    compose(pki, server, user, &format!("token: {token}"))
}

fn compose(pki: &Pki, server: &str, user: &str, credentials: &str) -> std::io::Result<String> {
    let authority = STANDARD.encode(pki.authority().map_err(std::io::Error::other)?);
    let mut name = String::new();
    if let Some(shown) = pki.given.first() {
        name =
            other_name(&read(shown)?, server).map(|name| format!("\n    tls-server-name: {name}")).unwrap_or_default();
    }
    let user = object::quote(user);
    Ok(format!(
        "apiVersion: v1
kind: Config
clusters:
- name: ferrokube
  cluster:
    server: {server}
    certificate-authority-data: {authority}{name}
users:
- name: {user}
  user:
    {credentials}
contexts:
- name: ferrokube
  context:
    cluster: ferrokube
    user: {user}
current-context: ferrokube
"
    ))
}

/// A name that a certificate is made out to, if it is not made out to the address in the URL.
fn other_name(chain: &str, server: &str) -> Option<String> {
    let address: SocketAddr = server.strip_prefix("https://")?.parse().ok()?;
    let certificates = gox509::parse_bundle(chain.as_bytes()).ok()?;
    let names = &certificates.first()?.extensions.names;
    if names.addresses.contains(&address.ip()) {
        return None;
    }
    names.dns.iter().find(|name| !name.contains('*')).cloned()
}

/// The server that a kubeconfig of ours leads to.
pub fn server_of(path: &Path) -> std::io::Result<String> {
    let text = fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("server: "));
    line.map(str::to_string).ok_or_else(|| std::io::Error::other("it names no server"))
}

/// A server that listens everywhere is reached on this machine by loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::new([127, 0, 0, 1].into(), v4.port()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => SocketAddr::new([127, 0, 0, 1].into(), v6.port()),
        other => other,
    }
}

/// Writes a file that only its owner can read. One that says this already is left alone: a full disk does not matter then.
pub fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return files::restrict_existing(path);
    }
    files::replace(path, text.as_bytes())
}

/// Puts the administrator's current certificate into a kubeconfig of ours, if there is one at this path.
pub fn refresh(pki: &Pki, path: &Path) -> std::io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    write(path, &admin_of(pki, &server_of(path)?)?)
}
