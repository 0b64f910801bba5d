//! The write-ahead log by itself.

use std::sync::Arc;

use bytes::Bytes;
use storage::Entry;

use super::*;

fn group(revisions: std::ops::RangeInclusive<Revision>, bytes: usize) -> Vec<Arc<Event>> {
    let event = |revision| {
        let entry = Entry {
            key: format!("/{revision}").into(),
            value: Bytes::from(vec![b'x'; bytes]),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
            condition: storage::Condition::Good,
        };
        let key = entry.key.clone();
        Arc::new(Event { revision, key, entry: Some(Arc::new(entry)), previous: None })
    };
    revisions.map(event).collect()
}

fn options(directory: &tempfile::TempDir, wal_bytes: u64) -> Options {
    Options { wal_bytes, ..Options::at(directory.path().join("store")) }
}

fn ranges(frames: &[Frame]) -> Vec<(Revision, Revision)> {
    frames.iter().map(|frame| (frame.first, frame.last)).collect()
}

#[test]
fn groups_are_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory, 1 << 20);
    let (mut wal, frames) = Wal::open(&options).unwrap();
    assert!(frames.is_empty());
    wal.append(&group(2..=2, 10), 1, 1).unwrap();
    wal.append(&group(3..=7, 1000), 2, 1).unwrap();
    drop(wal);
    let (mut wal, frames) = Wal::open(&options).unwrap();
    assert_eq!(ranges(&frames), [(2, 2), (3, 7)]);
    assert_eq!(record::records(&frames[1].payload).count(), 5);
    wal.append(&group(8..=8, 10), 7, 1).unwrap();
    drop(wal);
    assert_eq!(ranges(&Wal::open(&options).unwrap().1), [(2, 2), (3, 7), (8, 8)]);
}

#[test]
fn files_take_turns_and_wait_for_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory, 10_000);
    let (mut wal, _) = Wal::open(&options).unwrap();
    let mut revision = 1;
    // Nothing reaches the database: at some time both are full.
    let full = loop {
        match wal.append(&group(revision + 1..=revision + 1, 1000), revision, 1) {
            Ok(()) => revision += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, WalError::Full));
    assert!((15..25).contains(&revision), "{revision}");
    let found = Wal::open(&options).unwrap().1;
    assert_eq!((found[0].first, found.last().unwrap().last), (2, revision));
    // Refusing has lost nothing, and room comes with the database.
    wal.append(&group(revision + 1..=revision + 1, 1000), revision, 12).unwrap();
    let found = Wal::open(&options).unwrap().1;
    assert!(found[0].first <= 13 && found.last().unwrap().last == revision + 1);
    // A group larger than a file goes alone into one.
    wal.append(&group(revision + 2..=revision + 2, 50_000), revision + 1, revision + 1).unwrap();
    assert_eq!(Wal::open(&options).unwrap().1.last().unwrap().last, revision + 2);
}

#[test]
fn restarting_makes_undone_what_may_be_there() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory, 1 << 20);
    let (mut wal, _) = Wal::open(&options).unwrap();
    wal.append(&group(2..=4, 10), 1, 1).unwrap();
    wal.append(&group(5..=6, 10), 4, 1).unwrap();
    // Say the last one failed: nobody was told that it happened.
    wal.restart(4, 1).unwrap();
    assert_eq!(ranges(&Wal::open(&options).unwrap().1), [(2, 4)]);
    wal.append(&group(5..=5, 99), 4, 4).unwrap();
    assert_eq!(ranges(&Wal::open(&options).unwrap().1), [(2, 4), (5, 5)]);
}

/// Whatever a crash leaves of the last group, the ones before are found, and nothing that was never written.
#[test]
fn torn_ends_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory, 1 << 20);
    let (mut wal, _) = Wal::open(&options).unwrap();
    wal.append(&group(2..=3, 100), 1, 1).unwrap();
    let whole = wal.offset as usize;
    wal.append(&group(4..=5, 100), 3, 1).unwrap();
    let end = wal.offset as usize;
    drop(wal);
    let path = &paths(&options.path)[1];
    let path = if std::fs::read(path).unwrap().starts_with(&MAGIC) { path } else { &paths(&options.path)[0] };
    let intact = std::fs::read(path).unwrap();
    for cut in whole..end {
        let mut torn = intact.clone();
        torn[cut..end].fill(0);
        assert_eq!(ranges(&parse(&torn).unwrap().frames), [(2, 3)], "zeros from {cut}");
        torn.truncate(cut);
        assert_eq!(ranges(&parse(&torn).unwrap().frames), [(2, 3)], "ends at {cut}");
        let mut flipped = intact.clone();
        flipped[cut] ^= 1;
        assert_eq!(ranges(&parse(&flipped).unwrap().frames), [(2, 3)], "flipped at {cut}");
    }
    for at in 0..40 {
        let mut damaged = intact.clone();
        damaged[at] ^= 1;
        assert!(parse(&damaged).is_none(), "header flipped at {at}");
    }
    // What a client stores cannot pass for a frame: it would have to know the nonce.
    let mut replayed = intact[..whole].to_vec();
    replayed.extend_from_slice(&intact[HEADER_BYTES..whole]);
    assert_eq!(ranges(&parse(&replayed).unwrap().frames), [(2, 3)]);
}
