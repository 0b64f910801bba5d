//! `sortBy`: objects in the order of their fields, all pages at one revision.

use std::cmp::Ordering;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cache::Object;
use object::{Status, Str, Value, value};
use registry::{Pace, Readable};
use storage::{Key, KeyRange, Revision};

use super::path::FieldPath;
use super::reader::ObjectReader;
use super::wrong;
use crate::history;
use crate::large::aside;
use crate::list::{self, Page};
use crate::options::ListOptions;
use crate::scope::Scope;

/// Marks continue tokens of sorted lists, so that none is taken for one of another list.
const TOKEN_VERSION: &str = "lists.ferrokube.io/v1alpha1";
/// So much of a text is compared; what is equal so far is in the order of names.
const TEXT_BYTES_MAX: usize = 1024;
/// So much may be remembered of the fields of the candidates for one page.
const RANKS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// More candidates for a page than this, beyond twice the page, are sorted out.
const SPARE: usize = 1024;

/// The order that a list asks for.
pub struct ListOrder {
    /// As it was asked for.
    text: String,
    /// Paths, and whether they go down.
    by: Vec<(FieldPath, bool)>,
    reader: ObjectReader,
}

/// A value as it is compared: nothing first, then false and true, numbers, texts.
#[derive(Clone, Debug, PartialEq)]
enum Rank {
    Nothing,
    Bool(bool),
    Number(f64),
    Text(Str),
}

/// Where an object is in the order.
#[derive(Debug)]
struct Ranked {
    ranks: Vec<Rank>,
    object: Arc<Object>,
}

impl ListOrder {
    /// Reads paths with commas between them; those with a minus in front go down.
    pub fn parse(scope: &Scope, text: &str) -> Result<ListOrder, String> {
        let mut by = Vec::new();
        // The minus is no part of the path, and no field has a name that begins with one unless it is quoted.
        for part in FieldPath::list(text)? {
            let (part, descends) = match part.to_string().strip_prefix('-') {
                Some(rest) => (FieldPath::parse(rest)?, true),
                None => (part, false),
            };
            by.push((part, descends));
        }
        let dotted = by.iter().map(|(path, _)| path.dotted()).collect();
        Ok(ListOrder { text: text.to_string(), by, reader: ObjectReader::new(scope, dotted) })
    }

    /// The page that the options ask for.
    pub async fn page(&self, scope: &Arc<Scope>, options: &ListOptions) -> Result<Page, Status> {
        let storage = scope.storage()?;
        let range = storage.range(&scope.call.info.namespace);
        let limit = usize::try_from(options.limit).unwrap_or(0);
        let mut all = ListOptions { limit: 0, continue_token: String::new(), ..options.clone() };
        let mut after = None;
        if !options.continue_token.is_empty() {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
            }
            let (revision, key) = self.token(&options.continue_token, &range)?;
            after = Some(self.last_of_page(scope, options, &key, revision).await?);
            all.resource_version = revision.to_string();
            all.resource_version_match = "Exact".into();
        }
        let mut page = list::page(scope, &all).await?;
        let mut best = Best {
            order: self,
            ranked: Vec::new(),
            most: if limit > 0 { limit } else { usize::MAX },
            seen: 0,
            bytes: 0,
        };
        let mut pace = Pace::begin();
        let mut objects = std::mem::take(&mut page.objects);
        while !objects.is_empty() {
            let mut batches = storage.batches(&objects);
            while let Some(batch) = batches.next().await {
                for object in batch.iter() {
                    let ranked = match aside(object.value().len(), || self.rank(object)) {
                        Ok(ranked) => ranked,
                        Err(status) => return Err(list::failed(scope, &batch, batches.rest(), status).await),
                    };
                    pace.worked(object.value().len()).await;
                    if after.as_ref().is_none_or(|after| self.compare(after, &ranked) == Ordering::Less) {
                        best.add(ranked)?;
                    }
                }
            }
            objects = match &mut page.rest {
                Some(rest) => rest.read().await?,
                None => Vec::new(),
            };
        }
        page.rest = None;
        let (objects, left) = best.finish();
        if left > 0
            && let Some(last) = objects.last()
        {
            page.continue_token = self.token_after(last, page.revision, &range);
            page.remaining = Some(left);
        }
        page.objects = objects;
        Ok(page)
    }

    /// The last object of the page before, which the list must have had.
    async fn last_of_page(
        &self,
        scope: &Scope,
        options: &ListOptions,
        key: &Key,
        revision: Revision,
    ) -> Result<Ranked, Status> {
        let one = KeyRange { start: key.clone(), end: Some(key.successor()) };
        let storage = scope.storage()?;
        let found = history::page(scope, storage, &one, &options.filter.again(), 0, revision, None).await?;
        let object = found.objects.first().ok_or_else(|| invalid("the list has no such object"))?;
        let ready = storage.prepare([object.clone()]).await;
        aside(object.value().len(), || self.rank(ready.only()))
    }

    fn rank(&self, object: Readable<'_>) -> Result<Ranked, Status> {
        let read = self.reader.must_read(object)?;
        let ranks = self.by.iter().map(|(path, _)| Rank::of(path.find(&read))).collect();
        Ok(Ranked { ranks, object: object.object().clone() })
    }

    fn compare(&self, one: &Ranked, other: &Ranked) -> Ordering {
        let ranks = one.ranks.iter().zip(&other.ranks).zip(&self.by);
        let mut orders = ranks.map(|((one, other), (_, descends))| {
            let order = one.compare(other);
            if *descends { order.reverse() } else { order }
        });
        let first = orders.find(|order| *order != Ordering::Equal);
        first.unwrap_or_else(|| one.object.key().cmp(other.object.key()))
    }

    /// A token has the key of an object that was sent, so it tells nothing of others.
    fn token_after(&self, last: &Object, revision: Revision, range: &KeyRange) -> String {
        let below = String::from_utf8_lossy(&last.key()[range.start.len().min(last.key().len())..]).into_owned();
        let token = value!({"v": TOKEN_VERSION, "rv": revision, "start": below, "by": (self.text.as_str())});
        let mut json = Vec::new();
        codec::json::encode(&token, None, &mut json);
        URL_SAFE_NO_PAD.encode(json)
    }

    fn token(&self, text: &str, range: &KeyRange) -> Result<(Revision, Key), Status> {
        let json = list::decode_token(text).map_err(|why| invalid(&why))?;
        let token = codec::json::decode(&json, None, &mut codec::Notes::ignore());
        let token = token.map_err(|error| invalid(&error.to_string()))?;
        if token.str_at(&["v"]) != TOKEN_VERSION {
            return Err(invalid("it is not of a list with sortBy"));
        }
        if token.str_at(&["by"]) != self.text {
            return Err(invalid("it is of a list with another sortBy"));
        }
        let revision = token.field("rv").as_int().filter(|revision| *revision > 0);
        let key = list::key_below(range, token.str_at(&["start"]));
        revision.zip(key).ok_or_else(|| invalid("it has no revision or no key"))
    }
}

