//! Creating an object.

use async_trait::async_trait;
use futures::future::BoxFuture;
use object::timestamp::Time;
use object::{Cursor, Errors, Meta, Status, Value};
use rand::Rng;

use crate::{Context, Error, ResourceStorage, Taken, Undo, metadata};

/// How often a taken generated name is replaced by another before giving up.
const GENERATE_NAME_TRIES: usize = 8;
/// Names that are generated are cut so that the random end fits into what every kind allows.
const GENERATED_BASE_MAX: usize = 58;
const GENERATED_SUFFIX: usize = 5;

/// Validating admission, which runs after everything else and before the write.
#[async_trait]
pub trait Admit: Send + Sync {
    /// `old` is None for a creation, `new` is None for a deletion.
    async fn validate(&self, new: Option<&Value>, old: Option<&Value>) -> Result<(), Status>;

    /// Adds a warning to the response.
    fn warn(&self, _warning: String) {}
}

/// Admits everything.
pub struct AdmitAll;

#[async_trait]
impl Admit for AdmitAll {
    async fn validate(&self, _: Option<&Value>, _: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }
}

/// What a write did.
#[derive(Debug)]
pub struct Outcome {
    /// The object as it is now (as it was, for a deletion), in the storage version.
    pub object: Value,
    pub created: bool,
    pub warnings: Vec<String>,
}

