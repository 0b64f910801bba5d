//! Rules of `spec.conversion`.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gox509::Pool;
use object::{Cursor, Errors, names};

use super::demands::Demands;
use crate::admissionregistration::webhook_client;
use crate::common::checks::Checks;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Checks how objects are converted, in a spec of the form of v1. Errors name the fields of the stored form.
pub fn validate(spec: &Cursor, demands: &Demands, errors: &mut Errors) {
    let conversion = spec.field("conversion");
    if !conversion.is_set() {
        return;
    }
    let strategy = conversion.field("strategy");
    if strategy.str() != "None" && spec.field("preserveUnknownFields").bool() {
        strategy.bad(errors, "must be None if spec.preserveUnknownFields is true");
    }
    strategy.require_one_of(errors, &["None", "Webhook"]);
    let webhook = conversion.field("webhook");
    let at = |from: &'static str, shown: &str| Cursor::new(webhook.field(from).value(), conversion.path().field(shown));
    let config = at("clientConfig", "webhookClientConfig");
    let versions = at("conversionReviewVersions", "conversionReviewVersions");
    if strategy.str() != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_set() {
            config.forbidden(errors, detail);
        }
        if !versions.is_empty() {
            versions.forbidden(errors, detail);
        }
        return;
    }
    if config.is_set() {
        webhook_client::validate(&config, errors);
        let bundle = config.field("caBundle");
        if demands.valid_ca_bundle
            && let Err(why) = check_ca_bundle(bundle.str())
        {
            bundle.bad(errors, why);
        }
    } else {
        config.required(errors, "required when strategy is set to Webhook");
    }
    validate_reviews(&versions, demands.known_reviews, errors);
}

/// Whether one of the versions of conversion reviews is known.
pub fn knows_one(versions: &Cursor) -> bool {
    versions.strs().any(|version| REVIEW_VERSIONS.contains(&version))
}

/// Whether the webhook's certificates can be used; without any the machine's own are.
pub fn is_ca_bundle_valid(spec: &Cursor) -> bool {
    let bundle = spec.at(&["conversion", "webhook", "clientConfig", "caBundle"]);
    check_ca_bundle(bundle.str()).is_ok()
}

fn check_ca_bundle(encoded: &str) -> Result<(), String> {
    if encoded.is_empty() {
        return Ok(());
    }
    let text = STANDARD.decode(encoded).unwrap_or_default();
    Pool::from_client_pem(&text).map(drop).map_err(|why| format!("unable to load root certificates: {why}"))
}

fn validate_reviews(versions: &Cursor, require_known: bool, errors: &mut Errors) {
    if versions.is_empty() {
        return versions.required(errors, "");
    }
    let mut seen = BTreeSet::new();
    for version in versions.each() {
        if seen.insert(version.str()) {
            version.check(errors, names::dns1035_label);
        } else {
            version.bad(errors, "duplicate version");
        }
    }
    if require_known && !knows_one(versions) {
        versions.invalid(errors, format!("must include at least one of {}", REVIEW_VERSIONS.join(", ")));
    }
}
