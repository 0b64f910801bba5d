//! Removes what servers that are gone have told in StorageVersions, as kube-controller-manager's garbage collector does.

use object::timestamp::Time;
use object::{Meta, Value, value};
use rest::client::{Client, Failure};

use super::{VERSIONS, settle};
use crate::follow::{Delta, follow};
use crate::identity::{self, leases};
use crate::queue::Queue;

/// Runs until it is dropped.
pub async fn run(client: Client) {
    let queue: Queue<String> = Queue::new();
    let servers = leases();
    let leases = follow(
        &client,
        &servers,
        |_| true,
        |change| {
            // Every object is looked at when a server's lease is gone, or may be.
            if matches!(&change, Delta::Gone(lease) if identity::is_identity(lease))
                || matches!(change, Delta::Listed(_))
            {
                queue.add(String::new());
            }
            true
        },
    );
    let objects = follow(
        &client,
        &VERSIONS,
        |_| true,
        |change| {
            match change {
                Delta::Listed(objects) => objects.iter().for_each(|object| queue.add(object.name().to_string())),
                Delta::Set(object) => queue.add(object.name().to_string()),
                Delta::Gone(_) => {}
            }
            true
        },
    );
    let work = async {
        loop {
            let name = queue.next().await;
            match sync(&client, &name, &queue).await {
                Ok(()) => queue.forget(&name),
                Err(failure) => {
                    tracing::debug!(name, %failure, "a storage version cannot be looked at");
                    queue.retry(name);
                }
            }
        }
    };
    tokio::join!(leases, objects, work);
}

async fn sync(client: &Client, name: &str, queue: &Queue<String>) -> Result<(), Failure> {
    if name.is_empty() {
        let list = client.list(&VERSIONS).await?;
        list.list_at(&["items"]).iter().for_each(|object| queue.add(object.name().to_string()));
        return Ok(());
    }
    let item = VERSIONS.item(name);
    let mut object = match client.get(&item).await {
        Err(failure) if failure.is_not_found() => return Ok(()),
        other => other?,
    };
    let told = object.list_at(&["status", "storageVersions"]).to_vec();
    let mut kept: Vec<Value> = Vec::new();
    for server in &told {
        match client.get(&leases().item(server.str_at(&["apiServerID"]))).await {
            Ok(lease) if identity::is_identity(&lease) => kept.push(server.clone()),
            Ok(_) => {}
            Err(failure) if failure.is_not_found() => {}
            Err(failure) => return Err(failure),
        }
    }
    if kept.len() == told.len() {
        return Ok(());
    }
    if kept.is_empty() {
        let options = value!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": (object.uid())}});
        return client.delete(&item, &options).await;
    }
    object.set(&["status", "storageVersions"], kept);
    settle(&mut object, &Time(client.api.clock.now()).to_string());
    client.replace(&item.part("status"), &object).await.map(drop)
}
