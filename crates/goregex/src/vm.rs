//! A matcher for patterns too big for automata: one instruction for each part of the pattern, and one pass over the text that
//! follows all ways to match at once. Its time is bounded by the program's size times the text's length.

mod compile;
#[cfg(test)]
mod tests;

use std::ops::Range;

use regex_syntax::hir::{ClassUnicode, Look};

pub struct Program {
    instructions: Vec<Instruction>,
    /// The classes that instructions refer to by number.
    classes: Vec<ClassUnicode>,
    start: u32,
}

#[derive(Clone, Copy)]
enum Instruction {
    /// One character, then the next instruction.
    Character(char, u32),
    Class(u32, u32),
    Any(u32),
    AnyExceptNewline(u32),
    Look(Look, u32),
    /// Two ways to go on; the first is preferred.
    Split(u32, u32),
    Match,
}

/// Instructions that are waiting for the next character, in order of preference, each with where its match began.
struct Threads {
    /// For each instruction its place in `waiting`, if that place holds the instruction.
    places: Vec<u32>,
    waiting: Vec<(u32, usize)>,
}

impl Threads {
    fn new(size: usize) -> Threads {
        Threads { places: vec![0; size], waiting: Vec::new() }
    }

    /// False if the instruction was there already.
    fn insert(&mut self, at: u32, start: usize) -> bool {
        let place = self.places[at as usize] as usize;
        if self.waiting.get(place).is_some_and(|(held, _)| *held == at) {
            return false;
        }
        self.places[at as usize] = self.waiting.len() as u32;
        self.waiting.push((at, start));
        true
    }
}

impl Program {
    pub fn is_match(&self, text: &str) -> bool {
        self.search(text, 0, true).is_some()
    }

    pub fn find_at(&self, text: &str, from: usize) -> Option<Range<usize>> {
        self.search(text, from, false)
    }

    /// The leftmost match, preferring as the pattern does; with `earliest` the first that is found.
    fn search(&self, text: &str, from: usize, earliest: bool) -> Option<Range<usize>> {
        let mut now = Threads::new(self.instructions.len());
        let mut next = Threads::new(self.instructions.len());
        let mut pending = Vec::new();
        let mut found: Option<Range<usize>> = None;
        let mut before = text[..from].chars().next_back();
        let mut rest = text[from..].chars();
        loop {
            let at = text.len() - rest.as_str().len();
            let after = rest.next();
            if found.is_none() {
                self.follow(&mut now, &mut pending, self.start, at, (before, after));
            }
            if now.waiting.is_empty() {
                return found;
            }
            let following = rest.clone().next();
            for (place, start) in std::mem::take(&mut now.waiting) {
                let to = match (self.instructions[place as usize], after) {
                    (Instruction::Match, _) => {
                        found = Some(start..at);
                        if earliest {
                            return found;
                        }
                        // What is preferred less cannot win any more.
                        break;
                    }
                    (Instruction::Character(c, to), Some(after)) if c == after => to,
                    (Instruction::Any(to), Some(_)) => to,
                    (Instruction::AnyExceptNewline(to), Some(after)) if after != '\n' => to,
                    (Instruction::Class(class, to), Some(after)) if self.contains(class, after) => to,
                    _ => continue,
                };
                self.follow(&mut next, &mut pending, to, start, (after, following));
            }
            std::mem::swap(&mut now, &mut next);
            if after.is_none() {
                return found;
            }
            before = after;
        }
    }

    /// Adds an instruction and all that can be reached from it without a character.
    fn follow(
        &self,
        threads: &mut Threads,
        pending: &mut Vec<u32>,
        to: u32,
        start: usize,
        (before, after): (Option<char>, Option<char>),
    ) {
        pending.push(to);
        while let Some(at) = pending.pop() {
            if !threads.insert(at, start) {
                continue;
            }
            match self.instructions[at as usize] {
                Instruction::Split(first, second) => {
                    pending.push(second);
                    pending.push(first);
                }
                Instruction::Look(look, to) if holds(look, before, after) => pending.push(to),
                _ => {}
            }
        }
    }

    fn contains(&self, class: u32, c: char) -> bool {
        let ranges = self.classes[class as usize].ranges();
        let after = ranges.partition_point(|range| range.start() <= c);
        after > 0 && c <= ranges[after - 1].end()
    }
}

fn holds(look: Look, before: Option<char>, after: Option<char>) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_ascii_alphanumeric());
    match look {
        Look::Start => before.is_none(),
        Look::End => after.is_none(),
        Look::StartLF => before.is_none_or(|c| c == '\n'),
        Look::EndLF => after.is_none_or(|c| c == '\n'),
        Look::WordAscii => is_word(before) != is_word(after),
        Look::WordAsciiNegate => is_word(before) == is_word(after),
        _ => false,
    }
}
