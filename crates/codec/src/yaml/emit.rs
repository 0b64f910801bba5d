//! Values to YAML, as upstream prints them: block style, two spaces a level, lists not indented, keys in natural order,
//! text quoted only where it has to be, and long text folded at 80 columns.

use std::cmp::Ordering;

use object::{Map, Value};

use super::format::go_float;
use super::input::{is_blank_or_end, is_break};
use super::resolve::needs_quotes;
use crate::json;

const INDENT: usize = 2;
const WIDTH: usize = 80;
/// A key longer than this is announced by a question mark.
const MAX_SIMPLE_KEY: usize = 128;

/// Appends a document.
pub(super) fn emit(value: &Value, out: &mut Vec<u8>) {
    let mut emitter = Emitter { out: String::new(), column: 0, indent: None, whitespace: true, indention: true };
    emitter.node(value, Context::Root);
    emitter.indent = None;
    emitter.write_indent();
    out.extend_from_slice(emitter.out.as_bytes());
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    Root,
    Item,
    /// A key on one line with its value.
    SimpleKey,
    LongKey,
    Value,
}

struct Emitter {
    out: String,
    column: usize,
    /// The column that nested content begins at; `None` outside of everything.
    indent: Option<usize>,
    /// Whether what was written last separates tokens.
    whitespace: bool,
    /// Whether nothing but indentation and dashes has been written on this line.
    indention: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

impl Emitter {
    fn node(&mut self, value: &Value, context: Context) {
        match value {
            Value::List(items) if items.is_empty() => self.indicator("[]", false, false),
            Value::Map(map) if map.is_empty() => self.indicator("{}", false, false),
            Value::List(items) => self.list(items, context),
            Value::Map(map) => self.map(map),
            Value::String(text) => self.text(text, context),
            Value::Null => self.scalar("null", Style::Plain, context),
            Value::Bool(bool) => self.scalar(if *bool { "true" } else { "false" }, Style::Plain, context),
            Value::Int(int) => self.scalar(&int.to_string(), Style::Plain, context),
            Value::Float(float) => self.scalar(&number(*float), Style::Plain, context),
            Value::Raw(raw) => self.node(&json::open(raw), context),
        }
    }

    fn list(&mut self, items: &[Value], context: Context) {
        let outer = self.indent;
        let indentless = matches!(context, Context::Value | Context::LongKey) && !self.indention;
        self.indent = Some(match outer {
            None => 0,
            Some(indent) if indentless => indent,
            Some(indent) => indent + INDENT,
        });
        for item in items {
            self.write_indent();
            self.indicator("-", false, true);
            self.node(item, Context::Item);
        }
        self.indent = outer;
    }

    fn map(&mut self, map: &Map) {
        let outer = self.indent;
        self.indent = Some(outer.map_or(0, |indent| indent + INDENT));
        for (key, value) in in_natural_order(map) {
            self.write_indent();
            if key.len() <= MAX_SIMPLE_KEY && !key.contains(is_break) {
                self.text(key, Context::SimpleKey);
                self.push(':');
                self.whitespace = false;
                self.indention = false;
            } else {
                self.indicator("?", false, true);
                self.text(key, Context::LongKey);
                self.write_indent();
                self.indicator(":", false, true);
            }
            self.node(value, Context::Value);
        }
        self.indent = outer;
    }

    fn text(&mut self, text: &str, context: Context) {
        let style = if text.contains('\n') {
            Style::Literal
        } else if needs_quotes(text) {
            Style::Double
        } else {
            Style::Plain
        };
        self.scalar(text, style, context);
    }

