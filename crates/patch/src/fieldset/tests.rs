use object::{Raw, value};
use proptest::prelude::*;

use super::*;
use crate::go;

fn fields(value: object::Value) -> FieldSet {
    FieldSet::from_value(&value).unwrap()
}

/// What the text of a set says.
fn read_back(set: &FieldSet) -> object::Value {
    codec::json::decode(set.to_json().as_bytes(), None, &mut codec::Notes::ignore()).unwrap()
}

fn pruned(set: &FieldSet, other: &FieldSet) -> FieldSet {
    let mut rest = set.clone();
    rest.prune(other);
    rest
}

#[test]
fn fields_v1_is_read_and_written() {
    for value in [
        value!({}),
        value!({"f:a": {}}),
        value!({"f:a": {".": {}, "f:b": {}}}),
        value!({"f:a": {"f:b": {}, "k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:name": {}}, "v:\"s\"": {}, "v:3": {}}}),
        value!({"i:0": {}, "f:": {}, "f:a.b/c": {"f:x:y": {}}}),
    ] {
        assert_eq!(read_back(&fields(value.clone())), value, "{}", go::json(&value));
    }
}

#[test]
fn text_is_in_upstreams_order() {
    let set = fields(value!({
        "i:2": {}, "i:10": {}, "v:\"b\"": {}, "v:2": {}, "v:10": {}, "v:true": {},
        "k:{\"p\":80}": {"f:x": {}}, "k:{\"p\":443}": {}, "f:b": {".": {}, "f:c": {}}, "f:a": {}
    }));
    let want = concat!(
        r#"{"f:a":{},"f:b":{".":{},"f:c":{}},"k:{\"p\":80}":{"f:x":{}},"k:{\"p\":443}":{},"#,
        r#""v:2":{},"v:10":{},"v:\"b\"":{},"v:true":{},"i:2":{},"i:10":{}}"#
    );
    assert_eq!(set.to_json(), want);
}

#[test]
fn what_is_not_understood_is_skipped_or_refused() {
    assert_eq!(fields(value!({"x:new": {"f:a": {}}, "f:a": {}})), fields(value!({"f:a": {}})));
    for bad in [
        value!({"fa": {}}),
        value!({"": {}}),
        value!({"é:": {}}),
        value!({"v:{": {}}),
        value!({"k:[]": {}}),
        value!({"i:x": {}}),
        value!({"f:a": 1}),
        value!([]),
    ] {
        assert!(FieldSet::from_value(&bad).is_err(), "{}", go::json(&bad));
    }
}

#[test]
fn numbers_are_the_same_key_whatever_their_type() {
    assert_eq!(PathElement::Value(value!(1)), PathElement::Value(value!(1.0)));
    assert!(PathElement::Value(value!(2)) < PathElement::Value(value!(10)));
    assert!(PathElement::Value(value!(2)) < PathElement::Value(value!("1")));
}

#[test]
fn paths_print_as_upstream() {
    let set = fields(
        value!({"f:spec": {"f:l": {"k:{\"a\":1,\"b\":\"x\"}": {"f:c": {}}}, "f:s": {"v:\"q\"": {}}, "f:i": {"i:3": {}}}}),
    );
    let mut paths = Vec::new();
    set.each(&mut |path| paths.push(path_text(path)));
    assert_eq!(paths, [".spec.i[3]", r#".spec.l[a=1,b="x"].c"#, r#".spec.s[="q"]"#]);
}

#[test]
fn difference_keeps_what_lies_below_and_the_recursive_one_does_not() {
    let all = fields(value!({"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}}}));
    let cut = fields(value!({"f:a": {}, "f:c": {}}));
    assert_eq!(all.difference(&cut), fields(value!({"f:a": {"f:b": {}}, "f:c": {"f:d": {}}})));
    assert!(pruned(&all, &cut).is_empty());
    assert_eq!(all.leaves(), fields(value!({"f:a": {"f:b": {}}, "f:c": {"f:d": {}}})));
}

fn any_element() -> impl Strategy<Value = PathElement> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        4 => name.clone().prop_map(PathElement::field),
        1 => (name, 0..3i64).prop_map(|(n, v)| PathElement::key(vec![("k".into(), n.into()), ("p".into(), v.into())])),
        1 => (0..3i64).prop_map(|v| PathElement::Value(v.into())),
        1 => (0..3i64).prop_map(PathElement::Index),
    ]
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    let path = prop::collection::vec(any_element(), 1..4);
    prop::collection::vec(path, 0..12).prop_map(|paths| {
        let mut set = FieldSet::new();
        paths.iter().for_each(|path| set.insert(path));
        set
    })
}

fn paths(set: &FieldSet) -> std::collections::BTreeSet<Vec<PathElement>> {
    let mut out = std::collections::BTreeSet::new();
    set.each(&mut |path| {
        out.insert(path.to_vec());
    });
    out
}

proptest! {
    /// The operations are what they are called, seen as sets of paths.
    #[test]
    fn set_algebra(a in any_set(), b in any_set()) {
        let (pa, pb) = (paths(&a), paths(&b));
        prop_assert_eq!(a.len(), pa.len());
        prop_assert_eq!(a.is_empty(), pa.is_empty());
        prop_assert_eq!(paths(&a.union(&b)), pa.union(&pb).cloned().collect());
        prop_assert_eq!(paths(&a.intersection(&b)), pa.intersection(&pb).cloned().collect());
        prop_assert_eq!(paths(&a.difference(&b)), pa.difference(&pb).cloned().collect());
        let covered = |path: &Vec<PathElement>| (1..=path.len()).any(|n| pb.contains(&path[..n]));
        prop_assert_eq!(paths(&pruned(&a, &b)), pa.iter().filter(|p| !covered(p)).cloned().collect());
        let leaf = |path: &Vec<PathElement>| !pa.iter().any(|other| other.len() > path.len() && other.starts_with(path));
        prop_assert_eq!(paths(&a.leaves()), pa.iter().filter(|p| leaf(p)).cloned().collect());
        for path in &pa {
            prop_assert!(a.has(path));
            prop_assert_eq!(b.has(path), pb.contains(path));
        }
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
    }

    #[test]
    fn fields_v1_round_trips(set in any_set()) {
        prop_assert_eq!(FieldSet::from_value(&read_back(&set)), Ok(set.clone()));
        prop_assert_eq!(FieldSet::from_value(&Raw::new(set.to_json()).into()), Ok(set.clone()));
    }
}
