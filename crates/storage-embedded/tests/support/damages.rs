//! What can happen to the files of a store that is not looked after.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::StdRng;

/// What is done to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    Byte,
    /// 512 or 4096 bytes become zeros or garbage.
    Sectors,
    Deleted,
    Emptied,
    Truncated,
    Swapped,
    /// One file is as it was earlier.
    OldFile,
    /// All are.
    AllOld,
}

impl Damage {
    /// Half of all is done in place, which is also possible while the store is in use.
    pub fn draw(random: &mut StdRng, is_running: bool) -> Damage {
        use Damage::{AllOld, Byte, Deleted, Emptied, OldFile, Sectors, Swapped, Truncated};
        let in_place = [Byte, Sectors];
        let whole = [Deleted, Emptied, Truncated, Truncated, Swapped, OldFile, OldFile, AllOld];
        match is_running || random.random_bool(0.5) {
            true => in_place[random.random_range(0..in_place.len())],
            false => whole[random.random_range(0..whole.len())],
        }
    }

    /// Does it to the store, of which `old` is an earlier copy, and says what was done.
    pub fn apply(self, store: &Path, old: &Path, random: &mut StdRng) -> String {
        let all = files(store);
        let used: Vec<_> = all.iter().filter(|file| file.metadata().is_ok_and(|meta| meta.len() > 0)).collect();
        // The database is the largest, and all logs together are as important.
        let chosen = match random.random_bool(0.3) {
            true => &all[0],
            false => used[random.random_range(0..used.len())],
        };
        let name = chosen.file_name().unwrap().display();
        match self {
            Damage::Byte => flip(chosen, random),
            Damage::Sectors => spoil(chosen, random),
            Damage::Deleted => {
                std::fs::remove_file(chosen).unwrap();
                format!("{name} was deleted")
            }
            Damage::Emptied => {
                truncate(chosen, 0);
                format!("{name} was emptied")
            }
            Damage::Truncated => {
                let length = chosen.metadata().unwrap().len();
                // Most of a file's end is zeros; the interesting part is before.
                let upto = if random.random_bool(0.5) { length } else { length.min(64 << 10) };
                let cut = random.random_range(0..upto);
                truncate(chosen, cut);
                format!("{name} was cut to {cut} of {length} bytes")
            }
            Damage::Swapped => {
                let other = all.iter().filter(|file| *file != chosen).nth(random.random_range(0..3)).unwrap();
                let aside = store.with_file_name("aside");
                for (from, to) in [(chosen, &aside), (other, chosen), (&aside, other)] {
                    std::fs::rename(from, to).unwrap();
                }
                format!("{name} and {} were swapped", other.file_name().unwrap().display())
            }
            Damage::OldFile => {
                let at = all.iter().position(|file| file == chosen).unwrap();
                std::fs::copy(&files(old)[at], chosen).unwrap();
                format!("{name} is an old copy")
            }
            Damage::AllOld => {
                copy_store(old, store);
                "all files are old copies".into()
            }
        }
    }
}

/// The database, the two files of its write-ahead log, and the mark.
pub fn files(path: &Path) -> [PathBuf; 4] {
    ["", ".wal-0", ".wal-1", ".wal-mark"].map(|suffix| PathBuf::from(format!("{}{suffix}", path.display())))
}

pub fn copy_store(from: &Path, to: &Path) {
    for (from, to) in files(from).iter().zip(files(to)) {
        std::fs::copy(from, to).unwrap();
    }
}

fn truncate(file: &Path, length: u64) {
    OpenOptions::new().write(true).open(file).unwrap().set_len(length).unwrap();
}

/// A place in the file, most of the time one that is not zero.
fn place(bytes: &[u8], random: &mut StdRng) -> usize {
    let at = random.random_range(0..bytes.len());
    if random.random_range(0..4) == 0 {
        return at;
    }
    let used: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    used.get(random.random_range(0..used.len().max(1))).copied().unwrap_or(at)
}

fn write(file: &Path, bytes: &[u8], at: usize) {
    OpenOptions::new().write(true).open(file).unwrap().write_all_at(bytes, at as u64).unwrap();
}

fn flip(file: &Path, random: &mut StdRng) -> String {
    let bytes = std::fs::read(file).unwrap();
    let at = place(&bytes, random);
    let wrong = bytes[at] ^ random.random_range(1..=255u8);
    write(file, &[wrong], at);
    format!("byte {at} of {}: {:#04x} became {wrong:#04x}", file.file_name().unwrap().display(), bytes[at])
}

fn spoil(file: &Path, random: &mut StdRng) -> String {
    let bytes = std::fs::read(file).unwrap();
    let length = [512, 4096][random.random_range(0..2)];
    let at = place(&bytes, random) / length * length;
    let length = length.min(bytes.len() - at);
    let is_zero = random.random_bool(0.5);
    let wrong: Vec<u8> = (0..length).map(|_| if is_zero { 0 } else { random.random() }).collect();
    write(file, &wrong, at);
    let what = if is_zero { "zeros" } else { "garbage" };
    format!("{length} bytes from {at} of {} became {what}", file.file_name().unwrap().display())
}
