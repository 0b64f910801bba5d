//! Is there one order of all operations that explains every answer? After Wing and Gong.
//!
//! Clients record when an operation began and ended and what it answered. Per key we search for an order in which
//! each operation takes effect between its beginning and its end and the answers are those of a plain register. The search
//! tries what may come first, and remembers which sets of operations it has already ordered to which state, so that it
//! does not walk the same way twice. Histories must be short (a few hundred operations a key), which they are.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rand::{Rng, SeedableRng};

use super::text;
use crate::{Change, Error, Expect, Key, Revision, Store, Write, Written};

/// The value's number and the revision it was written at.
type Register = Option<(u64, Revision)>;

#[derive(Clone, Debug)]
pub enum Call {
    Get,
    Create(u64),
    Update(u64, Revision),
    /// Writes whatever is there.
    Put(u64),
    Delete(Option<Revision>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A read's result.
    Read(Register),
    /// The write happened at this revision.
    Done(Revision),
    /// The write happened, at a revision that the answer does not tell.
    Happened,
    /// The precondition failed and this was there.
    Refused(Register),
    /// The precondition failed; the answer does not tell what was there.
    Conflicted,
    /// The write may or may not have happened.
    Unknown,
    /// The store could not do it, and said that it did not.
    NotDone,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub key: String,
    pub call: Call,
    pub answer: Answer,
    pub began: u64,
    pub ended: u64,
}

/// Runs operations against a store and writes down what happened when.
#[derive(Default)]
pub struct Recorder {
    clock: AtomicU64,
    values: AtomicU64,
    operations: Mutex<Vec<Operation>>,
}

impl Recorder {
    pub fn history(&self) -> Vec<Operation> {
        self.operations.lock().clone()
    }

    /// Random operations on few keys, so that they get in each other's way.
    pub async fn drive(&self, store: &Arc<dyn Store>, client: u64, count: usize) {
        let mut random = rand::rngs::StdRng::seed_from_u64(client);
        let mut known: BTreeMap<String, Revision> = BTreeMap::new();
        for _ in 0..count {
            let key = format!("/linear/{}", random.random_range(0..3));
            let value = self.values.fetch_add(1, Ordering::SeqCst);
            let call = match (random.random_range(0..11), known.get(&key)) {
                (0..3, _) => Call::Get,
                (3..5, _) | (5..8, None) => Call::Create(value),
                (5..8, Some(revision)) => Call::Update(value, *revision),
                (8, Some(revision)) => Call::Delete(Some(*revision)),
                (9, _) => Call::Put(value),
                _ => Call::Delete(None),
            };
            let answer = self.run(store, key.clone(), call).await;
            match answer {
                Answer::Done(revision) | Answer::Read(Some((_, revision))) | Answer::Refused(Some((_, revision))) => {
                    known.insert(key, revision);
                }
                _ => {}
            }
        }
    }

