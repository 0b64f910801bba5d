//! Reading: the present, the past, and opening the file.

use std::time::{Duration, Instant};

use bytes::Bytes;
use storage::{KeyRange, RangeQuery, Store};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::{Settings, directory};

const OBJECTS: usize = 20_000;
const VALUE_BYTES: usize = 1536;

pub async fn run(settings: &Settings) {
    let directory = directory(settings);
    let options = EmbeddedOptions::at(directory.path().join("store"));
    let store = EmbeddedStore::open(options.clone()).unwrap();
    for round in 0..2 {
        let writes = (0..OBJECTS).map(|n| {
            let key = format!("/registry/pods/default/{n:06}").into();
            let value = Bytes::from(vec![b'0' + round; VALUE_BYTES]);
            let change = storage::Change::Put { value, ttl: None };
            store.write(storage::Write { key, change, expect: storage::Expect::Any })
        });
        futures::future::join_all(writes).await.into_iter().for_each(|written| drop(written.unwrap()));
    }
    let now = store.progress().await.unwrap();
    let middle = now - (OBJECTS / 2) as i64;
    let query = || RangeQuery::new(KeyRange::prefix("/registry/pods/"));
    let get = timed(1000, async || drop(store.get(b"/registry/pods/default/010000", None).await.unwrap())).await;
    let list = timed(10, async || assert_eq!(store.range(query()).await.unwrap().entries.len(), OBJECTS)).await;
    let page = timed(100, async || assert!(store.range(query().limit(500)).await.unwrap().more)).await;
    let old = timed(10, async || assert!(store.range(query().limit(500).at(middle)).await.unwrap().more)).await;
    drop(store);
    let began = Instant::now();
    drop(EmbeddedStore::open(options).unwrap());
    println!(
        "reads: get {get:.2?}, list of {OBJECTS} {list:.2?}, page of 500 {page:.2?}, page of 500 in the past {old:.2?}; \
         opening the file takes {:.2?}",
        began.elapsed()
    );
}

async fn timed(times: u32, work: impl AsyncFn()) -> Duration {
    let began = Instant::now();
    for _ in 0..times {
        work().await;
    }
    began.elapsed() / times
}
