//! An ordered set whose copies cost nothing: a B+ tree with shared nodes.
//!
//! Copying the set copies one pointer. A change then copies the few nodes on its path that are still shared with a copy
//! and changes the others in place. That lets one writer work on a set while any number of readers keep looking at the
//! state it had when they came, without locks. Counting a range costs as much as finding its ends.

use std::cmp::Ordering;
use std::sync::Arc;

/// Elements of a leaf, and children of a branch, at most. Small enough to copy, large enough to keep the tree flat.
const NODE_MAX: usize = 16;
/// A node that has fewer joins a neighbour if both fit into one with room to spare.
const NODE_MIN: usize = NODE_MAX / 4;
const JOINED_MAX: usize = NODE_MAX * 3 / 4;

/// An element: cheap to clone and ordered by a part of itself, its probe.
pub trait Element: Clone {
    /// The part that elements are ordered by.
    type Probe<'a>: Copy;
    /// The probe of this element.
    fn probe(&self) -> Self::Probe<'_>;
    /// How this element is ordered against a probe.
    fn compare(&self, probe: Self::Probe<'_>) -> Ordering;
}

/// A sorted set that is cheap to clone: clones share what is the same.
#[derive(Clone)]
pub struct OrderedSet<T: Element> {
    root: Arc<TreeNode<T>>,
    len: usize,
}

#[derive(Clone)]
enum TreeNode<T> {
    Leaf(Vec<T>),
    Branch(Vec<Child<T>>),
}

#[derive(Clone)]
struct Child<T> {
    /// Always the first element below, so that a search needs not follow the pointer.
    first: T,
    len: usize,
    node: Arc<TreeNode<T>>,
}

impl<T: Element> Default for OrderedSet<T> {
    fn default() -> Self {
        OrderedSet { root: Arc::new(TreeNode::Leaf(Vec::new())), len: 0 }
    }
}

impl<T: Element> OrderedSet<T> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element with this probe.
    pub fn get(&self, probe: T::Probe<'_>) -> Option<&T> {
        let mut node = &*self.root;
        loop {
            match node {
                TreeNode::Leaf(items) => {
                    return items.binary_search_by(|item| item.compare(probe)).ok().map(|index| &items[index]);
                }
                TreeNode::Branch(children) => node = &children[child_for(children, probe)].node,
            }
        }
    }

    /// Adds an element, or replaces the equal one and returns it.
    pub fn insert(&mut self, item: T) -> Option<T> {
        let (replaced, right) = insert(&mut self.root, item);
        if let Some(right) = right {
            let left = std::mem::replace(&mut self.root, Arc::new(TreeNode::Leaf(Vec::new())));
            self.root = Arc::new(TreeNode::Branch([left, right].into_iter().filter_map(Child::over).collect()));
        }
        self.len += usize::from(replaced.is_none());
        replaced
    }

    /// Removes the element with this probe and returns it.
    pub fn remove(&mut self, probe: T::Probe<'_>) -> Option<T> {
        // Look first: removing what is not there must not copy nodes.
        self.get(probe)?;
        let removed = remove(&mut self.root, probe);
        self.len -= usize::from(removed.is_some());
        while let TreeNode::Branch(children) = &*self.root {
            match children.as_slice() {
                [] => self.root = Arc::new(TreeNode::Leaf(Vec::new())),
                [only] => self.root = only.node.clone(),
                _ => break,
            }
        }
        removed
    }

    /// The elements from `start` (included) up to `end` (excluded; none means to the last one).
    pub fn range<'a>(&'a self, start: T::Probe<'_>, end: Option<T::Probe<'a>>) -> Iter<'a, T> {
        let mut path = Vec::with_capacity(4);
        let mut node = &*self.root;
        loop {
            match node {
                TreeNode::Leaf(items) => {
                    let index = items.partition_point(|item| item.compare(start) == Ordering::Less);
                    return Iter { path, leaf: items[index..].iter(), end };
                }
                TreeNode::Branch(children) => {
                    let index = child_for(children, start);
                    path.push(children[index + 1..].iter());
                    node = &children[index].node;
                }
            }
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> Iter<'_, T> {
        let mut path = Vec::with_capacity(4);
        let leaf = first_leaf(&self.root, &mut path);
        Iter { path, leaf, end: None }
    }

    /// How many elements come before `probe`.
    pub fn rank(&self, probe: T::Probe<'_>) -> usize {
        let mut before = 0;
        let mut node = &*self.root;
        loop {
            match node {
                TreeNode::Leaf(items) => {
                    return before + items.partition_point(|item| item.compare(probe) == Ordering::Less);
                }
                TreeNode::Branch(children) => {
                    let index = child_for(children, probe);
                    before += children[..index].iter().map(|child| child.len).sum::<usize>();
                    node = &children[index].node;
                }
            }
        }
    }
}

