//! The parts read so far, with the limits that Go sets on their height and size.

use std::sync::Arc;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::{ErrorKind, Flags, Problem};
use crate::node::{Kind, Node};
use crate::unicode;

/// Levels of a syntax tree.
const HEIGHT_MAX: u32 = 1000;
/// Instructions of Go's compiled program: 128 MiB of 40 bytes each.
const SIZE_MAX: u64 = (128 << 20) / 40;
/// Code points in literals and classes: 128 MiB of 4 bytes each.
const RUNES_MAX: usize = (128 << 20) / 4;

enum Item {
    Part(Node),
    Open { capture: bool, flags: Flags },
    Bar,
}

#[derive(Default)]
pub(super) struct Stack {
    items: Vec<Item>,
    /// Code points that literals and classes have listed so far.
    runes: usize,
    /// Nodes that Go has at the moment, and the most it has had: it counts sizes only if there may be too many.
    nodes: u64,
    nodes_most: u64,
    /// All repetition counts multiplied.
    repeats: u64,
    /// Whether sizes are counted.
    counting: bool,
}

impl Stack {
    pub fn runes(&self) -> usize {
        self.runes
    }

    /// Puts a new part on the stack.
    pub fn push<'p>(&mut self, kind: Kind) -> Result<(), Problem<'p>> {
        self.allocate();
        self.push_node(Node::new(kind))
    }

    pub fn literal<'p>(&mut self, c: char, fold: bool) -> Result<(), Problem<'p>> {
        self.push(Kind::Literal { text: c.to_string(), fold })
    }

    pub fn open<'p>(&mut self, capture: bool, flags: Flags) -> Result<(), Problem<'p>> {
        self.allocate();
        self.merge_literals();
        self.items.push(Item::Open { capture, flags });
        self.check(None)
    }

    /// Takes the part on top, for a repetition; none if there is no part to repeat.
    pub fn pop(&mut self) -> Option<Node> {
        match self.items.pop() {
            Some(Item::Part(node)) => Some(node),
            Some(other) => {
                self.items.push(other);
                None
            }
            None => None,
        }
    }

    /// Puts a repetition in the place of what it repeats; returns how often the innermost part is repeated.
    pub fn replace<'p>(&mut self, kind: Kind) -> Result<u32, Problem<'p>> {
        self.allocate();
        let mut node = Node::new(kind);
        self.check(Some(&mut node))?;
        let repeats = node.repeats;
        self.items.push(Item::Part(node));
        Ok(repeats)
    }

    /// Ends an alternative.
    pub fn bar<'p>(&mut self) -> Result<(), Problem<'p>> {
        self.concatenate()?;
        // Go keeps one bar above all alternatives; only its count of nodes shows.
        let alternatives = self.items.iter().rev().take_while(|item| !matches!(item, Item::Open { .. })).take(4);
        let recent: Vec<bool> =
            alternatives.map(|item| matches!(item, Item::Part(n) if n.is_one_character())).collect();
        match recent.as_slice() {
            [_] => self.allocate(),
            [true, false, true, ..] => self.nodes = self.nodes.saturating_sub(1),
            _ => {}
        }
        self.items.push(Item::Bar);
        self.check(None)
    }

    /// Joins all since the last opening parenthesis into one part.
    pub fn close<'p>(&mut self) -> Result<(), Problem<'p>> {
        self.concatenate()?;
        let start = self.items.iter().rposition(|item| matches!(item, Item::Open { .. })).map_or(0, |at| at + 1);
        let alternatives: Vec<Node> = self
            .items
            .drain(start..)
            .filter_map(|item| match item {
                Item::Part(node) => Some(node),
                _ => None,
            })
            .collect();
        let node = self.alternate(alternatives);
        self.push_node(node)
    }

    /// Closes a group whose content is on top of the stack; none if no parenthesis is open.
    pub fn leave<'p>(&mut self) -> Result<Option<Flags>, Problem<'p>> {
        let Some(Item::Part(content)) = self.items.pop() else { return Ok(None) };
        let Some(Item::Open { capture, flags }) = self.items.pop() else { return Ok(None) };
        let node = if capture { Node::new(Kind::Capture(Box::new(content))) } else { content };
        self.push_node(node)?;
        Ok(Some(flags))
    }

    /// The whole tree; none if a parenthesis is still open.
    pub fn finish(&mut self) -> Option<Node> {
        match (self.items.pop(), self.items.is_empty()) {
            (Some(Item::Part(node)), true) => Some(node),
            _ => None,
        }
    }

    fn push_node<'p>(&mut self, mut node: Node) -> Result<(), Problem<'p>> {
        self.runes += match &node.kind {
            Kind::Literal { text, .. } => text.chars().count(),
            Kind::Class(class) => class.ranges().len() * 2,
            _ => 0,
        };
        as_literal(&mut node);
        self.merge_literals();
        self.check(Some(&mut node))?;
        self.items.push(Item::Part(node));
        Ok(())
    }

