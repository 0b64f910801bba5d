//! Deletion of namespaces: deletes the objects in them, then removes the finalizer.

mod elsewhere;
mod remains;

use std::sync::Arc;

use aggregator::Aggregator;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hashbrown::HashSet;
use object::{Meta, Value, value};

use crate::follow::{Delta, follow};
use crate::queue::Queue;
use crate::resources::{collection_of, deletable};
use remains::Remains;
use rest::client::{Client, Collection, Failure, Item};

static NAMESPACES: Collection = Collection::new("", "v1", "namespaces");
/// The finalizer in a namespace's spec that stands for its content.
const CONTENT: &str = "kubernetes";

/// How many namespaces are emptied at the same time, as with upstream's `--concurrent-namespace-syncs`: one that waits for another
/// API server does not hold up the others.
const AT_ONCE: usize = 10;

/// Empties namespaces; one that cannot be emptied yet is tried again later.
pub async fn run(client: Client, aggregator: Arc<Aggregator>) {
    let queue = Queue::new();
    let hear = |change| {
        let deleting = |namespace: &Value| namespace.is_deleting();
        match change {
            Delta::Listed(all) => {
                all.iter().filter(|n| deleting(n)).for_each(|namespace| queue.add(namespace.name().to_string()));
            }
            Delta::Set(namespace) if deleting(&namespace) => queue.add(namespace.name().to_string()),
            _ => {}
        }
        true
    };
    let work = async {
        let (mut running, mut names) = (FuturesUnordered::new(), HashSet::new());
        loop {
            tokio::select! {
                name = queue.next(), if running.len() < AT_ONCE => match names.insert(name.clone()) {
                    true => running.push(async {
                        let emptied = empty(&client, &aggregator, &name).await;
                        (name, emptied)
                    }),
                    false => queue.retry(name),
                },
                Some((name, emptied)) = running.next() => {
                    names.remove(&name);
                    match emptied {
                        Ok(true) => queue.forget(&name),
                        Ok(false) => queue.retry(name),
                        Err(failure) => {
                            tracing::debug!(name, %failure, "cannot empty a namespace yet");
                            queue.retry(name);
                        }
                    }
                }
            }
        }
    };
    tokio::join!(follow(&client, &NAMESPACES, |_| true, hear), work);
}

/// Deletes what is in a namespace and releases it once nothing is left. False asks to be called again.
async fn empty(client: &Client, aggregator: &Aggregator, name: &str) -> Result<bool, Failure> {
    let item = NAMESPACES.item(name);
    let mut namespace = match client.get(&item).await {
        Err(failure) if failure.is_not_found() => return Ok(true),
        found => found?,
    };
    let finalizers = namespace.list_at(&["spec", "finalizers"]);
    if !namespace.is_deleting() || !finalizers.iter().any(|finalizer| finalizer.as_str() == Some(CONTENT)) {
        return Ok(true);
    }
    let mut remains = Remains::default();
    // Other API servers come first: the Services and pods that they are behind may be in this very namespace.
    elsewhere::remove_all(aggregator, name, &mut remains).await;
    for resource in deletable(&client.api).iter().filter(|resource| resource.namespaced) {
        let collection = collection_of(resource, name);
        match remove_all(client, &collection, resource.serves("deletecollection")).await {
            Ok(items) => remains.add(&resource.resource.group_resource(), &items),
            Err(failure) => remains.failed.push(format!("{}: {failure}", resource.resource.resource)),
        }
    }
    let done = remains.is_nothing();
    if done {
        let finalizers = namespace.slot(&["spec", "finalizers"]).make_list();
        finalizers.retain(|finalizer| finalizer.as_str() != Some(CONTENT));
        client.replace(&item.part("finalize"), &namespace).await?;
    } else {
        report(client, &item, namespace, &remains).await?;
    }
    Ok(done)
}

/// Asks for everything to be deleted and answers with what is still there.
async fn remove_all(client: &Client, collection: &Collection, at_once: bool) -> Result<Vec<Value>, Failure> {
    let background = value!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
    let mut list = client.list(collection).await?;
    if list.list_at(&["items"]).is_empty() {
        return Ok(Vec::new());
    }
    if at_once {
        client.delete_all(collection, &background).await?;
    } else {
        for object in list.list_at(&["items"]) {
            match client.delete(&collection.item(object.name()), &background).await {
                Err(failure) if !failure.is_not_found() => return Err(failure),
                _ => {}
            }
        }
    }
    list = client.list(collection).await?;
    Ok(std::mem::take(list.slot(&["items"]).make_list()))
}

/// The conditions of a namespace that say which objects are left.
async fn report(client: &Client, item: &Item, mut namespace: Value, remains: &Remains) -> Result<(), Failure> {
    let now = object::timestamp::Time(client.api.clock.now()).to_string();
    let existing = namespace.slot(&["status", "conditions"]).make_list();
    let mut changed = false;
    for mut condition in remains.conditions() {
        let same = |other: &Value, field: &str| other.str_at(&[field]) == condition.str_at(&[field]);
        let place = existing.iter_mut().find(|other| same(other, "type"));
        if place.as_ref().is_some_and(|other| same(other, "status") && same(other, "message")) {
            continue;
        }
        changed = true;
        condition.set(&["lastTransitionTime"], now.clone());
        match place {
            Some(other) => *other = condition,
            None => existing.push(condition),
        }
    }
    if changed {
        client.replace(&item.part("status"), &namespace).await?;
    }
    Ok(())
}
