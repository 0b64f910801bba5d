//! The stand-in for etcd: it listens where it is told to, says that it is well, and ends when it is told to.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use clap::{Arg, Command};
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::Semaphore;

use super::super::say;
use super::super::serve::Signals;

/// In the answer of `/version`, by which the kube-apiserver beside it knows it.
pub const SIGN: &str = "ferrokube-envtest-stand-in";
/// etcd's flag, and its default.
const LISTEN: &str = "--listen-client-urls";
const LISTEN_DEFAULT: &str = "http://localhost:2379";
const HEALTH: &str = r#"{"health":"true","reason":""}"#;
/// Connections at the same time; more wait.
const CONNECTIONS_MAX: usize = 64;

/// For scripts, which cannot give a program another name.
pub fn command() -> Command {
    let flags = Arg::new("flags").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
    Command::new("etcd-stand-in").hide(true).about("Stand in for etcd in a folder for envtest").arg(flags)
}

/// Flags that envtest looks for before it starts etcd.
const HELP: &str = "\
This stands in for etcd in a folder that ferrokube envtest-assets made: it says that it is well, and stores nothing.

  --listen-client-urls 'http://localhost:2379'
  --advertise-client-urls, --listen-peer-urls, --data-dir, --unsafe-no-fsync and other flags of etcd are passed over:
  --unsafe-no-fsync 'false'";

/// Serves until a signal comes. Flags of etcd other than the one that says where to listen are passed over.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h")) {
        say(HELP);
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(serve(&listen_url(arguments)))
}

fn listen_url(arguments: &[String]) -> String {
    let mut url = LISTEN_DEFAULT.to_string();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.strip_prefix(LISTEN) {
            Some("") => url = rest.next().cloned().unwrap_or_default(),
            Some(value) if value.starts_with('=') => url = value[1..].to_string(),
            _ => {}
        }
    }
    url
}

async fn serve(url: &str) -> Result<(), String> {
    let mut signals = Signals::listen()?;
    let failed = |error: std::io::Error| format!("{LISTEN} {url}: {error}");
    let name = url.strip_prefix("http://").ok_or_else(|| format!("{LISTEN} {url}: only one http URL is served"))?;
    let addresses: Vec<SocketAddr> = lookup_host(name.trim_end_matches('/')).await.map_err(failed)?.collect();
    let listener = TcpListener::bind(addresses.as_slice()).await.map_err(failed)?;
    let accept = async {
        let places = std::sync::Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while let Ok(place) = places.clone().acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else { continue };
            tokio::spawn(async move {
                answer(stream).await;
                drop(place);
            });
        }
    };
    tokio::select! {
        () = accept => Err("no connection can be accepted any more".into()),
        () = signals.next() => Ok(()),
    }
}

async fn answer(stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| async move {
        let (status, text) = match request.uri().path() {
            "/health" | "/livez" | "/readyz" => (StatusCode::OK, HEALTH.to_string()),
            "/version" => (StatusCode::OK, format!(r#"{{"etcdserver":"{SIGN}","etcdcluster":"{SIGN}"}}"#)),
            _ => (StatusCode::NOT_FOUND, String::new()),
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        let json = header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Ok::<_, Infallible>(response)
    });
    // What is wrong with a client's connection is the client's.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen() {
        for (line, want) in [
            ("", LISTEN_DEFAULT),
            ("--data-dir=/tmp/x --listen-client-urls=http://127.0.0.1:1 --unsafe-no-fsync=true", "http://127.0.0.1:1"),
            ("--listen-client-urls http://127.0.0.1:2", "http://127.0.0.1:2"),
            ("--listen-client-urls-too=http://127.0.0.1:3", LISTEN_DEFAULT),
        ] {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            assert_eq!(listen_url(&arguments), want, "{line}");
        }
    }
}
