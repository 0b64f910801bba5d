//! Tokens and sets of them, in the order and with the names that error messages have.

/// The type of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tok {
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    LParen,
    RParen,
    Dot,
    Comma,
    Minus,
    Exclam,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscIdent,
    Eof,
}

/// The names of token types in messages.
const NAMES: [&str; 36] = [
    "'=='",
    "'!='",
    "'in'",
    "'<'",
    "'<='",
    "'>='",
    "'>'",
    "'&&'",
    "'||'",
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "':'",
    "'+'",
    "'*'",
    "'/'",
    "'%'",
    "'true'",
    "'false'",
    "'null'",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
    "ESC_IDENTIFIER",
    "<EOF>",
];

/// A set of token types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(u64);

impl Set {
    pub const fn of(toks: &[Tok]) -> Set {
        let mut bits = 0;
        let mut i = 0;
        while i < toks.len() {
            bits |= 1 << toks[i] as u8;
            i += 1;
        }
        Set(bits)
    }

    pub const fn without(self, tok: Tok) -> Set {
        Set(self.0 & !(1 << tok as u8))
    }

    pub const fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    pub fn has(self, tok: Tok) -> bool {
        self.0 & (1 << tok as u8) != 0
    }

    /// As messages list what was expected: `{']', ','}`.
    pub fn describe(self) -> String {
        let names: Vec<&str> =
            NAMES.iter().enumerate().filter(|(i, _)| self.0 & (1 << i) != 0).map(|(_, name)| *name).collect();
        match names[..] {
            [name] => name.to_string(),
            _ => format!("{{{}}}", names.join(", ")),
        }
    }
}

/// What an expression can begin with.
pub const EXPR: Set = Set::of(&[
    Tok::LBracket,
    Tok::LBrace,
    Tok::LParen,
    Tok::Dot,
    Tok::Minus,
    Tok::Exclam,
    Tok::True,
    Tok::False,
    Tok::Null,
    Tok::Float,
    Tok::Int,
    Tok::Uint,
    Tok::String,
    Tok::Bytes,
    Tok::Ident,
]);

/// What a value can begin with.
pub const PRIMARY: Set = EXPR.without(Tok::Exclam);

/// The operators of relations, and of sums and products.
pub const RELATIONS: Set =
    Set::of(&[Tok::Equals, Tok::NotEquals, Tok::In, Tok::Less, Tok::LessEquals, Tok::GreaterEquals, Tok::Greater]);
pub const ARITHMETIC: Set = Set::of(&[Tok::Minus, Tok::Plus, Tok::Star, Tok::Slash, Tok::Percent]);
/// What selects from a value.
pub const MEMBERS: Set = Set::of(&[Tok::Dot, Tok::LBracket]);

/// What can continue an operand.
pub const OPERATORS: Set = Set::of(&[
    Tok::Equals,
    Tok::NotEquals,
    Tok::In,
    Tok::Less,
    Tok::LessEquals,
    Tok::GreaterEquals,
    Tok::Greater,
    Tok::And,
    Tok::Or,
    Tok::LBracket,
    Tok::Dot,
    Tok::Minus,
    Tok::Plus,
    Tok::Star,
    Tok::Slash,
    Tok::Percent,
]);
