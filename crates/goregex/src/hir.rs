//! From our syntax tree to that of `regex-syntax`. Captures are left out: callers want to know only where a match is.

use regex_syntax::hir::{Class, ClassUnicode, Dot, Hir, Repetition};

use crate::node::{Kind, Node};
use crate::unicode;

pub fn build(node: &Node) -> Hir {
    match &node.kind {
        Kind::Empty => Hir::empty(),
        Kind::Literal { text, fold: false } => Hir::literal(text.as_bytes()),
        Kind::Literal { text, fold: true } => {
            let any_case = |c| Hir::class(Class::Unicode(unicode::fold_character(c)));
            Hir::concat(text.chars().map(any_case).collect())
        }
        Kind::Class(class) => Hir::class(Class::Unicode(ClassUnicode::clone(class))),
        Kind::Any => Hir::dot(Dot::AnyChar),
        Kind::AnyExceptNewline => Hir::dot(Dot::AnyCharExceptLF),
        Kind::Look(look) => Hir::look(*look),
        Kind::Capture(sub) => build(sub),
        Kind::Repeat(repeat) => Hir::repetition(Repetition {
            min: repeat.min,
            max: repeat.max,
            greedy: repeat.greedy,
            sub: Box::new(build(&repeat.sub)),
        }),
        Kind::Concat(subs) => Hir::concat(subs.iter().map(build).collect()),
        Kind::Alternate(subs) => Hir::alternation(subs.iter().map(build).collect()),
    }
}
