//! The numbers a database keeps about itself, in its table `meta`, with a checksum over all of them.

use redb::ReadableTable;
use storage::Revision;
use xxhash_rust::xxh3::xxh3_64;

use crate::disk::FORMAT;
use crate::record::Layout;

/// The first format whose files have checksums.
const FORMAT_WITH_CHECKSUMS: i64 = 3;
/// The first format that knows its write-ahead log.
const FORMAT_WITH_LOG: i64 = 4;
const FORMAT_WITHOUT_WAL: i64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// The version of the layout.
    pub format: i64,
    /// The last revision in the database.
    pub revision: Revision,
    /// History before this revision was given up.
    pub compacted: Revision,
    /// Everything up to this revision is in the base, everything later in the log.
    pub folded: Revision,
    /// False while the write-ahead log may have more than the database.
    pub is_clean: bool,
    pub base: Content,
    pub log: Log,
    /// The store's clock at the last commit, in milliseconds; 0 if it was never used.
    pub time: i64,
}

/// The write-ahead log that follows a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// Random; the log's files have it too. 0 if the database never had a log.
    pub id: u64,
    /// A file of this generation, or a later one, is there while the database is in use.
    pub generation: u64,
}

/// How many records the base has, and the sum of their checksums. A record that is missing, or is there twice, changes
/// both, so damage to the tree that hides records does not go unnoticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub records: u64,
    checksums: u64,
}

impl Content {
    pub fn add(&mut self, checksum: u64) {
        self.records = self.records.wrapping_add(1);
        self.checksums = self.checksums.wrapping_add(checksum);
    }

    pub fn remove(&mut self, checksum: u64) {
        self.records = self.records.wrapping_sub(1);
        self.checksums = self.checksums.wrapping_sub(checksum);
    }
}

impl Numbers {
    pub fn layout(&self) -> Layout {
        if self.format < FORMAT_WITH_CHECKSUMS { Layout::Plain } else { Layout::Checked }
    }

    /// What `meta` says, unless it does not match its checksum.
    pub fn read(meta: &impl ReadableTable<&'static str, i64>) -> Result<Numbers, redb::Error> {
        let find = |name: &str| Ok::<_, redb::Error>(meta.get(name)?.map(|number| number.value()));
        let need = |name: &str| {
            find(name)?.ok_or_else(|| redb::Error::Corrupted(format!("the database has no number named {name}")))
        };
        let format = need("format")?;
        if !(FORMAT_WITHOUT_WAL..=FORMAT).contains(&format) {
            return Err(redb::Error::Corrupted(format!("the database has the unknown format {format}")));
        }
        let mut numbers = Numbers {
            format,
            revision: need("revision")?,
            compacted: need("compacted")?,
            folded: need("folded")?,
            // Files of the first format have no write-ahead log.
            is_clean: format == FORMAT_WITHOUT_WAL || need("clean")? == 1,
            base: Content::default(),
            log: Log::default(),
            time: 0,
        };
        let checksum = find("checksum")?;
        if numbers.layout() == Layout::Checked {
            numbers.base = Content { records: need("base records")? as u64, checksums: need("base checksums")? as u64 };
        }
        if format >= FORMAT_WITH_LOG {
            numbers.time = need("time")?;
            numbers.log = Log { id: need("log")? as u64, generation: need("log generation")? as u64 };
        }
        let is_right = match checksum {
            Some(checksum) => numbers.layout() == Layout::Checked && checksum == numbers.checksum(),
            None => numbers.layout() == Layout::Plain,
        };
        if !is_right {
            return Err(redb::Error::Corrupted("the database's numbers do not match their checksum".into()));
        }
        Ok(numbers)
    }

    pub fn write(&self, meta: &mut redb::Table<'_, &'static str, i64>) -> Result<(), redb::Error> {
        for (name, number) in self.named() {
            meta.insert(name, number)?;
        }
        meta.insert("checksum", self.checksum())?;
        Ok(())
    }

    fn named(&self) -> Vec<(&'static str, i64)> {
        let mut named = vec![
            ("format", self.format),
            ("revision", self.revision),
            ("compacted", self.compacted),
            ("folded", self.folded),
            ("clean", i64::from(self.is_clean)),
            ("base records", self.base.records as i64),
            ("base checksums", self.base.checksums as i64),
        ];
        if self.format >= FORMAT_WITH_LOG {
            let log = [("log", self.log.id as i64), ("log generation", self.log.generation as i64)];
            named.extend(log.into_iter().chain([("time", self.time)]));
        }
        named
    }

    fn checksum(&self) -> i64 {
        let bytes: Vec<u8> = self.named().iter().flat_map(|(_, number)| number.to_le_bytes()).collect();
        xxh3_64(&bytes) as i64
    }
}
