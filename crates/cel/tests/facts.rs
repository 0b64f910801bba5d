//! Plays recorded facts and prints the score by group and aspect: what compiles, types, values, texts and costs.
//!
//! `CEL_FACTS=<file> cargo test -p ferrokube-cel --release facts -- --nocapture` plays another file of the same form;
//! `CEL_FACTS_SHOW=all` shows what differs, an aspect or a part of a name in place of `all` only those.

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

use score::Score;

/// The facts in the repository.
fn own_facts() -> String {
    facts::current().unwrap().cel().unwrap()
}

#[test]
fn facts() {
    let setting = |name: &str| {
        #[allow(clippy::disallowed_methods)] // Settings of this test.
        std::env::var(name).ok()
    };
    let other = setting("CEL_FACTS").map(|file| std::fs::read_to_string(file).unwrap());
    let mut score = Score::new(setting("CEL_FACTS_SHOW").unwrap_or_default());
    let is_other = other.is_some();
    for line in other.unwrap_or_else(own_facts).lines() {
        let fact = tagged::parse(line).unwrap();
        case::play(&fact, &mut score);
    }
    score.print(is_other);
    if is_other { score.check_other() } else { score.check() }
}
