//! What the schema says about patching a field.

use std::cell::Cell;

use object::{Str, Value, quote};
use schema::{Schema, Shape};

use super::Result;
use crate::Error;

/// Where in the schema a patch is at work.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    schema: Schema<'a>,
    /// How many values may still be merged again.
    merges_left: &'a Cell<usize>,
}

/// How many values one patch may merge again, by naming a list item that it has named before. A patch can do so as often as it
/// likes, and each time everything in the item is walked.
pub(super) const MERGES_MAX: usize = 20_000;

/// What a list says about being patched.
pub(super) struct ListPlace<'a> {
    pub items: Place<'a>,
    pub merges: bool,
    /// "" where items are merged by value.
    pub key: &'a str,
}

impl<'a> Place<'a> {
    pub fn of(schema: Schema<'a>, merges_left: &'a Cell<usize>) -> Place<'a> {
        Place { schema, merges_left }
    }

    fn with(self, schema: Schema<'a>) -> Place<'a> {
        Place { schema, ..self }
    }

    /// Counts the values of an item that is merged again; refuses when there were too many.
    pub fn merges_again(self, item: &Value) -> Result<()> {
        let left = self.merges_left.get().checked_sub(values_in(item));
        let refusal = || Error::Failed("the patch names the same list items too often".to_string());
        self.merges_left.set(left.ok_or_else(refusal)?);
        Ok(())
    }

    /// A field of the struct here; patches that go inside anything else are refused.
    pub fn field(self, name: &str) -> Result<Place<'a>> {
        let Some(of) = self.schema.as_struct() else { return Err(Error::Failed(self.not_a_struct(name))) };
        let exact = of.field(name);
        let found = exact.or_else(|| of.in_print_order().find(|field| field.name.eq_ignore_ascii_case(name)));
        match found {
            Some(field) => Ok(self.with(self.schema.with(&field.node))),
            None => Err(Error::Failed(no_such_field(&of.go_name, name))),
        }
    }

    /// A field that is a list.
    pub fn list(self, name: &str) -> Result<ListPlace<'a>> {
        let field = self.field(name)?.schema;
        let Some(items) = field.items() else {
            return Err(Error::Failed(format!("expected slice or array type, but got: {}", self.go_kind())));
        };
        if items.items().is_some() {
            return Err(Error::Failed("unexpected slice of slice".to_string()));
        }
        let key = field.node.patch_merge_key.as_deref().unwrap_or_default();
        Ok(ListPlace { items: self.with(items), merges: field.node.patch_merge, key })
    }

    pub fn replaces_maps(self) -> bool {
        self.schema.node.patch_replace
    }

    /// What Go calls this kind of type.
    pub fn go_kind(self) -> &'static str {
        match &self.schema.node.shape {
            Shape::Bool => "bool",
            Shape::Int32 => "int32",
            Shape::Int64 => "int64",
            Shape::Float => "float64",
            Shape::String => "string",
            Shape::Bytes | Shape::List(_) => "slice",
            Shape::Map(_) => "map",
            _ => "struct",
        }
    }

    fn not_a_struct(self, name: &str) -> String {
        match self.go_kind() {
            // Types that print themselves are structs to Go, but have no such field.
            "struct" => no_such_field(&self.schema.go_type(), name),
            kind => format!("merging an object in json but data type is not struct, instead is: {kind}"),
        }
    }
}

fn values_in(value: &Value) -> usize {
    match value {
        Value::List(items) => 1 + items.iter().map(values_in).sum::<usize>(),
        Value::Map(map) => 1 + map.values().map(values_in).sum::<usize>(),
        _ => 1,
    }
}

fn no_such_field(go_name: &Str, name: &str) -> String {
    let bare = go_name.rsplit('.').next().unwrap_or_default();
    format!("unable to find api field in struct {bare} for the json field {}", quote(name))
}
