//! [`Decisions`]: which of the stored definitions have their names and are served, and what has to be done about it. No I/O: what is
//! seen goes in, and [`Decisions::step`] says what follows from it.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::{HashMap, HashSet};
use object::{Meta, Str, Timestamp, Value};

use crate::definition::Definition;
use crate::definitions::Status;
use crate::names::{Groups, Names};
use crate::status::{self, Condition};

/// The definitions as far as they are known. A step takes time by the sizes of the definitions it decides about, however many others there
/// are.
#[derive(Default)]
pub struct Decisions {
    known: HashMap<Str, Known>,
    groups: Groups,
    /// Definitions whose objects are being deleted.
    finalizing: HashSet<Str>,
    /// Definitions that are stored and cannot be read.
    unreadable: HashSet<Str>,
}

/// One definition, as it was stored last.
struct Known {
    definition: Definition,
    /// Its status is what it should be.
    settled: bool,
    /// The definition in the form of v1, if it was just read and has to be settled.
    object: Option<Value>,
    /// How its conversion rules were found to be, while its status does not tell.
    proven: Option<Condition>,
}

/// The parts of a definition that it is opened by: if none of them changed, it stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    uid: Str,
    /// Goes up with changes of the spec, not when the deletion begins.
    generation: i64,
    accepted: Names,
    /// An annotation, which the generation does not count.
    conversion_rules: Option<Str>,
}

/// The work that follows from a step, in this order.
#[derive(Debug, Default)]
pub struct DefinitionStep {
    /// The definitions that were decided about: what is served of each must be made from this. None: it is not served.
    pub served: BTreeMap<Str, Option<Made>>,
    /// Statuses to be written once the catalog has what is served.
    pub writes: Vec<Status>,
    /// Definitions whose objects are to be deleted then.
    pub finalize: Vec<Str>,
}

impl Decisions {
    /// Takes the names of a definition that is not stored, which no stored one gets then.
    pub fn reserve(&mut self, definition: &Definition) {
        // Without a name, it is another definition than one of the same name that is stored.
        self.groups.add(&Definition { name: Str::default(), ..definition.clone() });
    }

    /// A definition is stored like this, in the form of v1; None: what is stored cannot be read, and what was served stays.
    pub fn stored(&mut self, name: &Str, object: Option<Value>) {
        let Some(object) = object else {
            self.unreadable.insert(name.clone());
            return;
        };
        self.gone(name);
        let (definition, settled) = (Definition::read(&object), status::is_settled(&object));
        self.groups.add(&definition);
        self.known
            .insert(name.clone(), Known { definition, settled, object: (!settled).then_some(object), proven: None });
    }

    /// A definition is not stored any more.
    pub fn gone(&mut self, name: &Str) {
        self.unreadable.remove(name);
        if let Some(known) = self.known.remove(name) {
            self.groups.remove(&known.definition);
        }
    }

    /// Everything that is stored, readable or not.
    pub fn names(&self) -> impl Iterator<Item = &Str> {
        self.known.keys().chain(&self.unreadable)
    }

    pub fn definition(&self, name: &Str) -> Option<&Definition> {
        self.known.get(name).map(|known| &known.definition)
    }

    /// Whether what is stored under the name cannot be read.
    pub fn is_unreadable(&self, name: &Str) -> bool {
        self.unreadable.contains(name)
    }

    /// Those of the definitions that changed whose status does not tell about their conversion rules, to be tried before the step.
    pub fn unproven(&self, changed: &[Str]) -> Vec<(Str, Value)> {
        let object = |name: &Str| {
            let object = self.known.get(name)?.object.as_ref().filter(|object| !status::tells_of_rules(object))?;
            Some((name.clone(), object.clone()))
        };
        changed.iter().filter_map(object).collect()
    }

    /// How the conversion rules of a definition were found to be.
    pub fn proven(&mut self, name: &Str, found: Option<Condition>) {
        if let Some(known) = self.known.get_mut(name) {
            known.proven = found;
        }
    }

    /// Decides about the names of definitions that changed and of those that waited for such names. `read` reads again what was stored
    /// last.
    pub fn step(&mut self, changed: Vec<Str>, now: Timestamp, read: impl Fn(&Str) -> Option<Value>) -> DefinitionStep {
        let mut step = DefinitionStep::default();
        let mut queued: HashSet<Str> = changed.iter().cloned().collect();
        let mut queue = VecDeque::from(changed);
        while let Some(name) = queue.pop_front() {
            queued.remove(&name);
            let accepted = |known: &Known| known.definition.accepted.clone();
            let names_before = self.known.get(&name).map(accepted);
            let is_served = match self.known.get(&name) {
                Some(known) => known.settled || self.settle(&name, now, &read, &mut step.writes),
                None => false,
            };
            // Names that became free may be what another definition of the group waits for.
            if !self.known.contains_key(&name) || self.known.get(&name).map(accepted) != names_before {
                let group = name.split_once('.').map_or("", |(_, group)| group);
                let waiting = self.groups.waiting(group).filter(|other| **other != name);
                queue.extend(waiting.filter(|other| queued.insert((*other).clone())).cloned());
            }
            let definition = self.definition(&name).filter(|_| is_served);
            step.served.insert(name, definition.map(Made::of));
        }
        for name in step.served.keys() {
            match self.known.get(name) {
                None => _ = self.finalizing.remove(name),
                Some(known) if known.definition.finalizing && self.finalizing.insert(name.clone()) => {
                    step.finalize.push(name.clone());
                }
                Some(_) => {}
            }
        }
        step
    }

