//! Plays recorded facts and prints the score by group and aspect: what compiles, types, values, texts and costs.
//!
//! `CEL_FACTS=<file> cargo test -p cel --release facts` plays another file of the same form.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // A failed assumption is a failed test.

#[path = "facts/authz.rs"]
mod authz;
#[path = "facts/case.rs"]
mod case;
#[path = "facts/rules.rs"]
mod rules;
#[path = "facts/score.rs"]
mod score;
#[path = "facts/tagged.rs"]
mod tagged;

use std::io::Read;

use score::Score;

fn lines() -> String {
    #[allow(clippy::disallowed_methods)] // The one setting of this test.
    if let Ok(file) = std::env::var("CEL_FACTS") {
        return std::fs::read_to_string(file).unwrap();
    }
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/facts.jsonl.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file.as_slice()).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn facts() {
    #[allow(clippy::disallowed_methods)]
    let verbose = std::env::var("CEL_FACTS_SHOW").unwrap_or_default();
    let mut score = Score::new(verbose);
    for line in lines().lines() {
        let fact = tagged::parse(line).unwrap();
        case::play(&fact, &mut score);
    }
    score.print();
    score.check();
}
