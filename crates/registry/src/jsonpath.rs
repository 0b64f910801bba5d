//! JSONPath as client-go has it: what printer columns, selectable fields and references to fields are written in.

mod eval;
mod parse;

use object::{Str, Value};

/// A parsed path.
#[derive(Clone, Debug)]
pub struct JsonPath {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Field(Str),
    /// Start, end and step of a slice.
    Array([Param; 3]),
    Filter(Box<Filter>),
    Union(Vec<Vec<Node>>),
    Wildcard,
    Recursive,
    Constant(Value),
    /// A word such as `range`, which means nothing in a column.
    Identifier(Str),
}

/// A number of a slice, where it is stated or follows from another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Param {
    value: i64,
    known: bool,
    derived: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<Node>,
    right: Vec<Node>,
    /// "exists" where there is nothing to compare with.
    operator: Str,
}

impl JsonPath {
    /// Parses a path without the braces around it.
    pub fn parse(path: &str) -> Result<JsonPath, String> {
        parse::action(path, 0).map(|(nodes, _)| JsonPath { nodes })
    }

    /// Whether a text between braces is a template, which may go on behind a closing brace.
    pub fn check(text: &str) -> Result<(), String> {
        let mut rest = text;
        loop {
            let (_, behind) = parse::action(rest, 0)?;
            match behind.split_once('{') {
                Some((_, action)) => rest = action,
                None => return Ok(()),
            }
        }
    }

    /// Everything the path leads to; missing keys lead nowhere.
    pub fn find<'v>(&'v self, value: &'v Value) -> Result<Vec<&'v Value>, String> {
        eval::list(&self.nodes, vec![value])
    }
}

#[cfg(test)]
mod tests;
