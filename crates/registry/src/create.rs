//! Creating an object.

use std::sync::Arc;

use cache::Object;
use futures::future::BoxFuture;
use object::timestamp::Time;
use object::{Cursor, Errors, Meta, Randomness, Status, Value};

use crate::reserved::Reserved;
use crate::write::{Attempt, Draft};
use crate::{Context, Error, ResourceStorage, Taken, metadata};

/// How often a taken generated name is replaced by another before giving up.
const GENERATE_NAME_TRIES: usize = 8;
/// Names that are generated are cut so that the random end fits into what every kind allows.
const GENERATED_BASE_MAX: usize = 58;

/// A new object on its way to the store, under one name after another where the server makes up the name.
pub struct Creation<'a> {
    storage: &'a ResourceStorage,
    cx: &'a Context<'a>,
    object: Value,
    has_prefix: bool,
    names_left: usize,
}

impl Creation<'_> {
    /// Gives the object the next name and what else the server sets, reserves what it needs, and checks it by the rules of its kind.
    pub fn check(&mut self) -> BoxFuture<'_, Result<Draft, Error>> {
        self.names_left = self.names_left.saturating_sub(1);
        let object = if self.names_left == 0 { std::mem::take(&mut self.object) } else { self.object.clone() };
        Box::pin(self.storage.draft(self.cx, object))
    }

    /// Stores the draft if it was admitted; None if its generated name is taken and another can be tried. What was reserved for a
    /// draft that is not stored is given back before this returns.
    pub fn commit(
        &mut self,
        draft: Draft,
        admitted: Result<(), Status>,
    ) -> BoxFuture<'_, Result<Option<Value>, Error>> {
        Box::pin(async move {
            let Draft { object, reserved, .. } = draft.admitted(admitted).await?;
            let name = object.name().to_string();
            let written = self.send(object).await;
            reserved.settle(&written).await;
            match written? {
                Attempt::Done(stored) => Ok(Some(stored)),
                Attempt::Lost(_) if self.names_left > 0 => Ok(None),
                Attempt::Lost(taken) => Err(self.already_exists(name, taken.as_ref()).await),
            }
        })
    }

    async fn send(&self, object: Value) -> Result<Attempt<Value>, Error> {
        // Upstream overlooks a version that is no number.
        if object::parse_uint(object.resource_version()).is_ok_and(|version| version != 0) && !self.cx.dry_run {
            return Err(Error::Failed("resourceVersion should not be set on objects to be created".into()));
        }
        self.storage.put(self.cx, object, None, true, "create", true).await
    }

    async fn already_exists(&self, name: String, existing: Option<&Arc<Object>>) -> Error {
        let storage = self.storage;
        let taken = match existing {
            _ if self.has_prefix => Taken::Generated,
            None => Taken::ByObject,
            Some(stored) => {
                let existing = storage.load(stored).await.map_err(|why| storage.unreadable(stored.entry(), why));
                if existing.is_ok_and(|existing| existing.is_deleting()) { Taken::ByDeleted } else { Taken::ByObject }
            }
        };
        Error::AlreadyExists { resource: storage.resource.clone(), name, taken }
    }
}

