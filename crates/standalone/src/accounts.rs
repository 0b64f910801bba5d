//! Every namespace has a `default` service account, and a config map with the certificate of the authority that signed
//! the server's own: what pods need to reach the API.

use object::{Meta, value};
use tokio::sync::oneshot;

use crate::follow::{Delta, follow};
use crate::queue::Queue;
use rest::client::{Client, Collection, Failure};

static NAMESPACES: Collection = Collection::new("", "v1", "namespaces");
static ACCOUNTS: Collection = Collection::new("", "v1", "serviceaccounts");
static MAPS: Collection = Collection::new("", "v1", "configmaps");
const ACCOUNT: &str = "default";
const AUTHORITY: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                           endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                           guaranteed across distributions of Kubernetes clusters.";

/// Keeps the objects there; tells `ready` once the namespaces that were there at the start have them.
pub async fn run(client: Client, authority_pem: String, ready: oneshot::Sender<()>) {
    match client.list(&NAMESPACES).await {
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
        follow(&client, &NAMESPACES, |_| true, changed),
        removals(&client, &ACCOUNTS, ACCOUNT, &queue),
        removals(&client, &MAPS, AUTHORITY, &queue),
        work,
    );
}

/// A removed object is made again as long as its namespace stays.
async fn removals(client: &Client, of: &Collection, name: &str, queue: &Queue<String>) {
    let hear = |change| {
        if let Delta::Gone(object) = change
            && object.name() == name
        {
            queue.add(object.namespace().to_string());
        }
        true
    };
    follow(client, of, |_| false, hear).await;
}

async fn ensure(client: &Client, namespace: &str, authority_pem: &str) {
    let account = value!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    let authority = value!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": AUTHORITY, "annotations": {"kubernetes.io/description": DESCRIPTION}},
        "data": {"ca.crt": authority_pem}
    });
    for (collection, object) in [(&ACCOUNTS, account), (&MAPS, authority)] {
        let collection = collection.within(namespace);
        let item = collection.item(object.name());
        let kept = match client.get(&item).await {
            Ok(existing) if existing.field("data") == object.field("data") => Ok(()),
            Ok(_) => client.merge(&item, &value!({"data": (object.field("data").clone())})).await.map(|_| ()),
            Err(failure) if failure.is_not_found() => client.create(&collection, &object).await.map(|_| ()),
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
