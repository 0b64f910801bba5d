//! [`ObjectReader`]: stored objects as the parameters of a request see them: in the requested version, and no more of them than is asked for.

use std::sync::Arc;

use object::{Meta, Status, Str, Value};
use registry::{DirectStorage, Error, Readable, Resource};

use super::redact::redact;
use crate::scope::Scope;

/// How a request reads objects.
#[derive(Clone)]
pub struct ObjectReader {
    resource: Arc<Resource>,
    /// The paths that are decoded, where that does without the rest; None for whole objects.
    paths: Option<(DirectStorage, Vec<Str>)>,
    /// Whether values of Secrets are not for the request.
    redacts: bool,
}

impl ObjectReader {
    /// `paths` are all that will be looked at; None if that is not known.
    pub fn new(scope: &Scope, paths: Option<Vec<Str>>) -> ObjectReader {
        let redacts = scope.redacts;
        let paths = paths.filter(|_| !redacts).and_then(|paths| cheap_paths(&scope.resource, paths));
        ObjectReader { resource: scope.resource.clone(), paths, redacts }
    }

    /// Whole objects of a resource.
    pub fn whole(resource: Arc<Resource>, redacts: bool) -> ObjectReader {
        ObjectReader { resource, paths: None, redacts }
    }

    /// The object; None if it cannot be read.
    pub fn read(&self, object: Readable<'_>) -> Result<Option<Value>, Error> {
        let Some(storage) = &self.resource.storage else { return Ok(None) };
        if let Some((storage, paths)) = &self.paths {
            return Ok(storage.read_paths(object.entry(), paths).ok());
        }
        let Ok(stored) = storage.read(object) else { return Ok(None) };
        let mut shown = self.resource.from_storage(stored).map_err(Status::internal)?;
        shown.set_type(&self.resource.kind);
        if self.redacts {
            redact(&mut shown);
        }
        Ok(Some(shown))
    }

    /// The object, or the error of a list that it might be in.
    pub fn must_read(&self, object: Readable<'_>) -> Result<Value, Error> {
        match (self.read(object)?, &self.resource.storage) {
            (Some(read), _) => Ok(read),
            (None, Some(storage)) => Err(storage.decode(object).err().unwrap_or_else(unreadable)),
            (None, None) => Err(unreadable()),
        }
    }

    /// Namespace and name of an object, as messages show them.
    pub fn name(&self, object: Readable<'_>) -> String {
        let key = object.key().to_string();
        let prefix = self.resource.storage.as_ref().map_or("", |storage| storage.prefix.as_str());
        key.strip_prefix(prefix).unwrap_or(&key).to_string()
    }
}

/// The paths, if they are cheap to have: metadata and what selectors look at, in the version that is stored.
fn cheap_paths(resource: &Resource, paths: Vec<Str>) -> Option<(DirectStorage, Vec<Str>)> {
    let storage = resource.storage.as_ref()?.direct().filter(|_| resource.conversion.is_none())?;
    let selectable = storage.strategy.selectable_fields();
    let cheap = |path: Str| match path.split('.').collect::<Vec<_>>()[..] {
        ["metadata", field, ..] => Some(Str::from(["metadata", field].join("."))),
        _ => selectable.contains(&path).then_some(path),
    };
    let paths = paths.into_iter().map(cheap).collect::<Option<_>>()?;
    Some((storage, paths))
}

fn unreadable() -> Error {
    Error::Failed("the object cannot be read".into())
}
