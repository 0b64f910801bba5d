//! The subscribers of a store, found by the keys of what changed.
//!
//! A cache subscribes to the keys that begin with its resource's path, such as `/registry/pods/`. Such subscribers are
//! found by looking up each beginning of a changed key that ends with a slash, so that a commit costs the same with five
//! resources as with five thousand. Subscribers to any other range are asked one by one.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use storage::{Batch, Error, Event, Key, KeyRange, Revision, Subscriber};

#[derive(Default)]
pub(crate) struct Subscribers {
    by_prefix: HashMap<Key, Vec<Subscribed>>,
    others: Vec<Subscribed>,
    next_number: u64,
}

struct Subscribed {
    number: u64,
    range: KeyRange,
    after: Revision,
    subscriber: Arc<dyn Subscriber>,
}

impl Subscribers {
    /// Adds a subscriber that has been told everything up to `after`, and returns its number.
    pub fn add(&mut self, range: KeyRange, after: Revision, subscriber: Arc<dyn Subscriber>) -> u64 {
        self.next_number += 1;
        let number = self.next_number;
        let subscribed = Subscribed { number, range, after, subscriber };
        let prefix = &subscribed.range.start;
        match prefix.ends_with(b"/") && subscribed.range == KeyRange::prefix(prefix.clone()) {
            true => self.by_prefix.entry(prefix.clone()).or_default().push(subscribed),
            false => self.others.push(subscribed),
        }
        number
    }

    pub fn remove(&mut self, number: u64) {
        self.others.retain(|subscribed| subscribed.number != number);
        self.by_prefix.retain(|_, subscribers| {
            subscribers.retain(|subscribed| subscribed.number != number);
            !subscribers.is_empty()
        });
    }

    /// Calls each subscriber with those of the events that are in its range. A subscriber that panics is removed.
    pub fn deliver(&mut self, events: &[Arc<Event>], revision: Revision) {
        self.others.retain(|subscribed| {
            let in_range = events.iter().filter(|event| subscribed.range.contains(&event.key));
            subscribed.tell(in_range, revision)
        });
        if self.by_prefix.is_empty() {
            return;
        }
        let mut by_prefix: BTreeMap<&[u8], Vec<&Arc<Event>>> = BTreeMap::new();
        for event in events {
            let ends = (1..=event.key.len()).filter(|end| event.key[end - 1] == b'/');
            for prefix in ends.map(|end| &event.key[..end]).filter(|prefix| self.by_prefix.contains_key(*prefix)) {
                by_prefix.entry(prefix).or_default().push(event);
            }
        }
        for (prefix, events) in by_prefix {
            if let Some(subscribers) = self.by_prefix.get_mut(prefix) {
                subscribers.retain(|subscribed| subscribed.tell(events.iter().copied(), revision));
            }
        }
    }

    /// Ends all subscriptions.
    pub fn end(&mut self) {
        let others = std::mem::take(&mut self.others);
        let by_prefix = std::mem::take(&mut self.by_prefix).into_values().flatten();
        others.into_iter().chain(by_prefix).for_each(|subscribed| subscribed.end("the store was closed"));
    }
}

impl Subscribed {
    /// Whether the subscriber survived.
    fn tell<'a>(&self, events: impl Iterator<Item = &'a Arc<Event>>, revision: Revision) -> bool {
        let events: Vec<_> = events.filter(|event| event.revision > self.after).cloned().collect();
        if events.is_empty() {
            return true;
        }
        let batch = Batch { events, revision };
        let survived = catch_unwind(AssertUnwindSafe(|| self.subscriber.apply(&batch))).is_ok();
        if !survived {
            tracing::error!(range = ?self.range, "a subscriber panicked and was removed");
            self.end("the subscriber panicked");
        }
        survived
    }

    fn end(&self, why: &str) {
        drop(catch_unwind(AssertUnwindSafe(|| self.subscriber.end(Error::unavailable(why)))));
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Revision>>);

    impl Subscriber for Heard {
        fn apply(&self, batch: &Batch) {
            self.0.lock().extend(batch.events.iter().map(|event| event.revision));
        }

        fn end(&self, _: Error) {
            self.0.lock().push(-1);
        }
    }

    fn event(revision: Revision, key: &str) -> Arc<Event> {
        Arc::new(Event { revision, key: key.into(), entry: None, previous: None })
    }

    #[test]
    fn everyone_hears_what_is_in_their_range() {
        let mut subscribers = Subscribers::default();
        let cases = [
            (KeyRange::prefix("/pods/"), 0, vec![2, 4]),
            (KeyRange::prefix("/pods/"), 2, vec![4]),
            (KeyRange::prefix("/pods/a/"), 0, vec![2]),
            (KeyRange::prefix("/pod"), 0, vec![2, 4, 5]),
            (KeyRange::prefix("/"), 0, vec![2, 3, 4, 5]),
            (KeyRange::prefix("/secrets/"), 0, vec![3]),
            (KeyRange::all(), 0, vec![2, 3, 4, 5]),
            (KeyRange::single("/pods/"), 0, vec![]),
            (KeyRange { start: "/pods/".into(), end: Some("/pods/b".into()) }, 0, vec![2]),
            (KeyRange::prefix("/none/"), 0, vec![]),
        ];
        let heard: Vec<_> = cases
            .iter()
            .map(|(range, after, _)| {
                let heard = Arc::new(Heard::default());
                (subscribers.add(range.clone(), *after, heard.clone()), heard)
            })
            .collect();
        let events = [event(2, "/pods/a/x"), event(3, "/secrets/s"), event(4, "/pods/b"), event(5, "/podtemplates/t")];
        subscribers.deliver(&events, 5);
        for ((range, _, expected), (number, heard)) in cases.iter().zip(&heard) {
            assert_eq!(*heard.0.lock(), *expected, "{range:?}");
            heard.0.lock().clear();
            if number % 2 == 0 {
                subscribers.remove(*number);
            }
        }
        subscribers.end();
        for (number, heard) in heard {
            assert_eq!(*heard.0.lock(), if number % 2 == 0 { vec![] } else { vec![-1] });
        }
    }
}
