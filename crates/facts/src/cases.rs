//! The cases, which are ours and live as text in `versions/cases`, and the answers to them, which are in the archive.
//!
//! `requests/<file>.jsonl` has a line that names a case (`{"name": …}`) and then a line for each of its requests. Answers to them are in
//! `answers/<file>.jsonl`, a line a case: `{"name": …, "answers": […]}` with `null` where the answer is not the same each time.
//! `cel.jsonl` has a line an expression or rule; the archive has its outcomes, a line each that begins with the same name.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use serde_json::{Map, Value};

use crate::{Facts, folder};

const OUTCOMES: &str = "cel/outcomes.jsonl";

/// All cases by the name of their file. The requests of a case are its `steps`.
pub fn requests() -> Result<BTreeMap<String, Vec<Value>>, String> {
    let folder = folder().join("cases/requests");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(failed)?;
        files.insert(name, parse(&text).map_err(|why| format!("{}: {why}", path.display()))?);
    }
    Ok(files)
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    let mut cases: Vec<Value> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let value: Value = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))?;
        if value["method"].is_null() {
            cases.push(value);
            continue;
        }
        let case = cases.last_mut().and_then(Value::as_object_mut).ok_or("the first line names no case")?;
        let steps = case.entry("steps").or_insert_with(|| Value::Array(Vec::new()));
        steps.as_array_mut().ok_or_else(|| format!("line {}: steps are lines of their own", at + 1))?.push(value);
    }
    Ok(cases)
}

/// The inputs of CEL facts, one a line.
pub fn cel_inputs() -> Result<String, String> {
    let path = folder().join("cases/cel.jsonl");
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

impl Facts {
    /// All cases with the answers of this version: a step has `expect` where it has an answer that is always the same.
    pub fn cases(&self) -> Result<Vec<Value>, String> {
        let mut all = Vec::new();
        for (file, cases) in requests()? {
            let mut answers = self.answers(&file)?;
            for mut case in cases {
                let name = case["name"].as_str().unwrap_or_default().to_string();
                let answers = answers.remove(&name).ok_or_else(|| format!("{file}: {name} was not recorded"))?;
                let steps = case["steps"].as_array_mut().ok_or_else(|| format!("{name} has no requests"))?;
                if steps.len() != answers.len() {
                    return Err(format!("{name} was recorded with other requests"));
                }
                for (step, answer) in steps.iter_mut().zip(answers) {
                    if let Some(step) = step.as_object_mut().filter(|_| !answer.is_null()) {
                        step.insert("expect".into(), answer);
                    }
                }
                all.push(case);
            }
        }
        Ok(all)
    }

    fn answers(&self, file: &str) -> Result<HashMap<String, Vec<Value>>, String> {
        let mut by_case = HashMap::new();
        for line in self.text(&answers_file(file))?.lines() {
            let mut line: Map<String, Value> = serde_json::from_str(line).map_err(|error| error.to_string())?;
            if let (Some(Value::String(name)), Some(Value::Array(answers))) =
                (line.remove("name"), line.remove("answers"))
            {
                by_case.insert(name, answers);
            }
        }
        Ok(by_case)
    }

    /// Keeps the answers to the cases of a file.
    pub fn insert_answers(&mut self, file: &str, answers: &[(String, Vec<Value>)]) {
        let mut text = String::new();
        for (name, answers) in answers {
            text.push_str(&format!("{}\n", serde_json::json!({"name": name, "answers": answers})));
        }
        self.insert(&answers_file(file), text.into_bytes());
    }

    /// Keeps of the answers only those that are the same in another recording.
    pub fn keep_stable_answers(&mut self, other: &Facts) -> Result<(), String> {
        for (file, cases) in requests()? {
            let (mut mine, mut others) = (self.answers(&file)?, other.answers(&file)?);
            let mut kept = Vec::new();
            for case in cases {
                let name = case["name"].as_str().unwrap_or_default().to_string();
                let other = others.remove(&name).unwrap_or_default();
                let mut answers = mine.remove(&name).unwrap_or_default();
                for (at, answer) in answers.iter_mut().enumerate() {
                    if other.get(at) != Some(&*answer) {
                        *answer = Value::Null;
                    }
                }
                kept.push((name, answers));
            }
            self.insert_answers(&file, &kept);
        }
        Ok(())
    }

    /// The CEL facts of this version, one a line: input and outcome.
    pub fn cel(&self) -> Result<String, String> {
        let mut outcomes = HashMap::new();
        for line in self.text(OUTCOMES)?.lines() {
            let (name, outcome) = split(line)?;
            outcomes.insert(name, outcome);
        }
        let mut joined = String::new();
        for input in cel_inputs()?.lines() {
            let (name, _) = split(input)?;
            let outcome = outcomes.get(name).ok_or_else(|| format!("{name}: was not recorded"))?;
            let open = input.strip_suffix('}').ok_or_else(|| format!("{name}: is no object"))?;
            joined.push_str(&format!("{open},{outcome}\n"));
        }
        Ok(joined)
    }

    /// Keeps the outcomes of CEL facts, given as the recorder prints them: a line for each input, which begins with its name.
    pub fn insert_cel(&mut self, outcomes: &str) -> Result<(), String> {
        let inputs = cel_inputs()?;
        if inputs.lines().count() != outcomes.lines().count() {
            return Err("the recorder did not answer every input".into());
        }
        for (input, outcome) in inputs.lines().zip(outcomes.lines()) {
            let (name, _) = split(input)?;
            if split(outcome)?.0 != name {
                return Err(format!("{name}: the recorder answered {outcome}"));
            }
        }
        self.insert(OUTCOMES, outcomes.into());
        Ok(())
    }
}

fn answers_file(file: &str) -> String {
    format!("answers/{file}.jsonl")
}

/// A line of CEL facts begins with its name, `{"name":"…"`; what comes behind it is split off. Lines are not parsed, because values in them
/// are nested deeper than parsers like.
fn split(line: &str) -> Result<(&str, &str), String> {
    let end = line.find("\",").ok_or_else(|| format!("a CEL fact without a name: {line}"))?;
    Ok((&line[..=end], &line[end + 2..]))
}
