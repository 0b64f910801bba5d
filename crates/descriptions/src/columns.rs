//! What the columns of tables show.

use std::sync::OnceLock;

use hashbrown::HashMap;

const TABLE: &str = include_str!("../data/columns.txt");

/// The description of a column of a kind's table, "" where there is none.
pub fn column(kind: &str, column: &str) -> &'static str {
    static COLUMNS: OnceLock<HashMap<&str, HashMap<&str, String>>> = OnceLock::new();
    let columns = COLUMNS.get_or_init(|| {
        let mut columns: HashMap<&str, HashMap<&str, String>> = HashMap::new();
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            if let Some((kind, (column, what))) =
                line.split_once('|').and_then(|(k, rest)| Some((k, rest.split_once('|')?)))
            {
                columns.entry(kind).or_default().insert(column, text(what));
            }
        }
        columns
    });
    columns.get(kind).and_then(|of_kind| of_kind.get(column)).map_or("", String::as_str)
}

fn text(what: &str) -> String {
    if let Some(text) = what.strip_prefix("= ") {
        return text.replace("\\n", "\n");
    }
    let (what, without) = what.split_once(" - ").unwrap_or((what, ""));
    let described = what.split_once(' ').and_then(|(definition, field)| crate::of(definition, field)).unwrap_or("");
    described.strip_suffix(without).unwrap_or(described).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::column;

    #[test]
    fn columns_are_described_by_fields_or_in_words() {
        assert!(column("Pod", "Node").starts_with("NodeName"));
        assert!(!column("Pod", "Ready").is_empty());
        assert_eq!(column("Pod", "Nope"), "");
    }
}
