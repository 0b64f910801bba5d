//! ValidatingAdmissionPolicies say in their status what is wrong with the types of their expressions.
//!
//! The warnings change nothing about what a policy does: its expressions are evaluated whatever the types are.

use std::sync::Arc;

use cel::Decl;
use cel::policy::Compiler;
use object::{GroupVersion, GroupVersionKind, Meta, Str, Value, value};
use registry::{Catalog, Resource};
use rest::client::{Client, Collection, Failure};

use crate::follow::{Delta, follow};
use crate::queue::Queue;

static POLICIES: Collection = Collection::new("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies");
/// The name under which upstream's controller keeps the status.
const MANAGER: &str = "validatingadmissionpolicy-status";
/// The most types that are looked at for one of a policy's rules.
const TYPES_MAX: usize = 10;

pub async fn run(client: Client) {
    // Where the group is turned off there is nothing to look after.
    if client.list(&POLICIES).await.is_err_and(|failure| failure.is_not_found()) {
        return;
    }
    let queue = Queue::new();
    let hear = |change| {
        let seen = match change {
            Delta::Listed(all) => all,
            Delta::Set(policy) => vec![policy],
            Delta::Gone(_) => Vec::new(),
        };
        seen.iter().for_each(|policy| queue.add(policy.name().to_string()));
        true
    };
    let work = async {
        loop {
            let name = queue.next().await;
            match settle(&client, &name).await {
                Ok(()) => queue.forget(&name),
                Err(failure) => {
                    tracing::debug!(name, %failure, "the status of a policy could not be written; it is tried again");
                    queue.retry(name);
                }
            }
        }
    };
    tokio::join!(follow(&client, &POLICIES, |_| true, hear), work);
}

/// Writes the status of a policy whose spec has changed since the last time.
async fn settle(client: &Client, name: &str) -> Result<(), Failure> {
    let item = POLICIES.item(name);
    let policy = match client.get(&item).await {
        Err(failure) if failure.is_not_found() => return Ok(()),
        policy => policy?,
    };
    let generation = policy.generation();
    if generation <= policy.at(&["status", "observedGeneration"]).as_int().unwrap_or(0) {
        return Ok(());
    }
    let warnings = warnings(&policy, &client.api.catalog.load());
    let config = value!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "status": {
            "observedGeneration": generation,
            "typeChecking": (match warnings.is_empty() {
                true => Value::map(),
                false => value!({"expressionWarnings": (warnings)}),
            }),
        }
    });
    match client.apply(&item.part("status"), MANAGER, &config).await {
        Err(failure) if failure.is_not_found() => Ok(()),
        written => written.map(|_| ()),
    }
}

/// The type errors in a policy's validations and their messages.
fn warnings(policy: &Value, catalog: &Catalog) -> Vec<Value> {
    let types = Types::of(policy, catalog);
    let mut warnings = Vec::new();
    for (index, validation) in policy.list_at(&["spec", "validations"]).iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let text = validation.str_at(&[field]);
            let warning = types.check(text);
            if !text.is_empty() && !warning.is_empty() {
                let place = format!("spec.validations[{index}].{field}");
                warnings.push(value!({"fieldRef": place, "warning": warning}));
            }
        }
    }
    warnings
}

/// The types that the expressions of a policy are checked with.
struct Types {
    objects: Vec<(GroupVersionKind, Arc<Decl>)>,
    /// Whether the policy has params, and their type if they have a schema.
    has_params: bool,
    params: Option<Arc<Decl>>,
    variables: Vec<(Str, Str)>,
}

impl Types {
    fn of(policy: &Value, catalog: &Catalog) -> Types {
        let declare = |resource: &Resource| Decl::from_schema(resource.form.schema(), &resource.kind.kind);
        let kind = policy.at(&["spec", "paramKind"]);
        let param_kind = kind.as_map().and_then(|_| {
            let version = GroupVersion::parse(kind.str_at(&["apiVersion"])).ok()?;
            Some(version.with_kind(kind.str_at(&["kind"])))
        });
        let variables = policy.list_at(&["spec", "variables"]).iter();
        let text = |variable: &Value, field: &str| Str::from(variable.str_at(&[field]));
        Types {
            objects: matched(policy, catalog)
                .into_iter()
                .map(|resource| (resource.kind.clone(), declare(&resource)))
                .collect(),
            has_params: param_kind.is_some(),
            params: param_kind.and_then(|kind| catalog.by_kind(&kind).map(|resource| declare(resource))),
            variables: variables.map(|variable| (text(variable, "name"), text(variable, "expression"))).collect(),
        }
    }

    /// The type errors in an expression, for every type of object that it can get; "" if there are none.
    fn check(&self, text: &str) -> String {
        let mut messages = Vec::new();
        for (kind, object) in &self.objects {
            let compiler = Compiler::composed(self.has_params);
            let mut compiler = compiler.typed(Some(object.clone()), self.params.clone());
            if let Some(issues) = compiler.type_check(&self.variables, text) {
                let (group, version, kind) = (&kind.group, &kind.version, &kind.kind);
                messages.push(format!("{group}/{version}, Kind={kind}: {issues}\n"));
            }
        }
        messages.join("\n")
    }
}

/// The resources that a policy's rules name, sorted by group, version and kind. Rules with wildcards and subresources name
/// none.
fn matched(policy: &Value, catalog: &Catalog) -> Vec<Arc<Resource>> {
    let mut found: Vec<Arc<Resource>> = Vec::new();
    'rules: for rule in policy.list_at(&["spec", "matchConstraints", "resourceRules"]) {
        let sorted = |field: &str| {
            let mut texts: Vec<&str> = rule.list_at(&[field]).iter().filter_map(Value::as_str).collect();
            texts.sort_unstable();
            texts
        };
        let (groups, versions, mut resources) = (sorted("apiGroups"), sorted("apiVersions"), sorted("resources"));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        resources.retain(|resource| !resource.contains(['*', '/']));
        let mut count = 0;
        for group in &groups {
            for version in &versions {
                for resource in &resources {
                    for resource in served(catalog, group, version, resource) {
                        count += 1;
                        if !found.iter().any(|known| known.kind == resource.kind) {
                            found.push(resource);
                        }
                        if count == TYPES_MAX {
                            break 'rules;
                        }
                    }
                }
            }
        }
    }
    found.sort_by(|a, b| {
        let key = |it: &Resource| (it.kind.group.clone(), it.kind.version.clone(), it.kind.kind.clone());
        key(a).cmp(&key(b))
    });
    found
}

/// The resources of a name. Upstream's mapper takes the core group for any group.
fn served(catalog: &Catalog, group: &str, version: &str, resource: &str) -> Vec<Arc<Resource>> {
    let versions = catalog.versions().iter().filter(|known| known.version == version);
    let versions = versions.filter(|known| group.is_empty() || known.group == group);
    versions.filter_map(|known| catalog.get(&known.group, &known.version, resource).cloned()).collect()
}