    fn scalar(&mut self, text: &str, style: Style, context: Context) {
        let traits = Traits::of(text);
        let style = traits.allowed(text, style, context == Context::SimpleKey);
        let outer = self.indent;
        self.indent = Some(outer.map_or(INDENT, |indent| indent + INDENT));
        let breaks = context != Context::SimpleKey;
        match style {
            Style::Plain => self.plain(text, breaks),
            Style::Single => self.single(text, breaks),
            Style::Double => self.double(text, breaks),
            Style::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    fn push(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// A line break inside of text.
    fn push_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    /// Goes to the indentation, on a new line unless this one is still empty up to there.
    fn write_indent(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.indention || self.column > indent || self.column == indent && !self.whitespace {
            self.new_line();
        }
        while self.column < indent {
            self.push(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, text: &str, whitespace: bool, indention: bool) {
        if !self.whitespace {
            self.push(' ');
        }
        text.chars().for_each(|c| self.push(c));
        self.whitespace = whitespace;
        self.indention = self.indention && indention;
    }

    fn plain(&mut self, text: &str, may_break: bool) {
        if !self.whitespace {
            self.push(' ');
        }
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' && may_break && !spaces && self.column > WIDTH && chars.peek() != Some(&' ') {
                self.write_indent();
            } else {
                self.push(c);
            }
            spaces = c == ' ';
            self.indention = false;
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn single(&mut self, text: &str, may_break: bool) {
        self.indicator("'", false, false);
        let (mut spaces, mut breaks) = (false, false);
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|&(_, next)| next);
            if c == ' ' {
                let inside = at > 0 && at < text.len() - 1 && next != Some(' ');
                if may_break && !spaces && self.column > WIDTH && inside {
                    self.write_indent();
                } else {
                    self.push(c);
                }
                spaces = true;
            } else if is_break(c) {
                if !breaks && c == '\n' {
                    self.new_line();
                }
                self.push_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if c == '\'' {
                    self.push('\'');
                }
                self.push(c);
                self.indention = false;
                (spaces, breaks) = (false, false);
            }
        }
        self.push('\'');
        self.whitespace = false;
        self.indention = false;
    }

    fn double(&mut self, text: &str, may_break: bool) {
        self.indicator("\"", false, false);
        // Upstream looks for a byte order mark at the start of the text, whichever character it is about to write.
        let marked = text.starts_with('\u{feff}');
        let mut spaces = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if !is_printable(c) || marked || is_break(c) || c == '"' || c == '\\' {
                self.escape(c);
                spaces = false;
            } else if c == ' ' {
                if may_break && !spaces && self.column > WIDTH && at > 0 && at < text.len() - 1 {
                    self.write_indent();
                    if chars.peek().is_some_and(|&(_, next)| next == ' ') {
                        self.push('\\');
                    }
                } else {
                    self.push(c);
                }
                spaces = true;
            } else {
                self.push(c);
                spaces = false;
            }
        }
        self.push('"');
        self.whitespace = false;
        self.indention = false;
    }

    fn escape(&mut self, c: char) {
        self.push('\\');
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = c as u32;
                let long = match code {
                    0..=0xff => format!("x{code:02X}"),
                    0x100..=0xffff => format!("u{code:04X}"),
                    _ => format!("U{code:08X}"),
                };
                long.chars().for_each(|c| self.push(c));
                return;
            }
        };
        self.push(short);
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", false, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.push('2');
        }
        let mut backwards = text.chars().rev();
        match (backwards.next(), backwards.next()) {
            (Some(last), before) if is_break(last) => {
                if before.is_none_or(is_break) {
                    self.push('+');
                }
            }
            _ => self.push('-'),
        }
        self.new_line();
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        for c in text.chars() {
            if is_break(c) {
                self.push_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                self.push(c);
                self.indention = false;
                breaks = false;
            }
        }
    }
}

/// What text contains, which decides how it may be written.
#[derive(Default)]
struct Traits {
    multiline: bool,
    plain: bool,
    single: bool,
    block: bool,
}

