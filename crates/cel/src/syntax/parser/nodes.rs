//! Making the nodes of the tree.

use super::Parser;
use crate::syntax::ast::{Call, Expr, Kind, Literal, Node};
use crate::syntax::macros;

impl<'b> Parser<'b, '_> {
    pub(in crate::syntax) fn node(&mut self, offset: u32, kind: Kind<'b>) -> Node<'b> {
        let id = self.next_id;
        self.next_id += 1;
        self.bump.alloc(Expr { id, offset, kind })
    }

    pub(in crate::syntax) fn literal(&mut self, offset: u32, value: Literal<'b>) -> Node<'b> {
        let value = self.bump.alloc(value);
        self.node(offset, Kind::Literal(value))
    }

    pub(in crate::syntax) fn error_node(&mut self, offset: u32, message: impl Into<String>) -> Node<'b> {
        self.errors.at(offset, message);
        self.node(offset, Kind::Unspecified)
    }

    /// A call of a global function, or what the macro of that name makes of it.
    pub(super) fn call(&mut self, offset: u32, function: &'b str, args: &[Node<'b>]) -> Node<'b> {
        match macros::expand(self, offset, function, None, args) {
            Some(expanded) => expanded,
            None => self.plain_call(offset, function, None, args),
        }
    }

    pub(super) fn receiver_call(
        &mut self,
        offset: u32,
        function: &'b str,
        target: Node<'b>,
        args: &[Node<'b>],
    ) -> Node<'b> {
        match macros::expand(self, offset, function, Some(target), args) {
            Some(expanded) => expanded,
            None => self.plain_call(offset, function, Some(target), args),
        }
    }

    pub(in crate::syntax) fn plain_call(
        &mut self,
        offset: u32,
        function: &'b str,
        target: Option<Node<'b>>,
        args: &[Node<'b>],
    ) -> Node<'b> {
        let args = self.bump.alloc_slice_copy(args);
        let call = self.bump.alloc(Call { function, target, args });
        self.node(offset, Kind::Call(call))
    }
}
