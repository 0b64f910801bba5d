//! `count` and `groupBy`: how many objects there are, and how large they are, without the objects.

use std::sync::Arc;

use cache::Object;
use hashbrown::HashMap;
use http::StatusCode;
use object::{GroupVersionKind, Map, Status, Str, Value};
use registry::{Pace, Readable};

use super::path::FieldPath;
use super::reader::ObjectReader;
use super::wrong;
use crate::large::aside;
use crate::media::{Media, Transform};
use crate::options::ListOptions;
use crate::reply::Reply;
use crate::scope::Scope;
use crate::{list, past};

/// The most groups of one answer, and how long their values may be together.
const GROUPS_MAX: usize = 10_000;
const VALUES_BYTES_MAX: usize = 1024 * 1024;

/// A count that a request asks for.
pub struct ListCount {
    /// The paths by which groups are made.
    by: Vec<FieldPath>,
    /// The selectable fields that these are, where all of them are.
    headers: Option<Vec<Str>>,
    reader: ObjectReader,
}

/// Some objects.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: usize,
    bytes: usize,
}

impl ListCount {
    pub fn parse(scope: &Scope, group_by: Option<&str>) -> Result<ListCount, String> {
        let by = group_by.map_or_else(|| Ok(Vec::new()), FieldPath::list)?;
        let dotted: Option<Vec<Str>> = by.iter().map(FieldPath::dotted).collect();
        Ok(ListCount {
            headers: dotted.clone().filter(|all| are_in_headers(scope, all)),
            reader: ObjectReader::new(scope, dotted),
            by,
        })
    }

    /// The answer to a list.
    pub async fn answer(&self, scope: &Arc<Scope>, options: &ListOptions) -> Result<Reply, Status> {
        check_form(scope)?;
        if options.filter.is_everything()
            && let Some(reply) = self.counted(scope, options).await?
        {
            return Ok(reply);
        }
        let storage = scope.storage()?;
        let mut page = list::page(scope, options).await?;
        let (mut sum, mut groups, mut bytes) = (Sum::default(), HashMap::new(), 0);
        let mut pace = Pace::begin();
        let mut objects = std::mem::take(&mut page.objects);
        while !objects.is_empty() {
            objects.iter().for_each(|object| sum.add(object));
            let grouped = if self.by.is_empty() { &[][..] } else { &objects[..] };
            let mut batches = storage.batches(grouped);
            while let Some(batch) = batches.next().await {
                for object in batch.iter() {
                    let values = match self.values(scope, object) {
                        Ok(values) => values,
                        Err(status) => return Err(list::failed(scope, &batch, batches.rest(), status).await),
                    };
                    self.add(&mut groups, &mut bytes, values, &object)?;
                    // What was not in the header was decoded.
                    let bytes = if self.headers.is_some() { 0 } else { object.value().len() };
                    pace.worked(storage.work_of_matching(&object) + bytes).await;
                }
            }
            objects = match &mut page.rest {
                Some(rest) => rest.read().await?,
                None => Vec::new(),
            };
        }
        Ok(self.reply(scope, page.revision, sum, &groups))
    }

    /// All objects of the request's range at once, where the cache has counted them already.
    async fn counted(&self, scope: &Scope, options: &ListOptions) -> Result<Option<Reply>, Status> {
        let storage = scope.storage()?;
        let namespace = &scope.call.info.namespace;
        let by_field = match self.headers.as_deref() {
            _ if past::asked(scope, true).is_some() => return Ok(None),
            _ if self.by.is_empty() => None,
            Some([field]) if namespace.is_empty() => Some(field),
            _ => return Ok(None),
        };
        let failed = |error| storage.read_failed(error, "list");
        match (options.revision()?, options.resource_version_match.as_str()) {
            (None | Some(0), _) if storage.cache.fresh().await.is_err() => return Ok(None),
            (None | Some(0), _) => {}
            (Some(_), "Exact") => return Ok(None),
            (Some(revision), _) => storage.cache.wait_for(revision).await.map_err(failed)?,
        }
        let Some(field) = by_field else {
            let (count, bytes, revision) = storage.cache.count(&storage.range(namespace));
            return Ok(Some(self.reply(scope, revision, Sum { count, bytes }, &HashMap::new())));
        };
        let Some((counted, revision)) = storage.cache.count_by(field, GROUPS_MAX) else { return Ok(None) };
        let (mut all, mut groups, mut values_bytes) = (Sum::default(), HashMap::new(), 0);
        for (value, count, bytes) in counted {
            all.count += count;
            all.bytes += bytes;
            values_bytes += value.len();
            groups.insert(vec![Str::from(value)], Sum { count, bytes });
        }
        Ok((values_bytes <= VALUES_BYTES_MAX).then(|| self.reply(scope, revision, all, &groups)))
    }

