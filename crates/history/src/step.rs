//! [`CommonStep`]: the writes of several requests, made in one step of the store.
//!
//! The requests are carried out at the same time, each as if it were alone: admitted, validated, given what it reserves. The write of each
//! one waits in front of the store until those of all others are there too; then the store makes all of them or none. If one request is
//! refused before that, no other is written, and each gives back what it has reserved.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use storage::{Error, Key, Result, Write, Written};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::change::Origin;
use crate::origin::current;
use crate::store::AttributedWrites;

tokio::task_local! {
    static PARTICIPANT: Arc<Participant>;
}

/// How many requests of a step are carried out at the same time, until their writes wait.
const RUNNING_MAX: usize = 16;

/// Requests whose writes are made together.
pub struct CommonStep {
    gathering: Mutex<Gathering>,
    running: Arc<Semaphore>,
}

struct Gathering {
    /// How many requests have neither written nor ended.
    missing: usize,
    /// The writes that are there, and the store to which they go.
    waiting: Vec<WaitingWrite>,
    store: Option<AttributedWrites>,
    is_over: bool,
}

struct WaitingWrite {
    write: Write,
    origin: Option<Arc<Origin>>,
    answer: oneshot::Sender<Result<Written>>,
}

/// One of the requests.
pub(crate) struct Participant {
    step: Arc<CommonStep>,
    key: Key,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    has_written: AtomicBool,
}

/// The request whose write of this key is to be made together with others, if the running code belongs to one.
pub(crate) fn participant(key: &Key) -> Option<Arc<Participant>> {
    PARTICIPANT.try_with(|participant| (participant.key == *key).then(|| participant.clone())).ok().flatten()
}

impl CommonStep {
    /// A step of so many requests; each has to be given to [`CommonStep::run`].
    pub fn of(requests: usize) -> Arc<CommonStep> {
        let gathering = Gathering { missing: requests, waiting: Vec::new(), store: None, is_over: false };
        Arc::new(CommonStep { gathering: Mutex::new(gathering), running: Arc::new(Semaphore::new(RUNNING_MAX)) })
    }

    /// Carries out a request that writes `key`; its answer tells whether it succeeded. What else it writes is written at once. If it is
    /// dropped before it ends, none of the waiting writes is made.
    pub async fn run<T>(
        self: Arc<CommonStep>,
        key: Key,
        request: impl Future<Output = T>,
        is_success: impl FnOnce(&T) -> bool,
    ) -> T {
        let mut unfinished = UnfinishedRequest(Some(&self));
        // The semaphore is never closed.
        let permit = self.running.clone().acquire_owned().await.ok();
        let (permit, has_written) = (Mutex::new(permit), AtomicBool::new(false));
        let participant = Arc::new(Participant { step: self.clone(), key, permit, has_written });
        let answer = PARTICIPANT.scope(participant.clone(), request).await;
        unfinished.0 = None;
        drop(participant.permit.lock().take());
        match is_success(&answer) {
            // It was made with the others, or it has changed nothing.
            true if participant.has_written.load(Ordering::Relaxed) => {}
            true => self.arrived(None),
            false => self.refuse(),
        }
        answer
    }

    /// A request has ended without a write, or its write is there. The last one makes all of them.
    fn arrived(&self, write: Option<(WaitingWrite, AttributedWrites)>) {
        let mut gathering = self.gathering.lock();
        if gathering.is_over {
            drop(gathering);
            if let Some((waiting, _)) = write {
                waiting.refuse();
            }
            return;
        }
        gathering.missing = gathering.missing.saturating_sub(1);
        if let Some((waiting, store)) = write {
            gathering.waiting.push(waiting);
            gathering.store = Some(store);
        }
        if gathering.missing > 0 {
            return;
        }
        gathering.is_over = true;
        let (waiting, store) = (std::mem::take(&mut gathering.waiting), gathering.store.take());
        drop(gathering);
        if let Some(store) = store {
            // A task of its own, so that all of them get an answer whatever becomes of this request.
            tokio::spawn(make(store, waiting));
        }
    }

    /// Nothing is written any more.
    fn refuse(&self) {
        let waiting = {
            let mut gathering = self.gathering.lock();
            gathering.is_over = true;
            std::mem::take(&mut gathering.waiting)
        };
        waiting.into_iter().for_each(WaitingWrite::refuse);
    }
}

async fn make(store: AttributedWrites, waiting: Vec<WaitingWrite>) {
    let (mut writes, mut answers) = (Vec::with_capacity(waiting.len()), Vec::with_capacity(waiting.len()));
    for WaitingWrite { write, origin, answer } in waiting {
        writes.push((write, origin));
        answers.push(answer);
    }
    let answered: Vec<Result<Written>> = match store.write_all(writes).await {
        Ok(written) => written.into_iter().map(Ok).collect(),
        Err(refused) => {
            let is_of_one = matches!(refused.error, Error::KeyExists(_) | Error::Conflict(_) | Error::NotFound);
            let failed = |at: usize| match is_of_one && at != refused.at {
                true => Err(Error::StepRefused),
                false => Err(refused.error.clone()),
            };
            (0..answers.len()).map(failed).collect()
        }
    };
    for (answer, result) in answers.into_iter().zip(answered) {
        // A request that was dropped waits for no answer.
        drop(answer.send(result));
    }
}

impl WaitingWrite {
    fn refuse(self) {
        // A request that was dropped waits for no answer.
        drop(self.answer.send(Err(Error::StepRefused)));
    }
}

impl Participant {
    /// Waits until the writes of all requests are there, and makes them.
    pub async fn write(&self, store: &AttributedWrites, write: Write) -> Result<Written> {
        if self.has_written.swap(true, Ordering::Relaxed) {
            return Err(Error::unavailable("a request of a common step can write only once"));
        }
        let (answer, answered) = oneshot::channel();
        let waiting = WaitingWrite { write, origin: current(), answer };
        drop(self.permit.lock().take());
        self.step.arrived(Some((waiting, store.clone())));
        answered.await.unwrap_or_else(|_| Err(Error::OutcomeUnknown("the server ends".into())))
    }
}

/// Refuses the writes of the others when a request is dropped before its end.
struct UnfinishedRequest<'a>(Option<&'a CommonStep>);

impl Drop for UnfinishedRequest<'_> {
    fn drop(&mut self) {
        if let Some(step) = self.0 {
            step.refuse();
        }
    }
}
