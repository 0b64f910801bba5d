//! The write-ahead log by itself.

use std::sync::Arc;

use bytes::Bytes;
use storage::Entry;

use super::scan::scan;
use super::*;
use crate::record::Layout;

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

fn options(directory: &tempfile::TempDir, wal_bytes: u64) -> EmbeddedOptions {
    EmbeddedOptions { wal_bytes, ..EmbeddedOptions::at(directory.path().join("store")) }
}

fn frames(options: &EmbeddedOptions) -> Vec<Frame> {
    let replay = Wal::open(options).unwrap().1;
    assert_eq!(replay.damage, []);
    replay.frames
}

fn ranges(frames: &[Frame]) -> Vec<(Revision, Revision)> {
    frames.iter().map(|frame| (frame.first, frame.last)).collect()
}

#[test]
fn groups_are_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory, 1 << 20);
    let (mut wal, replay) = Wal::open(&options).unwrap();
    assert!(replay.frames.is_empty());
    wal.append(&group(2..=2, 10), 1, 1).unwrap();
    wal.append(&group(3..=7, 1000), 2, 1).unwrap();
    drop(wal);
    let (mut wal, replay) = Wal::open(&options).unwrap();
    assert_eq!(ranges(&replay.frames), [(2, 2), (3, 7)]);
    assert_eq!(record::records(&replay.frames[1].payload, Layout::Checked).map(Result::unwrap).count(), 5);
    wal.append(&group(8..=8, 10), 7, 1).unwrap();
    drop(wal);
    assert_eq!(ranges(&frames(&options)), [(2, 2), (3, 7), (8, 8)]);
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
    assert!((10..15).contains(&revision), "{revision}");
    let found = frames(&options);
    assert_eq!((found[0].first, found.last().unwrap().last), (2, revision));
    // Refusing has lost nothing, and room comes with the database.
    wal.append(&group(revision + 1..=revision + 1, 1000), revision, 8).unwrap();
    let found = frames(&options);
    assert!(found[0].first <= 9 && found.last().unwrap().last == revision + 1);
    // A group larger than a file goes alone into one.
    wal.append(&group(revision + 2..=revision + 2, 50_000), revision + 1, revision + 1).unwrap();
    assert_eq!(frames(&options).last().unwrap().last, revision + 2);
}

#[test]
fn restarting_makes_undone_what_may_be_there() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory, 1 << 20);
    let (mut wal, _) = Wal::open(&options).unwrap();
    wal.append(&group(2..=4, 10), 1, 1).unwrap();
    wal.append(&group(5..=6, 10), 4, 1).unwrap();
    // As if the last one had failed: it was not acknowledged.
    wal.restart(4, 1).unwrap();
    assert_eq!(ranges(&frames(&options)), [(2, 4)]);
    wal.append(&group(5..=5, 99), 4, 4).unwrap();
    assert_eq!(ranges(&frames(&options)), [(2, 4), (5, 5)]);
}

/// A file with the groups 2 to 3, 4 to 9 and 10, and where each begins and the last ends.
fn three_groups() -> (Vec<u8>, [usize; 4]) {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory, 1 << 20);
    let (mut wal, _) = Wal::open(&options).unwrap();
    let mut places = [0; 4];
    for (place, revisions) in [(1, 2..=3), (2, 4..=9), (3, 10..=10)] {
        let after = revisions.start() - 1;
        wal.append(&group(revisions, 300), after, 1).unwrap();
        places[place] = wal.offset as usize;
    }
    places[0] = SECTOR_BYTES;
    let path = paths(&options.path)[wal.active].clone();
    drop(wal);
    (std::fs::read(path).unwrap(), places)
}

/// Whatever sectors of the last group a crash leaves out, the ones before are found, and it is not called damage.
#[test]
fn interrupted_writes_are_not_read() {
    let (intact, [.., second, third, end]) = three_groups();
    let old = |sector: usize| intact[sector..sector + SECTOR_BYTES].iter().map(|byte| byte.wrapping_mul(7) ^ 0x5a);
    for (begin, expected) in [(third, &[(2, 3), (4, 9)][..]), (second, &[(2, 3)])] {
        // Nothing is behind the group that is being written.
        let end = if begin == third { end } else { third };
        let mut before = intact.clone();
        before[end..].fill(0);
        for sector in (begin..end).step_by(SECTOR_BYTES) {
            let mut zeros = before.clone();
            zeros[sector..sector + SECTOR_BYTES].fill(0);
            let mut stale = before.clone();
            stale.splice(sector..sector + SECTOR_BYTES, old(sector));
            for torn in [zeros, stale, before[..sector].to_vec()] {
                let found = scan(&torn);
                assert_eq!(ranges(&found.frames), expected, "sector at {sector}");
                assert_eq!(found.damage, []);
                // What is left of it must not be taken for the next write.
                let is_untouched = end - begin == SECTOR_BYTES || torn.len() == begin;
                assert_eq!(found.end > 0, is_untouched, "sector at {sector}");
            }
        }
    }
}

/// A byte that changed in a group that was acknowledged is noticed, wherever it is, and the groups behind it are read.
#[test]
fn damage_is_noticed() {
    let (intact, [first, second, third, end]) = three_groups();
    let groups = [(first..second, (2, 3)), (second..third, (4, 9)), (third..end, (10, 10))];
    for at in first..end {
        let mut damaged = intact.clone();
        damaged[at] ^= 1 << (at % 8);
        let found = scan(&damaged);
        let (_, hit) = groups.iter().find(|(place, _)| place.contains(&at)).unwrap();
        let others: Vec<_> = groups.iter().map(|(_, revisions)| *revisions).filter(|range| range != hit).collect();
        if found.damage.is_empty() {
            // The nonce of a sector, or the zeros behind the last record.
            assert_eq!(found.frames.len(), 3, "byte {at}");
            continue;
        }
        assert_eq!(ranges(&found.frames), others, "byte {at}");
        let [damage] = &found.damage[..] else { panic!("{:?}", found.damage) };
        assert_eq!(damage.first, hit.0);
        assert!(damage.last == Some(hit.1) || (damage.last.is_none() && hit.1 == 10), "byte {at}: {damage:?}");
        assert!(damage.is_within(hit.1) && !damage.is_within(hit.1 - 1), "byte {at}");
        assert_eq!(found.end, 0);
    }
    for at in 0..SECTOR_BYTES {
        let mut damaged = intact.clone();
        damaged[at] ^= 1;
        assert_eq!(scan(&damaged).frames.len(), 3, "one of two headers suffices, byte {at}");
    }
    let mut damaged = intact.clone();
    damaged[..SECTOR_BYTES].fill(7);
    let found = scan(&damaged);
    assert!(found.damage[0].is_header && !found.damage[0].is_within(1000));
    // A file that was never begun is not damaged.
    for untouched in [vec![], vec![0; 4096]] {
        assert!(scan(&untouched).damage.is_empty());
    }
}

/// What a client stores cannot pass for a frame: it would have to know the nonce.
#[test]
fn frames_of_another_use_are_not_read() {
    let (intact, [first, second, third, _]) = three_groups();
    let (other, _) = three_groups();
    let mut mixed = intact.clone();
    mixed[second..third].copy_from_slice(&other[second..third]);
    mixed[third..].fill(0);
    let found = scan(&mixed);
    assert_eq!((ranges(&found.frames), found.damage.len()), (vec![(2, 3)], 0));
    let mut repeated = intact.clone();
    repeated.copy_within(first..second, second);
    repeated[second + second - first..].fill(0);
    assert_eq!(ranges(&scan(&repeated).frames), [(2, 3)]);
}
