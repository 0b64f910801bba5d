//! managedFields through the scale subresource.
//!
//! A Scale owns nothing but `spec.replicas`, which lives somewhere in the object that is scaled. Owners of that place are
//! shown on the Scale, and what a write to the Scale does to them is carried back.

use object::{Str, Value};

use super::managed::{Managed, Owned};
use crate::{FieldSet, PathElement};

const SCALE_VERSION: &str = "autoscaling/v1";
const SCALE_REPLICAS: [&str; 2] = ["spec", "replicas"];

/// Where replicas are in each version of the kind that is scaled.
pub struct ScaleFields {
    /// The version of the request.
    pub version: Str,
    /// apiVersion → path of plain fields; None for a version that cannot be scaled.
    pub replicas: Vec<(Str, Option<Vec<Str>>)>,
}

impl ScaleFields {
    /// The managedFields of the Scale of an object.
    pub fn of_scale(&self, parent: &Value) -> Result<Value, String> {
        let parent = Managed::read(parent.at(&["metadata", "managedFields"]))?;
        let mut scale = Managed { times: parent.times.clone(), ..Managed::default() };
        for (id, owned) in parent.owners {
            if self.path(&owned.version).flatten().is_some_and(|path| owned.set.has(&path)) {
                let set = FieldSet::of([&SCALE_REPLICAS[..]]);
                scale.owners.insert(id, Owned { set, version: SCALE_VERSION.into(), applied: owned.applied });
            }
        }
        Ok(entries(&scale))
    }

    /// The managedFields of the object after its Scale was written and has these.
    pub fn of_parent(&self, parent: &Value, scale_entries: &Value) -> Result<Value, String> {
        let before = Managed::read(parent.at(&["metadata", "managedFields"]))?;
        let mut scale = Managed::read(scale_entries)?;
        // Only times the object knew are kept: a manager that is new on the Scale gets none.
        let mut after = Managed { times: before.times.clone(), ..Managed::default() };
        for (id, owned) in before.owners {
            let Some(path) = self.path(&owned.version) else { continue };
            match path.filter(|path| owned.set.has(path)) {
                None => {
                    after.owners.insert(id, owned);
                }
                Some(_) if scale.owners.remove(&id).is_some() => {
                    after.owners.insert(id, owned);
                }
                Some(path) => {
                    let mut replicas = FieldSet::new();
                    replicas.insert(&path);
                    let set = owned.set.difference(&replicas);
                    if !set.is_empty() {
                        after.owners.insert(id, Owned { set, ..owned });
                    }
                }
            }
        }
        let path = self.path(&self.version).flatten().unwrap_or_default();
        for (id, owned) in scale.owners {
            if owned.set.has(&SCALE_REPLICAS.map(PathElement::field)) {
                let mut set = FieldSet::new();
                set.insert(&path);
                after.owners.insert(id, Owned { set, version: self.version.clone(), applied: owned.applied });
            }
        }
        Ok(entries(&after))
    }

    fn path(&self, version: &str) -> Option<Option<Vec<PathElement>>> {
        let (_, path) = self.replicas.iter().find(|(known, _)| known == version)?;
        Some(path.as_ref().map(|path| path.iter().map(|name| PathElement::field(name)).collect()))
    }
}

/// The list as an object would hold it; null if it is empty.
fn entries(managed: &Managed) -> Value {
    let mut object = Value::map();
    managed.write(&mut object);
    object.at(&["metadata", "managedFields"]).clone()
}
