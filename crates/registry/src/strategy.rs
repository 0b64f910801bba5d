//! [`Strategy`]: what a kind adds to the generic path, which is three things: a row of [`Facts`], the rules below, and for a few
//! kinds [`Effects`].
//!
//! Every rule has the behaviour most kinds want, so a strategy holds only what is particular to its kind. Objects are
//! handed over in the storage version, after schema defaults. The generic path around the rules already does: names and
//! generateName, namespace checks, uid, creation and deletion timestamps, resourceVersion and uid preconditions, metadata
//! validation (names, labels, annotations, owner references, finalizers, managed fields), immutability of metadata,
//! generation bumps, finalizers, managed fields and admission. A strategy repeats none of it.

use object::{Cursor, Errors, Meta, Str, Value};

use crate::{Context, Effects, Error, Facts, Undo};

/// The rules of a kind, with its facts and effects.
pub trait Strategy: Send + Sync + 'static {
    /// The row of the kind.
    fn facts(&self) -> &Facts {
        &Facts::WITH_STATUS
    }

    /// The effects of the kind, if it has any.
    fn effects(&self) -> Option<&dyn Effects> {
        None
    }

    /// Defaults that depend on other fields; unconditional ones are in the schema table and applied before. Runs on
    /// every decode of the storage version, on requests and on stored objects alike, so it must be idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Refuses a written object that upstream's conversion to its internal type refuses, ahead of everything else.
    fn check_conversion(&self, _object: &Value) -> Result<(), Error> {
        Ok(())
    }

    /// Upstream's check of the name, or of a generateName prefix, for kinds whose names depend on what else the object says.
    fn validate_name(&self, _cx: &Context, _object: &Value, name: &str, is_prefix: bool) -> Vec<String> {
        (self.facts().name)(name, is_prefix)
    }

    // --- create

    /// Resets what clients may not set (status!) and fills what the server owns. The generic path has already removed
    /// the `status` field where [`Facts::has_status`] says so, and set generation to 1 where [`Facts::generation`] does.
    fn prepare_create(&self, _cx: &Context, _object: &mut Value) {}

    /// Checks a new object; also called for the new state by the default [`Strategy::validate_update`].
    fn validate(&self, _cx: &Context, _object: &Cursor, _errors: &mut Errors) {}

    /// Warnings about a valid object, new or updated.
    fn warnings(&self, _cx: &Context, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Brings a valid object into the form it is stored in; the last change that creates and updates make.
    fn canonicalize(&self, _object: &mut Value) {}

    // --- update

    /// Resets what an update may not touch. The generic path has already put the old `status` back (where there is
    /// one), and bumps the generation afterwards as [`Facts::generation`] says.
    fn prepare_update(&self, _cx: &Context, _new: &mut Value, _old: &Value) {}

    /// Checks the new state of an updated object.
    fn validate_update(&self, cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        self.validate(cx, new, errors);
    }

    // --- the status subresource

    /// Called after the generic path has put back the old `spec` and everything else but `status` and `metadata`.
    fn prepare_status_update(&self, _cx: &Context, _new: &mut Value, _old: &Value) {}

    /// Checks the new state after a status write.
    fn validate_status_update(&self, _cx: &Context, _new: &Cursor, _old: &Cursor, _errors: &mut Errors) {}

    /// Warnings about a valid status write.
    fn status_warnings(&self, _cx: &Context, _new: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    // --- other subresources that are views on the object: ephemeralcontainers, resize, approval, finalize

    /// Keeps everything that a write through `cx.subresource` may not change.
    fn prepare_subresource(&self, _cx: &Context, _new: &mut Value, _old: &Value) {}

    /// Checks the new state after a write through `cx.subresource`.
    fn validate_subresource(&self, _cx: &Context, _new: &Cursor, _old: &Cursor, _errors: &mut Errors) {}

    // --- reads

    /// [`Facts::selectable_fields`]; custom resources have those of their definition.
    fn selectable_fields(&self) -> &[Str] {
        self.facts().selectable_fields
    }

    /// The value of a selectable field; the default reads the path literally.
    fn select_field(&self, object: &Value, field: &str) -> String {
        match field.split('.').fold(object, |value, key| value.field(key)) {
            Value::String(s) => s.to_string(),
            Value::Bool(b) => b.to_string(),
            Value::Int(i) => i.to_string(),
            _ => String::new(),
        }
    }

    /// The cells of the object's row in a Table, one for each column in the schema table (wide ones too).
    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        vec![object.at(&["metadata", "name"]).clone(), crate::columns::age(cx, object)]
    }
}

/// What callers ask that is made of a kind's facts, rules and effects.
impl dyn Strategy {
    /// [`Effects::begin_create`], once the object is known to be one.
    pub async fn begin_create(&self, cx: &Context<'_>, object: &mut Value) -> Result<Option<Box<dyn Undo>>, Error> {
        self.check_conversion(object)?;
        match self.effects() {
            Some(effects) => effects.begin_create(cx, object).await,
            None => Ok(None),
        }
    }

    /// [`Effects::begin_update`], once the object is known to be one.
    pub async fn begin_update(
        &self,
        cx: &Context<'_>,
        new: &mut Value,
        old: &Value,
    ) -> Result<Option<Box<dyn Undo>>, Error> {
        self.check_conversion(new)?;
        match self.effects() {
            Some(effects) => effects.begin_update(cx, new, old).await,
            None => Ok(None),
        }
    }

    /// [`Effects::authorize_create`].
    pub fn authorize_create(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        if let Some(effects) = self.effects() {
            effects.authorize_create(cx, object, errors);
        }
    }

    /// [`Effects::authorize_status_update`].
    pub async fn authorize_status_update(&self, cx: &Context<'_>, new: &Value, old: &Value, errors: &mut Errors) {
        if let Some(effects) = self.effects() {
            effects.authorize_status_update(cx, new, old, errors).await;
        }
    }

    /// [`Effects::after_delete`].
    pub async fn after_delete(&self, cx: &Context<'_>, object: &Value) {
        if let Some(effects) = self.effects() {
            effects.after_delete(cx, object).await;
        }
    }

    /// The selectable field that a selector in the given group's version means by `field`; None if it means none.
    pub fn selected_field(&self, group: &str, field: &str) -> Option<&Str> {
        let field = match self.facts().second_group_fields {
            Some(names) if !group.is_empty() => names.iter().find(|(name, _)| *name == field)?.1,
            _ => field,
        };
        self.selectable_fields().iter().find(|known| *known == field)
    }

    /// The cells of the rows of a list, some hundreds at a time.
    pub fn rows(&self, cx: &Context, objects: &[&Value]) -> Vec<Vec<Value>> {
        let default = self.facts().default_row.and_then(|find| find(objects));
        let row = |object: &&Value| {
            let mut cells = self.cells(cx, object);
            if let (Some(name), true) = (cells.first_mut(), default == Some(object.name())) {
                *name = format!("{} (default)", object.name()).into();
            }
            cells
        };
        objects.iter().map(row).collect()
    }
}

/// The behaviour of kinds that add nothing.
pub struct Generic;

impl Strategy for Generic {}
