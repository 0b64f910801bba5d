//! Field paths, as upstream's errors print them: `spec.containers[0].name`, `metadata.labels[a.b/c]`.

use std::fmt;
use std::sync::Arc;

use crate::Str;

/// Where a value is inside an object. Cheap to clone and to extend: text is only made when an error needs it.
#[derive(Clone, Default)]
pub struct Path(Option<Arc<Node>>);

struct Node {
    parent: Path,
    step: Step,
}

enum Step {
    Field(Str),
    Index(usize),
    Key(Str),
}

impl Path {
    /// The object itself.
    pub const fn root() -> Path {
        Path(None)
    }

    /// A path of plain field names, dotted: `Path::of("spec.template")`.
    pub fn of(dotted: &str) -> Path {
        dotted.split('.').fold(Path::root(), |path, name| path.field(name))
    }

    /// The path of a field below this one.
    pub fn field(&self, name: &str) -> Path {
        self.step(Step::Field(name.into()))
    }

    /// The path of an item below this one.
    pub fn index(&self, index: usize) -> Path {
        self.step(Step::Index(index))
    }

    /// A key of a map, printed in brackets.
    pub fn key(&self, key: &str) -> Path {
        self.step(Step::Key(key.into()))
    }

    /// Whether it is the path of a whole object.
    pub fn is_root(&self) -> bool {
        self.0.is_none()
    }

    fn step(&self, step: Step) -> Path {
        Path(Some(Arc::new(Node { parent: self.clone(), step })))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(leaf) = &self.0 else { return f.write_str("<nil>") };
        let mut nodes = vec![leaf];
        while let Some(parent) = &nodes[nodes.len() - 1].parent.0 {
            nodes.push(parent);
        }
        for (depth, node) in nodes.iter().rev().enumerate() {
            match &node.step {
                Step::Field(name) if depth == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn prints_as_upstream() {
        let containers = Path::of("spec.containers");
        for (path, want) in [
            (containers.index(0).field("name"), "spec.containers[0].name"),
            (Path::of("metadata.labels").key("a.b/c"), "metadata.labels[a.b/c]"),
            (Path::root().index(3), "[3]"),
            (Path::root(), "<nil>"),
        ] {
            assert_eq!(path.to_string(), want);
        }
    }
}
