//! Lists of an old revision: the beginning of a page is kept, the rest is read from the store while the page is sent.

use std::sync::Arc;

use cache::Object;
use object::Status;
use registry::{EXPIRED, Filter, ResourceStorage};
use storage::{Key, KeyRange, RangeQuery, Revision};

use crate::list::{INCONSISTENT, NOW, Page, Token, cut};

/// How many entries are read at once, at first and at most.
const ENTRIES_FIRST: usize = 16;
const ENTRIES_MAX: usize = 1000;
/// About so many bytes are read at once.
const READ_BYTES: usize = 512 * 1024;
/// Pages up to this size are kept whole. What is beyond it is read a second time when it is sent.
const KEPT_BYTES: usize = 1024 * 1024;

/// Objects of an old revision that have not been read from the store yet.
#[derive(Clone)]
pub struct Unread {
    storage: Arc<ResourceStorage>,
    part: Option<KeyRange>,
    revision: Revision,
    filter: Filter,
    /// How many entries to read next.
    entries: usize,
    /// How many entries there were in all, before the first was read.
    count: Option<usize>,
}

impl Unread {
    fn of(storage: &Arc<ResourceStorage>, part: KeyRange, revision: Revision, filter: &Filter) -> Unread {
        let (storage, filter) = (storage.clone(), filter.clone());
        Unread { storage, part: Some(part), revision, filter, entries: ENTRIES_FIRST, count: None }
    }

    /// Reads on. None at the end; what was read may have no object that the filter is about.
    async fn next(&mut self) -> storage::Result<Option<Vec<Arc<Object>>>> {
        let Some(part) = self.part.take() else { return Ok(None) };
        let query = RangeQuery::new(part.clone()).at(self.revision).limit(self.entries).enough_bytes(READ_BYTES);
        let found = self.storage.store.range(query).await?;
        self.count.get_or_insert(found.count);
        if let Some(last) = found.entries.last().filter(|_| found.more) {
            self.part = Some(part.after(&last.key));
        }
        let bytes: usize = found.entries.iter().map(|entry| entry.value.len()).sum();
        let average = bytes.checked_div(found.entries.len()).unwrap_or(0).max(1);
        self.entries = (READ_BYTES / average).clamp(1, ENTRIES_MAX.min(2 * self.entries));
        Ok(Some(found.entries.iter().map(|entry| self.storage.cache.wrap(entry)).collect()))
    }

    /// The next objects that the filter is about; none at the end.
    pub async fn read(&mut self) -> Result<Vec<Arc<Object>>, Status> {
        while let Some(mut read) = self.next().await.map_err(|error| failed(&self.storage, error, None))? {
            self.storage.select(&mut read, &self.filter, usize::MAX).await?;
            if !read.is_empty() {
                return Ok(read);
            }
        }
        Ok(Vec::new())
    }
}

/// From the cache if it reaches back so far, otherwise from the store's history.
pub async fn page(
    storage: &Arc<ResourceStorage>,
    range: &KeyRange,
    filter: &Filter,
    limit: usize,
    revision: Revision,
    start: Option<&Key>,
) -> Result<Page, Status> {
    let part = start.map_or(range.clone(), |start| KeyRange { start: start.clone(), end: range.end.clone() });
    if let Some(snapshot) = storage.cache.snapshot_at(&part, revision) {
        let mut objects = snapshot.objects;
        let all = objects.len();
        let most = if limit > 0 { limit + 1 } else { usize::MAX };
        storage.select(&mut objects, filter, most).await?;
        let more = all.saturating_sub(objects.len());
        return Ok(cut(objects, more, limit, revision, range, filter));
    }
    let mut unread = Unread::of(storage, part, revision, filter);
    let mut page = cut(Vec::new(), 0, limit, revision, range, filter);
    let (mut kept_bytes, mut matching) = (0, 0);
    let mut last: Option<Key> = None;
    loop {
        let read = unread.next().await;
        let read = read.map_err(|error| failed(storage, error, start.map(|start| (start, range))))?;
        let Some(mut read) = read else { return Ok(page) };
        storage.select(&mut read, filter, usize::MAX).await?;
        for object in read {
            if limit > 0 && matching == limit {
                page.end_at(last.as_ref().unwrap_or(object.key()), limit, unread.count.unwrap_or(0), range, filter);
                return Ok(page);
            }
            matching += 1;
            last = Some(object.key().clone());
            kept_bytes += object.value().len();
            if page.rest.is_none() && (kept_bytes <= KEPT_BYTES || page.objects.is_empty()) {
                page.objects.push(object);
            } else if page.rest.is_none() {
                let part = KeyRange { start: object.key().clone(), end: range.end.clone() };
                let again = Unread::of(storage, part, revision, &filter.again());
                page.rest = Some(Unread { entries: unread.entries, ..again });
            }
        }
        // Where the page ends is known, so there is nothing more to look for; what conditions fail on is an answer, not a cut.
        if page.rest.is_some()
            && filter.conditions.is_empty()
            && (limit == 0 || unread.count.is_some_and(|count| count <= limit))
        {
            return Ok(page);
        }
    }
}

impl Page {
    /// The page has `limit` objects, of which `last` is the last one, and there are more.
    fn end_at(&mut self, last: &Key, limit: usize, count: usize, range: &KeyRange, filter: &Filter) {
        let end = last.successor();
        self.continue_token = Token::encode(&end, self.revision, range);
        self.remaining = filter.is_everything().then(|| count.saturating_sub(limit));
        if let Some(part) = self.rest.as_mut().and_then(|rest| rest.part.as_mut()) {
            part.end = Some(end);
        }
    }

    /// Reads what is left, for answers that need all objects at once.
    pub async fn read_all(&mut self) -> Result<(), Status> {
        while let Some(rest) = &mut self.rest {
            let read = rest.read().await?;
            if read.is_empty() {
                self.rest = None;
            }
            self.objects.extend(read);
        }
        Ok(())
    }
}

/// `continued` says where a list with a continue token was, and what it lists.
fn failed(storage: &ResourceStorage, error: storage::Error, continued: Option<(&Key, &KeyRange)>) -> Status {
    match error {
        storage::Error::Compacted { .. } => match continued {
            Some((start, range)) => {
                let continue_token = Token::encode(start, NOW, range);
                Status { continue_token, ..Status::expired(INCONSISTENT) }
            }
            None => Status::expired(EXPIRED),
        },
        storage::Error::FutureRevision { requested, current } => {
            storage.read_failed(cache::Error::TooLarge { requested, current }, "list").into()
        }
        other => storage.store_failed(other, "list", "").into(),
    }
}