impl ResourceStorage {
    /// Stores a new object.
    pub fn create<'a>(
        &'a self,
        cx: &'a Context<'a>,
        object: Value,
        admit: &'a dyn Admit,
    ) -> BoxFuture<'a, Result<Outcome, Error>> {
        Box::pin(async move {
            if !object.name().is_empty() || object.generate_name().is_empty() {
                return self.create_named(cx, object, admit).await;
            }
            for _ in 1..GENERATE_NAME_TRIES {
                match self.create_named(cx, object.clone(), admit).await {
                    Err(Error::AlreadyExists { .. }) => {}
                    result => return result,
                }
            }
            self.create_named(cx, object, admit).await
        })
    }

    async fn create_named(&self, cx: &Context<'_>, mut object: Value, admit: &dyn Admit) -> Result<Outcome, Error> {
        let has_prefix = !object.generate_name().is_empty();
        if object.name().is_empty() && has_prefix {
            let base = object.generate_name();
            let name = if self.strategy.generates_names() { generate_name(base) } else { base.to_string() };
            object.set_meta_str("name", &name);
        }
        let (warnings, undo) = self.before_create(cx, &mut object, admit).await?;
        let mut stored = self.store_new(cx, &mut object).await;
        // Upstream drops managedFields from an object that is too large, and tries again.
        let is_too_large = matches!(stored, Err(Error::Store { error: storage::Error::TooLarge { .. }, .. }));
        if is_too_large && object.metadata_mut().remove("managedFields").is_some() {
            stored = self.store_new(cx, &mut object).await;
        }
        match stored {
            Ok(object) => {
                if let Some(undo) = undo {
                    undo.commit().await;
                }
                Ok(Outcome { object, created: true, warnings })
            }
            Err(error) => {
                if let Some(undo) = undo {
                    undo.undo().await;
                }
                Err(if has_prefix { as_generated(error) } else { error })
            }
        }
    }

    /// Everything between a decoded object and its bytes.
    pub(crate) async fn before_create(
        &self,
        cx: &Context<'_>,
        object: &mut Value,
        admit: &dyn Admit,
    ) -> Result<(Vec<String>, Option<Box<dyn Undo>>), Error> {
        let strategy = &self.strategy;
        let created = Time(cx.now).to_string();
        // The thread's generator, since asking the kernel for each object takes a system call.
        let uid = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
        object.set_meta_str("uid", &uid.to_string());
        object.set_meta_str("creationTimestamp", &created);
        self.ensure_namespace(cx, object)?;
        if strategy.counts_generations() {
            object.set_generation(1);
        }
        if strategy.has_status() && !strategy.keeps_status_on_create() {
            object.remove(&["status"]);
        }
        let early = strategy.early_warnings(cx, object);
        // Clients are warned even if the write fails after all.
        early.iter().for_each(|warning| admit.warn(warning.clone()));
        let undo = strategy.begin_create(cx, object).await?;
        strategy.prepare_create(cx, object);
        let checked = self.check_new(cx, object, admit).await;
        match checked {
            Ok(warnings) => Ok((early.into_iter().chain(warnings).collect(), undo)),
            Err(error) => {
                if let Some(undo) = undo {
                    undo.undo().await;
                }
                Err(error)
            }
        }
    }

    async fn check_new(&self, cx: &Context<'_>, object: &mut Value, admit: &dyn Admit) -> Result<Vec<String>, Error> {
        let mut errors = self.errors_in_new(cx, object);
        if errors.is_empty() {
            metadata::validate_path_segments(&Cursor::root(object), &mut errors);
        }
        if !errors.is_empty() {
            errors.dedup();
            return Err(self.invalid(object.name(), errors));
        }
        let warnings = self.strategy.warnings(cx, object, None);
        warnings.iter().for_each(|warning| admit.warn(warning.clone()));
        self.strategy.canonicalize(object);
        admit.validate(Some(object), None).await?;
        Ok(warnings)
    }

    fn errors_in_new(&self, cx: &Context<'_>, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let cursor = Cursor::root(object);
        let check_name = |name: &str, prefix: bool| self.strategy.validate_name_of(cx, object, name, prefix);
        self.strategy.authorize_create(cx, &cursor, &mut errors);
        if !self.strategy.checks_metadata_last() {
            metadata::validate(&cursor, self.namespaced, &check_name, &mut errors);
            if self.strategy.checks_finalizer_names() {
                metadata::validate_finalizer_names(&cursor, &mut errors);
            }
        }
        self.strategy.validate(cx, &cursor, &mut errors);
        if self.strategy.checks_metadata_last() && errors.is_empty() {
            metadata::validate(&cursor, self.namespaced, &check_name, &mut errors);
        }
        errors
    }

    /// [`ensure_namespace`] for what mutating admission left.
    pub(crate) fn ensure_namespace(&self, cx: &Context<'_>, object: &mut Value) -> Result<(), Error> {
        Ok(ensure_namespace(object, if self.namespaced { cx.namespace } else { "" })?)
    }

    /// Stores an object under a new key, and returns it as it is stored. If the store fails the object is as it was.
    pub(crate) async fn store_new(&self, cx: &Context<'_>, object: &mut Value) -> Result<Value, Error> {
        // Upstream overlooks a version that is no number.
        if object::parse_uint(object.resource_version()).is_ok_and(|version| version != 0) && !cx.dry_run {
            return Err(Error::Failed("resourceVersion should not be set on objects to be created".into()));
        }
        let name = object.name().to_string();
        let key = self.key(object.namespace(), &name);
        let (version, ttl) = (object.resource_version().to_string(), self.strategy.time_to_live(object));
        let (bytes, mut stored) = self.encoded(std::mem::take(object), 0).await?;
        if cx.dry_run {
            return match self.cache.get(&key) {
                Some(existing) => Err(self.already_exists(&name, existing.entry()).await),
                None => {
                    stored.set_meta_str("resourceVersion", &version);
                    Ok(stored)
                }
            };
        }
        match self.store.create(key, bytes, ttl).await {
            Ok(written) => Ok(at_revision(stored, written.revision)),
            Err(storage::Error::KeyExists(entry)) => Err(self.already_exists(&name, &entry).await),
            Err(error) => {
                *object = stored;
                Err(self.store_failed(error, "create", &name))
            }
        }
    }

    async fn already_exists(&self, name: &str, entry: &storage::Entry) -> Error {
        // Without a conversion the object cannot be read, and the answer says less.
        let _prepared = self.prepare(std::iter::once(&entry.value)).await;
        let is_deleting = self.decode_entry(entry).is_ok_and(|existing| existing.is_deleting());
        let taken = if is_deleting { Taken::ByDeleted } else { Taken::ByObject };
        Error::AlreadyExists { resource: self.resource.clone(), name: name.to_string(), taken }
    }

    pub(crate) fn invalid(&self, name: &str, errors: Errors) -> Error {
        Error::Invalid { kind: self.kind.group_kind(), name: name.to_string(), errors }
    }
}

/// Removes the fields that only the server sets. Called once for a creation: by the verb for what a client sent, and by
/// [`ResourceStorage::update`] where an update turns out to be a creation.
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

fn as_generated(error: Error) -> Error {
    match error {
        Error::AlreadyExists { resource, name, .. } => Error::AlreadyExists { resource, name, taken: Taken::Generated },
        other => other,
    }
}

/// The base and five random characters, without vowels so that they spell nothing.
fn generate_name(base: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut cut = base.len().min(GENERATED_BASE_MAX);
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    let mut name = base[..cut].to_string();
    let mut random = rand::rng();
    name.extend((0..GENERATED_SUFFIX).map(|_| ALPHABET[random.random_range(0..ALPHABET.len())] as char));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_fit() {
        let name = generate_name(&"é".repeat(60));
        assert!(name.len() <= GENERATED_BASE_MAX + GENERATED_SUFFIX);
        assert_eq!(generate_name("web-").len(), 9);
        assert_ne!(generate_name("web-"), generate_name("web-"));
    }
}
