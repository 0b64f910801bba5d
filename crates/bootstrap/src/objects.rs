//! The default objects, from the generated table.

use codec::Notes;
use object::Value;

const TABLE: &str = include_str!("../data/objects.txt");

/// Resource and object, in the order they are to be created.
pub fn defaults() -> impl Iterator<Item = (&'static str, Value)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (resource, json) = line.split_once(' ')?;
        let object = codec::json::decode(json.as_bytes(), None, &mut Notes::ignore()).ok()?;
        Some((resource, object))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Meta;

    #[test]
    fn every_line_is_an_object_of_a_kind() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        let objects: Vec<_> = defaults().collect();
        assert_eq!(objects.len(), lines);
        assert!(objects.iter().all(|(_, object)| !object.name().is_empty() && !object.kind().is_empty()));
        assert_eq!(objects[0].0, "namespaces");
    }
}
