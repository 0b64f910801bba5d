//! The syntax tree. It lives in a bump arena for as long as an expression is compiled.

use crate::constant::Constant;

/// An expression.
#[derive(Debug)]
pub struct Expr<'b> {
    /// Different for every expression of a tree, from 0; what is known about it is kept in tables by this number.
    pub id: u32,
    /// The byte offset errors point at.
    pub offset: u32,
    pub kind: Kind<'b>,
}

pub type Node<'b> = &'b Expr<'b>;

#[derive(Debug, Clone, Copy)]
pub enum Kind<'b> {
    /// What stands for an expression that has an error.
    Unspecified,
    Literal(&'b Literal<'b>),
    /// A name; with a dot in front it is looked up outside of comprehensions.
    Ident(&'b str),
    Select(&'b Select<'b>),
    Call(&'b Call<'b>),
    List(&'b ListLiteral<'b>),
    Map(&'b [Entry<'b>]),
    Struct(&'b StructLiteral<'b>),
    Comprehension(&'b Comprehension<'b>),
}

#[derive(Debug, Clone, Copy)]
pub enum Literal<'b> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(&'b str),
    Bytes(&'b [u8]),
}

#[derive(Debug)]
pub struct Select<'b> {
    pub operand: Node<'b>,
    pub field: &'b str,
    /// `has(operand.field)`.
    pub test_only: bool,
}

#[derive(Debug)]
pub struct Call<'b> {
    pub function: &'b str,
    pub target: Option<Node<'b>>,
    pub args: &'b [Node<'b>],
}

#[derive(Debug)]
pub struct ListLiteral<'b> {
    pub elements: &'b [Node<'b>],
    /// Which elements are optional: `[?a]`.
    pub optional: &'b [bool],
}

/// An entry of a map literal.
#[derive(Debug)]
pub struct Entry<'b> {
    pub key: Node<'b>,
    pub value: Node<'b>,
    pub optional: bool,
}

#[derive(Debug)]
pub struct StructLiteral<'b> {
    pub type_name: &'b str,
    pub fields: &'b [FieldInit<'b>],
}

#[derive(Debug)]
pub struct FieldInit<'b> {
    pub offset: u32,
    pub name: &'b str,
    pub value: Node<'b>,
    pub optional: bool,
}

/// What macros over lists and maps become: a loop with an accumulator.
#[derive(Debug)]
pub struct Comprehension<'b> {
    pub range: Node<'b>,
    pub var: &'b str,
    /// The second variable of a two-variable comprehension.
    pub var2: Option<&'b str>,
    pub accumulator: &'b str,
    pub init: Node<'b>,
    pub condition: Node<'b>,
    pub step: Node<'b>,
    pub result: Node<'b>,
}

/// The name of the accumulator of macros.
pub const ACCUMULATOR: &str = "__result__";

impl Literal<'_> {
    pub fn constant(&self) -> Constant {
        match *self {
            Literal::Null => Constant::Null,
            Literal::Bool(b) => Constant::Bool(b),
            Literal::Int(i) => Constant::Int(i),
            Literal::Uint(u) => Constant::Uint(u),
            Literal::Double(d) => Constant::Double(d),
            Literal::String(s) => Constant::String(s.into()),
            Literal::Bytes(b) => Constant::Bytes(b.into()),
        }
    }
}
