//! Copies of expressions, for macros that use an argument twice.

use super::ast::{Call, Comprehension, Entry, FieldInit, Kind, ListLiteral, Node, Select, StructLiteral};
use super::parser::Parser;

/// A copy in which every expression has a number of its own.
pub fn copy<'b>(parser: &mut Parser<'b, '_>, node: Node<'b>) -> Node<'b> {
    let bump = parser.bump;
    let kind = match node.kind {
        Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => node.kind,
        Kind::Select(select) => {
            let operand = copy(parser, select.operand);
            Kind::Select(bump.alloc(Select { operand, field: select.field, test_only: select.test_only }))
        }
        Kind::Call(call) => {
            let args = copy_all(parser, call.args);
            let target = call.target.map(|target| copy(parser, target));
            Kind::Call(bump.alloc(Call { function: call.function, target, args }))
        }
        Kind::List(list) => {
            let elements = copy_all(parser, list.elements);
            Kind::List(bump.alloc(ListLiteral { elements, optional: list.optional }))
        }
        Kind::Map(entries) => {
            let copied: Vec<Entry<'b>> = entries.iter().map(|entry| copy_entry(parser, entry)).collect();
            Kind::Map(bump.alloc_slice_fill_iter(copied))
        }
        Kind::Struct(literal) => {
            let fields: Vec<FieldInit<'b>> =
                literal.fields.iter().map(|field| FieldInit { value: copy(parser, field.value), ..*field }).collect();
            let fields = bump.alloc_slice_fill_iter(fields);
            Kind::Struct(bump.alloc(StructLiteral { type_name: literal.type_name, fields }))
        }
        Kind::Comprehension(loops) => {
            let copied = Comprehension {
                range: copy(parser, loops.range),
                init: copy(parser, loops.init),
                condition: copy(parser, loops.condition),
                step: copy(parser, loops.step),
                result: copy(parser, loops.result),
                ..*loops
            };
            Kind::Comprehension(bump.alloc(copied))
        }
    };
    parser.node(node.offset, kind)
}

fn copy_all<'b>(parser: &mut Parser<'b, '_>, nodes: &[Node<'b>]) -> &'b [Node<'b>] {
    let copied: Vec<Node<'b>> = nodes.iter().map(|node| copy(parser, node)).collect();
    parser.bump.alloc_slice_copy(&copied)
}

fn copy_entry<'b>(parser: &mut Parser<'b, '_>, entry: &Entry<'b>) -> Entry<'b> {
    Entry { key: copy(parser, entry.key), value: copy(parser, entry.value), ..*entry }
}
