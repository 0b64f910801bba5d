//! Differences between two texts, as upstream shows them in messages: a unified diff with three lines of context.
//!
//! Which lines a diff keeps is visible, so this follows the algorithm upstream's library uses (Python's difflib): the
//! longest run of equal lines first, then left and right of it; lines that a long text repeats often start no run.

use std::collections::HashMap;
use std::fmt::Write;

const CONTEXT: usize = 3;

/// From this length on, lines that make up more than a hundredth of the new text are too popular to start a match.
const POPULAR_FROM: usize = 200;

/// Texts with more lines are compared from both ends only: the algorithm takes time with the square of the lines or worse.
const LINES_MAX: usize = 2_000;

/// The unified diff from `old` to `new`, "" if they are equal.
pub fn unified(old: &str, new: &str) -> String {
    let (old, new) = (lines(old), lines(new));
    let mut out = String::new();
    let operations = if old.len().max(new.len()) > LINES_MAX { one_change(&old, &new) } else { operations(&old, &new) };
    for group in groups(&operations) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let (from, to) = (range(first.old.0, last.old.1), range(first.new.0, last.new.1));
        writeln!(out, "@@ -{from} +{to} @@").expect("writing to a string cannot fail");
        for operation in &group {
            operation.write(&old, &new, &mut out);
        }
    }
    out
}

/// Everything between the lines that both texts begin with and those that both end with, as one change.
fn one_change(old: &[&str], new: &[&str]) -> Vec<Operation> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (old.len() - end, new.len() - end);
    let stretches = [
        Operation { equal: true, old: (0, start), new: (0, start) },
        Operation { equal: false, old: (start, old_end), new: (start, new_end) },
        Operation { equal: true, old: (old_end, old.len()), new: (new_end, new.len()) },
    ];
    stretches.into_iter().filter(|stretch| stretch.old.0 < stretch.old.1 || stretch.new.0 < stretch.new.1).collect()
}

