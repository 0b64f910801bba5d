//! The default objects, from the generated table.

use codec::Notes;
use object::Value;

const TABLE: &str = include_str!("../data/objects.txt");

/// Resource and object, in the order they are to be created.
pub fn defaults() -> impl Iterator<Item = (&'static str, Value)> {
    rows(TABLE).filter_map(|line| {
        let (resource, object) = line.split_once(' ')?;
        Some((resource, json(object)?))
    })
}

/// The lines of a table that are no comments.
pub fn rows(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

/// A value that stands in a table.
pub fn json(text: &str) -> Option<Value> {
    codec::json::decode(text.as_bytes(), None, &mut Notes::ignore()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Meta;

    #[test]
    fn every_line_is_an_object_of_a_kind() {
        let lines = rows(TABLE).count();
        let objects: Vec<_> = defaults().collect();
        assert_eq!(objects.len(), lines);
        assert!(objects.iter().all(|(_, object)| !object.name().is_empty() && !object.kind().is_empty()));
        assert_eq!(objects[0].0, "namespaces");
    }
}