    pub async fn run(&self, store: &Arc<dyn Store>, key: String, call: Call) -> Answer {
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let at = Key::from(key.as_str());
        let answer = match &call {
            Call::Get => match store.get(&at, None).await {
                Ok(found) => Answer::Read(found.entry.as_deref().map(register)),
                Err(other) => panic!("{other:?}"),
            },
            Call::Create(value) => answer(store.create(at, text(value), None).await),
            Call::Update(value, expected) => answer(store.update(at, text(value), *expected, None).await),
            Call::Put(value) => {
                let change = Change::Put { value: text(value), ttl: None };
                answer(store.write(Write { key: at, change, expect: Expect::Any }).await)
            }
            Call::Delete(expected) => answer(store.delete(at, *expected).await),
        };
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        self.operations.lock().push(Operation { key, call, answer: answer.clone(), began, ended });
        answer
    }
}

fn register(entry: &crate::Entry) -> (u64, Revision) {
    (String::from_utf8_lossy(&entry.value).parse().expect("values are numbers"), entry.mod_revision)
}

fn answer(result: Result<Written, Error>) -> Answer {
    match result {
        Ok(written) => Answer::Done(written.revision),
        Err(Error::KeyExists(entry) | Error::Conflict(entry)) => Answer::Refused(Some(register(&entry))),
        Err(Error::NotFound) => Answer::Refused(None),
        Err(Error::OutcomeUnknown(_)) => Answer::Unknown,
        Err(Error::Unavailable(_)) => Answer::NotDone,
        Err(other) => panic!("{other:?}"),
    }
}

/// Complains if no order explains the history.
pub fn check(history: &[Operation]) -> Result<(), String> {
    revisions_in_real_time(history)?;
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in history.iter().filter(|operation| operation.answer != Answer::NotDone) {
        keys.entry(&operation.key).or_default().push(operation);
    }
    for (key, mut operations) in keys {
        operations.sort_by_key(|operation| operation.began);
        if !explainable(&operations) {
            let lines: Vec<_> = operations.iter().map(|operation| format!("{operation:?}")).collect();
            return Err(format!("no order explains the history of {key}:\n{}", lines.join("\n")));
        }
    }
    Ok(())
}

/// Revisions are unique, and grow in real time over all keys.
fn revisions_in_real_time(history: &[Operation]) -> Result<(), String> {
    let mut writes: Vec<(Revision, &Operation)> = history
        .iter()
        .filter_map(|operation| match operation.answer {
            Answer::Done(revision) => Some((revision, operation)),
            _ => None,
        })
        .collect();
    writes.sort_by_key(|(revision, _)| *revision);
    let mut latest_began = 0;
    for (index, (revision, operation)) in writes.iter().enumerate() {
        if index > 0 && writes[index - 1].0 == *revision {
            return Err(format!("revision {revision} was given twice: {operation:?}"));
        }
        if operation.ended < latest_began {
            return Err(format!("revision {revision} came after a greater one: {operation:?}"));
        }
        latest_began = latest_began.max(operation.began);
    }
    Ok(())
}

/// A depth-first search over sets of operations that have taken effect.
fn explainable(operations: &[&Operation]) -> bool {
    let mut seen: HashSet<(Vec<u64>, Register)> = HashSet::new();
    let mut stack = vec![(vec![0u64; operations.len().div_ceil(64)], None)];
    while let Some((done, state)) = stack.pop() {
        let is_done = |index: usize| done[index / 64] >> (index % 64) & 1 == 1;
        // What is unknown may never happen, so it need not be placed.
        let rest = || (0..operations.len()).filter(|index| !is_done(*index));
        if rest().all(|index| operations[index].answer == Answer::Unknown) {
            return true;
        }
        // Only an operation that began before all others of the rest ended can be the next.
        let horizon = rest().map(|index| end_of(operations[index])).min().unwrap_or(u64::MAX);
        for index in rest().take_while(|index| operations[*index].began <= horizon) {
            if let Some(next) = apply(state, operations[index]) {
                let mut done = done.clone();
                done[index / 64] |= 1 << (index % 64);
                if seen.insert((done.clone(), next)) {
                    stack.push((done, next));
                }
            }
        }
    }
    false
}

fn end_of(operation: &Operation) -> u64 {
    if operation.answer == Answer::Unknown { u64::MAX } else { operation.ended }
}

/// The register after the operation took effect in this state, if its answer is possible there.
fn apply(state: Register, operation: &Operation) -> Option<Register> {
    let after = |revision| match operation.call {
        Call::Create(value) | Call::Update(value, _) | Call::Put(value) => Some((value, revision)),
        Call::Get | Call::Delete(_) => None,
    };
    match &operation.answer {
        Answer::Read(seen) => pinned(state, *seen),
        Answer::Refused(seen) => pinned(state, *seen).filter(|state| !allowed(*state, &operation.call)),
        // A revision at or before the one that is there would be a step back in the log.
        Answer::Done(revision) => {
            let forward = state.is_none_or(|(_, current)| current < *revision);
            (forward && allowed(state, &operation.call)).then(|| after(*revision))
        }
        Answer::Unknown | Answer::Happened => allowed(state, &operation.call).then(|| after(UNSEEN)),
        Answer::Conflicted => conflicts(state, &operation.call).then_some(state),
        Answer::NotDone => Some(state),
    }
}

/// The revision of a write whose answer was lost, until a read shows what it wrote.
const UNSEEN: Revision = 0;

fn allowed(state: Register, call: &Call) -> bool {
    let at = |expected: Revision| state.is_some_and(|(_, current)| current == expected || current == UNSEEN);
    match call {
        Call::Get | Call::Put(_) => true,
        Call::Create(_) => state.is_none(),
        Call::Update(_, expected) => at(*expected),
        Call::Delete(expected) => expected.map_or(state.is_some(), at),
    }
}

/// Whether a precondition can have failed; a revision that is not known may be another than the expected one.
fn conflicts(state: Register, call: &Call) -> bool {
    match call {
        Call::Get | Call::Delete(None) => false,
        // Another write came between every time that it was tried.
        Call::Put(_) => true,
        Call::Create(_) => state.is_some(),
        Call::Update(_, expected) | Call::Delete(Some(expected)) => {
            state.is_some_and(|(_, current)| current != *expected)
        }
    }
}

/// The state if this is what it looks like; the first look tells the revision of an unknown write.
fn pinned(state: Register, seen: Register) -> Option<Register> {
    match (state, seen) {
        (Some((value, UNSEEN)), Some((same, _))) if value == same => Some(seen),
        _ => (state == seen).then_some(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(began: u64, ended: u64, call: Call, answer: Answer) -> Operation {
        Operation { key: "/k".into(), call, answer, began, ended }
    }

    #[test]
    fn histories_that_can_be_explained_and_others() {
        use Answer::{Done, Read, Refused};
        use Call::{Create, Delete, Get, Put, Update};
        let cases = [
            ("nothing happened", true, vec![op(0, 1, Get, Read(None))]),
            (
                "a read during a write may see either",
                true,
                vec![
                    op(0, 9, Create(1), Done(5)),
                    op(1, 2, Get, Read(None)),
                    op(3, 4, Get, Read(Some((1, 5)))),
                    op(5, 6, Get, Read(Some((1, 5)))),
                ],
            ),
            (
                "but not go back",
                false,
                vec![op(0, 9, Create(1), Done(5)), op(1, 2, Get, Read(Some((1, 5)))), op(3, 4, Get, Read(None))],
            ),
            ("a stale read", false, vec![op(0, 1, Create(1), Done(5)), op(2, 3, Get, Read(None))]),
            ("two creators", false, vec![op(0, 3, Create(1), Done(5)), op(1, 2, Create(2), Done(6))]),
            (
                "two creators and a deletion between",
                true,
                vec![op(0, 5, Create(1), Done(5)), op(1, 6, Create(2), Done(7)), op(2, 7, Delete(None), Done(6))],
            ),
            (
                "a write of whatever is there",
                true,
                vec![
                    op(0, 1, Put(1), Done(5)),
                    op(2, 5, Put(2), Done(7)),
                    op(3, 4, Update(3, 5), Done(6)),
                    op(6, 7, Get, Read(Some((2, 7)))),
                ],
            ),
            (
                "a write of whatever is there that is lost",
                false,
                vec![op(0, 1, Create(1), Done(5)), op(2, 3, Put(2), Done(6)), op(4, 5, Get, Read(Some((1, 5))))],
            ),
            (
                "a lost update",
                false,
                vec![op(0, 1, Create(1), Done(5)), op(2, 5, Update(2, 5), Done(6)), op(3, 6, Update(3, 5), Done(7))],
            ),
            (
                "a refusal shows what is there",
                true,
                vec![
                    op(0, 1, Create(1), Done(5)),
                    op(2, 5, Update(2, 5), Done(6)),
                    op(3, 6, Update(3, 5), Refused(Some((2, 6)))),
                ],
            ),
            (
                "a refusal without reason",
                false,
                vec![op(0, 1, Create(1), Done(5)), op(2, 3, Update(2, 5), Refused(Some((1, 5))))],
            ),
            (
                "a refusal that shows the past",
                false,
                vec![
                    op(0, 1, Create(1), Done(5)),
                    op(2, 3, Update(2, 5), Done(6)),
                    op(4, 5, Create(3), Refused(Some((1, 5)))),
                ],
            ),
            (
                "a conflict that does not tell with what",
                true,
                vec![
                    op(0, 1, Create(1), Done(5)),
                    op(2, 5, Update(2, 5), Done(6)),
                    op(3, 6, Update(3, 5), Answer::Conflicted),
                    op(7, 8, Delete(Some(6)), Answer::Happened),
                    op(9, 10, Get, Read(None)),
                ],
            ),
            (
                "a conflict with nothing",
                false,
                vec![op(0, 1, Create(1), Done(5)), op(2, 3, Update(2, 5), Answer::Conflicted)],
            ),
            (
                "a deletion that left something",
                false,
                vec![
                    op(0, 1, Create(1), Done(5)),
                    op(2, 3, Delete(None), Answer::Happened),
                    op(4, 5, Get, Read(Some((1, 5)))),
                ],
            ),
            (
                "an unknown write that never happened",
                true,
                vec![op(0, 1, Create(1), Answer::Unknown), op(2, 3, Get, Read(None))],
            ),
            (
                "a write that was said not to be done",
                true,
                vec![op(0, 1, Create(1), Answer::NotDone), op(2, 3, Get, Read(None))],
            ),
            ("and was done", false, vec![op(0, 1, Create(1), Answer::NotDone), op(2, 3, Get, Read(Some((1, 5))))]),
            (
                "an unknown deletion that happened late",
                true,
                vec![
                    op(0, 1, Create(1), Done(5)),
                    op(2, 3, Delete(None), Answer::Unknown),
                    op(4, 5, Get, Read(Some((1, 5)))),
                    op(6, 7, Get, Read(None)),
                ],
            ),
            ("a deletion nobody made", false, vec![op(0, 1, Create(1), Done(5)), op(4, 5, Get, Read(None))]),
            (
                "an unknown write that was seen",
                true,
                vec![
                    op(0, 1, Create(1), Answer::Unknown),
                    op(2, 3, Get, Read(Some((1, 5)))),
                    op(4, 5, Update(2, 5), Done(6)),
                    op(6, 7, Get, Read(Some((2, 6)))),
                ],
            ),
            (
                "an unknown write that was seen at two revisions",
                false,
                vec![
                    op(0, 1, Create(1), Answer::Unknown),
                    op(2, 3, Get, Read(Some((1, 5)))),
                    op(4, 5, Get, Read(Some((1, 6)))),
                ],
            ),
            ("a revision given twice", false, vec![op(0, 1, Create(1), Done(5)), op(2, 3, Delete(None), Done(5))]),
            (
                "a revision that runs backwards",
                false,
                vec![op(0, 1, Create(1), Done(5)), op(2, 3, Delete(None), Done(4))],
            ),
        ];
        for (name, expected, history) in cases {
            let result = check(&history);
            assert_eq!(result.is_ok(), expected, "{name}: {result:?}");
        }
    }
}
