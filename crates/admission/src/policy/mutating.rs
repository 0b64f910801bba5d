//! MutatingAdmissionPolicy: policies that change objects, one after the other.

use std::time::Instant;

use async_trait::async_trait;
use codec::Notes;
use object::{Cause, Meta, Reason, Status, Str, Value, quote};
use patch::{DoesNotRun, JsonPatch, Reading};

use super::authorization::Answers;
use super::definition::{Binding, Definition, Mutation, PatchKind};
use super::evaluation::BUDGET;
use super::subject::{Asked, Subject, namespace_object};
use super::{Hook, Policies, params};
use crate::matching::Matched;
use crate::reinvocation::Caller;
use crate::{AdmissionMeters, Attributes, Host, Plugin, metadata, plugins};

pub struct MutatingPolicies(pub(crate) Policies);

#[async_trait]
impl Plugin for MutatingPolicies {
    fn name(&self) -> &'static str {
        "MutatingAdmissionPolicy"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        let Some(current) = self.0.current(attributes)? else { return Ok(()) };
        let hooks = current.about(&attributes.resource.resource);
        if hooks.is_empty() {
            return Ok(());
        }
        Box::pin(dispatch(&hooks, (&*self.0.host, &self.0.meters), attributes, object, old)).await
    }
}

/// Lets all policies change an object.
pub(super) async fn dispatch(
    hooks: &[&Hook],
    (host, meters): (&dyn Host, &AdmissionMeters),
    attributes: &Attributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let mut failures = Failures::default();
    let invocations = invocations(hooks, attributes, object, old, &mut failures).await;
    if !invocations.is_empty() {
        let round = Round { attributes, host, meters, object, old, current: None, changed: false };
        if let Some(changed) = round.run(&invocations, &mut failures).await? {
            *object = changed;
        }
        attributes.reinvocation.made(Caller::Policies, object);
    }
    failures.settle(attributes)
}

/// One policy to evaluate for one binding and one param.
struct Invocation<'h> {
    policy: &'h Definition,
    binding: &'h Binding,
    params: Value,
    matched: Matched,
}

impl Invocation<'_> {
    /// Tells invocations apart for reinvocation.
    fn id(&self) -> Str {
        let (policy, binding) = (&self.policy.name, &self.binding.name);
        format!("policy/{policy}/{binding}/{}/{}", self.params.namespace(), self.params.name()).into()
    }
}

/// Policies that could not be evaluated, which `failurePolicy` makes refusals.
#[derive(Default)]
struct Failures(Vec<(String, Option<Reason>)>);

impl Failures {
    fn add(&mut self, policy: &Definition, binding: Option<&Binding>, why: &str, reason: Option<Reason>) {
        if policy.ignores_failures {
            return;
        }
        let message = match binding {
            Some(binding) => {
                format!("policy '{}' with binding '{}' denied request: {why}", policy.name, binding.name)
            }
            None => format!("policy {} denied request: {why}", quote(&policy.name)),
        };
        self.0.push((message, reason));
    }

    fn settle(self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let Some((message, reason)) = self.0.first() else { return Ok(()) };
        let mut status = plugins::forbidden(attributes, "");
        status.message = message.clone();
        if let Some(reason) = reason {
            status.reason = reason.clone();
        }
        if let Some(details) = &mut status.details {
            let causes = self.0.iter().map(|(message, _)| Cause { message: message.clone(), ..Cause::default() });
            details.causes.extend(causes);
        }
        Err(status)
    }
}

