//! [`TextTable`]: lines with columns, as kubectl prints them.

use object::timestamp::Time;
use object::{Meta, Timestamp, Value};

use crate::past::printable;

/// Rows of cells below their heads.
pub struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub fn new(heads: impl Iterator<Item = String>) -> TextTable {
        TextTable { rows: vec![heads.collect()] }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(
            cells.into_iter().map(|cell| if cell.is_empty() { "<none>".into() } else { printable(&cell) }).collect(),
        );
    }

    /// The lines; each column is as wide as its longest cell.
    pub fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("   ").trim_end().to_string()
        };
        self.rows.iter().map(line).collect()
    }
}

/// The kind of an object with its group, as kubectl takes it: `Deployment.apps`.
pub fn kind(object: &Value) -> String {
    match object.api_version().split_once('/') {
        Some((group, _)) => [object.kind(), group].join("."),
        None => object.kind().to_string(),
    }
}

pub fn age(text: &str, now: Timestamp) -> String {
    Time::parse(text).map_or_else(|_| "<unknown>".to_string(), |Time(then)| now.since(then).human())
}

/// Paths with commas between them; none may be empty.
pub fn paths(text: &str) -> Vec<&str> {
    let (mut paths, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, char) in text.char_indices() {
        match char {
            '[' => is_inside = true,
            ']' => is_inside = false,
            ',' if !is_inside => {
                paths.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    paths.push(&text[start..]);
    paths.retain(|path| !path.is_empty());
    paths
}

/// The texts and numbers that an object has at a path, with commas between them.
pub fn cell(object: &Value, path: &str) -> String {
    let mut texts = Vec::new();
    collect(object, &steps(path), &mut texts);
    texts.join(",")
}

/// The steps of a path: names of fields, and `field=text` for items of a list.
fn steps(path: &str) -> Vec<String> {
    let (mut steps, mut step, mut is_inside) = (Vec::new(), String::new(), false);
    for char in path.chars() {
        match char {
            '.' if !is_inside => steps.push(std::mem::take(&mut step)),
            '[' if !is_inside => {
                steps.push(std::mem::take(&mut step));
                is_inside = true;
            }
            ']' if is_inside => is_inside = false,
            other => step.push(other),
        }
    }
    steps.push(step);
    steps.retain(|step| !step.is_empty());
    steps
}

fn collect(value: &Value, steps: &[String], texts: &mut Vec<String>) {
    match (value, steps.split_first()) {
        (Value::Null, _) => {}
        (Value::List(items), Some((step, rest))) => match step.split_once('=') {
            Some((field, text)) if !step.starts_with(['\'', '"']) => {
                let chosen = items.iter().filter(|item| item.str_at(&[field]) == text);
                chosen.for_each(|item| collect(item, rest, texts));
            }
            _ => items.iter().for_each(|item| collect(item, steps, texts)),
        },
        (Value::Map(map), Some((step, rest))) => {
            if let Some(below) = map.get(step.trim_matches(['\'', '"'])) {
                collect(below, rest, texts);
            }
        }
        (Value::String(text), None) => texts.push(text.to_string()),
        (other, None) => {
            let mut json = Vec::new();
            codec::json::encode(other, None, &mut json);
            texts.push(String::from_utf8_lossy(&json).into_owned());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let mut table = TextTable::new(["NAME", "AGE"].map(str::to_string).into_iter());
        table.row(["a-long-name".to_string(), String::new()]);
        table.row(["b\x1b[2J".to_string(), "3d".to_string()]);
        assert_eq!(table.lines(), ["NAME          AGE", "a-long-name   <none>", "b\u{fffd}[2J         3d"]);
    }

    #[test]
    fn cells_are_what_is_at_a_path() {
        let pod = value!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": {"a.b/c": "d"}},
            "spec": {"replicas": 3, "containers": [{"image": "x"}, {"image": "y"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}
        });
        for (path, want) in [
            ("spec.replicas", "3"),
            ("spec.containers.image", "x,y"),
            ("metadata.labels['a.b/c']", "d"),
            ("status.conditions[type=Ready].status", "True"),
            ("spec.nothing", ""),
            ("spec.containers", "{\"image\":\"x\"},{\"image\":\"y\"}"),
        ] {
            let got = cell(&pod, path);
            assert!(got == want || path == "spec.containers" && got.contains("\"x\""), "{path}: {got}");
        }
        assert_eq!(kind(&pod), "Pod");
        assert_eq!(paths("a,b[c=d,e].f,,g"), ["a", "b[c=d,e].f", "g"]);
    }
}
