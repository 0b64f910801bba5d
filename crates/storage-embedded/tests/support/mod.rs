//! Disks that fail in the ways disks do.

#![allow(dead_code)] // Each test file uses its part.

pub mod damages;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use storage_embedded::BackendFactory;

/// Fails instead of hanging.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(30), future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// The command line of a test that has its own `main`.
pub struct Arguments(Vec<String>);

impl Arguments {
    /// None if another test was asked for by name.
    pub fn read(test: &str) -> Option<Arguments> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let is_other = |filter: &&String| !filter.starts_with('-') && !test.contains(filter.as_str());
        arguments.first().filter(is_other).is_none().then_some(Arguments(arguments))
    }

    pub fn number(&self, name: &str, default: u64) -> u64 {
        let given = self.0.iter().skip_while(|argument| *argument != name).nth(1);
        given.map_or(default, |number| number.parse().expect("a number"))
    }

    /// Given, or another one each time.
    pub fn seed(&self) -> u64 {
        self.number("--seed", u64::from(rand::random::<u32>()))
    }
}

/// redb panics on some damage, which the store catches; the hook would print it all the same.
pub fn hush_panics_of_redb() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|location| location.file().contains("redb-")) {
            hook(panic);
        }
    }));
}

/// What goes wrong at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file cannot grow, nor be written where it never was: no space left.
    Full,
    /// A write stores its first half and fails.
    ShortWrite,
    /// Writes work, fsync does not.
    Sync,
    /// Nothing can be written or read.
    Everything,
}

/// A switch that all files opened through its factory obey.
#[derive(Clone, Default, Debug)]
pub struct Faults {
    fault: Arc<Mutex<Option<Fault>>>,
    /// Blocks of files that have space on the disk.
    allocated: Arc<Mutex<HashSet<(PathBuf, u64)>>>,
}

const BLOCK: u64 = 4096;

impl Faults {
    pub fn set(&self, fault: impl Into<Option<Fault>>) {
        *self.fault.lock() = fault.into();
    }

    fn now(&self) -> Option<Fault> {
        *self.fault.lock()
    }

    fn needs_space(&self, path: &Path, offset: u64, len: usize) -> bool {
        let allocated = self.allocated.lock();
        blocks(path, offset, len).any(|block| !allocated.contains(&block))
    }

    fn allocate(&self, path: &Path, offset: u64, len: usize) {
        self.allocated.lock().extend(blocks(path, offset, len));
    }

    pub fn factory(&self) -> BackendFactory {
        let faults = self.clone();
        Arc::new(move |path: &Path| {
            if faults.now() == Some(Fault::Everything) {
                return Err(broken());
            }
            let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            let file = FileBackend::new(file).map_err(io::Error::other)?;
            let (path, faults) = (path.to_owned(), faults.clone());
            Ok(Box::new(FaultyFile { file, path, faults }) as Box<dyn StorageBackend>)
        })
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: FileBackend,
    path: PathBuf,
    faults: Faults,
}

fn blocks(path: &Path, offset: u64, len: usize) -> impl Iterator<Item = (PathBuf, u64)> {
    (offset / BLOCK..(offset + len as u64).div_ceil(BLOCK)).map(move |block| (path.to_owned(), block))
}

fn full() -> io::Error {
    io::Error::from_raw_os_error(28)
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.faults.now() {
            Some(Fault::Everything) => Err(broken()),
            _ => self.file.read(offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match self.faults.now() {
            Some(Fault::Full) if len > self.file.len()? => Err(full()),
            Some(Fault::Everything) => Err(broken()),
            _ => self.file.set_len(len),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.faults.now() {
            Some(Fault::Sync | Fault::Everything) => Err(broken()),
            _ => self.file.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.faults.now() {
            Some(Fault::Full) if self.faults.needs_space(&self.path, offset, data.len()) => Err(full()),
            Some(Fault::Everything) => Err(broken()),
            Some(Fault::ShortWrite) => {
                // Pages, and so sectors, are copied as a whole.
                self.file.write(offset, &data[..data.len() / 2 / SECTOR * SECTOR])?;
                Err(full())
            }
            _ => {
                self.faults.allocate(&self.path, offset, data.len());
                self.file.write(offset, data)
            }
        }
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

/// A disk in memory that forgets on a power cut what was not synced, or half of it.
#[derive(Clone, Debug, Default)]
pub struct PowerDisk(Arc<PowerState>);

/// What goes wrong with one call to a [`PowerDisk`], and with some after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The call fails (EIO).
    Broken,
    /// Writes and growth fail (ENOSPC).
    Full,
    /// A write stores its first sectors and fails; a read fails.
    Short,
    /// A sync fails, and what it should have written never reaches the disk. It can be read until the file is opened again,
    /// for which the store drops the pages that the kernel keeps.
    SyncLost,
}

/// When trouble comes: at this call to any file, counted from the disk's first, and for how many calls.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub trouble: Trouble,
    pub first_call: u64,
    pub calls: u64,
}

#[derive(Debug, Default)]
struct PowerState {
    is_off: AtomicBool,
    syncs: AtomicU64,
    calls: AtomicU64,
    plan: Mutex<Option<Plan>>,
    files: Mutex<BTreeMap<PathBuf, Arc<Mutex<Image>>>>,
}

#[derive(Debug)]
struct PowerFile {
    disk: PowerDisk,
    image: Arc<Mutex<Image>>,
}

#[derive(Clone, Debug, Default)]
struct Image {
    /// What programs see.
    current: Vec<u8>,
    /// What survives for certain.
    synced: Vec<u8>,
    /// What happened to the one since it was the other.
    pending: Vec<Pending>,
    /// Whether something of the former will never be in the latter.
    has_lost: bool,
}

#[derive(Clone, Debug)]
enum Pending {
    Len(usize),
    Write(usize, Vec<u8>),
}

impl Pending {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Pending::Len(len) => image.resize(*len, 0),
            Pending::Write(offset, bytes) => write_at(image, *offset, bytes),
        }
    }
}

/// What a disk writes whole, if it writes it.
const SECTOR: usize = 512;

impl PowerDisk {
    pub fn factory(&self) -> BackendFactory {
        let disk = self.clone();
        Arc::new(move |path: &Path| {
            let image = disk.0.files.lock().entry(path.to_owned()).or_default().clone();
            image.lock().forget_lost();
            Ok(Box::new(PowerFile { disk: disk.clone(), image }) as Box<dyn StorageBackend>)
        })
    }

    pub fn syncs(&self) -> u64 {
        self.0.syncs.load(Ordering::SeqCst)
    }

    /// How many calls there were so far.
    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::SeqCst)
    }

