//! Characters to tokens.
//!
//! A plain scalar turns out to be a key only when its colon comes, so tokens wait in a queue until it is certain that
//! none has to be put in front of them. Limits, messages and the places they name follow upstream's scanner.

mod scalars;
mod tags;

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::Problem;
use super::input::{Input, Mark, is_blank, is_blank_or_end, is_break, is_break_or_end};

/// How deeply flow collections and indentation may nest before the scanner itself gives up.
const SCANNER_DEPTH: usize = 10_000;
/// A key and its colon must be on one line and this close together.
const MAX_KEY_LENGTH: usize = 1024;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub kind: Kind,
    pub start: Mark,
    pub end: Mark,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    StreamEnd,
    Version(u8, u8),
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { text: String, plain: bool },
}

/// A token that may turn out to be a key.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    /// It starts a line at the indentation of the mapping, so it can be nothing else.
    required: bool,
    token: usize,
    mark: Mark,
}

pub(super) struct Scanner {
    input: Input,
    tokens: VecDeque<Token>,
    /// How many tokens have been handed out; a token's number is its place in the whole document.
    parsed: usize,
    ended: bool,
    /// The innermost block collection's column, -1 outside of all.
    indent: isize,
    indents: Vec<isize>,
    flow_level: usize,
    key_allowed: bool,
    /// One for each flow level, and one for the block context.
    keys: Vec<SimpleKey>,
    /// Possible keys by the number of their token.
    keys_by_token: HashMap<usize, usize>,
}

type Scanned = Result<(), Problem>;

impl Scanner {
    pub fn new(bytes: &[u8]) -> Scanner {
        Scanner {
            input: Input::new(bytes),
            tokens: VecDeque::new(),
            parsed: 0,
            ended: false,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            key_allowed: true,
            keys: vec![SimpleKey::default()],
            keys_by_token: HashMap::new(),
        }
    }

    /// The next token, which stays until [`Scanner::skip`].
    pub fn peek(&mut self) -> Result<&Token, Problem> {
        while self.needs_more()? {
            let fetched = self.fetch();
            // A character that is none explains whatever else went wrong.
            self.input.check()?;
            fetched?;
        }
        self.tokens.front().ok_or_else(|| Problem::plain("attempted to go past the end of stream; corrupted value?"))
    }

    /// Takes the token that was peeked at.
    pub fn skip(&mut self) -> Option<Token> {
        self.parsed += 1;
        self.tokens.pop_front()
    }

    /// Whether the first token in the queue, if any, may still get a key in front of it.
    fn needs_more(&mut self) -> Result<bool, Problem> {
        if self.tokens.is_empty() {
            return Ok(!self.ended);
        }
        match self.keys_by_token.get(&self.parsed) {
            Some(&index) => self.key_is_valid(index),
            None => Ok(false),
        }
    }

    fn fetch(&mut self) -> Scanned {
        self.skip_to_token();
        self.unroll_indent(self.input.mark.column as isize);
        self.input.look_ahead();
        let (c, next) = (self.input.peek(), self.input.at(1));
        let in_flow = self.flow_level > 0;
        match c {
            '\0' => self.fetch_stream_end(),
            '%' if self.input.mark.column == 0 => self.fetch_directive(),
            '-' | '.' if self.input.at_document_marker() => self.fetch_document_marker(c),
            '[' => self.fetch_flow_start(Kind::FlowSequenceStart),
            '{' => self.fetch_flow_start(Kind::FlowMappingStart),
            ']' => self.fetch_flow_end(Kind::FlowSequenceEnd),
            '}' => self.fetch_flow_end(Kind::FlowMappingEnd),
            ',' => self.fetch_flow_entry(),
            '-' if is_blank_or_end(next) => self.fetch_block_entry(),
            '?' if in_flow || is_blank_or_end(next) => self.fetch_key(),
            ':' if in_flow || is_blank_or_end(next) => self.fetch_value(),
            '*' | '&' => self.fetch_anchor(c == '*'),
            '!' => self.fetch_tag(),
            '|' | '>' if !in_flow => self.fetch_block_scalar(c == '|'),
            '\'' | '"' => self.fetch_flow_scalar(c == '\''),
            _ if self.starts_plain(c, next) => self.fetch_plain_scalar(),
            _ => Err(self.problem(self.input.mark, "found character that cannot start any token")),
        }
    }

