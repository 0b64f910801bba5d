//! [`follow`]: hands a configuration file's new contents on whenever they change.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

/// How often a file is looked at. Mounted secrets and config maps change by swapping links, which a watch on the file itself
/// would not notice.
const INTERVAL: Duration = Duration::from_secs(1);
/// When contents that could not be put to use are tried again, as upstream does.
const RETRY: Duration = Duration::from_secs(60);

/// The outcome of new contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They are in use, or can never be used: nothing happens until the file changes.
    Settled,
    /// They cannot be used for now; they are tried again.
    Again,
}

/// Puts a file's contents to use.
#[async_trait]
pub trait Reload: Send + 'static {
    /// Called with contents that differ from those in use; `Err` says why the file cannot be read.
    async fn reload(&mut self, contents: Result<&[u8], &io::Error>) -> Outcome;

    /// Whether what the file configures is gone, so that the file need not be looked at any more.
    fn is_over(&self) -> bool {
        false
    }
}

/// Looks at a file whose contents are `known`.
pub async fn run(path: PathBuf, known: Vec<u8>, mut target: impl Reload) {
    let mut following = Following { settled: known, failed: None };
    while !target.is_over() {
        tokio::time::sleep(INTERVAL).await;
        following.look(tokio::fs::read(&path).await, &mut target).await;
    }
}

struct Following {
    settled: Vec<u8>,
    /// The contents that were tried last without success, None for a file that could not be read, and when.
    failed: Option<(Option<Vec<u8>>, Instant)>,
}

impl Following {
    async fn look(&mut self, read: io::Result<Vec<u8>>, target: &mut impl Reload) {
        if read.as_ref().is_ok_and(|text| *text == self.settled) {
            self.failed = None;
            return;
        }
        let tried =
            |(text, at): &(Option<Vec<u8>>, Instant)| *text == read.as_ref().ok().cloned() && at.elapsed() < RETRY;
        if self.failed.as_ref().is_some_and(tried) {
            return;
        }
        let outcome = target.reload(read.as_ref().map(Vec::as_slice)).await;
        match (outcome, read) {
            (Outcome::Settled, Ok(text)) => (self.settled, self.failed) = (text, None),
            (_, read) => self.failed = Some((read.ok(), Instant::now())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents that begin with `x` cannot be used for now.
    #[derive(Default)]
    struct Seen(Vec<String>);

    #[async_trait]
    impl Reload for Seen {
        async fn reload(&mut self, contents: Result<&[u8], &io::Error>) -> Outcome {
            let text = contents.map_or("unreadable".to_string(), |text| String::from_utf8_lossy(text).into_owned());
            self.0.push(text.clone());
            if text.starts_with('x') { Outcome::Again } else { Outcome::Settled }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_handed_on_once() {
        let missing = || Err(io::Error::from(io::ErrorKind::NotFound));
        let text = |text: &str| Ok(text.as_bytes().to_vec());
        let mut following = Following { settled: b"a".to_vec(), failed: None };
        let mut seen = Seen::default();
        for read in [text("a"), text("b"), text("b"), missing(), missing(), text("b"), text("x"), text("x"), text("a")]
        {
            following.look(read, &mut seen).await;
        }
        assert_eq!(seen.0, ["b", "unreadable", "x", "a"]);
        following.look(text("x"), &mut seen).await;
        tokio::time::advance(RETRY).await;
        following.look(text("x"), &mut seen).await;
        assert_eq!(seen.0[4..], ["x", "x"]);
    }
}
