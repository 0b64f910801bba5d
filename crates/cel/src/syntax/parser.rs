//! Tokens to tree.
//!
//! Operators are parsed by precedence. Where the text is wrong, the messages are those of cel-go's generated parser: each
//! rule of the grammar recovers from its own errors as that parser does, so that later errors are found, too.

mod aggregates;
mod nodes;
mod recover;

use bumpalo::Bump;

use super::ast::{Kind, Literal, Node, Select};
use super::lexer::{Lexed, Token, lex};
use super::literal;
use super::logic::Chain;
use super::macros::Macros;
use super::source::Errors;
use super::tokens::{ARITHMETIC, EXPR, MEMBERS, OPERATORS, PRIMARY, RELATIONS, Set, Tok};
use crate::escape::is_reserved;
use recover::{Place, Recovery};

/// The longest expression, in code points.
const MAX_CODE_POINTS: usize = 100_000;
/// How deep rules of the grammar may be inside of themselves, and how deep operations may be.
const MAX_DEPTH: u32 = 250;

/// Why a rule of the grammar ends early; the error is reported.
enum Stop {
    /// The parse cannot go on.
    Parse,
    /// The rule passes over tokens, and the parse goes on behind it.
    Rule(Place),
}

type Parsed<T> = Result<T, Stop>;

/// Parses an expression. The tree is complete if no error was reported. Also returned is how many expressions it has.
pub fn parse<'b>(text: &'b str, macros: Macros, bump: &'b Bump, errors: &mut Errors<'b>) -> Option<(Node<'b>, u32)> {
    let size = if text.len() > MAX_CODE_POINTS { text.chars().count() } else { 0 };
    if size > MAX_CODE_POINTS {
        errors.whole(format!("expression code point size exceeds limit: size: {size}, limit {MAX_CODE_POINTS}"));
        return None;
    }
    let lexed = lex(text, errors)?;
    let mut parser = Parser {
        text,
        bump,
        macros,
        errors,
        lexed: &lexed,
        at: 0,
        follow: Set::of(&[Tok::Eof]),
        recovery: Recovery::default(),
        next_id: 0,
        expr_depth: 0,
        relation_depth: 0,
        calc_depth: 0,
    };
    let root = parser.start().ok()?;
    let count = parser.next_id;
    if parser.errors.is_empty() { Some((root, count)) } else { None }
}

pub(super) struct Parser<'b, 'p> {
    text: &'b str,
    pub(super) bump: &'b Bump,
    pub(super) macros: Macros,
    pub(super) errors: &'p mut Errors<'b>,
    lexed: &'p Lexed,
    at: usize,
    /// What can come after the operand that is being parsed.
    follow: Set,
    recovery: Recovery,
    next_id: u32,
    expr_depth: u32,
    relation_depth: u32,
    calc_depth: u32,
}

/// An expression and how deep the operations in it are.
#[derive(Clone, Copy)]
struct Operand<'b> {
    node: Node<'b>,
    height: u32,
}

/// The arguments of a call. A call whose end is wrong is looked at, too.
struct Arguments<'b> {
    args: Vec<Node<'b>>,
    height: u32,
    end: Parsed<()>,
}

