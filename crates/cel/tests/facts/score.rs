//! Counting what agrees.

use std::collections::BTreeMap;

/// The least share of each aspect that must agree; it only goes up.
const FLOORS: &[(&str, f64)] = &[
    ("1 compiles", 1.0),
    ("2 checker text", 1.0),
    ("3 syntax text", 1.0),
    ("5 type", 1.0),
    ("6 program", 1.0),
    ("7 value", 1.0),
    ("4 several syntax errors", 1.0),
    ("5 estimate", 1.0),
    ("8 cost", 1.0),
    ("9 definition", 1.0),
    ("9 rule compile", 1.0),
    ("9 rule errors", 1.0),
    ("9 spent", 1.0),
];

/// The least share of each aspect in other files, whose facts are made anew each time. What ANTLR reports after the first of
/// several syntax errors does not count.
const OTHER_FLOOR: f64 = 0.99;
const SEVERAL: &str = "4 several syntax errors";

pub struct Score {
    show: String,
    aspects: BTreeMap<&'static str, (u32, u32)>,
    groups: BTreeMap<String, (u32, u32)>,
}

impl Score {
    /// `show` names an aspect whose differences are printed, or is part of a case's name.
    pub fn new(show: String) -> Score {
        Score { show, aspects: BTreeMap::new(), groups: BTreeMap::new() }
    }

    pub fn count(&mut self, aspect: &'static str, fact: &serde_json::Value, got: &str, want: &str) {
        let agrees = got == want;
        let group = fact["group"].as_str().unwrap_or("").to_string();
        for (all, good) in [self.aspects.entry(aspect).or_default(), self.groups.entry(group.clone()).or_default()] {
            *all += 1;
            *good += u32::from(agrees);
        }
        let name = fact["name"].as_str().unwrap_or("");
        let shown = !self.show.is_empty() && (self.show == aspect || self.show == "all" || name.contains(&self.show));
        if !agrees && shown {
            let expr = fact.get("expr").or(fact.get("rule")).map(ToString::to_string).unwrap_or_default();
            let expr: String = expr.chars().take(300).collect();
            println!("{name} [{aspect}] {expr}\n  got  {got}\n  want {want}");
        }
    }

    /// Prints the score by group and by aspect; of groups that agree only if all are wanted.
    pub fn print(&self, all_groups: bool) {
        for (name, (all, good)) in &self.groups {
            if all != good || all_groups {
                println!("{name:24} {good:5} of {all:5}");
            }
        }
        for (name, (all, good)) in &self.aspects {
            println!("{name:24} {good:5} of {all:5}  {:.2} %", f64::from(*good) * 100.0 / f64::from(*all));
        }
    }

    /// Checks the facts that are in the repository.
    pub fn check(&self) {
        for (name, floor) in FLOORS {
            if let Some((all, good)) = self.aspects.get(name) {
                let share = f64::from(*good) / f64::from(*all);
                assert!(share >= *floor, "{name}: {share} is less than {floor}");
            }
        }
    }

    /// Checks the facts of another file, and prints what of them agrees.
    pub fn check_other(&self) {
        let counted = || self.aspects.iter().filter(|(name, _)| **name != SEVERAL);
        let (all, good) = counted().fold((0, 0), |sum, (_, count)| (sum.0 + count.0, sum.1 + count.1));
        let share = |all: u32, good: u32| f64::from(good) / f64::from(all.max(1));
        println!("facts: {good} of {all} agree ({:.2} %)", share(all, good) * 100.0);
        for (name, (all, good)) in counted() {
            let share = share(*all, *good);
            assert!(share >= OTHER_FLOOR, "{name}: {share} is less than {OTHER_FLOOR}");
        }
    }
}
