//! Making sure that a default object is there and says at least what it should.

use std::sync::Arc;

use kinds::rbac::escalation;
use object::{GroupVersion, Meta, Reason, Status, Value};
use registry::{Context, ResourceStorage, UpdateOptions};
use request::{Rule, User};
use rest::{Api, ManagedKind, Snapshot};

use crate::flow;

const SELECTORS: &[&str] = &["aggregationRule", "clusterRoleSelectors"];
const RBAC: &str = "rbac.authorization.k8s.io";
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Creates the object if it is missing; adds what a default role or binding has lost since, and gives flow schemas and priority
/// levels that no administrator has taken over their spec.
pub async fn ensure(api: &Arc<Api>, resource: &str, object: Value) -> Result<(), Status> {
    let group = GroupVersion::parse(object.api_version()).map_err(Status::internal)?.group;
    let api = api.snapshot();
    // A group that was turned off has nothing to bootstrap.
    let Some(storage) = api.catalog.stored(&group, resource) else { return Ok(()) };
    let user = User::loopback();
    let namespace = object.namespace().to_string();
    let cx = api.context(&user, &namespace, &storage.kind.version, "", false);
    let mut wanted = object;
    if let Some(schema) = schema::builtin().schema(&storage.kind) {
        schema::default(schema, &mut wanted);
    }
    storage.strategy.default(&mut wanted);
    let wanted = owned(&api, storage, &Value::map(), wanted).await;
    if storage.cache.get(&storage.key(&namespace, wanted.name())).is_none() {
        return create(storage, &cx, wanted).await;
    }
    match group.as_str() {
        RBAC => replace_other_role(storage, &cx, &wanted).await?,
        flow::GROUP => {}
        _ => return Ok(()),
    }
    let mut write = storage.begin(&cx, wanted.name(), &UpdateOptions::OBJECT).await?;
    loop {
        // Roles can be created by an update.
        let live = write.current().await?;
        let object = match &live {
            None => wanted.clone(),
            Some(live) if group == RBAC => with_missing(live, &wanted),
            Some(live) => flow::revise(&api, storage, live, &wanted).await,
        };
        if write.store(object, live.as_ref()).await?.is_some() {
            return Ok(());
        }
    }
}

/// Creates an object unless another server was faster.
pub async fn create(storage: &ResourceStorage, cx: &Context<'_>, object: Value) -> Result<(), Status> {
    match storage.create(cx, object).await {
        Err(error) if error.reason() != Reason::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Deletes a binding to another role than the default one and creates the default: the role of a binding cannot change.
async fn replace_other_role(storage: &ResourceStorage, cx: &Context<'_>, wanted: &Value) -> Result<(), Status> {
    let existing = match storage.get(cx.namespace, wanted.name()).await {
        Ok(existing) => existing,
        Err(error) if error.reason() == Reason::NotFound => return create(storage, cx, wanted.clone()).await,
        Err(error) => return Err(error.into()),
    };
    if existing.field("roleRef") == wanted.field("roleRef") || is_protected(&existing) {
        return Ok(());
    }
    let options = object::value!({"preconditions": {"uid": (existing.uid())}});
    match storage.delete(cx, wanted.name(), &options).await {
        Err(error) if error.reason() != Reason::NotFound => Err(error.into()),
        _ => create(storage, cx, wanted.clone()).await,
    }
}

/// Whether the owner wants an object to stay as it is.
fn is_protected(object: &Value) -> bool {
    object.annotation(AUTOUPDATE) == Some("false")
}

/// The object with what it has other than the live one as the server's fields, under the names that upstream's servers use.
pub async fn owned(api: &Snapshot, storage: &ResourceStorage, live: &Value, object: Value) -> Value {
    let manager = match storage.resource.group.as_str() {
        flow::GROUP => "api-priority-and-fairness-config-producer-v1",
        _ => "kube-apiserver",
    };
    let now = api.clock.now();
    let (id, kind) = (&storage.resource, &storage.kind);
    let version = kind.group_version();
    let mut served = api.catalog.of(&version);
    // Fields are tracked in the stored version, where that is served.
    let Some(resource) = served.find(|r| r.resource.resource == id.resource && r.kind == *kind) else { return object };
    let resets = storage.strategy.facts().reset_fields("");
    let tracked = ManagedKind { kind, form: &resource.form, subresource: "", resets };
    rest::track(&tracked, live, object, manager, now).await
}

/// The object with the rules, subjects, labels and annotations that a default role or binding should have, unless its owner said
/// not to.
fn with_missing(existing: &Value, wanted: &Value) -> Value {
    let mut object = existing.clone();
    if is_protected(existing) {
        return object;
    }
    let rules = |role: &Value| role.list_at(&["rules"]).iter().map(Rule::of).collect::<Vec<_>>();
    let missing = escalation::not_covered(&rules(existing), &rules(wanted));
    add(&mut object, &["rules"], missing.iter().map(Rule::to_value).collect());
    if wanted.field("aggregationRule").is_null() {
        object.remove(&["aggregationRule"]);
    }
    for list in [SELECTORS, &["subjects"]] {
        let items = wanted.list_at(list).iter();
        let missing = items.filter(|item| !existing.list_at(list).contains(item)).cloned().collect();
        add(&mut object, list, missing);
    }
    for field in ["labels", "annotations"] {
        let wanted = wanted.metadata().field(field).as_map();
        for (key, value) in wanted.into_iter().flat_map(|map| map.iter()) {
            object.set_default(&["metadata", field, key], value.clone());
        }
    }
    object
}

fn add(object: &mut Value, list: &[&str], missing: Vec<Value>) {
    if !missing.is_empty() {
        object.slot(list).make_list().extend(missing);
    }
}