    fn add(
        &self,
        groups: &mut HashMap<Vec<Str>, Sum>,
        bytes: &mut usize,
        values: Vec<Str>,
        object: &Object,
    ) -> Result<(), Status> {
        if let Some(sum) = groups.get_mut(&values) {
            sum.add(object);
            return Ok(());
        }
        *bytes += values.iter().map(|value| value.len()).sum::<usize>();
        if groups.len() == GROUPS_MAX || *bytes > VALUES_BYTES_MAX {
            let why =
                format!("makes more than {GROUPS_MAX} groups, or more than {VALUES_BYTES_MAX} bytes of their values");
            return Err(wrong("groupBy", &why));
        }
        groups.entry(values).or_default().add(object);
        Ok(())
    }

    /// The values that say to which group an object belongs.
    fn values(&self, scope: &Scope, object: Readable<'_>) -> Result<Vec<Str>, Status> {
        if let Some(fields) = &self.headers {
            let header = object.header(scope.storage()?.cache.describe());
            if !header.unreadable {
                return Ok(fields.iter().map(|field| header.field(field).unwrap_or("").into()).collect());
            }
        }
        aside(object.value().len(), || {
            let read = self.reader.must_read(object)?;
            Ok(self.by.iter().map(|path| text(path.find(&read))).collect())
        })
    }

    fn reply(&self, scope: &Scope, revision: i64, sum: Sum, groups: &HashMap<Vec<Str>, Sum>) -> Reply {
        let kind = GroupVersionKind::new("lists.ferrokube.io", "v1alpha1", "Count");
        let mut answer = sum.to_map();
        answer.insert("kind", kind.kind.clone());
        answer.insert("apiVersion", kind.group_version().to_string());
        let mut metadata = Map::new();
        metadata.insert("resourceVersion", revision.to_string());
        answer.insert("metadata", metadata);
        if !self.by.is_empty() {
            let mut sorted: Vec<(&Vec<Str>, &Sum)> = groups.iter().collect();
            sorted.sort_by(|(one, a), (other, b)| b.count.cmp(&a.count).then_with(|| one.cmp(other)));
            let group = |(values, sum): (&Vec<Str>, &Sum)| {
                let mut group = sum.to_map();
                group.insert("values", Value::List(values.iter().map(|value| Value::String(value.clone())).collect()));
                Value::Map(group)
            };
            let by: Vec<Value> = self.by.iter().map(|path| Value::from(path.to_string())).collect();
            answer.insert("groupBy", Value::List(by));
            answer.insert("groups", Value::List(sorted.into_iter().map(group).collect()));
        }
        Reply::value(StatusCode::OK, &scope.accept.as_is(), &kind, &Value::Map(answer))
    }
}

impl Sum {
    fn add(&mut self, object: &Object) {
        self.count += 1;
        self.bytes += object.value().len();
    }

    fn to_map(self) -> Map {
        let mut map = Map::new();
        map.insert("count", self.count);
        map.insert("bytes", self.bytes);
        map
    }
}

/// A count is JSON, YAML or CBOR.
fn check_form(scope: &Scope) -> Result<(), Status> {
    if scope.accept.media == Media::Proto || scope.accept.transform != Transform::None {
        return Err(Status::not_acceptable(
            "a count is sent as JSON, YAML or CBOR, and neither as a Table nor as metadata",
        ));
    }
    Ok(())
}

/// Whether the headers of objects, which selectors look at, have all of these fields.
fn are_in_headers(scope: &Scope, fields: &[Str]) -> bool {
    let Some(storage) = &scope.resource.storage else { return false };
    let selectable = storage.strategy.selectable_fields();
    let is_known =
        |field: &Str| matches!(field.as_str(), "metadata.name" | "metadata.namespace") || selectable.contains(field);
    scope.resource.conversion.is_none() && storage.direct().is_some() && fields.iter().all(is_known)
}

/// A value as the text of a group; "" for what is not there.
fn text(value: Option<&Value>) -> Str {
    match value {
        None | Some(Value::Null) => Str::default(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => {
            let mut json = Vec::new();
            codec::json::encode(other, None, &mut json);
            String::from_utf8_lossy(&json).into_owned().into()
        }
    }
}
