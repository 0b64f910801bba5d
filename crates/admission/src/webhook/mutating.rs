//! MutatingAdmissionWebhook: webhooks that change objects, called one after the other.

use std::time::Instant;

use async_trait::async_trait;
use codec::Notes;
use object::{Status, Value, quote};
use patch::{JsonPatch, Reading};

use super::call::{Failure, Step};
use super::configuration::Hook;
use super::review::{Response, Subject};
use super::{Hooks, WebhookPluginOptions};
use crate::matching::Matched;
use crate::reinvocation::Caller;
use crate::versioned::Versioned;
use crate::{Attributes, Plugin, metadata};

pub struct MutatingWebhooks(Hooks);

impl MutatingWebhooks {
    pub fn new(options: WebhookPluginOptions) -> MutatingWebhooks {
        MutatingWebhooks(Hooks::new(options))
    }
}

#[async_trait]
impl Plugin for MutatingWebhooks {
    fn name(&self) -> &'static str {
        "MutatingAdmissionWebhook"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let Some(snapshot) = self.0.current(attributes)? else { return Ok(()) };
        let round = Round::new(self, attributes, Some(object), old);
        if let Some(changed) = Box::pin(round.run(&snapshot)).await? {
            *object = changed;
        }
        attributes.reinvocation.made(Caller::Webhooks, object);
        Ok(())
    }

    async fn mutate_deletion(&self, attributes: &Attributes<'_>, old: &Value) -> Result<(), Status> {
        let Some(snapshot) = self.0.current(attributes)? else { return Ok(()) };
        Box::pin(Round::new(self, attributes, None, Some(old)).run(&snapshot)).await?;
        Ok(())
    }
}

/// One pass over all hooks for one request.
struct Round<'a> {
    plugin: &'a MutatingWebhooks,
    attributes: &'a Attributes<'a>,
    /// As plugins pass them, in the stored version.
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    /// The objects in the version of the last hook that was called.
    current: Option<Current>,
}

struct Current {
    matched: Matched,
    form: Versioned,
    object: Option<Value>,
    old: Option<Value>,
    changed: bool,
}

impl<'a> Round<'a> {
    fn new(
        plugin: &'a MutatingWebhooks,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> Round<'a> {
        Round { plugin, attributes, object, old, current: None }
    }

    /// Calls every hook that matches. The changed object in the stored version, if a hook changed it.
    async fn run(mut self, snapshot: &super::Current) -> Result<Option<Value>, Status> {
        let reinvocation = &self.attributes.reinvocation;
        let again = reinvocation.is_second_round();
        if again && let Some(object) = self.object {
            reinvocation.require_if_changed(Caller::Webhooks, object);
        }
        for (index, hook) in snapshot.hooks() {
            let now = self.current.as_ref().map_or(self.object, |current| current.object.as_ref());
            let Some(matched) = hook.matcher.matches(self.attributes, now, self.old)? else { continue };
            // A hook that was not called in the first round is not called in the second.
            if again && !reinvocation.is_required(&hook.id) {
                continue;
            }
            self.convert(matched).await?;
            if !self.conditions_hold(hook).await? {
                continue;
            }
            let began = Instant::now();
            let outcome = self.ask(hook, (usize::from(again), index)).await;
            if hook.ignores_failures {
                self.attributes.spend_ignored_time(began.elapsed());
            }
            if matches!(outcome, Ok(true)) {
                reinvocation.changed();
            }
            if hook.reinvoked {
                reinvocation.called(&hook.id);
            }
            let place = (usize::from(again), index);
            let settled = self.plugin.0.settle(Step::Mutating, place, hook, self.attributes, began, outcome)?;
            if settled.is_none() && self.attributes.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                // The filter chain answers a request that is out of time; this is for callers that have none.
                tokio::time::sleep(super::budget::GRACE).await;
                return Err(Status::timeout("request did not complete within requested timeout", 0));
            }
        }
        self.finish().await
    }

    async fn conditions_hold(&self, hook: &Hook) -> Result<bool, Status> {
        let Some(Current { form, object, old, .. }) = &self.current else { return Ok(false) };
        let (object, old) = (object.as_ref(), old.as_ref());
        self.plugin.0.conditions_hold(hook, self.attributes, form, object, old).await
    }

    /// Brings the objects into the version that a hook wants.
    async fn convert(&mut self, matched: Matched) -> Result<(), Status> {
        if self.current.as_ref().is_some_and(|current| current.matched == matched) {
            return Ok(());
        }
        let form = Versioned::of(self.attributes, &matched)?;
        let (object, changed) = match self.current.take() {
            Some(Current { object: Some(object), form: before, changed: true, .. }) => {
                (Some(form.from_stored(&before.to_stored(object).await?).await?), true)
            }
            _ => match self.object {
                Some(object) => (Some(form.from_stored(object).await?), false),
                None => (None, false),
            },
        };
        let old = match self.old {
            Some(old) => Some(form.from_stored(old).await?),
            None => None,
        };
        self.current = Some(Current { matched, form, object, old, changed });
        Ok(())
    }

