//! Spreading pods over topology domains.

use std::collections::{BTreeSet, HashMap};

use object::{Cursor, Errors, names};

use super::PodValidationOptions;
use super::options::MatchLabelKeys;
use crate::common::checks::{Checks, NOT_POSITIVE};
use crate::common::selector;

pub fn validate<'a>(constraints: &Cursor<'a>, options: &PodValidationOptions, errors: &mut Errors) {
    let pair_of =
        |constraint: &Cursor<'a>| (constraint.field("topologyKey").str(), constraint.field("whenUnsatisfiable").str());
    // How many constraints of each pair are still to come.
    let mut ahead: HashMap<(&str, &str), usize> = HashMap::new();
    for constraint in constraints.each() {
        *ahead.entry(pair_of(&constraint)).or_default() += 1;
    }
    for constraint in constraints.each() {
        let (key, action) = (constraint.field("topologyKey"), constraint.field("whenUnsatisfiable"));
        positive(&constraint.field("maxSkew"), errors);
        if key.str().is_empty() {
            key.required(errors, "can not be empty");
        }
        action.one_of(errors, &["DoNotSchedule", "ScheduleAnyway"]);
        let left = ahead.entry(pair_of(&constraint)).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let pair = format!("{{{}, {}}}", key.str(), action.str());
            errors.duplicate(&constraint.path().field("{topologyKey, whenUnsatisfiable}"), pair);
        }
        min_domains(&constraint.field("minDomains"), action.str(), errors);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.field(policy).optional_one_of(errors, &["Honor", "Ignore"]);
        }
        match_label_keys(&constraint, options.match_label_keys, errors);
        if !options.allow_invalid_spread_selector {
            selector::validate(
                &constraint.field("labelSelector"),
                selector::LabelSelectorValidationOptions::default(),
                errors,
            );
        }
    }
}

fn positive(number: &Cursor, errors: &mut Errors) {
    if number.int() <= 0 {
        number.invalid_as(errors, number.int(), NOT_POSITIVE);
    }
}

fn min_domains(domains: &Cursor, action: &str, errors: &mut Errors) {
    if !domains.is_set() {
        return;
    }
    positive(domains, errors);
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        domains.invalid(errors, detail);
    }
}

/// Checks the `matchLabelKeys` of a constraint.
pub fn match_label_keys(constraint: &Cursor, mode: MatchLabelKeys, errors: &mut Errors) {
    match mode {
        MatchLabelKeys::Merged => label_keys(constraint, &["matchLabelKeys"], errors),
        MatchLabelKeys::Beside => keys_beside_selector(constraint, errors),
    }
}

/// Checks keys that are merged into the selector beside them; `fields` are the keys to match and, for affinity, those
/// not to match. The selector has the merged keys already.
pub fn label_keys(owner: &Cursor, fields: &[&str], errors: &mut Errors) {
    let selector = owner.field("labelSelector");
    for keys in fields.iter().map(|field| owner.field(field)).filter(|keys| !keys.is_empty()) {
        if !selector.is_set() {
            keys.forbidden(errors, "must not be specified when labelSelector is not set");
            continue;
        }
        for key in keys.each() {
            key.check(errors, names::label_key);
        }
    }
    // Where a key repeats its last place counts.
    let matched: HashMap<&str, usize> =
        owner.field("matchLabelKeys").strs().enumerate().map(|(i, key)| (key, i)).collect();
    let mut seen: BTreeSet<&str> = selector.field("matchLabels").entries().map(|(key, _)| key).collect();
    for key in selector.field("matchExpressions").each().map(|expression| expression.field("key").str()) {
        // The merged key comes last; finding it before means that the author wrote it as well.
        if let Some(i) = matched.get(key).copied()
            && seen.contains(key)
        {
            errors.invalid(&owner.path().index(i), key, "exists in both matchLabelKeys and labelSelector");
        }
        seen.insert(key);
    }
    let mismatched: BTreeSet<&str> = match fields.contains(&"mismatchLabelKeys") {
        true => owner.field("mismatchLabelKeys").strs().collect(),
        false => BTreeSet::new(),
    };
    for key in owner.field("matchLabelKeys").each().filter(|key| mismatched.contains(key.str())) {
        key.bad(errors, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// How keys were checked before they were merged: the selector may not have them.
fn keys_beside_selector(constraint: &Cursor, errors: &mut Errors) {
    let (keys, selector) = (constraint.field("matchLabelKeys"), constraint.field("labelSelector"));
    if keys.is_empty() {
        return;
    }
    if !selector.is_set() {
        keys.forbidden(errors, "must not be specified when labelSelector is not set");
    }
    let labels = selector.field("matchLabels").entries().map(|(key, _)| key);
    let expressions = selector.field("matchExpressions").each().map(|expression| expression.field("key").str());
    let selected: BTreeSet<&str> = labels.chain(expressions).collect();
    for key in keys.each() {
        key.check(errors, names::label_key);
        if selected.contains(key.str()) {
            key.bad(errors, "exists in both matchLabelKeys and labelSelector");
        }
    }
}
