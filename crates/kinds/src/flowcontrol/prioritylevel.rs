//! PriorityLevelConfigurations: how many requests of a level run at once, and what happens to the others.

use object::{Cursor, Errors, Meta, Value, value};
use registry::{Context, Facts, Strategy, columns};

use crate::common::checks::Checks;
use crate::common::{internal, versioned};

const EXEMPT: &str = "exempt";
const QUEUES_MAX: i64 = 10_000_000;
const HASH_BITS_MAX: u32 = 60;
const PRESERVE_ZERO: &str = "flowcontrol.k8s.io/preserve-zero-concurrency-shares";

pub struct PriorityLevel;

const FACTS: Facts = Facts {
    checks_updated_generate_name: true,
    generation: Some(|new, old| {
        !versioned::same(
            "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec",
            new.field("spec"),
            old.field("spec"),
        )
    }),
    status_resets: Facts::METADATA_AND_SPEC,
    ..Facts::WITH_STATUS
};

impl Strategy for PriorityLevel {
    fn facts(&self) -> &Facts {
        &FACTS
    }

    fn validate(&self, cx: &Context, object: &Cursor, errors: &mut Errors) {
        if object.value().annotation(PRESERVE_ZERO).is_some() {
            let annotations = object.at(&["metadata", "annotations"]);
            annotations.forbidden(errors, format!("annotation '{PRESERVE_ZERO}' is forbidden"));
        }
        let (name, spec) = (object.value().name(), object.field("spec"));
        validate_spec(cx, name, &spec, errors);
        validate_mandatory(name, &spec, errors);
        super::validate_conditions(&object.at(&["status", "conditions"]), errors);
        validate_declared(&spec, errors);
    }

    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        super::keep_metadata(new, old);
    }

    fn validate_status_update(&self, _cx: &Context, new: &Cursor, _old: &Cursor, errors: &mut Errors) {
        super::validate_conditions(&new.at(&["status", "conditions"]), errors);
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        let limited = object.at(&["spec", "limited"]);
        let queuing = limited.at(&["limitResponse", "queuing"]);
        let number = |of: &Value, field: &str| match of {
            Value::Null => Value::from("<none>"),
            of => Value::from(of.field(field).as_int().unwrap_or(0)),
        };
        vec![
            object.name().into(),
            object.str_at(&["spec", "type"]).into(),
            number(limited, "nominalConcurrencyShares"),
            number(queuing, "queues"),
            number(queuing, "handSize"),
            number(queuing, "queueLengthLimit"),
            columns::age(cx, object),
        ]
    }
}