/// All that a request matches.
async fn invocations<'h>(
    hooks: &[&'h Hook],
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
    failures: &mut Failures,
) -> Vec<Invocation<'h>> {
    let mut found = Vec::new();
    for hook in hooks {
        let policy = &*hook.policy;
        let matched = match policy.matcher.matches(attributes, Some(object), old) {
            Ok(Some(matched)) => matched,
            Ok(None) => continue,
            Err(status) => {
                failures.add(policy, None, &format!("failed to configure policy: {}", status.message), None);
                continue;
            }
        };
        if let Some(kind) = &policy.param_kind
            && let Err(why) = params::resource(kind, attributes)
        {
            failures.add(policy, None, &format!("failed to configure policy: {why}"), None);
            continue;
        }
        for binding in hook.bindings.iter() {
            let matches = binding.matcher.as_ref().map(|matcher| matcher.matches(attributes, Some(object), old));
            let params = match matches {
                Some(Ok(None)) => continue,
                Some(Err(status)) => Err(status.message),
                None | Some(Ok(Some(_))) => {
                    params::collect(policy.param_kind.as_ref(), binding.params.as_deref(), attributes).await
                }
            };
            match params {
                Ok(params) => found.extend(params.into_iter().map(|params| Invocation {
                    policy,
                    binding,
                    params,
                    matched: matched.clone(),
                })),
                Err(why) => failures.add(policy, Some(binding), &format!("failed to configure binding: {why}"), None),
            }
        }
    }
    found
}

/// One pass over all invocations.
struct Round<'a> {
    attributes: &'a Attributes<'a>,
    host: &'a dyn Host,
    meters: &'a AdmissionMeters,
    /// As plugins pass them, in the stored version.
    object: &'a Value,
    old: Option<&'a Value>,
    /// The objects in the version of the last policy.
    current: Option<Subject>,
    changed: bool,
}

/// Why a mutation did not happen.
enum Failure {
    /// `failurePolicy` decides.
    Policy(String),
    Request(Status),
}