impl ResourceStorage {
    /// Begins to create an object.
    pub fn begin_new<'a>(&'a self, cx: &'a Context<'a>, object: Value) -> Creation<'a> {
        let has_prefix = !object.generate_name().is_empty();
        let names_left = if has_prefix && object.name().is_empty() { GENERATE_NAME_TRIES } else { 1 };
        Creation { storage: self, cx, object, has_prefix, names_left }
    }

    /// Creates an object that no admission has to see, because the server makes it for itself.
    pub async fn create(&self, cx: &Context<'_>, object: Value) -> Result<Value, Error> {
        let mut creation = self.begin_new(cx, object);
        loop {
            let draft = creation.check().await?;
            if let Some(stored) = creation.commit(draft, Ok(())).await? {
                return Ok(stored);
            }
        }
    }

    /// A new object, complete and valid, with what it needs reserved.
    pub(crate) async fn draft(&self, cx: &Context<'_>, mut object: Value) -> Result<Draft, Error> {
        let (strategy, facts) = (&self.strategy, self.strategy.facts());
        let base = object.generate_name();
        if object.name().is_empty() && !base.is_empty() {
            let name = if facts.generates_names { generate_name(base, cx.randomness) } else { base.to_string() };
            object.set_meta_str("name", &name);
        }
        match cx.new_uid {
            "" => object.set_meta_str("uid", &cx.randomness.uuid()),
            uid => object.set_meta_str("uid", uid),
        }
        object.set_meta_str("creationTimestamp", &Time(cx.now).to_string());
        self.ensure_namespace(cx, &mut object)?;
        if facts.generation.is_some() {
            object.set_generation(1);
        }
        if facts.has_status && !facts.keeps_status_on_create {
            object.remove(&["status"]);
        }
        let reserved = Reserved::new(strategy.begin_create(cx, &mut object).await?);
        strategy.prepare_create(cx, &mut object);
        let errors = self.errors_in_new(cx, &object);
        if !errors.is_empty() {
            reserved.give_back().await;
            return Err(self.invalid(object.name(), errors));
        }
        cx.warn(strategy.warnings(cx, &object, None));
        strategy.canonicalize(&mut object);
        Ok(Draft { object, reserved, is_last: false })
    }

    fn errors_in_new(&self, cx: &Context<'_>, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let (facts, cursor) = (self.strategy.facts(), Cursor::root(object));
        let check_name = |name: &str, prefix: bool| self.strategy.validate_name(cx, object, name, prefix);
        self.strategy.authorize_create(cx, &cursor, &mut errors);
        if !facts.checks_metadata_last {
            metadata::validate(&cursor, self.namespaced, &check_name, &mut errors);
            if facts.checks_finalizer_names {
                metadata::validate_finalizer_names(&cursor, &mut errors);
            }
        }
        self.strategy.validate(cx, &cursor, &mut errors);
        if facts.checks_metadata_last && errors.is_empty() {
            metadata::validate(&cursor, self.namespaced, &check_name, &mut errors);
        }
        if errors.is_empty() {
            metadata::validate_path_segments(&cursor, &mut errors);
        }
        errors.dedup();
        errors
    }

    /// [`ensure_namespace`] for what mutating admission left.
    pub(crate) fn ensure_namespace(&self, cx: &Context<'_>, object: &mut Value) -> Result<(), Error> {
        Ok(ensure_namespace(object, if self.namespaced { cx.namespace } else { "" })?)
    }

    pub(crate) fn invalid(&self, name: &str, errors: Errors) -> Error {
        Error::Invalid { kind: self.kind.group_kind(), name: name.to_string(), errors }
    }
}

/// Removes the fields that only the server sets. Called once for a creation: by the verb for what a client sent, and by
/// [`Write::check`](crate::Write::check) where an update turns out to be a creation.
pub fn wipe_system_fields(object: &mut Value) {
    let metadata = object.metadata_mut();
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "uid", "creationTimestamp"] {
        metadata.remove(field);
    }
}

/// Sets an object's namespace to the one in the path, "" for cluster-scoped resources; refuses it if it has another.
///
/// As upstream does, every write calls this twice: the verb before mutating admission, because plugins and webhooks read the
/// namespace and a wrong one is refused before they are called, and the registry after it, because a webhook may change it.
pub fn ensure_namespace(object: &mut Value, wanted: &str) -> Result<(), Status> {
    let given = object.namespace();
    if given == wanted {
        return Ok(());
    }
    if !given.is_empty() && !wanted.is_empty() {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object.set_meta_str("namespace", wanted);
    Ok(())
}

/// The object under the revision that clients know it by.
pub fn at_revision(mut object: Value, revision: storage::Revision) -> Value {
    object.set_meta_str("resourceVersion", &revision.to_string());
    object
}

/// The base and five random characters.
fn generate_name(base: &str, randomness: &dyn Randomness) -> String {
    let mut cut = base.len().min(GENERATED_BASE_MAX);
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{}", &base[..cut], randomness.name_suffix())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_fit() {
        let randomness = object::SeededRandomness::new(1);
        let generate = |base: &str| generate_name(base, &randomness);
        assert!(generate(&"é".repeat(60)).len() <= GENERATED_BASE_MAX + object::NAME_SUFFIX_CHARACTERS);
        assert_eq!(generate("web-").len(), 9);
        assert_ne!(generate("web-"), generate("web-"));
    }
}
