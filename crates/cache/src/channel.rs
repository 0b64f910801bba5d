//! How watchers are told of events: a ring for all of them, and a lane in it for each value of the indexed field that is watched.
//!
//! Thousands of kubelets watch pods, each those of its own node. If every change woke all of them, a large cluster would do
//! little else. A lane keeps the numbers of the events that are about its value; its watchers are woken for those only.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Waker;

use storage::Revision;

use crate::Event;
use crate::ring::Ring;
use crate::wakers::{Wakers, WatchLag};

pub(crate) struct Channel {
    pub(crate) ring: Ring,
    everyone: Wakers,
    lanes: HashMap<String, Lane>,
}

struct Lane {
    /// The numbers of its events that are in the ring, and perhaps of some that have left it.
    numbers: VecDeque<u64>,
    /// There may have been others before this number.
    from: u64,
    wakers: Wakers,
}

/// Where a watcher waits: among all watchers, or in a lane.
pub(crate) struct Place {
    /// The value of the indexed field that is watched; None for all events.
    value: Option<String>,
    slot: usize,
    /// The number of the first event that its client may not have yet.
    pub(crate) position: Arc<AtomicU64>,
}

impl Channel {
    pub(crate) fn new(ring: Ring) -> Channel {
        Channel { ring, everyone: Wakers::default(), lanes: HashMap::new() }
    }

    pub(crate) fn join(&mut self, value: Option<&str>) -> Place {
        let wakers = match value {
            None => &self.everyone,
            Some(value) => {
                let from = self.ring.next();
                let new = || Lane { numbers: VecDeque::new(), from, wakers: Wakers::default() };
                &self.lanes.entry(value.to_string()).or_insert_with(new).wakers
            }
        };
        let position = Arc::new(AtomicU64::new(self.ring.next()));
        Place { slot: wakers.join(position.clone()), value: value.map(str::to_string), position }
    }

    /// How far all watchers are.
    pub(crate) fn lag(&self) -> WatchLag {
        let mut lag = WatchLag::default();
        let lanes = self.lanes.values().map(|lane| &lane.wakers);
        lanes.chain([&self.everyone]).for_each(|wakers| wakers.survey(self.ring.next(), &mut lag));
        lag
    }

    pub(crate) fn leave(&mut self, place: &Place) {
        match &place.value {
            None => _ = self.everyone.leave(place.slot),
            Some(value) => {
                if self.lanes.get(value).is_some_and(|lane| lane.wakers.leave(place.slot)) {
                    self.lanes.remove(value);
                }
            }
        }
    }

    /// Adds an event about these values of the indexed field, and collects the wakers of the watchers it concerns.
    pub(crate) fn push<'v>(
        &mut self,
        event: Arc<Event>,
        values: impl Iterator<Item = &'v str>,
        woken: &mut Vec<Waker>,
    ) {
        let number = self.ring.next();
        self.ring.push(event);
        self.everyone.take(woken);
        for value in values {
            if let Some(lane) = self.lanes.get_mut(value) {
                lane.push(number, self.ring.first());
                lane.wakers.take(woken);
            }
        }
    }

    /// Events up to `revision` were missed: all watchers have to read the store's log.
    pub(crate) fn reset(&mut self, revision: Revision, woken: &mut Vec<Waker>) {
        self.ring.reset(revision);
        self.everyone.take(woken);
        for lane in self.lanes.values_mut() {
            lane.numbers.clear();
            lane.from = self.ring.first();
            lane.wakers.take(woken);
        }
    }

    /// Gives events from number `next` on to `take`, until that wants no more, and returns the number to go on with. A watcher that gets none
    /// is woken when there are some. None if events have left the ring that should have been read.
    pub(crate) fn read(
        &self,
        place: &Place,
        next: u64,
        waker: &Waker,
        mut take: impl FnMut(&Arc<Event>) -> ControlFlow<()>,
    ) -> Option<u64> {
        let lane = place.value.as_ref().and_then(|value| self.lanes.get(value));
        let mut position = self.ring.next();
        let mut taken = 0;
        match lane.filter(|lane| next >= lane.from) {
            Some(lane) => {
                let start = lane.numbers.partition_point(|number| *number < next);
                for number in lane.numbers.range(start..) {
                    taken += 1;
                    if take(self.ring.get(*number)?).is_break() {
                        position = *number + 1;
                        break;
                    }
                }
            }
            None => {
                for event in self.ring.from(next)? {
                    taken += 1;
                    if take(event).is_break() {
                        position = next + taken as u64;
                        break;
                    }
                }
            }
        }
        if taken == 0 {
            lane.map_or(&self.everyone, |lane| &lane.wakers).wait(place.slot, waker);
        }
        Some(position)
    }
}

impl Lane {
    fn push(&mut self, number: u64, first: u64) {
        while let Some(gone) = self.numbers.pop_front_if(|number| *number < first) {
            self.from = gone + 1;
        }
        self.numbers.push_back(number);
    }
}
