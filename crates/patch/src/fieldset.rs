//! [`FieldSet`]: a set of field paths as a tree, the currency of ownership.
//!
//! A set knows its members (paths that end here) and its children (subtrees). A path can be both: a map that is owned
//! and has owned fields. Everything is kept sorted in upstream's order, so that sets print, compare and combine alike.

mod element;
mod fields_v1;

use std::cmp::Ordering;
use std::fmt::Write;

pub use element::PathElement;
pub(crate) use element::{compare_values, same};
pub(crate) use fields_v1::{write_field, write_key, write_plain_field, write_value};

/// A set of paths into an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    members: Vec<PathElement>,
    /// Never holds an empty subtree.
    children: Vec<(PathElement, FieldSet)>,
}

impl FieldSet {
    /// A set without fields.
    pub fn new() -> FieldSet {
        FieldSet::default()
    }

    /// A set of paths made of plain field names.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> FieldSet {
        let mut set = FieldSet::new();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// The set of these members and subtrees, in any order. Of an element that repeats the last subtree counts.
    pub(crate) fn from_parts(mut members: Vec<PathElement>, mut children: Vec<(PathElement, FieldSet)>) -> FieldSet {
        members.sort();
        members.dedup();
        children.retain(|(_, set)| !set.is_empty());
        children.sort_by(|a, b| b.0.cmp(&a.0));
        children.reverse();
        children.dedup_by(|later, earlier| later.0 == earlier.0);
        FieldSet { members, children }
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.members.len() + self.children.iter().map(|(_, set)| set.len()).sum::<usize>()
    }