impl Round<'_> {
    /// The changed object in the stored version, if a policy changed it.
    async fn run(mut self, invocations: &[Invocation<'_>], failures: &mut Failures) -> Result<Option<Value>, Status> {
        let reinvocation = &self.attributes.reinvocation;
        let again = reinvocation.is_second_round();
        if again {
            reinvocation.require_if_changed(Caller::Policies, self.object);
        }
        let namespace = namespace_object(self.attributes)?;
        let answers = Answers::default();
        for invocation in invocations {
            let (policy, binding, id) = (invocation.policy, invocation.binding, invocation.id());
            self.convert(&invocation.matched).await?;
            let Some(subject) = &self.current else { continue };
            let asked = self.asked(subject, invocation, &namespace, &answers);
            match policy.conditions.hold(&asked).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    failures.add(policy, Some(binding), &why, Some(Reason::Invalid));
                    continue;
                }
            }
            if again && !reinvocation.is_required(&id) {
                continue;
            }
            let mut changed = false;
            for mutation in &policy.mutations {
                let began = Instant::now();
                let outcome = self.mutate(invocation, mutation, &namespace, &answers).await;
                let error = match &outcome {
                    Ok(_) => None,
                    Err(Failure::Policy(why)) => Some(why.as_str()),
                    Err(Failure::Request(status)) => Some(status.message.as_str()),
                };
                self.meters.policies.mutated(&policy.name, &binding.name, error, began.elapsed());
                match outcome {
                    Ok(mutated) => changed |= mutated,
                    Err(Failure::Request(status)) => return Err(status),
                    Err(Failure::Policy(why)) => failures.add(policy, Some(binding), &why, Some(Reason::Invalid)),
                }
            }
            if changed {
                self.changed = true;
                reinvocation.changed();
            }
            if policy.reinvoked {
                reinvocation.called(&id);
            }
        }
        self.finish().await
    }

    fn asked<'s>(
        &'s self,
        subject: &'s Subject,
        invocation: &'s Invocation<'_>,
        namespace: &'s Value,
        answers: &'s Answers,
    ) -> Asked<'s> {
        Asked {
            attributes: self.attributes,
            host: self.host,
            meters: self.meters,
            object: &subject.object,
            old: &subject.old,
            request: &subject.request,
            namespace,
            params: &invocation.params,
            variables: &invocation.policy.variables,
            answers,
        }
    }

    /// Brings the objects into the version that a policy wants.
    async fn convert(&mut self, matched: &Matched) -> Result<(), Status> {
        if self.current.as_ref().is_some_and(|current| current.matched == *matched) {
            return Ok(());
        }
        let stored = match self.current.take() {
            Some(current) if self.changed => Some(current.form.to_stored(current.object).await?),
            _ => None,
        };
        let object = stored.as_ref().unwrap_or(self.object);
        self.current = Some(Subject::of(self.attributes, matched.clone(), Some(object), self.old).await?);
        Ok(())
    }

    /// Applies one mutation. Whether it changed the object.
    async fn mutate(
        &mut self,
        invocation: &Invocation<'_>,
        mutation: &Mutation,
        namespace: &Value,
        answers: &Answers,
    ) -> Result<bool, Failure> {
        let Some(subject) = &self.current else { return Ok(false) };
        if let Err(refusal) = &mutation.expression.compiled {
            return Err(Failure::Policy(refusal.to_string()));
        }
        let asked = self.asked(subject, invocation, namespace, answers);
        let evaluated = asked.evaluate(&[&mutation.expression], BUDGET).await.map_err(Failure::Policy)?;
        let value = evaluated.values.into_iter().next().unwrap_or(Ok(Value::Null)).map_err(Failure::Policy)?;
        // A JSON patch is read strictly; an apply configuration was checked against the schema before it was merged.
        let (patched, mut notes) = match mutation.kind {
            PatchKind::JsonPatch => (json_patch(subject, &value)?, Notes::collect()),
            PatchKind::ApplyConfiguration => (Some(apply_configuration(subject, value)?), Notes::ignore()),
        };
        let Some(patched) = patched else { return Ok(false) };
        let settled = subject.form.settle(&patched, &mut notes);
        let settled = settled.and_then(|settled| notes.strict_error().map_or(Ok(settled), Err));
        let settled = settled.map_err(|why| Failure::Request(Status::internal(why)))?;
        let settled = subject.form.printed(&settled);
        let changed = settled != subject.object;
        if changed && let Some(subject) = &mut self.current {
            subject.object = settled;
        }
        Ok(changed)
    }

    async fn finish(self) -> Result<Option<Value>, Status> {
        let (Some(current), true) = (self.current, self.changed) else { return Ok(None) };
        let settled = current.form.settle(&current.object, &mut Notes::ignore()).map_err(Status::internal)?;
        let mut stored = current.form.to_stored(settled).await?;
        metadata::keep_managed_fields(self.attributes, self.object, &mut stored);
        Ok(Some(stored))
    }
}

/// The object after the operations that an expression made; None if one of them was a test that failed.
fn json_patch(subject: &Subject, operations: &Value) -> Result<Option<Value>, Failure> {
    let mut text = Vec::new();
    codec::json::encode(operations, None, &mut text);
    let text = String::from_utf8_lossy(&text);
    let patch = JsonPatch::parse(&text, Reading::Lenient);
    let patch = patch.map_err(|error| Failure::Policy(format!("JSON Patch: {}", Status::from(error).message)))?;
    match patch.run(subject.object.clone(), subject.form.schema()) {
        Ok(patched) => Ok(Some(patched.document)),
        Err(DoesNotRun::TestFailed(_)) => Ok(None),
        Err(DoesNotRun::Operation(why)) => Err(Failure::Policy(format!("JSON Patch: {why}"))),
    }
}

fn apply_configuration(subject: &Subject, mut configuration: Value) -> Result<Value, Failure> {
    let kind = &subject.form.kind;
    let Some((schema, is_structured)) = subject.form.merge_schema() else {
        return Err(Failure::Request(Status::unavailable(format!(
            "Resource kind {kind} not found. There can be a delay between when CustomResourceDefinitions are created and \
             when they are available."
        ))));
    };
    configuration.set_type(kind);
    patch::apply::merge_configuration(&subject.object, &configuration, schema, is_structured)
        .map_err(|why| Failure::Policy(format!("error applying patch: {why}")))
}
