//! Which servers are running: each renews a key of its own that expires, `masterleases/<address>` below the storage prefix.
//!
//! The keys and their values, Endpoints of one address, are kube-apiserver's, so servers of both kinds see each other.

use std::sync::Arc;
use std::time::Duration;

use codec::Notes;
use object::{GroupVersionKind, Meta, Value, value};
use schema::Schema;
use storage::{Entry, Error, KeyRange, RangeQuery, Store};

use rest::client::Failure;

/// A server whose key was not renewed for so long is taken to be gone.
const TTL: Duration = Duration::from_secs(15);

pub struct Leases {
    store: Arc<dyn Store>,
    prefix: String,
}

impl Leases {
    pub fn new(store: Arc<dyn Store>, storage_prefix: &str) -> Leases {
        Leases { store, prefix: format!("{storage_prefix}/masterleases/") }
    }

    /// The addresses of all servers with a lease, in the order of their keys.
    pub async fn list(&self) -> Result<Vec<String>, Failure> {
        let page = self.store.range(RangeQuery::new(KeyRange::prefix(self.prefix.as_str()))).await.map_err(failed)?;
        let mut addresses = Vec::new();
        for entry in &page.entries {
            let lease = decode(entry)?;
            let first = lease.list_at(&["subsets"]).first().and_then(|subset| subset.list_at(&["addresses"]).first());
            let address = first.map_or("", |address| address.str_at(&["ip"]));
            addresses.extend((!address.is_empty()).then(|| address.to_string()));
        }
        Ok(addresses)
    }

    /// Creates the lease of an address, or makes it last from now on.
    pub async fn renew(&self, address: &str) -> Result<(), Failure> {
        let key = format!("{}{address}", self.prefix);
        let mut current = self.store.get(key.as_bytes(), None).await.map_err(failed)?.entry;
        loop {
            let generation = match &current {
                // A lease that cannot be read is replaced.
                Some(entry) => decode(entry).map_or(0, |lease| lease.generation()),
                None => 0,
            };
            let bytes = encode(address, generation.saturating_add(1))?;
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

    /// Removes the lease of an address; false if there was none.
    pub async fn remove(&self, address: &str) -> Result<bool, Failure> {
        let key = format!("{}{address}", self.prefix);
        match self.store.delete(key.as_str().into(), None).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }
}

fn kind() -> GroupVersionKind {
    GroupVersionKind::new("", "v1", "Endpoints")
}

fn schema() -> Result<Schema<'static>, Failure> {
    schema::builtin().schema(&kind()).ok_or_else(|| failed("no schema of Endpoints"))
}

fn decode(entry: &Entry) -> Result<Value, Failure> {
    let decoded = if entry.value.starts_with(codec::proto::MAGIC) {
        codec::proto::decode(&entry.value, schema()?)
    } else {
        codec::json::decode(&entry.value, Some(schema()?), &mut Notes::ignore())
    };
    decoded.map_err(failed)
}

fn encode(address: &str, generation: i64) -> Result<Vec<u8>, Failure> {
    let mut lease = value!({"metadata": {}, "subsets": [{"addresses": [{"ip": address}]}]});
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

    #[tokio::test]
    async fn servers_see_each_other_until_they_leave() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (one, two) = (Leases::new(store.clone(), "/registry"), Leases::new(store.clone(), "/registry"));
        two.renew("10.0.0.2").await.unwrap();
        one.renew("10.0.0.1").await.unwrap();
        one.renew("10.0.0.1").await.unwrap();
        assert_eq!(one.list().await.unwrap(), ["10.0.0.1", "10.0.0.2"]);
        let entry = store.get(b"/registry/masterleases/10.0.0.1", None).await.unwrap().entry.unwrap();
        assert_eq!(decode(&entry).unwrap().generation(), 2);
        assert!(entry.lease != 0, "it expires");
        assert!(two.remove("10.0.0.1").await.unwrap());
        assert!(!two.remove("10.0.0.1").await.unwrap());
        assert_eq!(one.list().await.unwrap(), ["10.0.0.2"]);
    }
}