    /// Adds a path. The empty path means the whole object, which no manager owns.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, parents)) = path.split_last() else { return };
        parents.iter().fold(self, |set, element| set.descend(element)).insert_member(last.clone());
    }

    /// Whether the field at a path is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.child(element) {
                Some(child) => set = child,
                None => return false,
            }
        }
        set.has_member(last)
    }

    /// Whether an element directly below is a member.
    pub fn has_member(&self, element: &PathElement) -> bool {
        self.members.binary_search(element).is_ok()
    }

    /// The paths below an element.
    pub fn child(&self, element: &PathElement) -> Option<&FieldSet> {
        self.children.binary_search_by(|(e, _)| e.cmp(element)).ok().map(|at| &self.children[at].1)
    }

    /// The elements that are members themselves.
    pub fn members(&self) -> &[PathElement] {
        &self.members
    }

    /// The elements that have members below them.
    pub fn children(&self) -> &[(PathElement, FieldSet)] {
        &self.children
    }

    pub(crate) fn insert_member(&mut self, element: PathElement) {
        // Most sets are built in order, which makes this a push.
        match self.members.last().map(|last| last.cmp(&element)) {
            None | Some(Ordering::Less) => self.members.push(element),
            Some(Ordering::Equal) => {}
            Some(Ordering::Greater) => {
                if let Err(at) = self.members.binary_search(&element) {
                    self.members.insert(at, element);
                }
            }
        }
    }

    /// Puts a subtree in place; an empty one is left out.
    pub(crate) fn insert_child(&mut self, element: PathElement, set: FieldSet) {
        if set.is_empty() {
            return;
        }
        if self.children.last().is_none_or(|(last, _)| *last < element) {
            return self.children.push((element, set));
        }
        match self.children.binary_search_by(|(e, _)| e.cmp(&element)) {
            Ok(at) => self.children[at].1 = set,
            Err(at) => self.children.insert(at, (element, set)),
        }
    }

    fn descend(&mut self, element: &PathElement) -> &mut FieldSet {
        let at = match self.children.binary_search_by(|(e, _)| e.cmp(element)) {
            Ok(at) => at,
            Err(at) => {
                self.children.insert(at, (element.clone(), FieldSet::new()));
                at
            }
        };
        &mut self.children[at].1
    }

    /// The fields that are in either set.
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::new();
        merge(
            &self.members,
            &other.members,
            |e| e,
            |left, right| {
                out.members.extend(left.or(right).cloned());
            },
        );
        merge(
            &self.children,
            &other.children,
            |(e, _)| e,
            |left, right| match (left, right) {
                (Some((element, left)), Some((_, right))) => out.children.push((element.clone(), left.union(right))),
                (one, other) => out.children.extend(one.or(other).cloned()),
            },
        );
        out
    }

    /// The fields that are in both sets.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        // The smaller set is walked, the larger one is searched.
        if self.children.len() + self.members.len() > other.children.len() + other.members.len() {
            return other.intersection(self);
        }
        let mut out = FieldSet::new();
        each_with(&self.members, &other.members, |e| e, |left, right| out.members.extend(right.map(|_| left.clone())));
        each_with(
            &self.children,
            &other.children,
            |(e, _)| e,
            |(element, left), right| {
                if let Some((_, right)) = right {
                    out.push_child(element, left.intersection(right));
                }
            },
        );
        out
    }

    /// The paths that are not in `other`; what lies below a path of `other` stays.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// Removes the paths of `other`, and what lies below them.
    pub fn prune(&mut self, other: &FieldSet) {
        self.children.retain(|(element, _)| !other.has_member(element));
        self.remove_with(other, FieldSet::prune);
    }

    /// Removes the paths of `other`; what lies below them stays.
    pub fn subtract(&mut self, other: &FieldSet) {
        self.remove_with(other, FieldSet::subtract);
    }

    fn remove_with(&mut self, other: &FieldSet, below: impl Fn(&mut FieldSet, &FieldSet)) {
        if other.is_empty() {
            return;
        }
        self.members.retain(|element| !other.has_member(element));
        for (element, set) in &mut self.children {
            if let Some(other) = other.child(element) {
                below(set, other);
            }
        }
        self.children.retain(|(_, set)| !set.is_empty());
    }

    /// The union of two sets that are not needed any more.
    pub fn joined(self, other: FieldSet) -> FieldSet {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => self.union(&other),
        }
    }

    /// The union of many sets. Joining them in pairs takes a logarithm of their number longer than their size, where adding
    /// one after the other would copy the whole for each.
    pub(crate) fn union_all(mut sets: Vec<FieldSet>) -> FieldSet {
        while sets.len() > 1 {
            sets = sets.chunks(2).map(|pair| pair.iter().skip(1).fold(pair[0].clone(), |a, b| a.union(b))).collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// The members that have nothing below them.
    pub fn leaves(&self) -> FieldSet {
        let mut out = FieldSet::new();
        out.members.extend(self.members.iter().filter(|e| self.child(e).is_none()).cloned());
        for (element, set) in &self.children {
            out.push_child(element, set.leaves());
        }
        out
    }

    /// Adds a child that sorts after all others; an empty one is left out.
    fn push_child(&mut self, element: &PathElement, set: FieldSet) {
        if !set.is_empty() {
            self.children.push((element.clone(), set));
        }
    }

    /// Calls `visit` with every path: the members of a level first, then what lies below.
    pub fn each(&self, visit: &mut impl FnMut(&[PathElement])) {
        self.each_below(&mut Vec::new(), visit);
    }

    fn each_below(&self, prefix: &mut Vec<PathElement>, visit: &mut impl FnMut(&[PathElement])) {
        for element in &self.members {
            prefix.push(element.clone());
            visit(prefix);
            prefix.pop();
        }
        for (element, set) in &self.children {
            prefix.push(element.clone());
            set.each_below(prefix, visit);
            prefix.pop();
        }
    }
}

/// A path as upstream's messages print it: `.spec.containers[name="a"].image`.
pub fn path_text(path: &[PathElement]) -> String {
    let mut out = String::new();
    for element in path {
        write!(out, "{element}").expect("writing to a string cannot fail");
    }
    out
}

/// Walks a sorted list and finds for each item the one of another sorted list that has the same element. It takes about as
/// long as the first list is long: there can be many owners of a little in an object where much has changed.
fn each_with<'a, T>(
    left: &'a [T],
    right: &'a [T],
    element: impl Fn(&T) -> &PathElement,
    mut visit: impl FnMut(&'a T, Option<&'a T>),
) {
    let mut rest = right;
    for item in left {
        let wanted = element(item);
        // Doubling steps find the part of the list to search: one step where the lists are alike.
        let mut reach = 1;
        while reach < rest.len() && element(&rest[reach - 1]) < wanted {
            reach *= 2;
        }
        let near = &rest[..reach.min(rest.len())];
        rest = &rest[near.partition_point(|other| element(other) < wanted)..];
        visit(item, rest.first().filter(|other| element(other) == wanted));
    }
}

/// Walks two sorted lists side by side; `visit` gets what both have under the same element.
fn merge<'a, T>(
    left: &'a [T],
    right: &'a [T],
    element: impl Fn(&T) -> &PathElement,
    mut visit: impl FnMut(Option<&'a T>, Option<&'a T>),
) {
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        let order = match (left.get(i), right.get(j)) {
            (Some(l), Some(r)) => element(l).cmp(element(r)),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Less => {
                visit(Some(&left[i]), None);
                i += 1;
            }
            Ordering::Greater => {
                visit(None, Some(&right[j]));
                j += 1;
            }
            Ordering::Equal => {
                visit(Some(&left[i]), Some(&right[j]));
                i += 1;
                j += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