    /// Calls one hook and applies its patch. Whether it changed the object.
    async fn ask(&mut self, hook: &Hook, (round, index): (usize, usize)) -> Result<bool, Failure> {
        let Some(current) = &mut self.current else { return Ok(false) };
        let subject = Subject {
            matched: &current.matched,
            form: &current.form,
            object: current.object.as_ref(),
            old: current.old.as_ref(),
        };
        let answered = self.plugin.0.call(Step::Mutating, hook, self.attributes, &subject).await;
        let mut text = Vec::new();
        let patched = answered.and_then(|response| {
            let patched = current.patch(hook, &response);
            text = response.patch;
            patched
        });
        let mutated = matches!(patched, Ok(Some(true)));
        let (configuration, webhook) = (quote(&hook.configuration), quote(&hook.name));
        if let (Ok(Some(_)), Ok(patch)) = (&patched, codec::json::decode(&text, None, &mut codec::Notes::ignore())) {
            let mut json = Vec::new();
            codec::json::encode(&patch, None, &mut json);
            let patch = String::from_utf8_lossy(&json);
            self.attributes.annotate_object(
                format!("patch.webhook.admission.k8s.io/round_{round}_index_{index}"),
                format!(
                    "{{\"configuration\":{configuration},\"webhook\":{webhook},\"patch\":{patch},\"patchType\":\"JSONPatch\"}}"
                ),
            );
        }
        self.attributes.annotate(
            format!("mutation.webhook.admission.k8s.io/round_{round}_index_{index}"),
            format!("{{\"configuration\":{configuration},\"webhook\":{webhook},\"mutated\":{mutated}}}"),
        );
        patched.map(|patched| patched.unwrap_or(false))
    }

    async fn finish(self) -> Result<Option<Value>, Status> {
        let Some(Current { form, object: Some(object), changed: true, .. }) = self.current else { return Ok(None) };
        let mut stored = form.to_stored(object).await?;
        if let Some(before) = self.object {
            metadata::keep_managed_fields(self.attributes, before, &mut stored);
        }
        Ok(Some(stored))
    }
}

impl Current {
    /// Applies the patch of a response, if it has one. Whether that changed the object; None without a patch.
    fn patch(&mut self, hook: &Hook, response: &Response) -> Result<Option<bool>, Failure> {
        if response.patch.is_empty() {
            return Ok(None);
        }
        let undecodable = |why: String| Failure::Calling {
            reason: format!("received undecodable patch in webhook response: {why}"),
            code: 503,
        };
        let text = std::str::from_utf8(&response.patch).map_err(|error| undecodable(error.to_string()))?;
        let parsed = codec::json::decode(text.as_bytes(), None, &mut codec::Notes::ignore());
        parsed.map_err(|error| undecodable(error.to_string()))?;
        let patch =
            JsonPatch::parse(text, Reading::Lenient).map_err(|error| undecodable(Status::from(error).message))?;
        if patch.is_empty() {
            return Ok(None);
        }
        let Some(object) = &self.object else {
            return Err(Failure::Internal(Status::internal(format!(
                "admission webhook {} attempted to modify the object, which is not supported for this operation",
                quote(&hook.name)
            ))));
        };
        if response.patch_type != "JSONPatch" {
            let reason = format!("unsupported patch type {}", quote(&response.patch_type));
            return Err(Failure::Calling { reason, code: 400 });
        }
        let internal = |why: String| Failure::Internal(Status::internal(why));
        let printed = self.form.printed(object);
        let patched = patch.run(printed.clone(), self.form.schema()).map_err(|why| internal(why.message()))?;
        let before = self.form.settle(&printed, &mut Notes::ignore()).map_err(internal)?;
        let mut new = self.form.settle(&patched.document, &mut Notes::ignore()).map_err(internal)?;
        let changed = new != before;
        keep_unknown(object, &before, &mut new);
        self.changed |= changed;
        self.object = Some(new);
        Ok(Some(changed))
    }
}

/// Puts back the fields of an object that its version does not have, so that a webhook which asks for an older or newer
/// version does not remove them.
fn keep_unknown(object: &Value, known: &Value, new: &mut Value) {
    let (Value::Map(object), Value::Map(known), Value::Map(new)) = (object, known, new) else { return };
    for (key, value) in object.iter() {
        match (known.get(key), new.get_mut(key)) {
            (None, None) => drop(new.insert(key, value.clone())),
            (Some(known), Some(new)) => keep_unknown(value, known, new),
            _ => {}
        }
    }
}
