//! From the syntax tree to instructions, written from the end of the pattern to its start, so that each part knows what follows.

use std::collections::HashMap;
use std::sync::Arc;

use regex_syntax::hir::ClassUnicode;

use super::{Instruction, Program};
use crate::node::{Kind, Node, Repeat};
use crate::unicode;

impl Program {
    pub fn new(node: &Node) -> Program {
        let mut compiler = RegexCompiler::default();
        let end = compiler.add(Instruction::Match);
        let start = compiler.node(node, end);
        Program { instructions: compiler.instructions, classes: compiler.classes, start }
    }
}

#[derive(Default)]
struct RegexCompiler {
    instructions: Vec<Instruction>,
    classes: Vec<ClassUnicode>,
    /// Numbers of classes by their address in the tree, because repetitions visit them many times.
    known: HashMap<*const ClassUnicode, u32>,
    folded: HashMap<char, u32>,
}

impl RegexCompiler {
    fn add(&mut self, instruction: Instruction) -> u32 {
        self.instructions.push(instruction);
        (self.instructions.len() - 1) as u32
    }

    /// Writes the instructions of a node that is followed by `next`; returns the first of them.
    fn node(&mut self, node: &Node, next: u32) -> u32 {
        match &node.kind {
            Kind::Empty => next,
            Kind::Literal { text, fold } => text.chars().rev().fold(next, |next, c| self.character(c, *fold, next)),
            Kind::Class(class) => {
                let class = self.class(class);
                self.add(Instruction::Class(class, next))
            }
            Kind::Any => self.add(Instruction::Any(next)),
            Kind::AnyExceptNewline => self.add(Instruction::AnyExceptNewline(next)),
            Kind::Look(look) => self.add(Instruction::Look(*look, next)),
            Kind::Capture(sub) => self.node(sub, next),
            Kind::Repeat(repeat) => self.repeat(repeat, next),
            Kind::Concat(subs) => subs.iter().rev().fold(next, |next, sub| self.node(sub, next)),
            Kind::Alternate(subs) => {
                let mut rest: Option<u32> = None;
                for sub in subs.iter().rev() {
                    let first = self.node(sub, next);
                    rest = Some(match rest {
                        None => first,
                        Some(rest) => self.add(Instruction::Split(first, rest)),
                    });
                }
                rest.unwrap_or(next)
            }
        }
    }

    fn character(&mut self, c: char, fold: bool, next: u32) -> u32 {
        if !fold {
            return self.add(Instruction::Character(c, next));
        }
        let class = match self.folded.get(&c) {
            Some(class) => *class,
            None => {
                self.classes.push(unicode::fold_character(c));
                let number = (self.classes.len() - 1) as u32;
                self.folded.insert(c, number);
                number
            }
        };
        self.add(Instruction::Class(class, next))
    }

    fn class(&mut self, class: &Arc<ClassUnicode>) -> u32 {
        let address = Arc::as_ptr(class);
        if let Some(number) = self.known.get(&address) {
            return *number;
        }
        self.classes.push(ClassUnicode::clone(class));
        let number = (self.classes.len() - 1) as u32;
        self.known.insert(address, number);
        number
    }

    fn repeat(&mut self, repeat: &Repeat, next: u32) -> u32 {
        let sub = &repeat.sub;
        // What is optional comes last in the text, so it is written first.
        let mut first = next;
        let mut copies = repeat.min;
        match repeat.max {
            // x{2,5} is xx(x(x(x)?)?)?
            Some(max) => {
                for _ in repeat.min..max {
                    let inside = self.node(sub, first);
                    first = self.choice(inside, next, repeat.greedy);
                }
            }
            None if repeat.min == 0 => first = self.star(repeat, next),
            None => {
                first = self.plus(repeat, next);
                copies -= 1;
            }
        }
        (0..copies).fold(first, |next, _| self.node(sub, next))
    }

    /// x+: x, then a choice between x again and what follows.
    fn plus(&mut self, repeat: &Repeat, next: u32) -> u32 {
        let again = self.add(Instruction::Match);
        let first = self.node(&repeat.sub, again);
        self.instructions[again as usize] = split(first, next, repeat.greedy);
        first
    }

    /// x* is (x+)?, which also prefers rightly when x can match nothing.
    fn star(&mut self, repeat: &Repeat, next: u32) -> u32 {
        let first = self.plus(repeat, next);
        self.choice(first, next, repeat.greedy)
    }

    fn choice(&mut self, inside: u32, next: u32, greedy: bool) -> u32 {
        self.add(split(inside, next, greedy))
    }
}

fn split(inside: u32, next: u32, greedy: bool) -> Instruction {
    if greedy { Instruction::Split(inside, next) } else { Instruction::Split(next, inside) }
}
