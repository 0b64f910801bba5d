//! Chains of `&&` and `||` as balanced trees, so that long ones are not deep.

use super::ast::Node;

/// Terms and, between them, the offsets of the operators.
pub struct Chain<'b> {
    pub terms: Vec<Node<'b>>,
    pub operators: Vec<u32>,
}

impl<'b> Chain<'b> {
    pub fn new(first: Node<'b>) -> Chain<'b> {
        Chain { terms: vec![first], operators: Vec::new() }
    }

    pub fn push(&mut self, operator: u32, term: Node<'b>) {
        self.operators.push(operator);
        self.terms.push(term);
    }

    /// The tree; `call` makes one operation of an offset and two operands.
    pub fn tree(&self, call: &mut impl FnMut(u32, Node<'b>, Node<'b>) -> Node<'b>) -> Node<'b> {
        match self.operators.len() {
            0 => self.terms[0],
            count => self.balanced(0, count - 1, call),
        }
    }

    fn balanced(
        &self,
        low: usize,
        high: usize,
        call: &mut impl FnMut(u32, Node<'b>, Node<'b>) -> Node<'b>,
    ) -> Node<'b> {
        let middle = (low + high).div_ceil(2);
        let left = if middle == low { self.terms[middle] } else { self.balanced(low, middle - 1, call) };
        let right = if middle == high { self.terms[middle + 1] } else { self.balanced(middle + 1, high, call) };
        call(self.operators[middle], left, right)
    }
}
