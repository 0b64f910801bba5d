//! [`WokenTasks`]: which tasks of a connection are about to run.

use std::pin::pin;
use std::sync::atomic::{AtomicIsize, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// Counts the tasks of one connection that were woken, or spawned, and have not run since. Each may write to the connection.
#[derive(Default)]
pub struct WokenTasks {
    /// Below zero for moments: a task can run before the thread that has woken it has counted it.
    count: AtomicIsize,
    connection: AtomicWaker,
}

impl WokenTasks {
    /// Pending while there are some; the task is woken when the last of them begins to run.
    pub fn poll_none(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_none() {
            return Poll::Ready(());
        }
        self.connection.register(cx.waker());
        // The last one may have begun before the waker was there.
        if self.is_none() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn is_none(&self) -> bool {
        self.count.load(Ordering::SeqCst) <= 0
    }

    fn leave(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.connection.wake();
        }
    }

    /// The future, for a task that is spawned now.
    pub fn task<F: Future>(self: &Arc<Self>, future: F) -> impl Future<Output = F::Output> + use<F> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let place =
            WokenPlace(Arc::new(WakeMark { tasks: self.clone(), state: AtomicU8::new(WOKEN), task: OnceLock::new() }));
        async move {
            let mark = &place.0;
            let waker = Waker::from(mark.clone());
            let mut future = pin!(future);
            std::future::poll_fn(|cx| {
                mark.begin(cx.waker());
                future.as_mut().poll(&mut Context::from_waker(&waker))
            })
            .await
        }
    }
}

/// The states of a task: it runs or waits for something, or it was woken.
const RUNNING: u8 = 0;
const WOKEN: u8 = 1;
const ENDED: u8 = 2;

/// One task, and its waker.
struct WakeMark {
    tasks: Arc<WokenTasks>,
    state: AtomicU8,
    /// A task has the same waker all its life.
    task: OnceLock<Waker>,
}

impl WakeMark {
    fn begin(&self, waker: &Waker) {
        self.task.get_or_init(|| waker.clone());
        self.change(RUNNING);
    }

    fn change(&self, state: u8) {
        if self.state.swap(state, Ordering::SeqCst) == WOKEN {
            self.tasks.leave();
        }
    }
}

impl Wake for WakeMark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A task that has ended can still be woken by what it waited for, and never runs again.
        if self.state.compare_exchange(RUNNING, WOKEN, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.tasks.count.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

/// Ends the task's mark when its future is dropped, whether it has run or not.
struct WokenPlace(Arc<WakeMark>);

impl Drop for WokenPlace {
    fn drop(&mut self) {
        self.0.change(ENDED);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::AtomicUsize;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(task: &mut Pin<Box<impl Future<Output = ()>>>) {
        assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    #[test]
    fn the_connection_is_woken_when_the_last_task_begins() {
        let tasks = Arc::new(WokenTasks::default());
        let connection = Arc::new(Count::default());
        let waker = Waker::from(connection.clone());
        let is_free = || tasks.poll_none(&Context::from_waker(&waker)).is_ready();
        let woken = || connection.0.swap(0, Ordering::Relaxed);
        assert!(is_free());

        // Each task leaves its waker here and waits for ever.
        let left = Arc::new(Mutex::new(Vec::new()));
        let wait = || {
            let left = left.clone();
            Box::pin(tasks.task(std::future::poll_fn(move |cx| {
                left.lock().push(cx.waker().clone());
                Poll::<()>::Pending
            })))
        };
        let (mut one, mut two, three) = (wait(), wait(), wait());
        assert!(!is_free());
        poll(&mut one);
        poll(&mut two);
        assert_eq!((woken(), is_free()), (0, false));
        // A task that never ran counts no longer when it is dropped.
        drop(three);
        assert_eq!((woken(), is_free()), (1, true));

        let wakers = std::mem::take(&mut *left.lock());
        wakers.iter().for_each(Waker::wake_by_ref);
        wakers.iter().for_each(Waker::wake_by_ref);
        assert!(!is_free());
        poll(&mut two);
        assert_eq!((woken(), is_free()), (0, false));
        poll(&mut one);
        assert_eq!((woken(), is_free()), (1, true));
        drop((one, two));
        wakers.into_iter().for_each(Waker::wake);
        assert_eq!((woken(), is_free()), (0, true), "they have ended");
    }
}