impl<'b> Parser<'b, '_> {
    fn start(&mut self) -> Parsed<Node<'b>> {
        let operand = self.within(Set::of(&[Tok::Eof]), |parser| parser.expr(Set::of(&[Tok::Eof])))?;
        let end = self.expect(Tok::Eof, Set::of(&[]), Place::End);
        self.caught(end)?;
        if operand.height > MAX_DEPTH {
            self.errors.whole("max recursion depth exceeded");
            return Err(Stop::Parse);
        }
        Ok(operand.node)
    }

    /// `conditionalOr ('?' conditionalOr ':' expr)?`; `after` can come after it.
    fn expr(&mut self, after: Set) -> Parsed<Operand<'b>> {
        self.expr_depth += 1;
        self.check_depth(self.expr_depth)?;
        let saved = self.follow;
        self.follow = after.or(OPERATORS).or(Set::of(&[Tok::Question]));
        let condition = self.within(Set::of(&[Tok::Question]), Parser::conditional_or)?;
        let result = if self.peek() == Tok::Question { self.conditional(condition, after)? } else { condition };
        self.follow = saved;
        self.expr_depth -= 1;
        Ok(result)
    }

    fn conditional(&mut self, condition: Operand<'b>, after: Set) -> Parsed<Operand<'b>> {
        let offset = self.advance().start;
        self.follow = OPERATORS.or(Set::of(&[Tok::Colon]));
        let yes = self.within(Set::of(&[Tok::Colon]), Parser::conditional_or)?;
        let colon = self.expect(Tok::Colon, EXPR, Place::Colon);
        if self.caught(colon)?.is_none() {
            return Ok(condition);
        }
        let no = self.expr(after)?;
        let height = 1 + condition.height.max(yes.height).max(no.height);
        Ok(Operand { node: self.call(offset, "_?_:_", &[condition.node, yes.node, no.node]), height })
    }

    fn check_depth(&mut self, depth: u32) -> Parsed<()> {
        if depth > MAX_DEPTH {
            self.errors.whole(format!("expression recursion limit exceeded: {MAX_DEPTH}"));
            return Err(Stop::Parse);
        }
        Ok(())
    }

    fn conditional_or(&mut self) -> Parsed<Operand<'b>> {
        let first = self.within(Set::of(&[Tok::Or]), Parser::conditional_and)?;
        if self.peek() != Tok::Or {
            return Ok(first);
        }
        let mut chain = Chain::new(first.node);
        let mut height = first.height;
        while self.peek() == Tok::Or {
            let offset = self.advance().start;
            let term = self.within(Set::of(&[Tok::Or]), Parser::conditional_and)?;
            height = height.max(term.height);
            chain.push(offset, term.node);
        }
        Ok(Operand { node: chain.tree(&mut |offset, a, b| self.call(offset, "_||_", &[a, b])), height })
    }

    fn conditional_and(&mut self) -> Parsed<Operand<'b>> {
        let first = self.within(Set::of(&[Tok::And]), Parser::relation)?;
        if self.peek() != Tok::And {
            return Ok(first);
        }
        let mut chain = Chain::new(first.node);
        let mut height = first.height;
        while self.peek() == Tok::And {
            let offset = self.advance().start;
            let term = self.within(Set::of(&[Tok::And]), Parser::relation)?;
            height = height.max(term.height);
            chain.push(offset, term.node);
        }
        Ok(Operand { node: chain.tree(&mut |offset, a, b| self.call(offset, "_&&_", &[a, b])), height })
    }

    fn relation(&mut self) -> Parsed<Operand<'b>> {
        self.relation_depth += 1;
        self.check_depth(self.relation_depth)?;
        let mut left = self.within(RELATIONS, |parser| parser.calc(0))?;
        while let Some(function) = relation_operator(self.peek()) {
            let offset = self.advance().start;
            self.relation_depth += 1;
            self.check_depth(self.relation_depth)?;
            let right = self.within(RELATIONS, |parser| parser.calc(0))?;
            self.relation_depth -= 1;
            left = self.binary(offset, function, left, right);
        }
        self.relation_depth -= 1;
        Ok(left)
    }

    /// Sums (1) and products (2) of at least the precedence.
    fn calc(&mut self, precedence: u8) -> Parsed<Operand<'b>> {
        self.calc_depth += 1;
        self.check_depth(self.calc_depth)?;
        let mut left = self.within(ARITHMETIC, Parser::unary)?;
        while let Some((function, binds)) = calc_operator(self.peek()).filter(|(_, binds)| *binds >= precedence) {
            let offset = self.advance().start;
            let right = self.within(ARITHMETIC, |parser| parser.calc(binds + 1))?;
            left = self.binary(offset, function, left, right);
        }
        self.calc_depth -= 1;
        Ok(left)
    }

    fn binary(&mut self, offset: u32, function: &'static str, left: Operand<'b>, right: Operand<'b>) -> Operand<'b> {
        let node = self.call(offset, function, &[left.node, right.node]);
        Operand { node, height: 1 + left.height.max(right.height) }
    }

    fn unary(&mut self) -> Parsed<Operand<'b>> {
        let offset = self.current().start;
        let operand = self.signed();
        self.operand(offset, operand)
    }

    /// An operand, with signs or negations in front.
    fn signed(&mut self) -> Parsed<Operand<'b>> {
        self.sync(EXPR, Place::Operand)?;
        match self.peek() {
            Tok::Exclam => {
                let offset = self.current().start;
                let mut count = 0;
                while self.peek() == Tok::Exclam {
                    self.advance();
                    count += 1;
                }
                self.sync_after_not()?;
                let operand = self.member()?;
                Ok(self.negated(count, offset, "!_", operand))
            }
            Tok::Minus if !matches!(self.peek_at(1), Tok::Int | Tok::Float) => {
                let offset = self.current().start;
                let mut count = 0;
                // The last sign before a number belongs to the chain, too: only a lone one is part of the number.
                while self.peek() == Tok::Minus {
                    if !PRIMARY.has(self.peek_at(1)) {
                        let place = if count == 0 { Place::Operand } else { Place::Sign };
                        return Err(self.no_viable(self.at + 1, place));
                    }
                    self.advance();
                    count += 1;
                }
                let operand = self.member()?;
                Ok(self.negated(count, offset, "-_", operand))
            }
            tok if !PRIMARY.has(tok) => Err(self.no_viable(self.at, Place::Operand)),
            _ => self.member(),
        }
    }

    fn negated(&mut self, count: u32, offset: u32, function: &'static str, operand: Operand<'b>) -> Operand<'b> {
        if count.is_multiple_of(2) {
            return operand;
        }
        Operand { node: self.call(offset, function, &[operand.node]), height: operand.height }
    }

    fn member(&mut self) -> Parsed<Operand<'b>> {
        let mut operand = self.within(MEMBERS, Parser::primary)?;
        loop {
            let next = match self.peek() {
                Tok::Dot => self.selection(operand),
                Tok::LBracket => self.index(operand),
                _ => return Ok(operand),
            };
            match self.caught(next)? {
                Some(next) => operand = next,
                None => return Ok(operand),
            }
        }
    }

    /// `.field`, `.?field`, `.f(args)`.
    fn selection(&mut self, operand: Operand<'b>) -> Parsed<Operand<'b>> {
        match (self.peek_at(1), self.peek_at(2)) {
            (Tok::Ident, Tok::LParen) => {
                self.advance();
                let name = self.advance();
                let open = self.advance().start;
                let Arguments { args, height, end } = self.arguments()?;
                let node = self.receiver_call(open, self.slice(name), operand.node, &args);
                end?;
                Ok(Operand { node, height: 1 + height.max(operand.height) })
            }
            (Tok::Ident | Tok::EscIdent, _) => {
                let offset = self.advance().start;
                let token = self.advance();
                let field = self.identifier(token);
                let select = self.bump.alloc(Select { operand: operand.node, field, test_only: false });
                Ok(Operand { node: self.node(offset, Kind::Select(select)), height: 1 + operand.height })
            }
            (Tok::Question, _) => {
                let offset = self.advance().start;
                self.advance();
                let Some(token) = self.within(MEMBERS, Parser::escape_ident)? else { return Ok(operand) };
                if !self.macros.optional {
                    self.errors.at(offset, "unsupported syntax '.?'");
                }
                let field = self.identifier(token);
                let field = self.literal(token.start, Literal::String(field));
                let node = self.call(offset, "_?._", &[operand.node, field]);
                Ok(Operand { node, height: 1 + operand.height })
            }
            _ => Err(self.no_viable(self.at + 1, Place::Selection)),
        }
    }

    /// A name of a field; none if another token comes.
    fn escape_ident(&mut self) -> Parsed<Option<Token>> {
        let offset = self.current().start;
        let names = Set::of(&[Tok::Ident, Tok::EscIdent]);
        let mut found = self.sync(names, Place::Name);
        if found.is_ok() && !names.has(self.peek()) {
            found = Err(self.no_viable(self.at, Place::Name));
        }
        if self.caught(found)?.is_none() {
            self.errors.at(offset, "unsupported ident kind");
            return Ok(None);
        }
        Ok(Some(self.advance()))
    }

    fn identifier(&self, token: Token) -> &'b str {
        let text = self.slice(token);
        if token.tok == Tok::EscIdent { &text[1..text.len() - 1] } else { text }
    }

    fn index(&mut self, operand: Operand<'b>) -> Parsed<Operand<'b>> {
        let offset = self.advance().start;
        let follow = self.follow;
        self.sync(EXPR.or(Set::of(&[Tok::Question])), Place::Index)?;
        let optional = self.accept(Tok::Question);
        if optional && !self.macros.optional {
            self.errors.at(offset, "unsupported syntax '[?'");
        }
        let index = self.within(Set::of(&[Tok::RBracket]), |parser| parser.expr(Set::of(&[Tok::RBracket])))?;
        self.expect(Tok::RBracket, follow, Place::IndexEnd)?;
        let function = if optional { "_[?_]" } else { "_[_]" };
        Ok(self.binary(offset, function, operand, index))
    }

    /// `args? ')'` after the parenthesis.
    fn arguments(&mut self) -> Parsed<Arguments<'b>> {
        let follow = self.follow;
        let mut args = Vec::new();
        let mut height = 0;
        if let Err(stop) = self.sync(EXPR.or(Set::of(&[Tok::RParen])), Place::Arguments) {
            return Ok(Arguments { args, height, end: Err(stop) });
        }
        let after = Set::of(&[Tok::RParen, Tok::Comma]);
        while EXPR.has(self.peek()) || !args.is_empty() {
            let arg = self.within(Set::of(&[Tok::RParen, Tok::Comma]), |parser| parser.expr(after))?;
            height = height.max(arg.height);
            args.push(arg.node);
            if !self.accept(Tok::Comma) {
                break;
            }
        }
        let end = self.expect(Tok::RParen, follow, Place::ArgumentsEnd);
        Ok(Arguments { args, height, end })
    }

    fn primary(&mut self) -> Parsed<Operand<'b>> {
        let offset = self.current().start;
        let operand = self.value();
        self.operand(offset, operand)
    }

    /// A name, a literal, or an expression in parentheses.
    fn value(&mut self) -> Parsed<Operand<'b>> {
        self.sync(PRIMARY, Place::Value)?;
        if !PRIMARY.has(self.peek()) {
            return Err(self.no_viable(self.at, Place::Value));
        }
        let token = self.current();
        let leaf = |node| Ok(Operand { node, height: 0 });
        match token.tok {
            Tok::Dot | Tok::Ident => self.name(),
            Tok::LParen => {
                self.advance();
                let follow = self.follow;
                let inner = self.within(Set::of(&[Tok::RParen]), |parser| parser.expr(Set::of(&[Tok::RParen])))?;
                let end = self.expect(Tok::RParen, follow, Place::ParenthesesEnd);
                self.caught(end)?;
                Ok(inner)
            }
            Tok::LBracket => self.list(),
            Tok::LBrace => self.map(),
            Tok::Minus => {
                if !matches!(self.peek_at(1), Tok::Int | Tok::Float) {
                    return Err(self.no_viable(self.at + 1, Place::Literal));
                }
                self.advance();
                let number = self.advance();
                leaf(self.number(token.start, number, true))
            }
            Tok::Int | Tok::Float | Tok::Uint => {
                self.advance();
                leaf(self.number(token.start, token, false))
            }
            _ => {
                self.advance();
                leaf(self.scalar(token))
            }
        }
    }

    fn number(&mut self, offset: u32, token: Token, negative: bool) -> Node<'b> {
        let text = self.slice(token);
        let (value, kind) = match token.tok {
            Tok::Int => (literal::int(text, negative).map(Literal::Int), "int"),
            Tok::Uint => (literal::uint(text).map(Literal::Uint), "uint"),
            _ => (literal::double(text, negative).map(Literal::Double), "double"),
        };
        match value {
            Some(value) => self.literal(offset, value),
            None => self.error_node(offset, format!("invalid {kind} literal")),
        }
    }

    fn scalar(&mut self, token: Token) -> Node<'b> {
        let text = self.slice(token);
        let value = match token.tok {
            Tok::True => Ok(Literal::Bool(true)),
            Tok::False => Ok(Literal::Bool(false)),
            Tok::Null => Ok(Literal::Null),
            Tok::Bytes => literal::bytes(&text[1..]).map(|bytes| Literal::Bytes(self.bump.alloc_slice_copy(&bytes))),
            _ => literal::string(text).map(|text| {
                Literal::String(match text {
                    std::borrow::Cow::Borrowed(text) => text,
                    std::borrow::Cow::Owned(text) => self.bump.alloc_str(&text),
                })
            }),
        };
        match value {
            Ok(value) => self.literal(token.start, value),
            Err(message) => self.error_node(token.start, message),
        }
    }

    /// `.? name`, a call of a global function, or a message: `a.b.C{…}`.
    fn name(&mut self) -> Parsed<Operand<'b>> {
        let start = self.at;
        if self.peek() == Tok::Dot && self.peek_at(1) != Tok::Ident {
            return Err(self.no_viable(start + 1, Place::Value));
        }
        let dotted = self.accept(Tok::Dot);
        if self.is_message() {
            return self.message(start);
        }
        let offset = self.lexed.tokens[start].start;
        let token = self.advance();
        let name = self.slice(token);
        let full = if dotted { self.bump.alloc_str(&format!(".{name}")) } else { name };
        if self.peek() == Tok::LParen {
            let open = self.advance().start;
            let Arguments { args, height, end } = self.arguments()?;
            let node = match is_reserved(name) {
                true => self.error_node(offset, format!("reserved identifier: {name}")),
                false => self.call(open, full, &args),
            };
            self.caught(end)?;
            return Ok(Operand { node, height });
        }
        let node = match is_reserved(name) {
            true => self.error_node(offset, format!("reserved identifier: {name}")),
            false => self.node(token.start, Kind::Ident(full)),
        };
        Ok(Operand { node, height: 0 })
    }
}

fn relation_operator(tok: Tok) -> Option<&'static str> {
    Some(match tok {
        Tok::Equals => "_==_",
        Tok::NotEquals => "_!=_",
        Tok::In => "@in",
        Tok::Less => "_<_",
        Tok::LessEquals => "_<=_",
        Tok::GreaterEquals => "_>=_",
        Tok::Greater => "_>_",
        _ => return None,
    })
}

fn calc_operator(tok: Tok) -> Option<(&'static str, u8)> {
    Some(match tok {
        Tok::Plus => ("_+_", 1),
        Tok::Minus => ("_-_", 1),
        Tok::Star => ("_*_", 2),
        Tok::Slash => ("_/_", 2),
        Tok::Percent => ("_%_", 2),
        _ => return None,
    })
}
