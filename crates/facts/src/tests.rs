//! The archive and the joins of cases with answers.

use serde_json::json;

use crate::{Facts, current, requests};

#[test]
fn an_archive_is_the_same_bytes_each_time_and_gives_back_its_files() {
    let mut facts = Facts::default();
    facts.insert("b/two", vec![0, 1, 255]);
    facts.insert("a/one.json", br#"{"a": 1}"#.to_vec());
    let packed = facts.pack().unwrap();
    assert!(Facts::unpack(&packed).unwrap() == facts);
    assert_eq!(Facts::unpack(&packed).unwrap().pack().unwrap(), packed);
    assert_eq!(facts.json("a/one.json").unwrap(), json!({"a": 1}));
    assert_eq!(facts.text("c").unwrap_err(), "the facts have no c");
    assert_eq!(facts.names("a/").collect::<Vec<_>>(), ["a/one.json"]);
}

#[test]
fn damaged_archives_are_errors() {
    let mut facts = Facts::default();
    facts.insert("a", vec![7; 1000]);
    let packed = facts.pack().unwrap();
    for cut in [0, 5, packed.len() / 2, packed.len() - 1] {
        assert!(Facts::unpack(&packed[..cut]).is_err(), "{cut} bytes");
    }
}

#[test]
fn every_case_has_its_answers() {
    let cases = current().unwrap().cases().unwrap();
    assert_eq!(cases.len(), requests().unwrap().values().map(Vec::len).sum::<usize>());
    let steps = cases.iter().flat_map(|case| case["steps"].as_array().unwrap());
    let answered = steps.filter(|step| step["expect"].is_object()).count();
    assert!(answered > 5_000, "{answered} answers");
}

#[test]
fn every_expression_has_its_outcome() {
    let facts = current().unwrap().cel().unwrap();
    assert!(facts.lines().count() > 3_800);
    assert!(facts.lines().all(|line| line.starts_with("{\"name\":") && line.contains(",\"outcome\":{")));
}

#[test]
fn outcomes_are_those_of_the_inputs_in_the_repository() {
    let mut facts = current().unwrap().clone();
    let recorded = facts.text("cel/outcomes.jsonl").unwrap().to_string();
    let joined = facts.cel().unwrap();
    facts.insert_cel(&recorded).unwrap();
    assert_eq!(facts.cel().unwrap(), joined);
    let others = recorded.replacen("\"name\":\"", "\"name\":\"x", 1);
    assert!(facts.insert_cel(&others).unwrap_err().contains("the recorder answered"));
    let (fewer, _) = recorded.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(facts.insert_cel(fewer).unwrap_err(), "the recorder did not answer every input");
}

#[test]
fn only_answers_that_are_the_same_twice_are_kept() {
    let mut facts = Facts::default();
    let mut other = Facts::default();
    for (at, (file, cases)) in requests().unwrap().into_iter().enumerate() {
        let answers = |changed: bool| -> Vec<(String, Vec<serde_json::Value>)> {
            let answer = |case: &serde_json::Value| {
                case["steps"].as_array().unwrap().iter().map(|_| json!({"a": changed})).collect()
            };
            cases.iter().map(|case| (case["name"].as_str().unwrap().to_string(), answer(case))).collect()
        };
        facts.insert_answers(&file, &answers(false));
        other.insert_answers(&file, &answers(at == 0));
    }
    facts.keep_stable_answers(&other).unwrap();
    let cases = facts.cases().unwrap();
    let has_answers =
        |case: &serde_json::Value| case["steps"].as_array().unwrap().iter().any(|step| step["expect"].is_object());
    let (first, _) = requests().unwrap().into_iter().next().map(|(file, cases)| (cases.len(), file)).unwrap();
    assert!(cases[..first].iter().all(|case| !has_answers(case)));
    assert!(cases[first..].iter().all(has_answers));
}