    pub fn plan(&self, plan: Option<Plan>) {
        *self.0.plan.lock() = plan;
    }

    /// Whether the planned trouble has begun.
    pub fn had_trouble(&self) -> bool {
        self.0.plan.lock().is_some_and(|plan| self.calls() > plan.first_call)
    }

    /// Counts a call; the trouble that it has, if any.
    fn call(&self) -> io::Result<Option<Trouble>> {
        self.powered()?;
        let number = self.0.calls.fetch_add(1, Ordering::SeqCst);
        let plan = *self.0.plan.lock();
        let hit = plan.filter(|plan| (plan.first_call..plan.first_call + plan.calls).contains(&number));
        match hit.map(|plan| plan.trouble) {
            Some(Trouble::Broken) => Err(broken()),
            trouble => Ok(trouble),
        }
    }

    /// Switches off, and returns the disk as it is when power returns: any sectors of what was not synced are on it.
    pub fn cut(&self, random: &mut impl Rng) -> PowerDisk {
        let files = self.0.files.lock();
        // All writers are stopped at the same moment.
        let images: Vec<_> = files.iter().map(|(path, image)| (path.clone(), image.lock())).collect();
        self.0.is_off.store(true, Ordering::SeqCst);
        let survivors = images.iter().map(|(path, image)| {
            let bytes = image.survivor(random);
            let image = Image { current: bytes.clone(), synced: bytes, ..Image::default() };
            (path.clone(), Arc::new(Mutex::new(image)))
        });
        let files = Mutex::new(survivors.collect());
        PowerDisk(Arc::new(PowerState { files, ..PowerState::default() }))
    }

    fn powered(&self) -> io::Result<()> {
        if self.0.is_off.load(Ordering::SeqCst) { Err(broken()) } else { Ok(()) }
    }
}

impl Image {
    fn survivor(&self, random: &mut impl Rng) -> Vec<u8> {
        let mut survivor = self.synced.clone();
        // Some cuts lose everything, some nothing, most some.
        let share = [0.0, 0.5, 0.9, 1.0][random.random_range(0..4)];
        for pending in &self.pending {
            match pending {
                Pending::Len(len) => {
                    if random.random_bool(share) {
                        survivor.resize(*len, 0);
                    }
                }
                Pending::Write(offset, bytes) => {
                    for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                        if random.random_bool(share) {
                            write_at(&mut survivor, offset + index * SECTOR, sector);
                        }
                    }
                }
            }
        }
        survivor
    }
}

fn write_at(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if image.len() < offset + bytes.len() {
        image.resize(offset + bytes.len(), 0);
    }
    image[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl Image {
    fn sync(&mut self) {
        for pending in self.pending.drain(..) {
            pending.apply(&mut self.synced);
        }
    }

    fn forget_lost(&mut self) {
        if std::mem::take(&mut self.has_lost) {
            self.current = self.synced.clone();
            self.pending.iter().for_each(|pending| pending.apply(&mut self.current));
        }
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        write_at(&mut self.current, offset, data);
        self.pending.push(Pending::Write(offset, data.to_vec()));
    }
}

impl StorageBackend for PowerFile {
    fn len(&self) -> io::Result<u64> {
        self.disk.call()?;
        Ok(self.image.lock().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.disk.call()? == Some(Trouble::Short) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let image = self.image.lock();
        let offset = offset as usize;
        let bytes = image.current.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut image = self.image.lock();
        let grows = len as usize > image.current.len();
        if self.disk.call()? == Some(Trouble::Full) && grows {
            return Err(full());
        }
        image.current.resize(len as usize, 0);
        image.pending.push(Pending::Len(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut image = self.image.lock();
        let trouble = self.disk.call()?;
        self.disk.0.syncs.fetch_add(1, Ordering::SeqCst);
        if trouble == Some(Trouble::SyncLost) {
            image.pending.clear();
            image.has_lost = true;
            return Err(broken());
        }
        image.sync();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut image = self.image.lock();
        match self.disk.call()? {
            Some(Trouble::Full) => Err(full()),
            Some(Trouble::Short) => {
                image.write(offset as usize, &data[..data.len() / 2 / SECTOR * SECTOR]);
                Err(full())
            }
            _ => {
                image.write(offset as usize, data);
                Ok(())
            }
        }
    }
}
