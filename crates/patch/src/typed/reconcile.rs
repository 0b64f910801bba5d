//! Owned fields after their types changed.
//!
//! When a list or map became atomic, a manager that owned something inside it now owns it whole. The other way round nothing
//! has to be done: ownership of the whole stays what it was.

use super::{Fields, Form, List, Type};
use crate::{FieldSet, PathElement};

/// The set as it must be for today's types; None if it can stay as it is.
pub(crate) fn reconcile(set: &FieldSet, of: Type<'_>) -> Option<FieldSet> {
    let mut walker = Walker { path: Vec::new(), became_atomic: FieldSet::new() };
    walker.walk(Some(set), of, false);
    let became_atomic = walker.became_atomic;
    (!became_atomic.is_empty()).then(|| {
        let mut set = set.clone();
        set.prune(&became_atomic);
        set.joined(became_atomic)
    })
}

struct Walker {
    path: Vec<PathElement>,
    became_atomic: FieldSet,
}

impl Walker {
    /// `is_leaf` says that the path is owned and nothing below it is.
    fn walk(&mut self, set: Option<&FieldSet>, of: Type<'_>, is_leaf: bool) {
        match of.form(None) {
            Form::Scalar(_) => {}
            Form::List(list) => self.walk_list(set, list, is_leaf),
            Form::Map(fields) => self.walk_map(set, fields, is_leaf),
        }
    }

    fn walk_list(&mut self, set: Option<&FieldSet>, list: List<'_>, is_leaf: bool) {
        if !is_leaf && list.is_atomic() {
            self.became_atomic.insert(&self.path);
        } else if let Some(set) = set {
            self.each_element(set, |_| Some(list.items));
        }
    }

    fn walk_map(&mut self, set: Option<&FieldSet>, fields: Fields<'_>, is_leaf: bool) {
        if fields.is_deduced() {
            return;
        }
        let Some(set) = set else { return };
        if !is_leaf && fields.atomic {
            if !set.is_empty() {
                self.became_atomic.insert(&self.path);
            }
            return;
        }
        self.each_element(set, |element| match element {
            PathElement::Field(name) => fields.field(name),
            _ => fields.others,
        });
    }

    fn each_element<'t>(&mut self, set: &FieldSet, of: impl Fn(&PathElement) -> Option<Type<'t>>) {
        let children = set.children().iter().map(|(element, below)| (element, Some(below)));
        let leaves = set.members().iter().filter(|element| set.child(element).is_none()).map(|e| (e, None));
        for (element, below) in children.chain(leaves) {
            if let Some(of) = of(element) {
                self.path.push(element.clone());
                self.walk(below, of, below.is_none());
                self.path.pop();
            }
        }
    }
}
