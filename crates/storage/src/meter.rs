//! How far long work on a store is: written by the work, read by whoever shows it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A count of what is done. One piece of work writes it; any number of readers look at it.
#[derive(Debug, Default)]
pub struct Meter {
    step: AtomicU8,
    done: AtomicU64,
    all: AtomicU64,
    bytes: AtomicU64,
}

/// A part of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// The work has not begun.
    #[default]
    Waiting,
    /// Pages of the file are compared with their checksums. Counted in bytes.
    Pages,
    /// Records are read and compared with theirs.
    Records,
    /// Records are written.
    Copying,
}

/// How far the work is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The present step.
    pub step: Step,
    /// How much of this step is done: bytes in [`Step::Pages`], records or keys in the others.
    pub done: u64,
    /// How much this step has.
    pub all: u64,
    /// Bytes read or written in this step.
    pub bytes: u64,
}

impl Step {
    const ALL: [Step; 4] = [Step::Waiting, Step::Pages, Step::Records, Step::Copying];

    /// The word for it, which is also how it is sent between processes.
    pub fn name(self) -> &'static str {
        match self {
            Step::Waiting => "waiting",
            Step::Pages => "checking",
            Step::Records => "reading",
            Step::Copying => "writing",
        }
    }

    /// The step of a name.
    pub fn of(name: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.name() == name)
    }
}

impl Meter {
    /// Begins a step that has so much to do.
    pub fn begin(&self, step: Step, all: u64) {
        self.set(Reached { step, all, ..Reached::default() });
    }

    /// One more record of so many bytes is done.
    pub fn add(&self, bytes: usize) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So many bytes were read from the file, which counts while pages are checked.
    pub fn add_pages(&self, bytes: usize) {
        if self.step.load(Ordering::Relaxed) == Step::Pages as u8 {
            self.done.fetch_add(bytes as u64, Ordering::Relaxed);
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Takes over what work elsewhere has reached.
    pub fn set(&self, reached: Reached) {
        self.all.store(reached.all, Ordering::Relaxed);
        self.done.store(reached.done, Ordering::Relaxed);
        self.bytes.store(reached.bytes, Ordering::Relaxed);
        self.step.store(reached.step as u8, Ordering::Relaxed);
    }

    /// How far the work is now.
    pub fn reached(&self) -> Reached {
        let step = Step::ALL.into_iter().find(|step| *step as u8 == self.step.load(Ordering::Relaxed));
        Reached {
            step: step.unwrap_or_default(),
            done: self.done.load(Ordering::Relaxed),
            all: self.all.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_only_while_they_are_checked() {
        let meter = Meter::default();
        meter.add_pages(5);
        assert_eq!(meter.reached(), Reached::default());
        meter.begin(Step::Pages, 100);
        meter.add_pages(40);
        assert_eq!(meter.reached(), Reached { step: Step::Pages, done: 40, all: 100, bytes: 40 });
        meter.begin(Step::Records, 3);
        meter.add(7);
        meter.add_pages(40);
        assert_eq!(meter.reached(), Reached { step: Step::Records, done: 1, all: 3, bytes: 7 });
    }

    #[test]
    fn steps_are_known_by_their_names() {
        for step in Step::ALL {
            assert_eq!(Step::of(step.name()), Some(step));
        }
        assert_eq!(Step::of("dancing"), None);
    }
}
