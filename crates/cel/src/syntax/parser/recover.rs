//! Reading tokens, and what happens where they are wrong: as ANTLR, which made cel-go's parser, recovers from errors.
//!
//! A single token too many is passed over, and a single one that is missing is made up. Otherwise the rule of the grammar ends:
//! tokens are passed over up to one that can come after the rule or after one around it. Until the next token that is right
//! nothing more is reported.

use super::{Operand, Parsed, Parser, Stop};
use crate::syntax::ast::Kind;
use crate::syntax::lexer::{MAX_REPORTS, Token};
use crate::syntax::tokens::{EXPR, Set, Tok};

/// How often the parser recovers before it gives up.
const MAX_ATTEMPTS: u32 = 30;
/// How many tokens it passes over at once.
const MAX_SKIPPED: usize = 256;

/// Where in the grammar a token is wrong.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Place {
    End,
    Colon,
    Operand,
    Sign,
    Selection,
    Name,
    Index,
    IndexEnd,
    Arguments,
    ArgumentsEnd,
    Value,
    Literal,
    ParenthesesEnd,
    Elements,
    ElementsComma,
    ElementsEnd,
    Entries,
    EntryColon,
    NextEntryColon,
    EntriesComma,
    EntriesEnd,
    Fields,
    FieldColon,
    NextFieldColon,
    FieldsComma,
    FieldsEnd,
}

/// Recovering from errors.
#[derive(Default)]
pub(super) struct Recovery {
    /// An error was reported, and no token was right since.
    active: bool,
    /// What can come after the rules that are being parsed.
    after: Set,
    attempts: u32,
    /// More errors than are reported.
    too_many: bool,
    /// The token of the last error, and the places of all errors since a token was right.
    last: Option<usize>,
    places: u32,
}

