//! What changed in an update: errors about what did not become warnings.

use object::Value;
use schema::{Old, Schema};

/// A value and what it was before. A value that has nothing to be compared with is judged by its nearest parent that has.
#[derive(Clone, Copy, Default)]
pub struct Ratchet<'v> {
    current: Option<(&'v Value, Old<'v>)>,
    parent: Option<(&'v Value, Old<'v>)>,
}

impl<'v> Ratchet<'v> {
    /// Nothing is compared: every error counts.
    pub fn none() -> Ratchet<'v> {
        Ratchet::default()
    }

    /// An update of an object of this schema.
    pub fn update(schema: Schema<'v>, new: &'v Value, old: &'v Value) -> Ratchet<'v> {
        Ratchet { current: Some((new, Old { schema, value: old })), parent: None }
    }

    /// Whether the value is what it was.
    pub(super) fn is_unchanged(&self) -> bool {
        self.current.or(self.parent).is_some_and(|(new, old)| old.is_same(new))
    }

    /// The same value, when what is judged is not all of it.
    pub(super) fn parent_only(&self) -> Ratchet<'v> {
        Ratchet { current: None, parent: self.parent }
    }

    pub(super) fn key(&self, name: &str) -> Ratchet<'v> {
        let Some((new, old)) = self.current else { return *self };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Ratchet::none();
        }
        let child = new.get(name).zip(old.key(name));
        Ratchet { current: child, parent: self.current }
    }

    /// The item of a list, and the one it was before if that can be told.
    pub(super) fn item(&self, item: &'v Value, before: Option<&'v Value>) -> Ratchet<'v> {
        let Some((_, list)) = self.current else { return *self };
        let before = before.zip(list.schema.items()).map(|(value, schema)| Old { schema, value });
        Ratchet { current: before.map(|before| (item, before)), parent: self.current }
    }
}