/// The elements of a set, in order.
pub struct Iter<'a, T: Element> {
    /// What is left of the branches above the leaf, from the root down.
    path: Vec<std::slice::Iter<'a, Child<T>>>,
    leaf: std::slice::Iter<'a, T>,
    end: Option<T::Probe<'a>>,
}

impl<'a, T: Element> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.leaf.next() {
                let inside = self.end.is_none_or(|end| item.compare(end) == Ordering::Less);
                return inside.then_some(item);
            }
            match self.path.last_mut()?.next() {
                Some(child) => self.leaf = first_leaf(&child.node, &mut self.path),
                None => drop(self.path.pop()),
            }
        }
    }
}

fn first_leaf<'a, T>(
    mut node: &'a TreeNode<T>,
    path: &mut Vec<std::slice::Iter<'a, Child<T>>>,
) -> std::slice::Iter<'a, T> {
    loop {
        match node {
            TreeNode::Leaf(items) => return items.iter(),
            TreeNode::Branch(children) => {
                let mut rest = children.iter();
                let Some(child) = rest.next() else { return [].iter() };
                path.push(rest);
                node = &child.node;
            }
        }
    }
}

/// The child that has the probe if any has: the last one that does not begin after it.
fn child_for<T: Element>(children: &[Child<T>], probe: T::Probe<'_>) -> usize {
    children.partition_point(|child| child.first.compare(probe) != Ordering::Greater).saturating_sub(1)
}

impl<T: Clone> Child<T> {
    /// None over an empty node, which has no place in a tree.
    fn over(node: Arc<TreeNode<T>>) -> Option<Self> {
        Some(Child { first: node.first()?.clone(), len: node.len(), node })
    }
}

impl<T> TreeNode<T> {
    fn first(&self) -> Option<&T> {
        match self {
            TreeNode::Leaf(items) => items.first(),
            TreeNode::Branch(children) => children.first().map(|child| &child.first),
        }
    }

    /// Elements below.
    fn len(&self) -> usize {
        match self {
            TreeNode::Leaf(items) => items.len(),
            TreeNode::Branch(children) => children.iter().map(|child| child.len).sum(),
        }
    }

    /// Elements or children, whichever it has.
    fn width(&self) -> usize {
        match self {
            TreeNode::Leaf(items) => items.len(),
            TreeNode::Branch(children) => children.len(),
        }
    }
}

/// Returns the replaced element, and the right half if the node had to be split.
fn insert<T: Element>(node: &mut Arc<TreeNode<T>>, item: T) -> (Option<T>, Option<Arc<TreeNode<T>>>) {
    match Arc::make_mut(node) {
        TreeNode::Leaf(items) => match items.binary_search_by(|other| other.compare(item.probe())) {
            Ok(index) => (Some(std::mem::replace(&mut items[index], item)), None),
            Err(index) => {
                items.insert(index, item);
                (None, split(items, index).map(|right| Arc::new(TreeNode::Leaf(right))))
            }
        },
        TreeNode::Branch(children) => {
            let index = child_for(children, item.probe());
            let child = &mut children[index];
            if child.first.compare(item.probe()) != Ordering::Less {
                child.first = item.clone();
            }
            let (replaced, right) = insert(&mut child.node, item);
            child.len = child.node.len();
            let Some(right) = right.and_then(Child::over) else { return (replaced, None) };
            children.insert(index + 1, right);
            (replaced, split(children, index + 1).map(|right| Arc::new(TreeNode::Branch(right))))
        }
    }
}

/// The right half of an overfull node. What grows at its end is split there, so that keys that come in order fill
/// their nodes.
fn split<T>(items: &mut Vec<T>, inserted_at: usize) -> Option<Vec<T>> {
    if items.len() <= NODE_MAX {
        return None;
    }
    let at = if inserted_at == items.len() - 1 { items.len() - 1 } else { items.len() / 2 };
    Some(items.split_off(at))
}

