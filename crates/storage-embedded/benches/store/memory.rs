//! What a hundred thousand objects cost, in a process of their own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use cache::{Budget, Cache, Describe, Header};
use storage::{Entry, KeyRange, Store};
use storage_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::{Settings, directory};

const OBJECTS: usize = 100_000;
const VALUE_BYTES: usize = 2048;

pub fn run(settings: &Settings) {
    let directory = directory(settings);
    let file = directory.path().join("store");
    // Twice: a process that wrote the objects, and one that found them in the file.
    for _ in 0..2 {
        let status = Command::new(std::env::current_exe().unwrap()).arg("--memory-child").arg(&file).status();
        assert!(status.unwrap().success());
    }
    println!("        file: {:.1} MB", std::fs::metadata(&file).unwrap().len() as f64 / 1e6);
}

pub fn child(file: &PathBuf) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let before = resident();
        let found = file.exists();
        let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::at(file)).unwrap());
        let loaded = resident();
        let mut encoded = 0;
        for chunk in 0..OBJECTS / 100 {
            let creates = (0..100).map(|n| {
                let key =
                    format!("/registry/pods/namespace-{:03}/workload-7d9f8c6b5-{:05}", chunk % 100, chunk * 100 + n);
                encoded += key.len() + VALUE_BYTES;
                (key, Bytes::from(vec![b'x'; VALUE_BYTES]))
            });
            let creates: Vec<_> = creates.collect();
            if !found {
                let writes = creates.into_iter().map(|(key, value)| store.create(key.into(), value, None));
                futures::future::join_all(writes).await.into_iter().for_each(|written| drop(written.unwrap()));
            }
        }
        let used = resident() - before;
        // As a server has them: the cache shares the store's entries.
        let range = KeyRange::prefix("/registry/");
        let cache = Cache::start(store.clone(), range, Arc::new(Unread), Budget::new(0), cache::CacheOptions::default());
        let cache = cache.await.unwrap();
        assert_eq!(cache.len(), OBJECTS);
        let cached = resident() - before;
        println!(
            "memory: {OBJECTS} objects of {VALUE_BYTES} bytes {}: {:.1} MB encoded, {:.1} MB resident ({:.2}x), with the \
             cache {:.1} MB ({:.2}x)",
            if found { "read from the file" } else { "written" },
            encoded as f64 / 1e6,
            used as f64 / 1e6,
            used as f64 / encoded as f64,
            cached as f64 / 1e6,
            cached as f64 / encoded as f64,
        );
        assert!(loaded >= before);
    });
}

/// Nothing is selected, so nothing is decoded.
struct Unread;

impl Describe for Unread {
    fn describe(&self, _: &Entry) -> Header {
        Header::default()
    }
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}