impl Traits {
    fn of(text: &str) -> Traits {
        if text.is_empty() {
            return Traits { multiline: false, plain: true, single: true, block: false };
        }
        let mut traits = Traits { multiline: false, plain: true, single: true, block: true };
        if text.starts_with("---") || text.starts_with("...") {
            traits.plain = false;
        }
        let mut previous = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            let before_blank = next.is_none_or(|next| next == ' ' || next == '\t');
            let indicates = match c {
                '#' => previous.is_none_or(is_blank_or_end),
                '?' | '-' => previous.is_none() && before_blank,
                ':' => before_blank,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    previous.is_none()
                }
                _ => false,
            };
            traits.plain &= !indicates;
            if !is_printable(c) {
                (traits.plain, traits.single, traits.block) = (false, false, false);
            }
            traits.look_at_blank(c, previous, next.is_none());
            previous = Some(c);
        }
        traits
    }

    fn look_at_blank(&mut self, c: char, previous: Option<char>, last: bool) {
        let at_edge = previous.is_none() || last;
        if c == ' ' {
            self.plain &= !at_edge;
            self.block &= !last;
            if previous.is_some_and(is_break) {
                (self.plain, self.single) = (false, false);
            }
        } else if is_break(c) {
            self.multiline = true;
            self.plain = false;
            if previous == Some(' ') {
                (self.single, self.block) = (false, false);
            }
        }
    }

    /// The style to use where `wanted` was asked for.
    fn allowed(&self, text: &str, wanted: Style, simple_key: bool) -> Style {
        let mut style = if simple_key && self.multiline { Style::Double } else { wanted };
        if style == Style::Plain && (!self.plain || text.is_empty() && simple_key) {
            style = Style::Single;
        }
        if style == Style::Single && !self.single {
            style = Style::Double;
        }
        if style == Style::Literal && (!self.block || simple_key) {
            style = Style::Double;
        }
        style
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

/// Numbers go through JSON on their way to YAML, so whole ones come out as integers where they fit one.
fn number(float: f64) -> String {
    let whole = float.fract() == 0.0 && (-9.3e18..1.9e19).contains(&float);
    if whole && float == float as i64 as f64 && (float as i64) != i64::MAX {
        return (float as i64).to_string();
    }
    if whole && float >= 0.0 && float == float as u64 as f64 && (float as u64) != u64::MAX {
        return (float as u64).to_string();
    }
    if float.is_finite() { go_float(float, float.to_string()) } else { "null".into() }
}

/// The entries of a map by key, with runs of digits compared as numbers and letters behind everything else.
///
/// The order is upstream's, which is not quite an order where numbers overflow; the standard sort might refuse to go on
/// with such, a plain merge sort does not mind.
fn in_natural_order(map: &Map) -> Vec<(&str, &Value)> {
    let mut entries: Vec<(&str, &Value)> = map.iter().collect();
    let mut width = 1;
    while width < entries.len() {
        let mut merged = Vec::with_capacity(entries.len());
        for pair in entries.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(a), Some(b)) = (left.first(), right.first()) {
                if compare_keys(b.0, a.0) == Ordering::Less {
                    merged.push(*b);
                    right = &right[1..];
                } else {
                    merged.push(*a);
                    left = &left[1..];
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        entries = merged;
        width *= 2;
    }
    entries
}

fn compare_keys(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else { return a.len().cmp(&b.len()) };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // Zeros in the middle of a number count, in front of it they do not.
    let digits_before = a[..at].iter().rev().take_while(|c| c.is_ascii_digit());
    let inside = (a[at] == '0' || b[at] == '0') && digits_before.into_iter().any(|&c| c != '0');
    let run = |chars: &[char]| {
        let digits = chars[at..].iter().take_while(|c| c.is_ascii_digit());
        digits.fold((i64::from(inside), 0), |(value, length), c| {
            (value.wrapping_mul(10).wrapping_add(i64::from(*c as u32 - '0' as u32)), length + 1)
        })
    };
    run(&a).cmp(&run(&b)).then(a[at].cmp(&b[at]))
}
