//! Every namespace has a `default` service account, and a config map with the certificate of the authority that signed
//! the server's own: what pods need to reach the API.

use object::{Meta, value};
use tokio::sync::oneshot;

use crate::follow::{Delta, follow};
use crate::queue::Queue;
use rest::client::{Client, Failure};

const NAMESPACES: &str = "/api/v1/namespaces";
const ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                           endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                           guaranteed across distributions of Kubernetes clusters.";

/// Keeps the objects there; tells `ready` once the namespaces that were there at the start have them.
pub async fn run(client: Client, authority_pem: String, ready: oneshot::Sender<()>) {
    match client.list(NAMESPACES).await {
        Ok(list) => {
            for namespace in list.list_at(&["items"]) {
                ensure(&client, namespace.name(), &authority_pem).await;
            }
        }
        Err(failure) => tracing::warn!(%failure, "cannot list namespaces"),
    }
    let _ = ready.send(());
    let queue = Queue::new();
    let changed = |change| {
        match change {
            Delta::Listed(all) => all.iter().for_each(|namespace| queue.add(namespace.name().to_string())),
            Delta::Set(namespace) => queue.add(namespace.name().to_string()),
            Delta::Gone(_) => {}
        }
        true
    };
    let work = async {
        loop {
            ensure(&client, &queue.next().await, &authority_pem).await;
        }
    };
    tokio::join!(
        follow(&client, NAMESPACES, |_| true, changed),
        removals(&client, "/api/v1/serviceaccounts", ACCOUNT, &queue),
        removals(&client, "/api/v1/configmaps", AUTHORITY, &queue),
        work,
    );
}

/// A removed object is made again as long as its namespace stays.
async fn removals(client: &Client, path: &str, name: &str, queue: &Queue<String>) {
    let hear = |change| {
        if let Delta::Gone(object) = change
            && object.name() == name
        {
            queue.add(object.namespace().to_string());
        }
        true
    };
    follow(client, path, |_| false, hear).await;
}

async fn ensure(client: &Client, namespace: &str, authority_pem: &str) {
    let account = value!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    let authority = value!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": AUTHORITY, "annotations": {"kubernetes.io/description": DESCRIPTION}},
        "data": {"ca.crt": authority_pem}
    });
    for (resource, object) in [("serviceaccounts", account), ("configmaps", authority)] {
        let path = format!("/api/v1/namespaces/{namespace}/{resource}");
        let kept = match client.get(&format!("{path}/{}", object.name())).await {
            Ok(existing) if existing.field("data") == object.field("data") => Ok(()),
            Ok(_) => client
                .merge(&format!("{path}/{}", object.name()), &value!({"data": (object.field("data").clone())}))
                .await
                .map(|_| ()),
            Err(failure) if failure.is_not_found() => client.create(&path, &object).await.map(|_| ()),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = kept {
            complain(namespace, object.name(), &failure);
        }
    }
}

fn complain(namespace: &str, name: &str, failure: &Failure) {
    // A namespace that is going away takes nothing any more, and needs nothing.
    let going = failure.is_not_found() || failure.code == 403;
    if !going {
        tracing::warn!(namespace, name, %failure, "cannot keep what every namespace has");
    }
}
