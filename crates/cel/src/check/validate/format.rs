//! `'…'.format([…])` with a format and a list that are literals: the arguments must suit the format.

use crate::check::checker::Checked;
use crate::library::strings::format::{Failure, Piece, Verb, walk};
use crate::syntax::ast::{Kind, Literal, Node};
use crate::types::Type;

/// Reports what is wrong with the call, if it is one.
pub fn check(node: Node<'_>, checked: &Checked<'_>, found: &mut Vec<(u32, String)>) {
    let Kind::Call(call) = node.kind else { return };
    let (Some(target), "format", [list]) = (call.target, call.function, call.args) else { return };
    let (Kind::Literal(Literal::String(format)), Kind::List(list)) = (target.kind, list.kind) else { return };
    let given = list.elements.len();
    let used = walk(format, given, true, |piece| match piece {
        Piece::Text(_) => Ok(()),
        Piece::Clause(verb, index) => argument(verb, list.elements[index], checked),
    });
    match used {
        Ok(used) if used < given => {
            let message = format!("too many arguments supplied to string.format (expected {used}, got {given})");
            found.push((node.offset, message));
        }
        Ok(_) => {}
        Err(Failure::Format(message)) => found.push((node.offset, message)),
        Err(Failure::Clause((offset, message))) => {
            found.push((offset, format!("error during formatting: {message}")));
        }
    }
}

/// Whether the clause can write a value of the argument's type; the place of what it cannot.
fn argument(verb: Verb, node: Node<'_>, checked: &Checked<'_>) -> Result<(), (u32, String)> {
    let ty = &checked.types[node.id as usize];
    if !suits(verb, ty) {
        return Err((node.offset, verb.complaint(&type_name(ty))));
    }
    if verb != Verb::String {
        return Ok(());
    }
    // Literals inside of literals are looked at one by one.
    match node.kind {
        Kind::List(list) => list.elements.iter().try_for_each(|element| argument(verb, element, checked)),
        Kind::Map(entries) => entries.iter().try_for_each(|entry| {
            argument(verb, entry.key, checked)?;
            argument(verb, entry.value, checked)
        }),
        _ => Ok(()),
    }
}

fn suits(verb: Verb, ty: &Type) -> bool {
    match (verb, ty) {
        (_, Type::Dyn) => true,
        (Verb::String, _) => matches!(
            ty,
            Type::List(_)
                | Type::Map(..)
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::String
                | Type::Timestamp
                | Type::Bytes
                | Type::Duration
                | Type::Type(_)
                | Type::Null
        ),
        (Verb::Decimal | Verb::Octal, _) => matches!(ty, Type::Int | Type::Uint),
        (Verb::Fixed(_) | Verb::Scientific(_), _) => matches!(ty, Type::Double | Type::String),
        (Verb::Binary, _) => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        (Verb::Hex { .. }, _) => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
    }
}

/// The type's name without its parameters.
fn type_name(ty: &Type) -> String {
    let name = ty.declared_name();
    name.split('(').next().unwrap_or(&name).to_string()
}
