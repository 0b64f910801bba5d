//! Which servers are running, and where: each renews a key of its own that expires.
//!
//! Below the storage prefix, `masterleases/<address>` is for the Endpoints of the `kubernetes` Service and
//! `peerserverleases/<server>` for peers. The keys and their values, Endpoints of one address, are kube-apiserver's, so that
//! servers of both kinds see each other.

use std::sync::Arc;
use std::time::Duration;

use codec::Notes;
use object::{GroupVersionKind, Meta, Value, value};
use rest::client::Failure;
use schema::Schema;
use storage::{Entry, Error, KeyRange, RangeQuery, Store};

/// A server whose key was not renewed for so long is taken to be gone.
const TTL: Duration = Duration::from_secs(15);
/// The label with the server's identity in keys of peers.
const IDENTITY: &str = "apiserverIdentity";

/// The keys of one kind.
#[derive(Clone)]
pub struct Leases {
    store: Arc<dyn Store>,
    prefix: String,
}

/// Where a server can be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub address: String,
    /// 0 where the port is not told.
    pub port: u16,
    /// The server's identity, "" where it is not told.
    pub server: String,
}

impl Leases {
    /// The servers of the `kubernetes` Service.
    pub fn of_service(store: Arc<dyn Store>, storage_prefix: &str) -> Leases {
        Leases { store, prefix: format!("{storage_prefix}/masterleases/") }
    }

    pub fn of_peers(store: Arc<dyn Store>, storage_prefix: &str) -> Leases {
        Leases { store, prefix: format!("{storage_prefix}/peerserverleases/") }
    }

    /// Where all servers with a lease are, in the order of their keys.
    pub async fn list(&self) -> Result<Vec<Place>, Failure> {
        let page = self.store.range(RangeQuery::new(KeyRange::prefix(self.prefix.as_str()))).await.map_err(failed)?;
        page.entries.iter().map(|entry| decode(entry).map(|lease| Place::read(&lease))).collect()
    }

    /// The addresses of all servers with a lease.
    pub async fn addresses(&self) -> Result<Vec<String>, Failure> {
        let places = self.list().await?.into_iter();
        Ok(places.map(|place| place.address).filter(|address| !address.is_empty()).collect())
    }

    /// Creates the lease with this name, or makes it last from now on.
    pub async fn renew(&self, name: &str, place: &Place) -> Result<(), Failure> {
        let key = format!("{}{name}", self.prefix);
        let mut current = self.store.get(key.as_bytes(), None).await.map_err(failed)?.entry;
        loop {
            let generation = match &current {
                // A lease that cannot be read is replaced.
                Some(entry) => decode(entry).map_or(0, |lease| lease.generation()),
                None => 0,
            };
            let bytes = encode(place, generation.saturating_add(1))?;
            let written = match &current {
                None => self.store.create(key.as_str().into(), bytes.into(), Some(TTL)).await,
                Some(entry) => {
                    self.store.update(key.as_str().into(), bytes.into(), entry.mod_revision, Some(TTL)).await
                }
            };
            current = match written {
                Ok(_) => return Ok(()),
                Err(Error::Conflict(now) | Error::KeyExists(now)) => Some(now),
                Err(Error::NotFound) => None,
                Err(error) => return Err(failed(error)),
            };
        }
    }

    /// Removes the lease with this name; false if there was none.
    pub async fn remove(&self, name: &str) -> Result<bool, Failure> {
        let key = format!("{}{name}", self.prefix);
        match self.store.delete(key.as_str().into(), None).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Place {
    fn read(lease: &Value) -> Place {
        let subset = lease.list_at(&["subsets"]).first();
        let first = |list: &str| subset.and_then(|subset| subset.list_at(&[list]).first());
        let port = first("ports").and_then(|port| port.field("port").as_int());
        Place {
            address: first("addresses").map_or("", |address| address.str_at(&["ip"])).to_string(),
            port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default(),
            server: lease.label(IDENTITY).unwrap_or_default().to_string(),
        }
    }
}

fn kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Endpoints")
}

fn schema() -> Result<Schema<'static>, Failure> {
    schema::builtin().schema(&kind()).ok_or_else(|| failed("there is no schema of Endpoints"))
}

fn decode(entry: &Entry) -> Result<Value, Failure> {
    let decoded = if entry.value.starts_with(codec::proto::MAGIC) {
        codec::proto::decode(&entry.value, schema()?)
    } else {
        codec::json::decode(&entry.value, Some(schema()?), &mut Notes::ignore())
    };
    decoded.map_err(failed)
}

fn encode(place: &Place, generation: i64) -> Result<Vec<u8>, Failure> {
    let mut lease = value!({"metadata": {}, "subsets": [{"addresses": [{"ip": (place.address.as_str())}]}]});
    if place.port > 0 {
        let port = value!({"name": "https", "port": (i64::from(place.port)), "protocol": "TCP"});
        lease.slot(&["subsets"]).make_list().iter_mut().for_each(|subset| subset.set(&["ports"], vec![port.clone()]));
    }
    if !place.server.is_empty() {
        lease.set(&["metadata", "labels", IDENTITY], place.server.as_str());
    }
    lease.set_generation(generation);
    lease.set_type(&kind());
    let mut bytes = Vec::new();
    codec::proto::encode(&lease, schema()?, &mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure { code: 500, message: why.to_string() }
}

#[cfg(test)]
mod tests {
    use storage::memory::MemoryStore;

    use super::*;

    fn at(address: &str) -> Place {
        Place { address: address.into(), ..Place::default() }
    }

    #[tokio::test]
    async fn servers_see_each_other_until_they_leave() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (one, two) =
            (Leases::of_service(store.clone(), "/registry"), Leases::of_service(store.clone(), "/registry"));
        two.renew("10.0.0.2", &at("10.0.0.2")).await.unwrap();
        one.renew("10.0.0.1", &at("10.0.0.1")).await.unwrap();
        one.renew("10.0.0.1", &at("10.0.0.1")).await.unwrap();
        assert_eq!(one.list().await.unwrap(), [at("10.0.0.1"), at("10.0.0.2")]);
        let entry = store.get(b"/registry/masterleases/10.0.0.1", None).await.unwrap().entry.unwrap();
        assert_eq!(decode(&entry).unwrap().generation(), 2);
        assert!(entry.lease != 0, "it expires");
        assert!(two.remove("10.0.0.1").await.unwrap());
        assert!(!two.remove("10.0.0.1").await.unwrap());
        assert_eq!(one.list().await.unwrap(), [at("10.0.0.2")]);
    }

    #[tokio::test]
    async fn peers_tell_their_port_and_identity() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let leases = Leases::of_peers(store.clone(), "/registry");
        let place = Place { address: "fd00::1".into(), port: 6443, server: "apiserver-a".into() };
        leases.renew("apiserver-a", &place).await.unwrap();
        assert_eq!(leases.list().await.unwrap(), [place]);
        let entry = store.get(b"/registry/peerserverleases/apiserver-a", None).await.unwrap().entry;
        assert!(entry.is_some_and(|entry| entry.value.starts_with(codec::proto::MAGIC)));
    }
}