fn remove<T: Element>(node: &mut Arc<TreeNode<T>>, probe: T::Probe<'_>) -> Option<T> {
    match Arc::make_mut(node) {
        TreeNode::Leaf(items) => {
            let index = items.binary_search_by(|item| item.compare(probe)).ok()?;
            Some(items.remove(index))
        }
        TreeNode::Branch(children) => {
            let index = child_for(children, probe);
            let removed = remove(&mut children[index].node, probe);
            match Child::over(children[index].node.clone()) {
                None => drop(children.remove(index)),
                Some(child) => {
                    children[index] = child;
                    join_small(children, index);
                }
            }
            removed
        }
    }
}

/// Joins a child that has become small with a neighbour.
fn join_small<T: Element>(children: &mut Vec<Child<T>>, index: usize) {
    if children[index].node.width() >= NODE_MIN || children.len() < 2 {
        return;
    }
    let left = if index + 1 < children.len() { index } else { index - 1 };
    if children[left].node.width() + children[left + 1].node.width() > JOINED_MAX {
        return;
    }
    let right = children.remove(left + 1);
    let grown = &mut children[left];
    grown.len += right.len;
    match (Arc::make_mut(&mut grown.node), Arc::unwrap_or_clone(right.node)) {
        (TreeNode::Leaf(items), TreeNode::Leaf(more)) => items.extend(more),
        (TreeNode::Branch(items), TreeNode::Branch(more)) => items.extend(more),
        // All leaves of a tree are at the same depth, so neighbours are of one sort.
        _ => debug_assert!(false, "a leaf beside a branch"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Pair(u16, u32);

    impl Element for Pair {
        type Probe<'a> = u16;
        fn probe(&self) -> u16 {
            self.0
        }
        fn compare(&self, probe: u16) -> Ordering {
            self.0.cmp(&probe)
        }
    }

    fn agree(set: &OrderedSet<Pair>, model: &BTreeMap<u16, u32>) {
        assert_eq!(set.len(), model.len());
        assert!(set.iter().map(|pair| (pair.0, pair.1)).eq(model.iter().map(|(key, value)| (*key, *value))));
    }

    fn depth(node: &TreeNode<Pair>, is_root: bool) -> usize {
        match node {
            TreeNode::Leaf(items) => {
                assert!(items.len() <= NODE_MAX && (is_root || !items.is_empty()));
                1
            }
            TreeNode::Branch(children) => {
                assert!(children.len() <= NODE_MAX && !children.is_empty());
                for child in children {
                    assert_eq!((Some(&child.first), child.len), (child.node.first(), child.node.len()));
                }
                let depths: Vec<_> = children.iter().map(|child| depth(&child.node, false)).collect();
                assert!(depths.iter().all(|one| *one == depths[0]), "leaves at different depths");
                depths[0] + 1
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn behaves_like_a_map(steps in prop::collection::vec((0u8..4, 0u16..700, any::<u32>()), 0..3000)) {
            let mut set = OrderedSet::default();
            let mut model = BTreeMap::new();
            let mut copies = Vec::new();
            for (kind, key, value) in steps {
                match kind {
                    0 | 1 => prop_assert_eq!(set.insert(Pair(key, value)).map(|old| old.1), model.insert(key, value)),
                    2 => prop_assert_eq!(set.remove(key).map(|old| old.1), model.remove(&key)),
                    _ => {
                        prop_assert_eq!(set.get(key).map(|found| found.1), model.get(&key).copied());
                        let end = key.saturating_add(value as u16 % 100);
                        let expected: Vec<_> = model.range(key..end).map(|(key, value)| Pair(*key, *value)).collect();
                        let found: Vec<_> = set.range(key, Some(end)).cloned().collect();
                        prop_assert_eq!(set.rank(end) - set.rank(key), expected.len());
                        prop_assert_eq!(found, expected);
                        if copies.len() < 8 {
                            copies.push((set.clone(), model.clone()));
                        }
                    }
                }
            }
            agree(&set, &model);
            depth(&set.root, true);
            // A copy still shows what it showed when it was made.
            for (copy, model) in &copies {
                agree(copy, model);
                depth(&copy.root, true);
            }
        }
    }

    #[test]
    fn fills_and_empties() {
        let mut set = OrderedSet::default();
        for key in 0..20_000u16 {
            set.insert(Pair(key, 0));
        }
        assert_eq!(
            depth(&set.root, true),
            4,
            "keys in order must fill their nodes: 16 to the fourth is more than 20,000"
        );
        assert_eq!(set.rank(12_345), 12_345);
        for key in (0..20_000u16).rev() {
            assert!(set.remove(key).is_some());
        }
        assert!(set.is_empty() && set.iter().next().is_none());
        assert_eq!(depth(&set.root, true), 1);
    }
}
