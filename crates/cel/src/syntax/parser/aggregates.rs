//! Literals of lists, maps and messages.

use super::recover::Place;
use super::{Operand, Parsed, Parser};
use crate::syntax::ast::{Entry, FieldInit, Kind, ListLiteral, StructLiteral};
use crate::syntax::tokens::{EXPR, Set, Tok};

impl<'b> Parser<'b, '_> {
    /// Whether names with dots and then an opening brace follow.
    pub(super) fn is_message(&self) -> bool {
        let mut ahead = 1;
        while self.peek_at(ahead) == Tok::Dot && self.peek_at(ahead + 1) == Tok::Ident {
            ahead += 2;
        }
        self.peek_at(ahead) == Tok::LBrace
    }

    pub(super) fn message(&mut self, start: usize) -> Parsed<Operand<'b>> {
        let mut name = String::new();
        if self.lexed.tokens[start].tok == Tok::Dot {
            name.push('.');
        }
        while self.peek() != Tok::LBrace {
            let token = self.advance();
            name.push_str(self.slice(token));
        }
        let offset = self.advance().start;
        let follow = self.follow;
        let mut fields = Vec::new();
        let mut height = 0;
        let first = Set::of(&[Tok::RBrace, Tok::Comma, Tok::Question, Tok::Ident, Tok::EscIdent]);
        let mut end = self.sync(first, Place::Fields);
        if end.is_ok() {
            if matches!(self.peek(), Tok::Question | Tok::Ident | Tok::EscIdent) {
                let after = Set::of(&[Tok::RBrace, Tok::Comma]);
                self.within(after, |parser| {
                    let listed = parser.fields(&mut fields, &mut height);
                    parser.caught(listed)
                })?;
            }
            end = self.close(Tok::RBrace, follow, [Place::FieldsComma, Place::FieldsEnd]);
        }
        self.caught(end)?;
        let type_name = self.bump.alloc_str(&name);
        let literal = StructLiteral { type_name, fields: self.bump.alloc_slice_fill_iter(fields) };
        Ok(Operand { node: self.node(offset, Kind::Struct(self.bump.alloc(literal))), height })
    }

    fn fields(&mut self, fields: &mut Vec<FieldInit<'b>>, height: &mut u32) -> Parsed<()> {
        loop {
            let question = self.current().start;
            let optional = self.accept(Tok::Question);
            if optional && !self.macros.optional {
                self.errors.at(question, "unsupported syntax '?'");
            }
            let token = self.within(Set::of(&[Tok::Colon]), Parser::escape_ident)?;
            let name = token.map_or("", |token| self.identifier(token));
            let offset = self.current().start;
            let place = if fields.is_empty() { Place::FieldColon } else { Place::NextFieldColon };
            self.expect(Tok::Colon, EXPR, place)?;
            let value =
                self.within(Set::of(&[Tok::Comma]), |parser| parser.expr(Set::of(&[Tok::RBrace, Tok::Comma])))?;
            *height = (*height).max(value.height);
            fields.push(FieldInit { offset, name, value: value.node, optional });
            if !(self.peek() == Tok::Comma && matches!(self.peek_at(1), Tok::Question | Tok::Ident | Tok::EscIdent)) {
                return Ok(());
            }
            self.advance();
        }
    }

    /// `','? close` after the entries of a literal.
    fn close(&mut self, close: Tok, follow: Set, [comma, end]: [Place; 2]) -> Parsed<()> {
        self.sync(Set::of(&[close, Tok::Comma]), comma)?;
        self.accept(Tok::Comma);
        self.expect(close, follow, end)
    }

    pub(super) fn list(&mut self) -> Parsed<Operand<'b>> {
        let offset = self.advance().start;
        let follow = self.follow;
        let (mut elements, mut optional) = (Vec::new(), Vec::new());
        let mut height = 0;
        let mut end = self.sync(EXPR.or(Set::of(&[Tok::Question, Tok::Comma, Tok::RBracket])), Place::Elements);
        let after = Set::of(&[Tok::RBracket, Tok::Comma]);
        while end.is_ok() && (EXPR.has(self.peek()) || self.peek() == Tok::Question) {
            let (element, is_optional) = self.within(after, |parser| parser.optional_expr(after))?;
            height = height.max(element.height);
            elements.push(element.node);
            optional.push(is_optional);
            if !self.more_entries() {
                break;
            }
        }
        if end.is_ok() {
            end = self.close(Tok::RBracket, follow, [Place::ElementsComma, Place::ElementsEnd]);
        }
        self.caught(end)?;
        let elements = self.bump.alloc_slice_copy(&elements);
        let optional: &[bool] = if optional.contains(&true) { self.bump.alloc_slice_copy(&optional) } else { &[] };
        let list = self.bump.alloc(ListLiteral { elements, optional });
        Ok(Operand { node: self.node(offset, Kind::List(list)), height })
    }

    /// Passes over a comma that has another entry behind it.
    fn more_entries(&mut self) -> bool {
        let next = self.peek_at(1);
        let more = self.peek() == Tok::Comma && (EXPR.has(next) || next == Tok::Question);
        if more {
            self.advance();
        }
        more
    }

    fn optional_expr(&mut self, after: Set) -> Parsed<(Operand<'b>, bool)> {
        let offset = self.current().start;
        let optional = self.accept(Tok::Question);
        if optional && !self.macros.optional {
            self.errors.at(offset, "unsupported syntax '?'");
        }
        Ok((self.expr(after)?, optional))
    }

    pub(super) fn map(&mut self) -> Parsed<Operand<'b>> {
        let offset = self.advance().start;
        let follow = self.follow;
        let mut entries = Vec::new();
        let mut height = 0;
        let mut end = self.sync(EXPR.or(Set::of(&[Tok::Question, Tok::Comma, Tok::RBrace])), Place::Entries);
        if end.is_ok() {
            if EXPR.has(self.peek()) || self.peek() == Tok::Question {
                let after = Set::of(&[Tok::RBrace, Tok::Comma]);
                self.within(after, |parser| {
                    let listed = parser.entries(&mut entries, &mut height);
                    parser.caught(listed)
                })?;
            }
            end = self.close(Tok::RBrace, follow, [Place::EntriesComma, Place::EntriesEnd]);
        }
        self.caught(end)?;
        let entries = self.bump.alloc_slice_fill_iter(entries);
        Ok(Operand { node: self.node(offset, Kind::Map(entries)), height })
    }

    fn entries(&mut self, entries: &mut Vec<Entry<'b>>, height: &mut u32) -> Parsed<()> {
        loop {
            let (colon, before) = (Set::of(&[Tok::Colon]), self.errors.len());
            let (key, optional) = self.within(colon, |parser| parser.optional_expr(colon))?;
            let place = if entries.is_empty() { Place::EntryColon } else { Place::NextEntryColon };
            if let Err(stop) = self.expect(Tok::Colon, EXPR, place) {
                // A key without a value is not looked at.
                self.errors.keep_syntax_errors(before);
                return Err(stop);
            }
            let value =
                self.within(Set::of(&[Tok::Comma]), |parser| parser.expr(Set::of(&[Tok::RBrace, Tok::Comma])))?;
            *height = (*height).max(key.height).max(value.height);
            entries.push(Entry { key: key.node, value: value.node, optional });
            if !self.more_entries() {
                return Ok(());
            }
        }
    }
}
