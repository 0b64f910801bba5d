//! `--debug-socket-path`: the profiling pages over a Unix socket, without authentication.

use std::convert::Infallible;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::profiling::Profiling;

const BODY_BYTES_MAX: usize = 1024;
/// How many connections are served at once.
const CONNECTIONS_MAX: usize = 16;
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Listens at a path, in place of what a server before may have left there.
pub fn bind(path: &Path) -> Result<UnixListener, String> {
    let failed = |error: std::io::Error| format!("cannot listen on --debug-socket-path {}: {error}", path.display());
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Only the server's own user may open it, because there is no authentication.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Serves until it is dropped.
pub async fn run(listener: UnixListener, pages: Arc<Profiling>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS_MAX {
            continue;
        }
        let pages = pages.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(&pages, request));
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(false);
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection to the debug socket ended early");
            }
        });
    }
}

async fn answer(pages: &Profiling, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let mut response = Response::new(Full::default());
    let path = parts.uri.path();
    let read = Limited::new(body, BODY_BYTES_MAX).collect().await;
    let (code, content_type, body) = match read {
        Err(error) => (StatusCode::BAD_REQUEST, "text/plain", format!("error reading request body: {error}\n").into()),
        Ok(_) if !Profiling::has(path) => {
            (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n".into())
        }
        Ok(read) => {
            let query = parts.uri.query().unwrap_or_default();
            let page = pages.page(&parts.method, path, query, &read.to_bytes()).await;
            response.headers_mut().extend(page.headers());
            (page.code, page.content_type, page.body)
        }
    };
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    *response.body_mut() = Full::new(body);
    Ok(response)
}
