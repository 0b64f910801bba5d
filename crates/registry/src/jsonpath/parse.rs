//! From text to nodes, with client-go's errors.

use object::{Str, Value};

use super::{Filter, Node, Param};

/// Filters and unions are parsed by themselves, and may hold others.
const MAX_DEPTH: usize = 16;

/// Parses up to a closing brace, and returns what is behind it.
pub fn action(text: &str, depth: usize) -> Result<(Vec<Node>, &str), String> {
    if depth > MAX_DEPTH {
        return Err("path is nested too deeply".to_string());
    }
    let mut parser = JsonPathParser { rest: text, nodes: Vec::new(), depth };
    while parser.step()? {}
    let behind = parser.rest.get(1..).unwrap_or("");
    Ok((parser.nodes, behind))
}

/// A part of an action, which is parsed as an action of its own.
fn part(text: &str, depth: usize) -> Result<Vec<Node>, String> {
    action(text, depth).map(|(nodes, _)| nodes)
}

struct JsonPathParser<'a> {
    rest: &'a str,
    nodes: Vec<Node>,
    depth: usize,
}

impl JsonPathParser<'_> {
    /// Reads one part; false at the end.
    fn step(&mut self) -> Result<bool, String> {
        if let Some(after) = self.rest.strip_prefix("[?(") {
            self.rest = after;
            self.filter()?;
            return Ok(true);
        }
        if let Some(after) = self.rest.strip_prefix("..") {
            self.rest = after;
            return self.recursive().map(|()| true);
        }
        let Some(c) = self.rest.chars().next() else { return Ok(false) };
        match c {
            '\r' | '\n' => return Err("unclosed action".to_string()),
            '}' => return Ok(false),
            ' ' | '@' | '$' => self.advance(1),
            '[' => self.array()?,
            '"' | '\'' => self.quoted(c)?,
            '.' => {
                self.advance(1);
                self.field();
            }
            '+' | '-' => self.number()?,
            c if c.is_numeric() => self.number()?,
            c if is_word(c) => self.identifier(),
            c => return Err(format!("unrecognized character in action: {}", go_rune(c))),
        }
        Ok(true)
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    fn take(&mut self, bytes: usize) -> String {
        let taken = self.rest.get(..bytes).unwrap_or(self.rest).to_string();
        self.advance(bytes);
        taken
    }

    fn field(&mut self) {
        let mut end = self.rest.len();
        let mut characters = self.rest.char_indices();
        while let Some((at, c)) = characters.next() {
            if c == '\\' {
                characters.next();
            } else if is_terminator(c) {
                end = at;
                break;
            }
        }
        let text = self.take(end);
        self.nodes.push(if text == "*" { Node::Wildcard } else { Node::Field(text.replace('\\', "").into()) });
    }

    fn recursive(&mut self) -> Result<(), String> {
        if self.nodes.last() == Some(&Node::Recursive) {
            return Err("invalid multiple recursive descent".to_string());
        }
        self.nodes.push(Node::Recursive);
        if self.rest.chars().next().is_some_and(is_word) {
            self.field();
        }
        Ok(())
    }

    fn identifier(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let text = self.take(end);
        self.nodes.push(match text.as_str() {
            "true" => Node::Constant(true.into()),
            "false" => Node::Constant(false.into()),
            _ => Node::Identifier(text.into()),
        });
    }

    fn number(&mut self) -> Result<(), String> {
        let signs = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[signs..].find(|c: char| c != '.' && !c.is_numeric());
        let text = self.take(digits.map_or(self.rest.len(), |end| end + signs));
        let plain = text.strip_prefix('+').unwrap_or(&text);
        let number = match (plain.parse::<i64>(), plain.parse::<f64>()) {
            (Ok(number), _) => Value::Int(number),
            (_, Ok(number)) => Value::Float(number),
            _ => return Err(format!("cannot parse number {text}")),
        };
        self.nodes.push(Node::Constant(number));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find_map(|(at, c)| {
            let ends = (c == quote && !escaped) || c == '\n';
            escaped = c == '\\';
            ends.then_some((at, c))
        });
        let Some((end, _)) = end.filter(|(_, c)| *c == quote) else {
            return Err("unterminated quoted string".to_string());
        };
        let text = self.take(end + 1);
        let inner = text.get(1..text.len() - 1).unwrap_or("");
        self.nodes.push(Node::Constant(unescape(inner).into()));
        Ok(())
    }

    fn array(&mut self) -> Result<(), String> {
        let end = self.rest.find([']', '\n']).filter(|end| self.rest[*end..].starts_with(']'));
        let Some(end) = end else { return Err("unterminated array".to_string()) };
        let text = self.take(end + 1);
        let text = &text[1..text.len() - 1];
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text.split(',').map(|item| part(&format!("[{}]", item.trim_matches(' ')), self.depth + 1));
            self.nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = quoted.filter(|key| !key.contains('\'')) {
            self.nodes.extend(part(&format!(".{key}"), self.depth + 1)?);
            return Ok(());
        }
        self.nodes.push(Node::Array(slice(text)?));
        Ok(())
    }

    fn filter(&mut self) -> Result<(), String> {
        let (mut begun, mut ended, mut pair, mut before) = (false, false, ' ', ' ');
        let end = self.rest.char_indices().find(|(_, c)| {
            match c {
                '"' | '\'' if !begun => (begun, pair) = (true, *c),
                '"' | '\'' if before != '\\' && *c == pair => ended = true,
                ')' if begun == ended => return true,
                '\n' => return true,
                _ => {}
            }
            before = *c;
            false
        });
        let Some((end, ')')) = end else { return Err("unterminated filter".to_string()) };
        let text = self.take(end);
        self.advance(1);
        if !self.rest.starts_with(']') {
            return Err("unclosed array expect ]".to_string());
        }
        self.advance(1);
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let start = text.find(is_operator).filter(|start| *start > 0);
        let split = start.map(|start| {
            let (left, rest) = text.split_at(start);
            let length = rest.find(|c: char| !is_operator(c)).unwrap_or(rest.len());
            (left, rest.split_at(length))
        });
        let filter = match split {
            Some((left, (operator, right))) if !right.is_empty() => Filter {
                left: part(left, self.depth + 1)?,
                right: part(right, self.depth + 1)?,
                operator: operator.into(),
            },
            _ => Filter { left: part(&text, self.depth + 1)?, right: Vec::new(), operator: Str::const_new("exists") },
        };
        self.nodes.push(Node::Filter(Box::new(filter)));
        Ok(())
    }
}

/// `start:end:step`, each of which may be missing.
fn slice(text: &str) -> Result<[Param; 3], String> {
    let wrong = || format!("invalid array index {text}");
    let parts: Vec<&str> = text.split(':').collect();
    let is_number = |part: &&str| {
        let digits = part.strip_prefix('-').unwrap_or(part);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return Err(wrong());
    }
    let mut params = [Param::default(); 3];
    for (param, part) in params.iter_mut().zip(&parts) {
        if !part.is_empty() {
            let value = part.parse().map_err(|_| format!("array index {part} is not a number"))?;
            *param = Param { value, known: true, derived: false };
        }
    }
    if parts.len() == 1 {
        params[1] = Param { value: params[0].value.saturating_add(1), known: true, derived: true };
    }
    Ok(params)
}

/// A string without its quotes: a backslash makes the next character itself, but for the usual letters.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            c => out.push(c),
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphabetic() || c.is_numeric()
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Go's `%#U`.
fn go_rune(c: char) -> String {
    format!("U+{:04X} '{c}'", u32::from(c))
}