    /// Decides about the names and conditions of a definition and notes the status it should have; says whether it is
    /// served.
    fn settle(
        &mut self,
        name: &Str,
        now: Timestamp,
        read: impl Fn(&Str) -> Option<Value>,
        writes: &mut Vec<Status>,
    ) -> bool {
        let Some(known) = self.known.get_mut(name) else { return false };
        let Some(object) = known.object.take().or_else(|| read(name)) else { return false };
        let (before, checks_structure) = (object.field("status").clone(), status::may_lack_structure(&object));
        let named = status::with_names(object, &self.groups.taken(&known.definition), now);
        let wanted = status::with_findings(named, checks_structure, now);
        let wanted = status::with_rules(wanted, known.proven.take(), now);
        self.groups.remove(&known.definition);
        known.definition = Definition::read(&wanted);
        self.groups.add(&known.definition);
        if *wanted.field("status") != before {
            let (version, status) = (wanted.resource_version().to_string(), wanted.field("status").clone());
            writes.push(Status { name: name.clone(), version, status });
        }
        known.definition.established || status::is_true(&wanted, "NamesAccepted")
    }
}

impl Made {
    fn of(definition: &Definition) -> Made {
        Made {
            uid: definition.uid.clone(),
            generation: definition.generation,
            accepted: definition.accepted.clone(),
            conversion_rules: definition.conversion_rules.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use object::value;

    use super::*;

    const NOW: Timestamp = Timestamp { secs: 1_795_000_000, nanos: 0 };

    /// What is stored, and what the decisions see of it.
    #[derive(Default)]
    struct World {
        decisions: Decisions,
        stored: BTreeMap<Str, Value>,
        served: BTreeMap<Str, Made>,
        finalized: Vec<Str>,
        revision: u64,
        /// Steps until there was nothing left to do.
        steps: usize,
    }

    /// `NAME=PLURAL`: a client creates or changes a definition of group `g`, which asks for names after this one. `NAME-`: it is gone. `NAME!`: it is being
    /// deleted and its objects have to go first. `NAME?`: what is stored cannot be read any more.
    fn definition(name: &str, plural: &str) -> Value {
        value!({
            "metadata": {"name": name, "uid": (format!("uid-{name}")), "generation": 1},
            "spec": {
                "group": "g", "scope": "Namespaced",
                "names": {"plural": plural, "singular": (format!("{plural}-one")), "kind": (format!("Kind{plural}")), "listKind": (format!("Kind{plural}List"))},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]
            }
        })
    }

    impl World {
        fn put(&mut self, name: &Str, mut object: Value) {
            self.revision += 1;
            object.set(&["metadata", "resourceVersion"], self.revision.to_string());
            self.stored.insert(name.clone(), object);
        }

        /// Something happens to what is stored. The name of the definition that it is about.
        fn happen(&mut self, event: &str) -> Str {
            let end = event.find(['=', '-', '!', '?']).expect("an event");
            let name = Str::from(format!("{}.g", &event[..end]));
            match event.split_at(end) {
                (_, "-") => {
                    self.stored.remove(&name);
                    self.decisions.gone(&name);
                }
                (_, "?") => self.decisions.stored(&name, None),
                (_, "!") => {
                    let mut object = self.stored.get(&name).cloned().unwrap_or_else(|| definition(&name, "x"));
                    object.set(&["metadata", "deletionTimestamp"], "2026-11-20T00:00:00Z");
                    object.set(&["metadata", "finalizers"], vec![crate::finalize::FINALIZER]);
                    self.put(&name, object);
                    self.see(&name);
                }
                (_, asks) => {
                    let asked = definition(&name, &asks[1..]);
                    let mut object = self.stored.get(&name).cloned().unwrap_or_else(|| asked.clone());
                    object.set(&["spec"], asked.field("spec").clone());
                    self.put(&name, object);
                    self.see(&name);
                }
            }
            name
        }

        fn see(&mut self, name: &Str) {
            self.decisions.stored(name, self.stored.get(name).cloned());
        }

        /// Steps, and stores the statuses that are to be written, until there are none.
        fn settle(&mut self, mut changed: Vec<Str>) {
            for _ in 0..20 {
                self.steps += 1;
                let stored = &self.stored;
                let step = self.decisions.step(std::mem::take(&mut changed), NOW, |name| stored.get(name).cloned());
                for (name, made) in step.served {
                    match made {
                        Some(made) => drop(self.served.insert(name, made)),
                        None => drop(self.served.remove(&name)),
                    }
                }
                self.finalized.extend(step.finalize);
                for write in step.writes {
                    let mut object = self.stored[&write.name].clone();
                    // A status is written only to what it was made for.
                    if object.resource_version() == write.version {
                        object.set(&["status"], write.status);
                        self.put(&write.name, object);
                        self.see(&write.name);
                        changed.push(write.name);
                    }
                }
                if changed.is_empty() {
                    return;
                }
            }
            panic!("statuses are written for ever: {:?}", self.stored);
        }

        fn served(&self) -> Vec<&str> {
            self.served.keys().map(|name| name.strip_suffix(".g").unwrap()).collect()
        }

        /// No two definitions that are served have a name in common.
        fn check_names(&self) {
            let mut seen = BTreeSet::new();
            for (name, made) in &self.served {
                assert!(seen.insert(made.accepted.plural.clone()), "{name} has the plural of another definition");
            }
        }
    }

    /// Groups of events that are seen together, and what is served after each group.
    #[test]
    fn what_is_served_follows_from_what_was_seen_in_that_order() {
        for (groups, served) in [
            (&["a=x"][..], &["a"][..]),
            (&["a=x b=y"], &["a b"]),
            // The first to have a name keeps it.
            (&["a=x", "b=x"], &["a", "a"]),
            (&["b=x", "a=x"], &["b", "b"]),
            (&["b=x a=x"], &["b"]),
            // A name that becomes free goes to one that waits.
            (&["a=x", "b=x", "a-"], &["a", "a", "b"]),
            (&["a=x", "b=x c=x", "a-", "b-"], &["a", "a", "b", "c"]),
            (&["a=x b=x a-"], &["b"]),
            (&["a=x", "b=x", "a=y"], &["a", "a", "a b"]),
            (&["a=x b=y", "a=y", "b=x"], &["a b", "a b", "a b"]),
            // The same name, stored anew, is another definition and waits in its turn.
            (&["a=x", "b=x", "a- a=x"], &["a", "a", "a"]),
            (&["a=x", "b=x", "a-", "a=x"], &["a", "a", "b", "b"]),
            // What cannot be read any more keeps its names and is served as it was.
            (&["a=x", "a?", "b=x"], &["a", "a", "a"]),
            (&["a=x", "a?", "a=x"], &["a", "a", "a"]),
            (&["a=x", "a?", "a-", "b=x"], &["a", "a", "", "b"]),
            // Served until its objects are gone.
            (&["a=x", "a!", "b=x", "a-"], &["a", "a", "a", "b"]),
        ] {
            let mut world = World::default();
            for (events, expected) in groups.iter().zip(served) {
                let changed = events.split(' ').map(|event| world.happen(event)).collect();
                world.settle(changed);
                world.check_names();
                assert_eq!(world.served().join(" "), *expected, "{groups:?} at {events}");
            }
        }
    }

    #[test]
    fn objects_of_a_definition_are_deleted_once() {
        for (events, finalized) in
            [("a=x a!", 1), ("a=x a! a!", 1), ("a! a-", 1), ("a! a- a! ", 2), ("a=x a-", 0), ("a=x a? a!", 1)]
        {
            let mut world = World::default();
            for event in events.split_whitespace() {
                let changed = world.happen(event);
                world.settle(vec![changed]);
            }
            assert_eq!(world.finalized.len(), finalized, "{events}");
        }
    }

    #[test]
    fn names_of_the_program_are_no_stored_definitions() {
        let mut world = World::default();
        let mut own = Definition::read(&definition("own.g", "x"));
        own.accepted = own.requested.clone();
        world.decisions.reserve(&own);
        let changed = vec![world.happen("own=x"), world.happen("a=y")];
        world.settle(changed);
        assert_eq!(world.served(), ["a"]);
    }

    /// Whatever clients do in whatever order, and however it is cut into steps: statuses settle, no name is given twice, and nobody waits for
    /// a name that is free.
    #[test]
    fn every_order_settles() {
        let events = ["a=x", "b=x", "c=y", "b=y", "a-", "c!", "c-"];
        let mut order: Vec<usize> = (0..events.len()).collect();
        let mut count = 0;
        loop {
            for together in [1, 3] {
                let mut world = World::default();
                for group in order.chunks(together) {
                    let changed = group.iter().map(|at| world.happen(events[*at])).collect();
                    world.settle(changed);
                    world.check_names();
                }
                let has = |plural: &str| world.served.values().any(|made| made.accepted.plural == plural);
                for (name, object) in &world.stored {
                    let asked = object.at(&["spec", "names"]).str_at(&["plural"]);
                    assert!(has(asked), "{name} waits for {asked}, which is free: {order:?} by {together}");
                }
                count += 1;
            }
            if !next_order(&mut order) {
                break;
            }
        }
        assert_eq!(count, 2 * 5040);
    }

    /// The next permutation; false after the last.
    fn next_order(order: &mut [usize]) -> bool {
        let Some(at) = (1..order.len()).rev().find(|at| order[at - 1] < order[*at]) else { return false };
        let next = (at..order.len()).rev().find(|next| order[*next] > order[at - 1]).unwrap_or(at);
        order.swap(at - 1, next);
        order[at..].reverse();
        true
    }
}
