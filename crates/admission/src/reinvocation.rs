//! [`Reinvocation`]: whether mutating admission runs a second time, and for whom.
//!
//! A webhook or policy that changes the object makes the whole chain run once more: built-in plugins always, webhooks and
//! policies that ask for it and were called before the change.

use std::collections::HashSet;

use object::{Str, Value};
use parking_lot::Mutex;

/// Which plugin calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Policies,
    Webhooks,
}

/// The state of one request's mutating admission.
#[derive(Default)]
pub struct Reinvocation(Mutex<State>);

#[derive(Default)]
struct State {
    second_round: bool,
    wanted: bool,
    /// Called, and to be called again if something changes after them.
    called: HashSet<Str>,
    required: HashSet<Str>,
    /// What webhooks and policies left behind; compared before they run again.
    output: [Option<Value>; 2],
}

impl State {
    fn require(&mut self) {
        let called = std::mem::take(&mut self.called);
        self.required.extend(called);
    }
}

impl Reinvocation {
    /// Begins with the first round: an update that lost a race runs admission anew.
    pub(crate) fn begin(&self) {
        *self.0.lock() = State::default();
    }

    /// Begins the second round if one is wanted.
    pub(crate) fn begin_again(&self) -> bool {
        let mut state = self.0.lock();
        state.second_round = state.wanted;
        state.wanted
    }

    pub fn is_second_round(&self) -> bool {
        self.0.lock().second_round
    }

    /// A webhook or policy changed the object.
    pub fn changed(&self) {
        let mut state = self.0.lock();
        state.require();
        state.wanted = true;
    }

    /// A webhook or policy that is called again if something changes after it was called.
    pub fn called(&self, id: &Str) {
        self.0.lock().called.insert(id.clone());
    }

    pub fn is_required(&self, id: &str) -> bool {
        self.0.lock().required.contains(id)
    }

    /// Remembers what the webhooks or policies made of the object.
    pub fn made(&self, caller: Caller, object: &Value) {
        let mut state = self.0.lock();
        if !(state.called.is_empty() && state.required.is_empty()) {
            state.output[caller as usize] = Some(object.clone());
        }
    }

    /// Other plugins may have changed the object since the first round.
    pub fn require_if_changed(&self, caller: Caller, object: &Value) {
        let mut state = self.0.lock();
        if state.output[caller as usize].as_ref().is_some_and(|output| output != object) {
            state.require();
        }
    }
}