fn invalid(why: &str) -> Status {
    Status::bad_request(format!("invalid continue token: {why}"))
}

/// The first objects of an order, of those that were added.
struct Best<'o> {
    order: &'o ListOrder,
    ranked: Vec<Ranked>,
    most: usize,
    seen: usize,
    /// How much the candidates take up.
    bytes: usize,
}

impl Best<'_> {
    fn add(&mut self, ranked: Ranked) -> Result<(), Status> {
        self.seen += 1;
        self.bytes += ranked.bytes();
        self.ranked.push(ranked);
        if self.ranked.len() >= self.most.saturating_mul(2).saturating_add(SPARE) {
            self.ranked.select_nth_unstable_by(self.most, |one, other| self.order.compare(one, other));
            self.ranked.truncate(self.most);
            self.bytes = self.ranked.iter().map(Ranked::bytes).sum();
        }
        if self.bytes > RANKS_BYTES_MAX {
            let why = format!("needs more than {RANKS_BYTES_MAX} bytes for the order of one page: use a smaller limit");
            return Err(wrong("sortBy", &why));
        }
        Ok(())
    }

    /// The objects, and how many more there are.
    fn finish(mut self) -> (Vec<Arc<Object>>, usize) {
        self.ranked.sort_unstable_by(|one, other| self.order.compare(one, other));
        self.ranked.truncate(self.most);
        let left = self.seen - self.ranked.len();
        (self.ranked.into_iter().map(|ranked| ranked.object).collect(), left)
    }
}

impl Ranked {
    fn bytes(&self) -> usize {
        let text = |rank: &Rank| if let Rank::Text(text) = rank { text.len() } else { 0 };
        size_of::<Ranked>() + self.ranks.iter().map(|rank| size_of::<Rank>() + text(rank)).sum::<usize>()
    }
}

impl Rank {
    fn of(value: Option<&Value>) -> Rank {
        match value {
            Some(Value::Bool(bool)) => Rank::Bool(*bool),
            Some(Value::Int(int)) => Rank::Number(*int as f64),
            Some(Value::Float(float)) => Rank::Number(*float),
            Some(Value::String(text)) if text.len() <= TEXT_BYTES_MAX => Rank::Text(text.clone()),
            Some(Value::String(text)) => Rank::Text(text[..text.floor_char_boundary(TEXT_BYTES_MAX)].into()),
            _ => Rank::Nothing,
        }
    }

    fn compare(&self, other: &Rank) -> Ordering {
        let class = |rank: &Rank| match rank {
            Rank::Nothing => 0,
            Rank::Bool(_) => 1,
            Rank::Number(_) => 2,
            Rank::Text(_) => 3,
        };
        match (self, other) {
            (Rank::Bool(one), Rank::Bool(other)) => one.cmp(other),
            (Rank::Number(one), Rank::Number(other)) => one.total_cmp(other),
            (Rank::Text(one), Rank::Text(other)) => one.cmp(other),
            _ => class(self).cmp(&class(other)),
        }
    }
}
