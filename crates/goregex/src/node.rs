//! The syntax tree of a pattern, with the measures that Go's limits are about.

use std::sync::Arc;

use regex_syntax::hir::{ClassUnicode, Look};

/// A part of a pattern.
pub struct Node {
    pub kind: Kind,
    /// Levels of the tree; a leaf has one.
    pub height: u32,
    /// How often the innermost part occurs when nested repetitions are written out.
    pub repeats: u32,
    /// Instructions of Go's compiled program; zero while not counted yet.
    pub size: u64,
}

pub enum Kind {
    Empty,
    /// Characters one after the other, in any case if `fold`.
    Literal {
        text: String,
        fold: bool,
    },
    Class(Arc<ClassUnicode>),
    Any,
    AnyExceptNewline,
    Look(Look),
    Capture(Box<Node>),
    Repeat(Repeat),
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
}

pub struct Repeat {
    pub min: u32,
    pub max: Option<u32>,
    pub greedy: bool,
    /// Whether it was written with braces: those alone count towards the limit on nested repetitions.
    pub counted: bool,
    pub sub: Box<Node>,
}

impl Node {
    pub fn new(kind: Kind) -> Node {
        let (mut height, mut repeats) = (0, 1);
        for sub in kind.subs() {
            height = height.max(sub.height);
            repeats = repeats.max(sub.repeats);
        }
        if let Kind::Repeat(Repeat { min, max, counted: true, .. }) = &kind {
            repeats = match max {
                Some(0) => 1,
                _ => repeats.saturating_mul(max.unwrap_or(*min).max(1)),
            };
        }
        Node { kind, height: height + 1, repeats, size: 0 }
    }

    /// Whether the node matches exactly one character, so that an alternation of such nodes is a class.
    pub fn is_one_character(&self) -> bool {
        match &self.kind {
            Kind::Literal { text, .. } => text.chars().nth(1).is_none(),
            Kind::Class(_) | Kind::Any | Kind::AnyExceptNewline => true,
            _ => false,
        }
    }

    /// Counts the instructions of Go's program for this node, and for those below that were not counted yet.
    pub fn measure(&mut self) -> u64 {
        let mut of_subs = 0_u64;
        let mut subs = 0_u64;
        for sub in self.kind.subs_mut() {
            let size = if sub.size == 0 { sub.measure() } else { sub.size };
            of_subs = of_subs.saturating_add(size);
            subs += 1;
        }
        let size = match &self.kind {
            Kind::Literal { text, .. } => text.chars().count() as u64,
            Kind::Capture(_) => of_subs + 2,
            Kind::Alternate(_) => of_subs + subs.saturating_sub(1),
            Kind::Repeat(repeat) => repeat.size(of_subs),
            _ => of_subs,
        };
        self.size = size.max(1);
        self.size
    }
}

impl Repeat {
    /// Instructions of the repetition when one copy of what is repeated has `sub`.
    fn size(&self, sub: u64) -> u64 {
        let (min, max) = (u64::from(self.min), self.max.map(u64::from));
        match (min, max) {
            (0, None) => sub + 2,
            (0, Some(1)) if !self.counted => sub + 1,
            (_, None) => min.saturating_mul(sub).saturating_add(1),
            (_, Some(max)) => max.saturating_mul(sub).saturating_add(max - min.min(max)),
        }
    }
}

impl Kind {
    fn subs(&self) -> &[Node] {
        match self {
            Kind::Capture(sub) | Kind::Repeat(Repeat { sub, .. }) => std::slice::from_ref(sub),
            Kind::Concat(subs) | Kind::Alternate(subs) => subs,
            _ => &[],
        }
    }

    fn subs_mut(&mut self) -> &mut [Node] {
        match self {
            Kind::Capture(sub) | Kind::Repeat(Repeat { sub, .. }) => std::slice::from_mut(sub),
            Kind::Concat(subs) | Kind::Alternate(subs) => subs,
            _ => &mut [],
        }
    }
}