impl<'b> Parser<'b, '_> {
    pub(super) fn current(&self) -> Token {
        self.lexed.tokens[self.at]
    }

    pub(super) fn peek(&self) -> Tok {
        self.current().tok
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Tok {
        self.lexed.tokens.get(self.at + ahead).map_or(Tok::Eof, |token| token.tok)
    }

    /// The current token, which is right; the next one becomes current. The end stays.
    pub(super) fn advance(&mut self) -> Token {
        let token = self.current();
        if token.tok != Tok::Eof {
            self.at += 1;
        }
        if self.recovery.active {
            self.is_right();
        }
        token
    }

    pub(super) fn accept(&mut self, tok: Tok) -> bool {
        let found = self.peek() == tok;
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn slice(&self, token: Token) -> &'b str {
        &self.text[token.start as usize..token.end as usize]
    }

    /// Parses a rule that the tokens can come after.
    pub(super) fn within<T>(&mut self, after: Set, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let around = self.recovery.after;
        self.recovery.after = around.or(after);
        let parsed = rule(self);
        self.recovery.after = around;
        parsed
    }

    /// The end of a rule: recovers from its error. None if there was one.
    pub(super) fn caught<T>(&mut self, parsed: Parsed<T>) -> Parsed<Option<T>> {
        match parsed {
            Ok(parsed) => Ok(Some(parsed)),
            Err(Stop::Rule(place)) => self.recover(place).map(|()| None),
            Err(Stop::Parse) => Err(Stop::Parse),
        }
    }

    /// The same for rules that are operands, which begin at `offset`.
    pub(super) fn operand(&mut self, offset: u32, parsed: Parsed<Operand<'b>>) -> Parsed<Operand<'b>> {
        if let Some(operand) = self.caught(parsed)? {
            return Ok(operand);
        }
        Ok(Operand { node: self.node(offset, Kind::Unspecified), height: 0 })
    }

    fn recover(&mut self, place: Place) -> Parsed<()> {
        self.attempt()?;
        let bit = 1 << place as u8;
        // A second error at the same token and place: nothing was passed over after the first one.
        if self.recovery.last == Some(self.at) && self.recovery.places & bit != 0 && self.peek() != Tok::Eof {
            self.at += 1;
        }
        self.recovery.last = Some(self.at);
        self.recovery.places |= bit;
        self.skip_to(self.recovery.after)
    }

    /// Passes over tokens up to one of a set.
    fn skip_to(&mut self, set: Set) -> Parsed<()> {
        let rest = &self.lexed.tokens[self.at..];
        let skipped = rest.iter().take_while(|token| token.tok != Tok::Eof && !set.has(token.tok)).count();
        if skipped > MAX_SKIPPED {
            self.errors.whole(format!("error recovery token lookahead limit exceeded: {MAX_SKIPPED}"));
            return Err(Stop::Parse);
        }
        self.at += skipped;
        Ok(())
    }

    fn attempt(&mut self) -> Parsed<()> {
        if self.recovery.too_many {
            return Err(Stop::Parse);
        }
        if self.recovery.attempts == MAX_ATTEMPTS {
            let offset = self.current().start;
            self.errors.at(offset, format!("Syntax error: error recovery attempt limit exceeded: {MAX_ATTEMPTS}"));
            return Err(Stop::Parse);
        }
        self.recovery.attempts += 1;
        Ok(())
    }

    /// The current token, or the one that was just read, is what should come.
    fn is_right(&mut self) {
        self.recovery.active = false;
        self.recovery.last = None;
        self.recovery.places = 0;
    }

    /// Makes sure that one of the tokens comes; a single other one in front of it is passed over.
    pub(super) fn sync(&mut self, expected: Set, place: Place) -> Parsed<()> {
        if expected.has(self.peek()) || self.recovery.active {
            return Ok(());
        }
        if self.peek() != Tok::Eof && expected.has(self.peek_at(1)) {
            self.unwanted(expected);
            self.is_right();
            return Ok(());
        }
        Err(self.mismatch(expected, place))
    }

    /// After `!` other tokens than an operand's first are passed over.
    pub(super) fn sync_after_not(&mut self) -> Parsed<()> {
        if EXPR.has(self.peek()) {
            return Ok(());
        }
        self.report(self.at, format!("extraneous input {} expecting {}", self.show(self.at), EXPR.describe()));
        self.skip_to(EXPR.or(self.recovery.after))
    }

    /// Passes over a token that must come here. If it is missing and what comes is in `after`, it is made up.
    pub(super) fn expect(&mut self, tok: Tok, after: Set, place: Place) -> Parsed<()> {
        let expected = Set::of(&[tok]);
        if self.peek() == tok {
            self.advance();
            return Ok(());
        }
        self.attempt()?;
        if self.peek() != Tok::Eof && self.peek_at(1) == tok {
            self.unwanted(expected);
            self.is_right();
            self.advance();
            return Ok(());
        }
        if after.has(self.peek()) {
            self.report(self.at, format!("missing {} at {}", expected.describe(), self.show(self.at)));
            return Ok(());
        }
        Err(self.mismatch(expected, place))
    }

    /// Passes over a token too many.
    fn unwanted(&mut self, expected: Set) {
        self.report(self.at, format!("extraneous input {} expecting {}", self.show(self.at), expected.describe()));
        self.at += 1;
    }

    fn mismatch(&mut self, expected: Set, place: Place) -> Stop {
        self.report(self.at, format!("mismatched input {} expecting {}", self.show(self.at), expected.describe()));
        Stop::Rule(place)
    }

    /// No rule fits the tokens from the current one to the one at `end`.
    pub(super) fn no_viable(&mut self, end: usize, place: Place) -> Stop {
        let end = end.min(self.lexed.tokens.len() - 1);
        let text = self.text_between(self.at, end);
        let keyword = ["true", "false", "null"].into_iter().find(|word| text.strip_prefix('.') == Some(word));
        let message = match keyword {
            Some(word) => format!("mismatched input '{word}' expecting IDENTIFIER"),
            None => format!("no viable alternative at input '{}'", escape_white_space(&text)),
        };
        self.report(end, message);
        Stop::Rule(place)
    }

    /// The text from one token to another, without what belongs to no token.
    fn text_between(&self, start: usize, end: usize) -> String {
        let (from, to) = (self.lexed.tokens[start].start, self.lexed.tokens[end].end);
        let mut out = String::new();
        let mut at = from;
        for (skip_start, skip_end) in self.lexed.skipped.iter().filter(|(s, e)| *s >= from && *e <= to) {
            out.push_str(&self.text[at as usize..*skip_start as usize]);
            at = *skip_end;
        }
        out.push_str(&self.text[at as usize..to as usize]);
        out
    }

    fn show(&self, at: usize) -> String {
        let token = self.lexed.tokens[at];
        match token.tok {
            Tok::Eof => "'<EOF>'".to_string(),
            _ => format!("'{}'", escape_white_space(self.slice(token))),
        }
    }

    /// Reports an error at a token, unless there was no right one since the last error.
    fn report(&mut self, at: usize, message: String) {
        if self.recovery.active {
            return;
        }
        self.recovery.active = true;
        let offset = self.lexed.tokens[at].start;
        if self.errors.len() < MAX_REPORTS {
            self.errors.at(offset, format!("Syntax error: {message}"));
        } else {
            self.errors.at(offset, format!("Syntax error: More than {MAX_REPORTS} syntax errors"));
            self.recovery.too_many = true;
        }
    }
}

fn escape_white_space(text: &str) -> String {
    text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}
