//! ValidatingAdmissionWebhook: webhooks that refuse objects, called at the same time.

use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use object::{Status, Value};

use super::call::Step;
use super::configuration::Hook;
use super::review::Subject;
use super::{Hooks, WebhookPluginOptions};
use crate::matching::Matched;
use crate::versioned::Versioned;
use crate::{Attributes, Plugin};

pub struct ValidatingWebhooks(Hooks);

impl ValidatingWebhooks {
    pub fn new(options: WebhookPluginOptions) -> ValidatingWebhooks {
        ValidatingWebhooks(Hooks::new(options))
    }
}

#[async_trait]
impl Plugin for ValidatingWebhooks {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        match self.0.current(attributes)? {
            Some(snapshot) => Box::pin(self.dispatch(&snapshot, attributes, object, old)).await,
            None => Ok(()),
        }
    }
}

/// The objects in one version, shared by all hooks that want it.
struct Version {
    matched: Matched,
    form: Versioned,
    object: Option<Value>,
    old: Option<Value>,
}

impl Version {
    async fn of(
        attributes: &Attributes<'_>,
        matched: Matched,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Version, Status> {
        let form = Versioned::of(attributes, &matched)?;
        let (mut shown, mut shown_old) = (None, None);
        if let Some(object) = object {
            shown = Some(form.from_stored(object).await?);
        }
        if let Some(old) = old {
            shown_old = Some(form.from_stored(old).await?);
        }
        Ok(Version { matched, form, object: shown, old: shown_old })
    }
}

impl ValidatingWebhooks {
    async fn dispatch(
        &self,
        snapshot: &super::Current,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let mut versions: Vec<Version> = Vec::new();
        let mut relevant: Vec<(usize, &Hook)> = Vec::new();
        for (_, hook) in snapshot.hooks() {
            let Some(matched) = hook.matcher.matches(attributes, object, old)? else { continue };
            let at = match versions.iter().position(|version| version.matched == matched) {
                Some(at) => at,
                None => {
                    versions.push(Version::of(attributes, matched, object, old).await?);
                    versions.len() - 1
                }
            };
            let Some(Version { form, object, old, .. }) = versions.get(at) else { continue };
            let (object, old) = (object.as_ref(), old.as_ref());
            if self.0.conditions_hold(hook, attributes, form, object, old).await? {
                relevant.push((at, hook));
            }
        }
        if relevant.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        if attributes.deadline.is_some_and(|deadline| began >= deadline) {
            return Err(Status::timeout("request did not complete within requested timeout", 0));
        }
        let mut calls: FuturesUnordered<_> = relevant
            .iter()
            .enumerate()
            .filter_map(|(index, (at, hook))| Some(self.ask(index, hook, attributes, versions.get(*at)?)))
            .collect();
        // All are waited for, so that their annotations and warnings are complete; the first refusal counts.
        let mut first = Ok(());
        while let Some(outcome) = calls.next().await {
            first = first.and(outcome);
        }
        if relevant.iter().any(|(_, hook)| hook.ignores_failures) {
            attributes.spend_ignored_time(began.elapsed());
        }
        first
    }

    async fn ask(
        &self,
        index: usize,
        hook: &Hook,
        attributes: &Attributes<'_>,
        version: &Version,
    ) -> Result<(), Status> {
        let subject = Subject {
            matched: &version.matched,
            form: &version.form,
            object: version.object.as_ref(),
            old: version.old.as_ref(),
        };
        let began = Instant::now();
        let outcome = self.0.call(Step::Validating, hook, attributes, &subject).await;
        self.0.settle(Step::Validating, (0, index), hook, attributes, began, outcome).map(drop)
    }
}
