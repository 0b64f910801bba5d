//! Every field that a rule names exists: a misspelt name would be read as a field that is never set.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How fields are named in rules: with one name, or with a path of names.
const METHODS: [&str; 8] =
    [".field(\"", ".field_as(\"", ".at(&[", ".str_at(&[", ".list_at(&[", ".set(&[", ".keep(&[", ".remove(&["];

/// Files of tests, which name what they like.
const TESTS: [&str; 2] = ["tests.rs", "recorded.rs"];

/// Names that are not in the table, by what they are.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "upstream's messages call a field so",
        &[
            "Spec",
            "Type",
            "LoadBalancerSourceRanges",
            "attachedRequired",
            "deprecatedServiceAccount",
            "imageVolumeStatus",
            "initiatorname",
            "nodeSwapStatus",
            "targetportal",
            "{topologyKey, whenUnsatisfiable}",
        ],
    ),
    (
        "the annotation with what autoscaling/v1 has no fields for",
        &[
            "currentAverageUtilization",
            "currentAverageValue",
            "currentValue",
            "metricName",
            "targetAverageUtilization",
            "targetAverageValue",
            "targetValue",
        ],
    ),
    (
        "the annotation of nodes that pods shall avoid",
        &[
            "preferAvoidPods",
            "podController",
            "podSignature",
            "AvoidPods",
            "Controller",
            "PodController",
            "PodSignature",
        ],
    ),
    ("fields of upstream's internal types", &["allows", "jSONSchemas", "property"]),
    ("labels", &["kubernetes.io/hostname", "topology.kubernetes.io/zone"]),
];

#[test]
fn every_field_that_a_rule_names_exists() {
    let types = schema::builtin().types();
    let fields: BTreeSet<&str> =
        types.structs().flat_map(|(_, known)| known.fields.iter().map(|field| field.name.as_str())).collect();
    assert!(fields.len() > 800, "only {} fields", fields.len());
    let known: BTreeSet<&str> = KNOWN.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let (mut named, mut wrong) = (0, Vec::new());
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        // Tests stand at the end of a file and name what they like.
        let rules = text.split("#[cfg(test)]").next().unwrap();
        for name in METHODS.iter().flat_map(|method| names_after(rules, method)) {
            named += 1;
            if !fields.contains(name) && !known.contains(name) {
                wrong.push(format!("{}: {name:?}", file.display()));
            }
        }
    }
    assert!(named > 2000, "only {named} names were found");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The texts in quotes that are given to a method.
fn names_after<'t>(text: &'t str, method: &str) -> Vec<&'t str> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices(method) {
        let is_path = method.ends_with('[');
        let arguments = &text[at + method.trim_end_matches('"').len()..];
        let arguments = &arguments[..arguments.find(if is_path { ']' } else { ')' }).unwrap_or(0)];
        let quoted = arguments.split('"').skip(1).step_by(2);
        names.extend(quoted.filter(|name| !name.is_empty()));
    }
    names
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs")
            && !TESTS.iter().any(|name| path.ends_with(name))
        {
            found.push(path);
        }
    }
    found
}
