//! Reading a label selector: a lexer for names and symbols, and a parser that takes one requirement after the other.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = "!" KEY | KEY | KEY comparison [ VALUE ] | KEY ( "in" | "notin" ) "(" values ")"
//! comparison  = "=" | "==" | "!=" | ">" | "<"
//! ```

use std::collections::BTreeSet;

use super::{Operator, Requirement, invalid_key};

/// What upstream lists as expected when something else stands where an operator should.
const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

pub(super) fn requirements(text: &str, path: Option<&str>) -> Result<Vec<Requirement>, String> {
    let mut parser = SelectorParser { lexer: Lexer { rest: text.as_bytes() }, peeked: None, path };
    let mut requirements = Vec::new();
    loop {
        let token = parser.peek();
        match token.kind {
            Kind::End => return Ok(requirements),
            Kind::Name | Kind::Not => {}
            Kind::Other => return Err(format!("found '{}', expected: !, identifier, or 'end of string'", token.text)),
        }
        let requirement = parser.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
        requirements.push(requirement);
        let token = parser.next();
        match token {
            LabelToken { kind: Kind::End, .. } => return Ok(requirements),
            LabelToken { text: ",", .. } => {
                let after = parser.peek();
                if !matches!(after.kind, Kind::Name | Kind::Not) {
                    return Err(format!("found '{}', expected: identifier after ','", after.text));
                }
            }
            LabelToken { text, .. } => return Err(format!("found '{text}', expected: ',' or 'end of string'")),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A key, a value or a word such as `in`: where it stands tells which.
    Name,
    /// `!`
    Not,
    /// Any other symbol.
    Other,
    End,
}

#[derive(Clone, Copy)]
struct LabelToken<'a> {
    kind: Kind,
    text: &'a str,
}

struct SelectorParser<'a> {
    lexer: Lexer<'a>,
    peeked: Option<LabelToken<'a>>,
    path: Option<&'a str>,
}

impl<'a> SelectorParser<'a> {
    fn next(&mut self) -> LabelToken<'a> {
        match self.peeked.take() {
            Some(token) => token,
            None => self.lexer.token(),
        }
    }

    fn peek(&mut self) -> LabelToken<'a> {
        let token = self.next();
        self.peeked = Some(token);
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token.kind == Kind::Not;
        if negated {
            token = self.next();
        }
        if token.kind != Kind::Name {
            return Err(format!("found '{}', expected: identifier", token.text));
        }
        let key = token.text;
        // The key alone is checked against the selector itself, which prints as Go's nil when it is no field's.
        if let Some(error) = invalid_key(key, self.path.unwrap_or("<nil>")) {
            return Err(error);
        }
        if negated {
            return self.build(key, Operator::DoesNotExist, BTreeSet::new());
        }
        let following = self.peek();
        if following.kind == Kind::End || following.text == "," {
            return self.build(key, Operator::Exists, BTreeSet::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        self.build(key, operator, values)
    }

    fn build(&self, key: &str, operator: Operator, values: BTreeSet<&str>) -> Result<Requirement, String> {
        let values = values.into_iter().map(str::to_string).collect();
        Requirement::new(key, operator, values, self.path).map_err(|error| error.to_string())
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.next();
        match token.text {
            "in" => Ok(Operator::In),
            "notin" => Ok(Operator::NotIn),
            "=" => Ok(Operator::Equals),
            "==" => Ok(Operator::DoubleEquals),
            "!=" => Ok(Operator::NotEquals),
            ">" => Ok(Operator::GreaterThan),
            "<" => Ok(Operator::LessThan),
            text => Err(format!("found '{text}', expected: {BINARY_OPERATORS}")),
        }
    }

    /// `(a,b)`. Nothing between two commas, or between one and a parenthesis, is the empty value.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let open = self.next();
        if open.text != "(" {
            return Err(format!("found '{}' expected: '('", open.text));
        }
        let first = self.peek();
        match first {
            LabelToken { kind: Kind::Name, .. } | LabelToken { text: ",", .. } => self.value_list(),
            LabelToken { text: ")", .. } => {
                self.next();
                Ok(BTreeSet::from([""]))
            }
            LabelToken { text, .. } => Err(format!("found '{text}', expected: ',', ')' or identifier")),
        }
    }

    /// The values up to and with the closing parenthesis.
    fn value_list(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let mut values = BTreeSet::new();
        loop {
            let token = self.next();
            let following = self.peek();
            match token {
                LabelToken { kind: Kind::Name, text } => {
                    values.insert(text);
                    if !matches!(following.text, "," | ")") {
                        return Err(format!("found '{}', expected: ',' or ')'", following.text));
                    }
                }
                LabelToken { text: ",", .. } => {
                    if values.is_empty() || matches!(following.text, "," | ")") {
                        values.insert("");
                    }
                }
                LabelToken { text, .. } => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
            if following.text == ")" {
                self.next();
                return Ok(values);
            }
        }
    }

    /// One value, or the empty one where the requirement ends.
    fn exact_value(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let token = self.peek();
        if token.kind == Kind::End || token.text == "," {
            return Ok(BTreeSet::from([""]));
        }
        self.next();
        match token.kind {
            Kind::Name => Ok(BTreeSet::from([token.text])),
            _ => Err(format!("found '{}', expected: identifier", token.text)),
        }
    }
}

struct Lexer<'a> {
    rest: &'a [u8],
}

impl<'a> Lexer<'a> {
    /// The next token. A zero byte ends the text, or, right behind a token, is skipped with it, as upstream has it.
    fn token(&mut self) -> LabelToken<'a> {
        let blanks = self.rest.iter().take_while(|b| is_blank(**b)).count();
        self.rest = &self.rest[blanks..];
        let (kind, length) = match self.rest {
            [] | [0, ..] => {
                self.rest = &[];
                return LabelToken { kind: Kind::End, text: "" };
            }
            [b'=' | b'!', b'=', ..] => (Kind::Other, 2),
            [b'!', ..] => (Kind::Not, 1),
            [symbol, ..] if is_symbol(*symbol) => (Kind::Other, 1),
            name => (Kind::Name, name.iter().take_while(|b| !is_symbol(**b) && !is_blank(**b) && **b != 0).count()),
        };
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest.strip_prefix(&[0]).unwrap_or(rest);
        // Tokens end only at ASCII bytes, so that one of a valid text is valid.
        let text = std::str::from_utf8(text).expect("a token is cut at ASCII bytes");
        LabelToken { kind, text }
    }
}

fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_symbol(b: u8) -> bool {
    matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}
