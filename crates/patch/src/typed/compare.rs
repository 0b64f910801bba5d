//! What changed between two objects.

use std::collections::BTreeMap;

use object::Value;

use super::merge::{entries, items, zip_maps};
use super::validate::scalar_problem;
use super::{Form, List, Problems, Type};
use crate::fieldset::same;
use crate::{FieldSet, PathElement};

/// The fields in which two objects differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

/// Compares an object before and after.
pub(crate) fn compare(before: &Value, after: &Value, of: Type<'_>) -> Result<Comparison, Problems> {
    let mut walker = Walker { path: Vec::new(), found: Comparison::default() };
    walker.walk(Some(before), Some(after), of).into_result(walker.found)
}

struct Walker {
    path: Vec<PathElement>,
    found: Comparison,
}

/// Whether a walk ended in a leaf, which has been recorded already.
type IsLeaf = bool;

impl Walker {
    fn walk(&mut self, left: Option<&Value>, right: Option<&Value>, of: Type<'_>) -> Problems {
        let (form, left_form) = (of.form(right.or(left)), of.form(left.or(right)));
        let mut problems = Problems::none();
        // Where a value changed its form, what it was is compared in the old form and what it is in the new.
        if left.is_some() && right.is_some() && std::mem::discriminant(&form) != std::mem::discriminant(&left_form) {
            problems.add(self.walk_as(left_form, left, right).0);
        }
        let (found, is_leaf) = self.walk_as(form, left, right);
        problems.add(found);
        if !is_leaf {
            match (left, right) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
        problems
    }

    fn walk_as(&mut self, form: Form<'_>, left: Option<&Value>, right: Option<&Value>) -> (Problems, IsLeaf) {
        match form {
            Form::Scalar(scalar) => {
                let found = [scalar_problem(scalar, left, "lhs: "), scalar_problem(scalar, right, "rhs: ")];
                if found.iter().all(Option::is_some) {
                    let mut problems = Problems::none();
                    found.into_iter().flatten().for_each(|message| problems.push(message));
                    return (problems, false);
                }
                self.leaf(left, right)
            }
            Form::List(list) => {
                let (l, r) = (items(left), items(right));
                if list.is_atomic() || (l.is_empty() && r.is_empty()) {
                    return self.leaf(left, right);
                }
                (self.walk_items(l, r, list), false)
            }
            Form::Map(fields) => {
                let (l, r) = (entries(left), entries(right));
                let empty = l.is_none_or(|map| map.is_empty()) && r.is_none_or(|map| map.is_empty());
                if fields.atomic || empty {
                    return self.leaf(left, right);
                }
                let mut problems = Problems::none();
                zip_maps(l, r, |key, l, r| {
                    if let Some(of) = fields.field(key) {
                        problems.add(self.below(PathElement::field(key), l, r, of));
                    }
                });
                (problems, false)
            }
        }
    }

    fn leaf(&mut self, left: Option<&Value>, right: Option<&Value>) -> (Problems, IsLeaf) {
        match (left, right) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(left), Some(right)) if !same(left, right) => self.found.modified.insert(&self.path),
            _ => {}
        }
        (Problems::none(), true)
    }

    fn below(&mut self, element: PathElement, left: Option<&Value>, right: Option<&Value>, of: Type<'_>) -> Problems {
        self.path.push(element);
        let problems = self.walk(left, right, of);
        let element = self.path.pop();
        match element {
            Some(element) if !problems.is_empty() => problems.below(element),
            _ => problems,
        }
    }

    fn walk_items(&mut self, left: &[Value], right: &[Value], list: List<'_>) -> Problems {
        let mut problems = Problems::none();
        let mut all: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (index, item) in left.iter().enumerate() {
            match list.element(item) {
                Ok(element) => all.entry(element).or_default().0.push(item),
                Err(message) => problems.push(format!("element {index}: {message}")),
            }
        }
        for (index, item) in right.iter().enumerate() {
            match list.element(item) {
                Ok(element) => all.entry(element).or_default().1.push(item),
                Err(message) => problems.push(format!("element {index}: {message}")),
            }
        }
        for (element, (l, r)) in all {
            problems.add(self.walk_item(element, &l, &r, list.items));
        }
        problems
    }

    /// Compares what stands under one element. Items that repeat are one leaf: nobody can tell them apart.
    fn walk_item(&mut self, element: PathElement, left: &[&Value], right: &[&Value], of: Type<'_>) -> Problems {
        match (left, right) {
            ([] | [_], [] | [_]) => self.below(element, left.first().copied(), right.first().copied(), of),
            ([_, _, ..], [_, _, ..]) => {
                if left.len() != right.len() || !left.iter().zip(right).all(|(l, r)| same(l, r)) {
                    self.here(element, |found| &mut found.modified);
                }
                Problems::none()
            }
            ([_, _, ..], _) => {
                let problems = match right.first() {
                    Some(only) => self.below(element.clone(), None, Some(only), of),
                    None => Problems::none(),
                };
                self.here(element, |found| &mut found.removed);
                problems
            }
            (_, _) => {
                let problems = match left.first() {
                    Some(only) => self.below(element.clone(), Some(only), None, of),
                    None => Problems::none(),
                };
                self.here(element, |found| &mut found.added);
                problems
            }
        }
    }

    fn here(&mut self, element: PathElement, set: impl Fn(&mut Comparison) -> &mut FieldSet) {
        self.path.push(element);
        set(&mut self.found).insert(&self.path);
        self.path.pop();
    }
}
