//! [`Pace`]: work on many objects lets other tasks run in between.

use std::time::{Duration, Instant};

/// A task that has computed for so long lets others run.
const TURN: Duration = Duration::from_micros(500);
/// The clock is looked at after so many bytes.
const LOOK_BYTES: usize = 16 * 1024;

/// How long a task has computed. The caller says what it has done between two objects.
#[derive(Default)]
pub struct Pace {
    /// When the clock was first looked at since others ran.
    began: Option<Instant>,
    bytes: usize,
}

impl Pace {
    /// Begins to count.
    pub fn begin() -> Pace {
        Pace::default()
    }

    /// Notes that so many bytes were read or written, and lets other tasks run if it is their turn.
    pub async fn worked(&mut self, bytes: usize) {
        if self.is_over(bytes) {
            tokio::task::yield_now().await;
        }
    }

    /// Notes that so many bytes were read or written. True if it is the turn of other tasks.
    pub fn is_over(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        if self.bytes < LOOK_BYTES {
            return false;
        }
        self.bytes = 0;
        let is_over = self.began.get_or_insert_with(Instant::now).elapsed() >= TURN;
        if is_over {
            self.began = None;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn others_run_while_one_computes() {
        let others = Arc::new(AtomicUsize::new(0));
        let counted = others.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let mut pace = Pace::begin();
        while others.load(Ordering::Relaxed) < 3 {
            pace.worked(LOOK_BYTES).await;
        }
        other.abort();
    }
}
