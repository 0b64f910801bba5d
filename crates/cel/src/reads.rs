//! [`reads`]: which fields of a variable an expression reads.

use bumpalo::Bump;
use object::Str;

use crate::environment::Environment;
use crate::syntax::ast::{Kind, Literal, Node};
use crate::syntax::parse;
use crate::syntax::source::Errors;

/// The paths below a variable that an expression reads, as `spec.nodeName`; each stands for everything below it. None if the
/// expression uses the variable as a whole, or cannot be parsed.
pub fn reads(text: &str, environment: &Environment, variable: &str) -> Option<Vec<Str>> {
    let bump = Bump::new();
    let (root, _) = parse(text, environment.macros(), &bump, &mut Errors::new(text))?;
    let mut found = ReadPaths { variable, paths: Vec::new() };
    found.look(root)?;
    found.paths.sort();
    found.paths.dedup();
    Some(found.paths)
}

struct ReadPaths<'f> {
    variable: &'f str,
    paths: Vec<Str>,
}

impl ReadPaths<'_> {
    /// Notes what is read in a part of the expression; None if the variable is used as a whole there.
    fn look(&mut self, node: Node<'_>) -> Option<()> {
        if let Some(path) = self.path(node) {
            let is_whole = path.is_empty();
            self.paths.push(path.join(".").into());
            return (!is_whole).then_some(());
        }
        match node.kind {
            Kind::Unspecified | Kind::Literal(_) | Kind::Ident(_) => Some(()),
            Kind::Select(select) => self.look(select.operand),
            Kind::Call(call) => self.all(call.target.into_iter().chain(call.args.iter().copied())),
            Kind::List(list) => self.all(list.elements.iter().copied()),
            Kind::Map(entries) => self.all(entries.iter().flat_map(|entry| [entry.key, entry.value])),
            Kind::Struct(message) => self.all(message.fields.iter().map(|field| field.value)),
            Kind::Comprehension(fold) => {
                self.all([fold.range, fold.init, fold.condition, fold.step, fold.result].into_iter())
            }
        }
    }

    fn all<'n>(&mut self, nodes: impl Iterator<Item = Node<'n>>) -> Option<()> {
        for node in nodes {
            self.look(node)?;
        }
        Some(())
    }

    /// The fields that are selected from the variable one after the other, if the node is that and nothing else.
    fn path<'n>(&self, node: Node<'n>) -> Option<Vec<&'n str>> {
        let (operand, field) = match node.kind {
            Kind::Ident(name) if name.trim_start_matches('.') == self.variable => return Some(Vec::new()),
            Kind::Select(select) => (select.operand, select.field),
            Kind::Call(call) if call.function == "_?._" => match call.args {
                [operand, name] => match name.kind {
                    Kind::Literal(Literal::String(field)) => (*operand, *field),
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        };
        let mut path = self.path(operand)?;
        path.push(field);
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Mode;

    #[test]
    fn fields_are_found() {
        let environment = Environment::base(Mode::Stored);
        for (text, want) in [
            ("true", Some(&[][..])),
            ("object.spec.nodeName == 'a'", Some(&["spec.nodeName"])),
            ("has(object.spec.nodeName) && object.metadata.name != ''", Some(&["metadata.name", "spec.nodeName"])),
            ("object.?status.?phase.orValue('') == 'x'", Some(&["status.phase"])),
            ("object.metadata.labels['a'] == 'b'", Some(&["metadata.labels"])),
            (
                "object.metadata.labels.exists(k, k == object.metadata.name)",
                Some(&["metadata.labels", "metadata.name"]),
            ),
            ("[object.kind].size() > 0 && {'a': object.x.y}.size() > 0", Some(&["kind", "x.y"])),
            ("now > timestamp(object.metadata.creationTimestamp)", Some(&["metadata.creationTimestamp"])),
            ("object['spec'].x", None),
            ("object == null", None),
            ("[object].size() > 0", None),
            (".object.spec == 1", Some(&["spec"])),
            ("object.spec +", None),
        ] {
            let got = reads(text, &environment, "object");
            let got: Option<Vec<&str>> = got.as_ref().map(|paths| paths.iter().map(Str::as_str).collect());
            assert_eq!(got.as_deref(), want, "{text}");
        }
    }
}
