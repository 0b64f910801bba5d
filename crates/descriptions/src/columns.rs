//! What the columns of tables show.

use std::sync::OnceLock;

use hashbrown::HashMap;

const TABLE: &str = include_str!("../data/columns.txt");

/// The description of a column of a kind's table, "" where there is none.
pub fn column(kind: &str, column: &str) -> &'static str {
    static COLUMNS: OnceLock<HashMap<(&str, &str), &str>> = OnceLock::new();
    let columns = COLUMNS.get_or_init(|| {
        let row = |line: &'static str| {
            let (kind, rest) = line.split_once('|')?;
            let (column, what) = rest.split_once('|')?;
            Some(((kind, column), what))
        };
        TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
    });
    let Some(what) = columns.get(&(kind, column)) else { return "" };
    match what.strip_prefix("= ") {
        Some(text) => text,
        None => what.split_once(' ').and_then(|(definition, field)| crate::of(definition, field)).unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::column;

    #[test]
    fn columns_are_described_by_fields_or_in_words() {
        if crate::available() {
            assert!(column("Pod", "Node").starts_with("NodeName"));
        }
        assert!(!column("Pod", "Ready").is_empty());
        assert_eq!(column("Pod", "Nope"), "");
    }
}