fn validate_spec(cx: &Context, name: &str, spec: &Cursor, errors: &mut Errors) {
    let (kind, limited, exempt) = (spec.field("type"), spec.field("limited"), spec.field("exempt"));
    if (name == EXEMPT) != (kind.str() == "Exempt") {
        kind.bad(errors, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind.str() {
        "Exempt" if exempt.is_set() => validate_exempt(&exempt, errors),
        "Limited" if limited.is_set() => validate_limited(cx, &limited, errors),
        "" | "Exempt" | "Limited" => {}
        _ => kind.not_supported(errors, &["Exempt", "Limited"]),
    }
}

fn percent(field: &Cursor, errors: &mut Errors) {
    if field.opt_int().is_some_and(|percent| !(0..=100).contains(&percent)) {
        field.invalid(errors, "must be between 0 and 100, inclusive");
    }
}

fn validate_exempt(exempt: &Cursor, errors: &mut Errors) {
    let shares = exempt.field("nominalConcurrencyShares");
    if shares.int() < 0 {
        shares.invalid(errors, "must be a non-negative integer");
    }
    percent(&exempt.field("lendablePercent"), errors);
}

fn validate_limited(cx: &Context, limited: &Cursor, errors: &mut Errors) {
    let shares = limited.field("nominalConcurrencyShares").int();
    if shares < 0 {
        let is_old = matches!(cx.version, "v1beta1" | "v1beta2");
        let field = if is_old { "assuredConcurrencyShares" } else { "nominalConcurrencyShares" };
        errors.invalid(&limited.path().field(field), shares, "must be a non-negative integer");
    }
    let response = limited.field("limitResponse");
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    match kind.str() {
        "Queue" if queuing.is_set() => validate_queuing(&queuing, errors),
        "" | "Queue" | "Reject" => {}
        _ => kind.not_supported(errors, &["Queue", "Reject"]),
    }
    percent(&limited.field("lendablePercent"), errors);
    let borrowing = limited.field("borrowingLimitPercent");
    if borrowing.int() < 0 {
        borrowing.invalid(errors, "if specified, must be a non-negative integer");
    }
}

fn validate_queuing(queuing: &Cursor, errors: &mut Errors) {
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|field| queuing.field(field));
    if length.int() <= 0 {
        length.invalid_as(errors, length.int(), "must be positive");
    }
    if queues.int() <= 0 {
        queues.invalid_as(errors, queues.int(), "must be positive");
    } else if queues.int() > QUEUES_MAX {
        queues.invalid(errors, format!("must not be greater than {QUEUES_MAX}"));
    }
    if hand.int() <= 0 {
        hand.invalid_as(errors, hand.int(), "must be positive");
    } else if hand.int() > queues.int() {
        hand.invalid(errors, format!("should not be greater than queues ({})", queues.int()));
    } else if required_bits(queues.int(), hand.int()) > f64::from(HASH_BITS_MAX) {
        let (deck, cards) = (queues.int(), hand.int());
        hand.invalid(
            errors,
            format!(
                "required entropy bits of deckSize {deck} and handSize {cards} should not be greater than {HASH_BITS_MAX}"
            ),
        );
    }
}

/// How many bits of a hash it takes to deal a hand from a deck.
fn required_bits(deck: i64, hand: i64) -> f64 {
    ((deck as f64).log2() * hand as f64).ceil()
}

fn validate_mandatory(name: &str, spec: &Cursor, errors: &mut Errors) {
    let (fixed, given, except) = match name {
        EXEMPT => {
            let mut given = spec.value().clone();
            given.remove(&["exempt"]);
            (value!({"type": "Exempt"}), given, " except the 'spec.exempt' field")
        }
        "catch-all" => {
            let response = value!({"type": "Reject"});
            let mut fixed =
                value!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0}});
            fixed.set(&["limited", "limitResponse"], response);
            (fixed, spec.value().clone(), "")
        }
        _ => return,
    };
    if !internal::same("PriorityLevelConfigurationSpec", &fixed, &given) {
        let shown = internal::shown("PriorityLevelConfigurationSpec", spec.value());
        spec.invalid_as(errors, shown, format!("spec of '{name}'{except} must equal the fixed value"));
    }
}

/// Rules upstream declares on the types; it runs them after all others, those on unions before those on their fields.
fn validate_declared(spec: &Cursor, errors: &mut Errors) {
    let (kind, limited, exempt) = (spec.field("type"), spec.field("limited"), spec.field("exempt"));
    union(&exempt, kind.str() == "Exempt", false, errors);
    union(&limited, kind.str() == "Limited", true, errors);
    kind.require(errors);
    if limited.is_set() {
        let response = limited.field("limitResponse");
        union(&response.field("queuing"), response.field("type").str() == "Queue", true, errors);
        response.field("type").require(errors);
    }
}

/// A member that belongs to one value of a discriminator.
fn union(member: &Cursor, chosen: bool, is_required: bool, errors: &mut Errors) {
    match (chosen, member.is_set()) {
        (true, false) if is_required => member.required(errors, ""),
        (false, true) => member.forbidden(errors, ""),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;

    #[test]
    fn levels_are_checked() {
        let base = "{metadata: {name: a}, spec: {type: Limited, limited: {limitResponse: {type: Reject}}}}";
        let check = Check::new(PriorityLevel, base);
        check.create(&[
            ("", ""),
            ("spec: {limited: null}", "spec.limited: Required value"),
            (
                "spec: {type: X, limited: {limitResponse: null}}",
                "spec.type: Unsupported value: \"X\": supported values: \"Exempt\", \"Limited\"
                 spec.limited: Forbidden
                 spec.limited.limitResponse.type: Required value",
            ),
            (
                "spec: {limited: {limitResponse: {type: Queue, queuing: {queues: 1000000, handSize: 8}}}}",
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: 0: must be positive
                 spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 1000000 \
                 and handSize 8 should not be greater than 60",
            ),
        ]);
        check
            .cells(&[("spec: {limited: {nominalConcurrencyShares: 3}}", "a Limited 3 <none> <none> <none> <unknown>")]);
    }
}
