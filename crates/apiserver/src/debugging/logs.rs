//! `/logs`: the files in `/var/log`, with `--enable-logs-handler`.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use authz::Permitted;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::{Method, StatusCode};
use rest::{Aborted, Body, Call, Reply, ReplyBody};
use server::Paths;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

const CHUNK_BYTES: usize = 64 * 1024;
/// How many names of a folder are listed.
const NAMES_MAX: usize = 10_000;
/// How much of a file decides whether it is text.
const LOOKED_AT_BYTES: usize = 512;

pub struct Logs {
    folder: PathBuf,
}

impl Default for Logs {
    fn default() -> Logs {
        Logs { folder: "/var/log".into() }
    }
}

impl Logs {
    async fn page(&self, below: &str) -> Reply {
        if below.split('/').any(|part| part == "..") {
            return Reply::text(StatusCode::BAD_REQUEST, "invalid URL path\n");
        }
        let path = self.folder.join(below.trim_start_matches('/'));
        match read(&path, below).await {
            Ok(reply) => reply,
            Err(error) => match error.kind() {
                std::io::ErrorKind::NotFound => Reply::text(StatusCode::NOT_FOUND, "404 page not found\n"),
                std::io::ErrorKind::PermissionDenied => Reply::text(StatusCode::FORBIDDEN, "403 Forbidden\n"),
                std::io::ErrorKind::InvalidFilename => Reply::text(StatusCode::NOT_FOUND, "file not found\n"),
                _ => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n"),
            },
        }
    }
}

async fn read(path: &Path, below: &str) -> std::io::Result<Reply> {
    let found = tokio::fs::metadata(path).await?;
    if found.is_dir() {
        return list(path).await;
    }
    if !found.is_file() || below.ends_with('/') {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let mut file = File::open(path).await?;
    let mut first = BytesMut::with_capacity(CHUNK_BYTES);
    file.read_buf(&mut first).await?;
    let is_text = std::str::from_utf8(&first[..first.len().min(LOOKED_AT_BYTES)])
        .map_or_else(|error| error.error_len().is_none(), |text| !text.contains('\0'));
    let content_type = if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    // A file that grows while it is read is sent as far as it was long in the beginning.
    let left = found.len().saturating_sub(first.len() as u64);
    let rest = futures::stream::unfold((file, left), |(mut file, left)| async move {
        if left == 0 {
            return None;
        }
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        match (&mut file).take(left).read_buf(&mut chunk).await {
            Ok(0) => None,
            Ok(length) => Some((Ok(chunk.freeze()), (file, left - length as u64))),
            Err(_) => Some((Err(Aborted), (file, 0))),
        }
    });
    let chunks = futures::stream::iter([Ok::<Bytes, Aborted>(first.freeze())]).chain(rest).boxed();
    let estimate = usize::try_from(found.len()).unwrap_or(usize::MAX);
    Ok(Reply::new(StatusCode::OK, content_type, ReplyBody::Stream { chunks, estimate }))
}

/// The names in a folder, as Go's file server lists them.
async fn list(path: &Path) -> std::io::Result<Reply> {
    let mut names = Vec::new();
    let mut entries = tokio::fs::read_dir(path).await?;
    while let Some(entry) = entries.next_entry().await?.filter(|_| names.len() < NAMES_MAX) {
        let slash = if entry.file_type().await?.is_dir() { "/" } else { "" };
        names.push(format!("{}{slash}", entry.file_name().to_string_lossy()));
    }
    names.sort();
    let mut page = String::from("<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n");
    for name in &names {
        page.push_str(&format!("<a href=\"{}\">{}</a>\n", link(name), shown(name)));
    }
    page.push_str("</pre>\n");
    Ok(Reply::new(StatusCode::OK, "text/html; charset=utf-8", ReplyBody::Ready(page.into())))
}

fn shown(name: &str) -> String {
    name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&#34;").replace('\'', "&#39;")
}

/// A relative link: everything but letters, digits and a few signs is escaped.
fn link(name: &str) -> String {
    let mut link = String::with_capacity(name.len());
    object::percent_encode(name, |byte| byte == b'/' || object::is_unreserved(byte), &mut link);
    link
}

#[async_trait]
impl Paths for Logs {
    async fn answer(&self, call: &Permitted<Call>, _: &mut Body) -> Option<Reply> {
        let below = call.info.path.strip_prefix("/logs")?;
        if !below.is_empty() && !below.starts_with('/') {
            return None;
        }
        if call.method != Method::GET {
            return Some(Reply::text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"));
        }
        Some(self.page(below).await)
    }

    fn listed(&self) -> Vec<String> {
        vec!["/logs".into()]
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn files_below_the_folder_are_shown() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs { folder: folder.path().join("log") };
        std::fs::create_dir_all(logs.folder.join("pods")).unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        let long = "line\n".repeat(CHUNK_BYTES);
        std::fs::write(logs.folder.join("a.log"), &long).unwrap();
        std::fs::write(logs.folder.join("<b>"), [0, 1]).unwrap();
        let index = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n\
             <a href=\"%3Cb%3E\">&lt;b&gt;</a>\n<a href=\"a.log\">a.log</a>\n<a href=\"pods/\">pods/</a>\n</pre>\n";
        let too_long = "x".repeat(300);
        for (path, code, want) in [
            ("", 200, index),
            ("/", 200, index),
            ("/a.log", 200, long.as_str()),
            ("/<b>", 200, "\0\u{1}"),
            ("/nothing", 404, "404 page not found\n"),
            ("/../secret", 400, "invalid URL path\n"),
            ("/pods/../../secret", 400, "invalid URL path\n"),
            (&too_long, 404, "file not found\n"),
        ] {
            let reply = logs.page(path).await;
            let body = match reply.body {
                ReplyBody::Ready(bytes) => bytes.to_vec(),
                ReplyBody::Stream { chunks, .. } => {
                    chunks.map_err(|_| ()).try_collect::<Vec<Bytes>>().await.unwrap().concat()
                }
                ReplyBody::Switch(_) => Vec::new(),
            };
            assert_eq!((reply.status.as_u16(), String::from_utf8(body).unwrap().as_str()), (code, want), "{path}");
        }
    }
}
