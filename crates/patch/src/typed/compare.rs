//! What changed between two objects.

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
    let mut walker = Walker::default();
    walker.walk(Some(before), Some(after), of).into_result(walker.found)
}

/// The sets are built from the leaves up, so that a leaf costs the same however deep it is.
#[derive(Default)]
struct Walker {
    /// The fields below the value that is walked.
    found: Comparison,
    /// What became of the value itself.
    own: Option<Fate>,
}

#[derive(Clone, Copy)]
enum Fate {
    Removed,
    Modified,
    Added,
}

/// Which of the two objects an item is of.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl Comparison {
    fn of(&mut self, fate: Fate) -> &mut FieldSet {
        match fate {
            Fate::Removed => &mut self.removed,
            Fate::Modified => &mut self.modified,
            Fate::Added => &mut self.added,
        }
    }
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
                (None, _) => self.own = Some(Fate::Added),
                (_, None) => self.own = Some(Fate::Removed),
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
            (None, _) => self.own = Some(Fate::Added),
            (_, None) => self.own = Some(Fate::Removed),
            (Some(left), Some(right)) if !same(left, right) => self.own = Some(Fate::Modified),
            _ => {}
        }
        (Problems::none(), true)
    }

    fn below(&mut self, element: PathElement, left: Option<&Value>, right: Option<&Value>, of: Type<'_>) -> Problems {
        let mut below = Walker::default();
        let mut problems = below.walk(left, right, of);
        if !problems.is_empty() {
            problems = problems.below(&element);
        }
        let Comparison { removed, modified, added } = below.found;
        for (fate, set) in [(Fate::Removed, removed), (Fate::Modified, modified), (Fate::Added, added)] {
            if !set.is_empty() {
                self.found.of(fate).insert_child(element.clone(), set);
            }
        }
        if let Some(fate) = below.own {
            self.found.of(fate).insert_member(element);
        }
        problems
    }

    fn walk_items(&mut self, left: &[Value], right: &[Value], list: List<'_>) -> Problems {
        let mut problems = Problems::none();
        let mut all: Vec<(PathElement, Side, &Value)> = Vec::with_capacity(left.len() + right.len());
        for (side, items) in [(Side::Left, left), (Side::Right, right)] {
            for (index, item) in items.iter().enumerate() {
                match list.element(item) {
                    Ok(element) => all.push((element, side, item)),
                    Err(message) => problems.push(format!("element {index}: {message}")),
                }
            }
        }
        all.sort_by(|one, two| one.0.cmp(&two.0));
        let mut all = all.into_iter().peekable();
        let (mut l, mut r) = (Vec::new(), Vec::new());
        while let Some((element, side, item)) = all.next() {
            l.clear();
            r.clear();
            let mut put = |side, item| match side {
                Side::Left => l.push(item),
                Side::Right => r.push(item),
            };
            put(side, item);
            while let Some((_, side, item)) = all.next_if(|(next, ..)| *next == element) {
                put(side, item);
            }
            problems.add(self.walk_item(element, &l, &r, list.items));
        }
        problems
    }

    /// Compares what stands under one element. Items that repeat are one leaf: nothing tells one from the other.
    fn walk_item(&mut self, element: PathElement, left: &[&Value], right: &[&Value], of: Type<'_>) -> Problems {
        match (left, right) {
            ([] | [_], [] | [_]) => self.below(element, left.first().copied(), right.first().copied(), of),
            ([_, _, ..], [_, _, ..]) => {
                if left.len() != right.len() || !left.iter().zip(right).all(|(l, r)| same(l, r)) {
                    self.found.modified.insert_member(element);
                }
                Problems::none()
            }
            ([_, _, ..], _) => {
                let problems = match right.first() {
                    Some(only) => self.below(element.clone(), None, Some(only), of),
                    None => Problems::none(),
                };
                self.found.removed.insert_member(element);
                problems
            }
            (_, _) => {
                let problems = match left.first() {
                    Some(only) => self.below(element.clone(), Some(only), None, of),
                    None => Problems::none(),
                };
                self.found.added.insert_member(element);
                problems
            }
        }
    }
}
