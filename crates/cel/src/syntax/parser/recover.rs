//! Reading tokens, and what happens where they are wrong.

use super::{Parsed, Parser, Stop};
use crate::syntax::lexer::{MAX_REPORTS, Token};
use crate::syntax::tokens::{Set, Tok};

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

    /// The current token; the next one becomes current. The end stays.
    pub(super) fn advance(&mut self) -> Token {
        let token = self.current();
        if token.tok != Tok::Eof {
            self.at += 1;
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

    /// Makes sure that one of the tokens comes; a single other one in front of it is passed over.
    pub(super) fn sync(&mut self, expected: Set) -> Parsed<()> {
        if expected.has(self.peek()) {
            return Ok(());
        }
        if self.peek() != Tok::Eof && expected.has(self.peek_at(1)) {
            self.report(format!("extraneous input {} expecting {}", self.show(self.at), expected.describe()));
            self.at += 1;
            return Ok(());
        }
        Err(self.mismatch(expected))
    }

    /// Passes over a token that must come here. If it is missing and what comes is in `after`, it is made up.
    pub(super) fn expect(&mut self, tok: Tok, after: Set) -> Parsed<()> {
        let expected = Set::of(&[tok]);
        if self.peek() == tok {
            self.advance();
            return Ok(());
        }
        if self.peek() != Tok::Eof && self.peek_at(1) == tok {
            self.report(format!("extraneous input {} expecting {}", self.show(self.at), expected.describe()));
            self.at += 1;
            self.advance();
            return Ok(());
        }
        if after.has(self.peek()) {
            self.report(format!("missing {} at {}", expected.describe(), self.show(self.at)));
            return Ok(());
        }
        Err(self.mismatch(expected))
    }

    pub(super) fn mismatch(&mut self, expected: Set) -> Stop {
        self.report(format!("mismatched input {} expecting {}", self.show(self.at), expected.describe()));
        Stop
    }

    /// No rule fits the tokens from `start` to the current one.
    pub(super) fn no_viable(&mut self, start: usize) -> Stop {
        let text = self.text_between(start, self.at);
        let keyword = ["true", "false", "null"].into_iter().find(|word| text.strip_prefix('.') == Some(word));
        self.report(match keyword {
            Some(word) => format!("mismatched input '{word}' expecting IDENTIFIER"),
            None => format!("no viable alternative at input '{}'", escape_white_space(&text)),
        });
        Stop
    }

    /// The text from one token to another, without what belongs to no token.
    pub(super) fn text_between(&self, start: usize, end: usize) -> String {
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

    pub(super) fn show(&self, at: usize) -> String {
        let token = self.lexed.tokens[at];
        match token.tok {
            Tok::Eof => "'<EOF>'".to_string(),
            _ => format!("'{}'", escape_white_space(self.slice(token))),
        }
    }

    pub(super) fn report(&mut self, message: String) {
        let offset = self.current().start;
        if self.errors.len() < MAX_REPORTS {
            self.errors.at(offset, format!("Syntax error: {message}"));
        } else {
            self.errors.at(offset, format!("Syntax error: More than {MAX_REPORTS} syntax errors"));
        }
    }
}

fn escape_white_space(text: &str) -> String {
    text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}