    /// Appends the literal on top to one right below it: no repetition can follow it any more.
    fn merge_literals(&mut self) {
        let [.., Item::Part(below), Item::Part(top)] = self.items.as_mut_slice() else { return };
        let Kind::Literal { text, fold } = &mut below.kind else { return };
        let Kind::Literal { text: last, fold: last_fold } = &top.kind else { return };
        if fold == last_fold {
            text.push_str(last);
            self.items.pop();
            self.nodes = self.nodes.saturating_sub(1);
        }
    }

    /// Joins what is on the stack down to a bar or parenthesis.
    fn concatenate<'p>(&mut self) -> Result<(), Problem<'p>> {
        self.merge_literals();
        let start = self.items.iter().rposition(|item| !matches!(item, Item::Part(_))).map_or(0, |at| at + 1);
        let mut parts = Vec::new();
        let mut joined = 0;
        for item in self.items.drain(start..) {
            match item {
                Item::Part(Node { kind: Kind::Concat(subs), .. }) => {
                    joined += 1;
                    parts.extend(subs);
                }
                Item::Part(node) => parts.push(node),
                _ => {}
            }
        }
        let kind = match parts.len() {
            0 => Kind::Empty,
            1 => return self.push_node(parts.remove(0)),
            _ => Kind::Concat(parts),
        };
        self.allocate();
        self.nodes = self.nodes.saturating_sub(joined);
        self.push_node(Node::new(kind))
    }

    fn alternate(&mut self, alternatives: Vec<Node>) -> Node {
        let mut parts: Vec<Node> = Vec::with_capacity(alternatives.len());
        for node in alternatives {
            match node.kind {
                Kind::Alternate(subs) => parts.extend(subs),
                _ => parts.push(node),
            }
        }
        let mut merged = merge_characters(parts);
        if merged.len() == 1 {
            return merged.remove(0);
        }
        self.allocate();
        Node::new(Kind::Alternate(merged))
    }

    fn allocate(&mut self) {
        self.nodes += 1;
        self.nodes_most = self.nodes_most.max(self.nodes);
    }

    /// Checks Go's limits after a part was added.
    fn check<'p>(&mut self, node: Option<&mut Node>) -> Result<(), Problem<'p>> {
        if self.runes > RUNES_MAX {
            return Err(Problem::Whole(ErrorKind::TooLarge));
        }
        let Some(node) = node else { return Ok(()) };
        self.check_size(node)?;
        if node.height > HEIGHT_MAX {
            return Err(Problem::Whole(ErrorKind::TooDeep));
        }
        Ok(())
    }

    fn check_size<'p>(&mut self, node: &mut Node) -> Result<(), Problem<'p>> {
        if !self.counting {
            let factor = match &node.kind {
                Kind::Repeat(repeat) if repeat.counted => u64::from(repeat.max.unwrap_or(repeat.min).max(1)),
                _ => 1,
            };
            self.repeats = self.repeats.max(1).saturating_mul(factor).min(SIZE_MAX);
            if self.nodes_most < SIZE_MAX / self.repeats {
                return Ok(());
            }
            self.counting = true;
            for item in &mut self.items {
                if let Item::Part(node) = item {
                    node.measure();
                }
            }
        }
        if node.measure() > SIZE_MAX {
            return Err(Problem::Whole(ErrorKind::TooLarge));
        }
        Ok(())
    }
}

/// Turns a class of one character, or of one letter in both cases, into a literal.
fn as_literal(node: &mut Node) {
    let Kind::Class(class) = &node.kind else { return };
    let Some(first) = class.ranges().first().map(|range| range.start()) else { return };
    let characters: usize = class.ranges().iter().take(3).map(|range| range.len()).sum();
    let fold = match characters {
        1 => false,
        2 if unicode::fold_character(first) == **class => true,
        _ => return,
    };
    node.kind = Kind::Literal { text: first.to_string(), fold };
}

/// Joins neighbours that match one character each into a class.
fn merge_characters(parts: Vec<Node>) -> Vec<Node> {
    let mut merged: Vec<Node> = Vec::with_capacity(parts.len());
    let mut run: Vec<Node> = Vec::new();
    for node in parts {
        if node.is_one_character() {
            run.push(node);
        } else {
            merged.extend(join(std::mem::take(&mut run)));
            merged.push(node);
        }
    }
    merged.extend(join(run));
    merged
}

fn join(mut run: Vec<Node>) -> Option<Node> {
    if run.len() < 2 {
        return run.pop();
    }
    let mut ranges: Vec<ClassUnicodeRange> = Vec::new();
    for node in &run {
        match &node.kind {
            Kind::Class(class) => ranges.extend(class.ranges()),
            Kind::Any => ranges.push(ClassUnicodeRange::new('\0', char::MAX)),
            Kind::AnyExceptNewline => {
                ranges.push(ClassUnicodeRange::new('\0', '\x09'));
                ranges.push(ClassUnicodeRange::new('\x0b', char::MAX));
            }
            Kind::Literal { text, fold } => {
                for c in text.chars() {
                    match fold {
                        true => ranges.extend(unicode::fold_character(c).ranges()),
                        false => ranges.push(ClassUnicodeRange::new(c, c)),
                    }
                }
            }
            _ => {}
        }
    }
    Some(Node::new(Kind::Class(Arc::new(ClassUnicode::new(ranges)))))
}