/// Every line with its line feed; the text before the first line feed that is missing gets one.
fn lines(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

/// A stretch of both texts, as half-open ranges, that is equal or not.
#[derive(Clone, Copy, Debug)]
struct Operation {
    equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

impl Operation {
    fn write(&self, old: &[&str], new: &[&str], out: &mut String) {
        let mut push = |sign: char, lines: Option<&[&str]>| {
            for line in lines.unwrap_or(&[]) {
                out.push(sign);
                out.push_str(line);
                out.push('\n');
            }
        };
        if self.equal {
            push(' ', old.get(self.old.0..self.old.1));
        } else {
            push('-', old.get(self.old.0..self.old.1));
            push('+', new.get(self.new.0..self.new.1));
        }
    }
}

/// `start,length` counted from one; the length is left out when it is one, and an empty range starts a line earlier.
fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

/// Splits operations into hunks, with at most [`CONTEXT`] equal lines around the changes.
fn groups(operations: &[Operation]) -> Vec<Vec<Operation>> {
    let mut operations = operations.to_vec();
    if let Some(first) = operations.first_mut().filter(|first| first.equal) {
        first.old.0 = first.old.0.max(first.old.1.saturating_sub(CONTEXT));
        first.new.0 = first.new.0.max(first.new.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = operations.last_mut().filter(|last| last.equal) {
        last.old.1 = last.old.1.min(last.old.0 + CONTEXT);
        last.new.1 = last.new.1.min(last.new.0 + CONTEXT);
    }
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    for mut operation in operations {
        if operation.equal && operation.old.1 - operation.old.0 > 2 * CONTEXT {
            let head = Operation {
                old: (operation.old.0, operation.old.0 + CONTEXT),
                new: (operation.new.0, operation.new.0 + CONTEXT),
                ..operation
            };
            group.push(head);
            groups.push(std::mem::take(&mut group));
            operation.old.0 = operation.old.1 - CONTEXT;
            operation.new.0 = operation.new.1 - CONTEXT;
        }
        group.push(operation);
    }
    if group.iter().any(|operation| !operation.equal) {
        groups.push(group);
    }
    groups
}

/// The whole of both texts, in order, as equal and changed stretches.
fn operations(old: &[&str], new: &[&str]) -> Vec<Operation> {
    let (mut i, mut j) = (0, 0);
    let mut operations = Vec::new();
    let mut blocks = matching_blocks(old, new);
    blocks.push(Match { old: old.len(), new: new.len(), length: 0 });
    for block in blocks {
        if i < block.old || j < block.new {
            operations.push(Operation { equal: false, old: (i, block.old), new: (j, block.new) });
        }
        (i, j) = (block.old + block.length, block.new + block.length);
        if block.length > 0 {
            operations.push(Operation { equal: true, old: (block.old, i), new: (block.new, j) });
        }
    }
    operations
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Match {
    old: usize,
    new: usize,
    length: usize,
}

/// Equal stretches in order, adjacent ones joined.
fn matching_blocks(old: &[&str], new: &[&str]) -> Vec<Match> {
    let positions = positions(new);
    let mut blocks = Vec::new();
    let mut queue = vec![(0, old.len(), 0, new.len())];
    while let Some((old_low, old_high, new_low, new_high)) = queue.pop() {
        let found = longest_match(old, new, &positions, (old_low, old_high), (new_low, new_high));
        if found.length == 0 {
            continue;
        }
        blocks.push(found);
        if old_low < found.old && new_low < found.new {
            queue.push((old_low, found.old, new_low, found.new));
        }
        let (old_end, new_end) = (found.old + found.length, found.new + found.length);
        if old_end < old_high && new_end < new_high {
            queue.push((old_end, old_high, new_end, new_high));
        }
    }
    blocks.sort_unstable();
    let mut joined: Vec<Match> = Vec::with_capacity(blocks.len());
    for block in blocks {
        match joined.last_mut() {
            Some(last) if last.old + last.length == block.old && last.new + last.length == block.new => {
                last.length += block.length;
            }
            _ => joined.push(block),
        }
    }
    joined
}

/// Where each line of the new text stands, without the ones that are too popular.
fn positions<'a>(new: &[&'a str]) -> HashMap<&'a str, Vec<usize>> {
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, line) in new.iter().enumerate() {
        positions.entry(line).or_default().push(i);
    }
    if new.len() >= POPULAR_FROM {
        let often = new.len() / 100 + 1;
        positions.retain(|_, at| at.len() <= often);
    }
    positions
}

/// The longest run of equal lines inside both ranges; of several, the one that starts first in the old text, then in
/// the new one. Runs are found from unpopular lines and then grown over any lines.
fn longest_match(
    old: &[&str],
    new: &[&str],
    positions: &HashMap<&str, Vec<usize>>,
    old_range: (usize, usize),
    new_range: (usize, usize),
) -> Match {
    let mut best = Match { old: old_range.0, new: new_range.0, length: 0 };
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for i in old_range.0..old_range.1 {
        let mut next: HashMap<usize, usize> = HashMap::new();
        let at = old.get(i).and_then(|line| positions.get(line)).map_or(&[][..], Vec::as_slice);
        for &j in at.iter().filter(|&&j| j >= new_range.0).take_while(|&&j| j < new_range.1) {
            let length = j.checked_sub(1).and_then(|before| lengths.get(&before)).copied().unwrap_or(0) + 1;
            next.insert(j, length);
            if length > best.length {
                best = Match { old: i + 1 - length, new: j + 1 - length, length };
            }
        }
        lengths = next;
    }
    let equal = |i: usize, j: usize| old.get(i).is_some_and(|line| new.get(j) == Some(line));
    while best.old > old_range.0 && best.new > new_range.0 && equal(best.old - 1, best.new - 1) {
        best = Match { old: best.old - 1, new: best.new - 1, length: best.length + 1 };
    }
    while best.old + best.length < old_range.1
        && best.new + best.length < new_range.1
        && equal(best.old + best.length, best.new + best.length)
    {
        best.length += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, want: &str) {
        assert_eq!(unified(old, new), want);
    }

    #[test]
    fn changes_come_with_context() {
        check("a\nb\nc", "a\nb\nc", "");
        check("a", "b", "@@ -1 +1 @@\n-a\n+b\n");
        check("1\n2\n3\n4\n5\n6", "1\n2\n3\n4\nx\n6", "@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+x\n 6\n");
        check("a\nb", "a\nb\nc\nd", "@@ -1,2 +1,4 @@\n a\n b\n+c\n+d\n");
    }

    #[test]
    fn far_changes_are_apart() {
        let old: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        let mut new = old.clone();
        new[2] = "x".into();
        new[17] = "y".into();
        check(
            &old.join("\n"),
            &new.join("\n"),
            "@@ -1,6 +1,6 @@\n 0\n 1\n-2\n+x\n 3\n 4\n 5\n@@ -15,6 +15,6 @@\n 14\n 15\n 16\n-17\n+y\n 18\n 19\n",
        );
    }
}