    fn starts_plain(&self, c: char, next: char) -> bool {
        match c {
            '-' => !is_blank(next),
            '?' | ':' => self.flow_level == 0 && !is_blank_or_end(next),
            '#' | '|' | '>' | '%' | '@' | '`' => false,
            c => !is_blank_or_end(c),
        }
    }

    /// Passes over blanks, comments and line breaks.
    fn skip_to_token(&mut self) {
        loop {
            if self.input.mark.index == 0 && self.input.peek() == '\u{feff}' {
                self.input.skip();
            }
            // Tabs may not indent, so they do not count where a key could begin.
            let tabs = self.flow_level > 0 || !self.key_allowed;
            while self.input.peek() == ' ' || tabs && self.input.peek() == '\t' {
                self.input.skip();
            }
            if self.input.peek() == '#' {
                while !is_break_or_end(self.input.peek()) {
                    self.input.skip();
                }
            }
            if !is_break(self.input.peek()) {
                return;
            }
            self.input.skip_line();
            if self.flow_level == 0 {
                self.key_allowed = true;
            }
        }
    }

    fn key_is_valid(&mut self, index: usize) -> Result<bool, Problem> {
        let Some(key) = self.keys.get(index).copied().filter(|key| key.possible) else { return Ok(false) };
        let mark = self.input.mark;
        if key.mark.line < mark.line || key.mark.index + MAX_KEY_LENGTH < mark.index {
            if key.required {
                return Err(self.problem(key.mark, "could not find expected ':'"));
            }
            self.keys[index].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    /// Remembers that the token about to be fetched may be a key.
    fn save_key(&mut self) -> Scanned {
        if !self.key_allowed {
            return Ok(());
        }
        let mark = self.input.mark;
        let required = self.flow_level == 0 && self.indent == mark.column as isize;
        let token = self.parsed + self.tokens.len();
        self.remove_key()?;
        let last = self.keys.len() - 1;
        self.keys[last] = SimpleKey { possible: true, required, token, mark };
        self.keys_by_token.insert(token, last);
        Ok(())
    }

    fn remove_key(&mut self) -> Scanned {
        let last = self.keys.len() - 1;
        let key = self.keys[last];
        if key.possible {
            if key.required {
                return Err(self.problem(key.mark, "could not find expected ':'"));
            }
            self.keys[last].possible = false;
            self.keys_by_token.remove(&key.token);
        }
        Ok(())
    }

    /// Opens a block collection if the column is further in than the one we are in. The token goes in front of the one
    /// with that number, at the end of the queue without one.
    fn roll_indent(&mut self, column: usize, number: Option<usize>, kind: Kind, mark: Mark) -> Scanned {
        if self.flow_level > 0 || self.indent >= column as isize {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column as isize;
        if self.indents.len() > SCANNER_DEPTH {
            return Err(self.problem(self.keys[self.keys.len() - 1].mark, "exceeded max depth of 10000"));
        }
        self.insert(number, Token { kind, start: mark, end: mark });
        Ok(())
    }

    /// Closes block collections that are further in than the column.
    fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            let mark = self.input.mark;
            self.tokens.push_back(Token { kind: Kind::BlockEnd, start: mark, end: mark });
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn insert(&mut self, number: Option<usize>, token: Token) {
        match number.and_then(|number| number.checked_sub(self.parsed)) {
            Some(place) if place <= self.tokens.len() => self.tokens.insert(place, token),
            _ => self.tokens.push_back(token),
        }
    }

    /// Appends a token of so many characters.
    fn push(&mut self, kind: Kind, width: usize) {
        let start = self.input.mark;
        (0..width).for_each(|_| self.input.skip());
        self.tokens.push_back(Token { kind, start, end: self.input.mark });
    }

    fn fetch_stream_end(&mut self) -> Scanned {
        if self.input.mark.column != 0 {
            self.input.mark.column = 0;
            self.input.mark.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.ended = true;
        self.push(Kind::StreamEnd, 0);
        Ok(())
    }

    fn fetch_directive(&mut self) -> Scanned {
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        let token = self.scan_directive()?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_document_marker(&mut self, c: char) -> Scanned {
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.push(if c == '-' { Kind::DocumentStart } else { Kind::DocumentEnd }, 3);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: Kind) -> Scanned {
        self.save_key()?;
        let token = self.parsed + self.tokens.len();
        self.keys.push(SimpleKey { token, mark: self.input.mark, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > SCANNER_DEPTH {
            return Err(self.problem(self.input.mark, "exceeded max depth of 10000"));
        }
        self.key_allowed = true;
        self.push(kind, 1);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: Kind) -> Scanned {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(key) = self.keys.pop() {
                self.keys_by_token.remove(&key.token);
            }
        }
        self.key_allowed = false;
        self.push(kind, 1);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Scanned {
        self.remove_key()?;
        self.key_allowed = true;
        self.push(Kind::FlowEntry, 1);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Scanned {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem(self.input.mark, "block sequence entries are not allowed in this context"));
            }
            let mark = self.input.mark;
            self.roll_indent(mark.column, None, Kind::BlockSequenceStart, mark)?;
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.push(Kind::BlockEntry, 1);
        Ok(())
    }

    fn fetch_key(&mut self) -> Scanned {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem(self.input.mark, "mapping keys are not allowed in this context"));
            }
            let mark = self.input.mark;
            self.roll_indent(mark.column, None, Kind::BlockMappingStart, mark)?;
        }
        self.remove_key()?;
        self.key_allowed = self.flow_level == 0;
        self.push(Kind::Key, 1);
        Ok(())
    }

    fn fetch_value(&mut self) -> Scanned {
        let last = self.keys.len() - 1;
        if self.key_is_valid(last)? {
            let key = self.keys[last];
            self.insert(Some(key.token), Token { kind: Kind::Key, start: key.mark, end: key.mark });
            self.roll_indent(key.mark.column, Some(key.token), Kind::BlockMappingStart, key.mark)?;
            self.keys[last].possible = false;
            self.keys_by_token.remove(&key.token);
            self.key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.key_allowed {
                    return Err(self.problem(self.input.mark, "mapping values are not allowed in this context"));
                }
                let mark = self.input.mark;
                self.roll_indent(mark.column, None, Kind::BlockMappingStart, mark)?;
            }
            self.key_allowed = self.flow_level == 0;
        }
        self.push(Kind::Value, 1);
        Ok(())
    }

    fn fetch_anchor(&mut self, alias: bool) -> Scanned {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_anchor(alias)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_tag(&mut self) -> Scanned {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_tag()?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, literal: bool) -> Scanned {
        self.remove_key()?;
        self.key_allowed = true;
        let token = self.scan_block_scalar(literal)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_flow_scalar(&mut self, single: bool) -> Scanned {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_flow_scalar(single)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_plain_scalar(&mut self) -> Scanned {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_plain_scalar()?;
        self.tokens.push_back(token);
        Ok(())
    }

    /// An error at the current place. The first line has no number, unless what is being scanned began on a later one.
    fn problem(&self, context: Mark, message: &str) -> Problem {
        let line = match (self.input.mark.line, context.line) {
            (0, 0) => None,
            (0, line) => Some(line),
            (line, _) => Some(line + 1),
        };
        Problem { message: message.into(), line }
    }
}
