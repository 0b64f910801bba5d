//! Webhook configurations, compiled.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cel::Pool;
use object::{Meta, Str, Value};
use outbound::WebhookTarget;

use super::call::Step;
use crate::compiled::name_of;
use crate::matching::Matcher;
use crate::policy::Conditions;

/// One configuration object.
pub struct Configured {
    pub hooks: Vec<Hook>,
}

/// One webhook of a configuration.
pub struct Hook {
    pub configuration: Str,
    pub name: Str,
    /// Tells hooks apart that have the same name: `configuration/name/number`.
    pub id: Str,
    pub matcher: Matcher,
    pub conditions: Conditions,
    /// Err is why there is no way to call it.
    pub target: Result<WebhookTarget, String>,
    /// `failurePolicy: Ignore`.
    pub ignores_failures: bool,
    pub side_effects: SideEffects,
    /// None where the configuration says nothing, which defaults do not leave so.
    pub timeout: Option<Duration>,
    /// The version of AdmissionReview that it gets; None if it takes none that we know.
    pub review: Option<ReviewVersion>,
    /// `reinvocationPolicy: IfNeeded`.
    pub reinvoked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1Beta1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideEffects {
    /// Nothing that a dry run must not do.
    None,
    Some,
    /// Not told.
    Absent,
}

impl Configured {
    pub fn compile(configuration: &Value, pool: &Arc<Pool>) -> Configured {
        Configured::read(configuration, "", pool)
    }

    /// A configuration from a file.
    pub fn of_manifest(configuration: &Value, pool: &Arc<Pool>) -> Configured {
        Configured::read(configuration, "manifest/", pool)
    }

    fn read(configuration: &Value, source: &str, pool: &Arc<Pool>) -> Configured {
        let name = name_of(configuration);
        let step = match configuration.kind() {
            "MutatingWebhookConfiguration" => Step::Mutating,
            _ => Step::Validating,
        };
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let hooks = configuration.list_at(&["webhooks"]).iter().map(|webhook| {
            let count = seen.entry(webhook.str_at(&["name"])).or_default();
            let hook = Hook::compile((source, &name, *count), webhook, Conditions::of_webhook(webhook, step, pool));
            *count += 1;
            hook
        });
        Configured { hooks: hooks.collect() }
    }
}

impl Hook {
    fn compile((source, configuration, number): (&str, &str, usize), webhook: &Value, conditions: Conditions) -> Hook {
        let name = webhook.str_at(&["name"]);
        let seconds = webhook.field("timeoutSeconds").as_int().and_then(|seconds| u64::try_from(seconds).ok());
        let versions = webhook.list_at(&["admissionReviewVersions"]).iter().filter_map(Value::as_str);
        let known = |version: &str| match version {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        };
        Hook {
            configuration: configuration.into(),
            name: name.into(),
            id: format!("{source}{configuration}/{name}/{number}").into(),
            matcher: Matcher::of_webhook(webhook),
            conditions,
            target: WebhookTarget::read(webhook.field("clientConfig")),
            ignores_failures: webhook.str_at(&["failurePolicy"]) == "Ignore",
            side_effects: match webhook.str_at(&["sideEffects"]) {
                "" => SideEffects::Absent,
                "None" | "NoneOnDryRun" => SideEffects::None,
                _ => SideEffects::Some,
            },
            timeout: seconds.map(Duration::from_secs),
            review: versions.into_iter().find_map(known),
            reinvoked: webhook.str_at(&["reinvocationPolicy"]) == "IfNeeded",
        }
    }
}
