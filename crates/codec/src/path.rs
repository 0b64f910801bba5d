//! [`Place`]: where a decoder is, kept as a list on the stack and turned into text only when something is wrong.

use std::fmt;

use schema::{Struct, Types};

/// One step on the way from the document's root. The list lives in the decoder's own stack frames, so keeping it costs
/// a few words per level and nothing per field.
pub(crate) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Root,
    Field {
        of: &'a Struct,
        name: &'a str,
    },
    Index(usize),
    Key(&'a str),
    /// Upstream starts a fresh decoder here, which knows nothing of the structs around it.
    Fresh,
}

impl<'a> Place<'a> {
    pub fn root() -> Place<'a> {
        Place { parent: None, step: PathStep::Root }
    }

    pub fn field(&'a self, of: &'a Struct, name: &'a str) -> Place<'a> {
        Place { parent: Some(self), step: PathStep::Field { of, name } }
    }

    pub fn index(&'a self, index: usize) -> Place<'a> {
        Place { parent: Some(self), step: PathStep::Index(index) }
    }

    pub fn key(&'a self, key: &'a str) -> Place<'a> {
        Place { parent: Some(self), step: PathStep::Key(key) }
    }

    pub fn fresh(&'a self) -> Place<'a> {
        Place { parent: Some(self), step: PathStep::Fresh }
    }

    /// The path of a key below this place, as strict decoding prints it.
    pub fn then<'k>(&'k self, key: &'k str) -> impl fmt::Display + 'k
    where
        'a: 'k,
    {
        StrictPath { place: self, key }
    }

    fn steps(&self) -> Vec<PathStep<'a>> {
        let mut steps = vec![self.step];
        let mut place = self.parent;
        while let Some(next) = place {
            steps.push(next.step);
            place = next.parent;
        }
        steps.reverse();
        steps
    }

    /// Go's words for a value that does not fit its type: `json: cannot unmarshal string into Go struct field
    /// Pod.metadata of type v1.ObjectMeta`. The struct is the one that holds the innermost field, the path is made of
    /// field names only and names embedded structs on the way.
    pub fn type_error(&self, types: Option<&Types>, found: &str, wanted: &str) -> String {
        let mut holder = None;
        let mut fresh = false;
        let mut names: Vec<&str> = Vec::new();
        for step in self.steps() {
            match step {
                PathStep::Field { of, name } => {
                    embedded_names(types, of, name, &mut names);
                    names.push(name);
                    if !fresh || holder.is_none() {
                        holder = Some(of);
                    }
                }
                PathStep::Fresh => fresh = true,
                PathStep::Root | PathStep::Index(_) | PathStep::Key(_) => {}
            }
        }
        match holder {
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
            Some(of) => {
                let (holder, path) = (unqualified(&of.go_name), names.join("."));
                format!("json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {wanted}")
            }
        }
    }
}

/// The Go structs embedded between `of` and the field `name` that it takes from them.
fn embedded_names<'a>(types: Option<&'a Types>, mut of: &'a Struct, name: &str, names: &mut Vec<&'a str>) {
    let Some(types) = types else { return };
    loop {
        let embedded = of.proto_inlines.iter().map(|inline| types.get(inline.target));
        match embedded.into_iter().find(|inner| inner.field(name).is_some()) {
            Some(inner) => {
                names.push(unqualified(&inner.go_name));
                of = inner;
            }
            None => break,
        }
    }
    // What every kind embeds has no protobuf form: the envelope carries it.
    if matches!(name, "kind" | "apiVersion") && !of.proto_order.is_empty() && of.field(name).is_some_and(|f| f.tag == 0)
    {
        names.push("TypeMeta");
    }
}

/// A Go type's name without its package.
fn unqualified(go_name: &str) -> &str {
    go_name.rsplit('.').next().unwrap_or(go_name)
}

struct StrictPath<'k, 'a> {
    place: &'k Place<'a>,
    key: &'k str,
}

impl fmt::Display for StrictPath<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for step in self.place.steps().into_iter().chain([PathStep::Key(self.key)]) {
            match step {
                PathStep::Root | PathStep::Fresh => continue,
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Field { name, .. } | PathStep::Key(name) if first => f.write_str(name)?,
                PathStep::Field { name, .. } | PathStep::Key(name) => write!(f, ".{name}")?,
            }
            first = false;
        }
        Ok(())
    }
}
