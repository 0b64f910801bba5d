//! Lists as streams: the beginning of the document, each item when it is sent, the end of the document.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use cache::Object;
use futures::StreamExt;
use http::StatusCode;
use object::{GroupVersionKind, Meta, Status, Value};
use schema::Schema;

use registry::Prepared;

use crate::list::{self, Page, list_kind, metadata};
use crate::media::{Accept, Media, Transform};
use crate::reply::{Aborted, Reply, ReplyBody};
use crate::scope::Scope;
use crate::{render, table, wire};

/// Lists are sent in chunks of about this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// Room for a chunk and the object that exceeds it, so that most chunks are never moved to a larger place.
const CHUNK_ROOM: usize = CHUNK_BYTES + 16 * 1024;
/// How many objects are decoded at once for a form that is not kept in the cache.
const DECODED_MAX: usize = 500;

/// The document around the items of a list.
struct Frame {
    head: Bytes,
    separator: &'static str,
    tail: Bytes,
}

/// The list as compact JSON, joined from the encoded objects that GET and WATCH share.
pub async fn json(scope: &Arc<Scope>, page: Page) -> Result<Reply, Status> {
    let list = whole_list(scope, &page);
    let (head, tail) = wire::json_list(&list_kind(scope), list.metadata(), scope.resource.form.is_structured());
    let items = if scope.resource.conversion.is_some() { Items::Converted } else { Items::Stored };
    join(scope, page, Frame { head, separator: ",", tail }, items).await
}

/// The list as CBOR, which sorts the members of maps.
pub fn cbor(scope: &Scope, page: &Page) -> Result<Reply, Status> {
    let items = shown(scope, &page.objects).map_err(|status| list::failed(scope, &page.objects, status))?;
    let mut list = whole_list(scope, page);
    list.set(&["items"], items);
    Ok(whole(scope, &list))
}

/// Tables, partial metadata, YAML and indented JSON. The page has objects.
pub async fn text(scope: &Arc<Scope>, page: Page) -> Result<Reply, Status> {
    let (list, kind, field) = around(scope, &page)?;
    let schema = match scope.accept.transform {
        Transform::None => scope.resource.form.list_schema(&kind),
        _ => schema::builtin().schema(&kind),
    };
    let layout = Layout::of(&scope.accept);
    let frame = layout.frame(&crate::reply::encode(&scope.accept, schema, &list), field);
    let frame = frame.ok_or_else(|| Status::internal("the list has no place for its items"))?;
    let schema = schema.and_then(|schema| schema.child(field)?.items());
    join(scope, page, frame, Items::Text { layout, schema }).await
}

/// A list without items.
pub fn empty(scope: &Scope, page: &Page) -> Reply {
    let mut list = whole_list(scope, page);
    list.set(&["items"], Value::List(Vec::new()));
    whole(scope, &list)
}

fn whole(scope: &Scope, list: &Value) -> Reply {
    let schema = scope.resource.form.list_schema(&list_kind(scope));
    Reply::encoded(StatusCode::OK, &scope.accept, schema, list)
}

/// The type and metadata of a list of whole objects. Unstructured ones always have `continue`, which is "" at the end.
fn whole_list(scope: &Scope, page: &Page) -> Value {
    let mut list = metadata(page);
    list.set_type(&list_kind(scope));
    if !scope.resource.form.is_structured() {
        list.metadata_mut().insert("continue", page.continue_token.as_str());
    }
    list
}

/// A list without its items, its kind, and the field that the items belong in.
fn around(scope: &Scope, page: &Page) -> Result<(Value, GroupVersionKind, &'static str), Status> {
    let meta = |kind| GroupVersionKind::new("meta.k8s.io", "v1", kind);
    let (mut list, kind, field) = match &scope.accept.transform {
        Transform::Table(version) => (table::without_rows(scope, version, &metadata(page)), meta("Table"), "rows"),
        Transform::PartialList(version) => {
            let mut list = metadata(page);
            list.set_type(&GroupVersionKind::new("meta.k8s.io", version.as_str(), "PartialObjectMetadataList"));
            (list, meta("PartialObjectMetadataList"), "items")
        }
        _ => (whole_list(scope, page), list_kind(scope), "items"),
    };
    list.set(&[field], Value::List(Vec::new()));
    Ok((list, kind, field))
}

/// The items as the client wants them.
async fn shown_items(scope: &Scope, objects: &[Arc<Object>]) -> Result<Vec<Value>, Status> {
    match &scope.accept.transform {
        Transform::Table(version) => table::rows(scope, version, &list::read(scope, objects)?),
        Transform::PartialList(version) => {
            let objects = list::read(scope, objects)?;
            Ok(objects.iter().map(|object| table::partial(scope, object, version)).collect())
        }
        _ => shown(scope, objects),
    }
}

/// The objects in the requested version; structured ones without their type, which the list states.
fn shown(scope: &Scope, objects: &[Arc<Object>]) -> Result<Vec<Value>, Status> {
    let shown = objects.iter().map(|object| {
        let mut item = render::value(&scope.resource, object, object.revision())?;
        scope.resource.form.strip_type(&mut item);
        Ok(item)
    });
    shown.collect()
}

/// How text is laid out.
#[derive(Clone, Copy)]
enum Layout {
    Compact,
    Indented,
    Yaml,
}

impl Layout {
    fn of(accept: &Accept) -> Layout {
        match (accept.media, accept.pretty) {
            (Media::Yaml, _) => Layout::Yaml,
            (_, true) => Layout::Indented,
            (_, false) => Layout::Compact,
        }
    }

    /// Splits an encoded list at its empty field of items. The text of the field cannot stand anywhere else: inside of a string
    /// its quotes would be escaped, and in YAML it would be indented.
    fn frame(self, list: &Bytes, field: &str) -> Option<Frame> {
        let (empty, opened, separator, closed) = match self {
            Layout::Compact => (format!(r#""{field}":[]"#), format!(r#""{field}":["#), ",", "]"),
            Layout::Indented => (format!(r#""{field}": []"#), format!("\"{field}\": [\n    "), ",\n    ", "\n  ]"),
            Layout::Yaml => (format!("\n{field}: []\n"), format!("\n{field}:\n"), "", ""),
        };
        let at = memchr::memmem::find(list, empty.as_bytes())?;
        let head = [&list[..at], opened.as_bytes()].concat();
        let tail = [closed.as_bytes(), &list[at + empty.len()..]].concat();
        Some(Frame { head: head.into(), separator, tail: tail.into() })
    }

    /// One item as it stands in the list.
    fn item(self, item: &Value, schema: Option<Schema<'_>>) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        match self {
            Layout::Compact => codec::json::encode(item, schema, &mut out),
            Layout::Indented => {
                let mut lines = Vec::with_capacity(1024);
                codec::json::encode_pretty(item, schema, &mut lines);
                for (n, line) in lines.split(|byte| *byte == b'\n').enumerate() {
                    out.extend_from_slice(if n > 0 { b"\n    " } else { b"" });
                    out.extend_from_slice(line);
                }
            }
            Layout::Yaml => {
                let printed = schema.map_or_else(|| item.clone(), |schema| codec::json::printed(item, schema));
                codec::yaml::encode(&Value::List(vec![printed]), None, &mut out);
            }
        }
        out
    }
}

/// Where the items of a list come from.
enum Items {
    /// The encoded objects that GET and WATCH share. Nothing is converted for them, so each is written when its turn comes.
    Stored,
    /// The same for a version that objects are not stored in: as many as make a chunk are converted ahead of being written.
    Converted,
    /// Made for this request.
    Text { layout: Layout, schema: Option<Schema<'static>> },
}

/// A list that is being sent.
struct Joined {
    scope: Arc<Scope>,
    objects: Vec<Arc<Object>>,
    next: usize,
    frame: Frame,
    items: Items,
    /// What a webhook converted has to be known until the last object is encoded.
    _prepared: Prepared,
    done: bool,
}

/// Joins the items chunk by chunk. What goes wrong in the first chunk is the answer; later the stream is cut.
async fn join(scope: &Arc<Scope>, page: Page, frame: Frame, items: Items) -> Result<Reply, Status> {
    let Page { objects, prepared, .. } = page;
    let estimate = objects.iter().map(|object| object.value().len()).sum();
    let mut joined = Joined { scope: scope.clone(), objects, next: 0, frame, items, _prepared: prepared, done: false };
    let first = match joined.next_chunk().await {
        Some(Err(status)) => return Err(list::failed(scope, &joined.objects, status)),
        Some(Ok(chunk)) => Some(Ok(chunk)),
        None => None,
    };
    let rest = futures::stream::unfold(joined, |mut joined| async move {
        let chunk = joined.next_chunk().await?;
        Some((chunk.map_err(|_| Aborted), joined))
    });
    let chunks = futures::stream::iter(first).chain(rest);
    let body = ReplyBody::Stream { chunks: chunks.boxed(), estimate };
    Ok(Reply::new(StatusCode::OK, scope.accept.media.content_type(), body))
}

impl Joined {
    async fn next_chunk(&mut self) -> Option<Result<Bytes, Status>> {
        if self.done {
            return None;
        }
        let mut out = BytesMut::with_capacity(CHUNK_ROOM);
        out.put_slice(&std::mem::take(&mut self.frame.head));
        while out.len() < CHUNK_BYTES {
            if self.next == self.objects.len() {
                out.put_slice(&self.frame.tail);
                self.done = true;
                break;
            }
            let written = match self.items {
                Items::Stored => self.write_stored(&mut out),
                Items::Converted | Items::Text { .. } => self.write_next(&mut out).await,
            };
            if let Err(status) = written {
                self.done = true;
                return Some(Err(status));
            }
        }
        Some(Ok(out.freeze()))
    }

    /// Fills a chunk with objects that need no conversion.
    fn write_stored(&mut self, out: &mut BytesMut) -> Result<(), Status> {
        while out.len() < CHUNK_BYTES
            && let Some(object) = self.objects.get(self.next)
        {
            let separator = if self.next == 0 { "" } else { self.frame.separator };
            out.put_slice(separator.as_bytes());
            render::write_body(&self.scope.resource, object, Media::Json, &mut |body| out.put_slice(body))?;
            self.next += 1;
        }
        Ok(())
    }

    /// Converts and decodes as many objects as are handled at once, then writes them.
    async fn write_next(&mut self, out: &mut BytesMut) -> Result<(), Status> {
        let objects = &self.objects[self.next..];
        let items = match &self.items {
            Items::Text { layout, schema } => {
                let objects = &objects[..objects.len().min(DECODED_MAX)];
                let items = shown_items(&self.scope, objects).await?;
                items.iter().map(|item| layout.item(item, *schema).into()).collect()
            }
            Items::Stored | Items::Converted => {
                converted(&self.scope, &objects[..chunk_of(objects)], Media::Json).await?
            }
        };
        for item in items {
            let separator = if self.next == 0 { "" } else { self.frame.separator };
            out.put_slice(separator.as_bytes());
            out.put_slice(&item);
            self.next += 1;
        }
        Ok(())
    }
}

/// How many of the objects make a chunk, judged by what they take up in the store.
fn chunk_of(objects: &[Arc<Object>]) -> usize {
    let mut bytes = 0;
    let enough = objects.iter().position(|object| {
        bytes += object.value().len();
        bytes >= CHUNK_BYTES
    });
    enough.map_or(objects.len(), |last| last + 1)
}

/// The encoded bodies of objects in the requested version. Converting comes before anything is written.
async fn converted(scope: &Scope, objects: &[Arc<Object>], media: Media) -> Result<Vec<Bytes>, Status> {
    objects.iter().map(|object| render::body(&scope.resource, object, object.revision(), media)).collect()
}

/// Protobuf puts lengths in front, so the items are made before the first byte is sent; they are shared with the cache.
pub async fn proto(scope: &Arc<Scope>, page: Page) -> Result<Reply, Status> {
    let media = Media::Proto;
    let bodies = converted(scope, &page.objects, media).await;
    let bodies = bodies.map_err(|status| list::failed(scope, &page.objects, status))?;
    let kind = list_kind(scope);
    let items: usize = bodies.iter().map(|body| codec::proto::list_item_len(body.len())).sum();
    let list = metadata(&page);
    let mut head = Vec::with_capacity(256);
    let schema = schema::builtin().schema(&kind).and_then(|schema| schema.child("metadata"));
    let written = schema.ok_or_else(|| "the list has no protobuf form".to_string()).and_then(|schema| {
        let metadata = (list.metadata(), schema);
        codec::proto::write_list_head(&kind.group_version().to_string(), &kind.kind, metadata, items, &mut head)
            .map_err(|error| error.to_string())
    });
    written.map_err(Status::internal)?;
    let chunks = futures::stream::iter(proto_chunks(head, bodies).map(Ok));
    let body = ReplyBody::Stream { chunks: chunks.boxed(), estimate: items };
    Ok(Reply::new(StatusCode::OK, media.content_type(), body))
}

/// The head, then the items, as many at a time as make a chunk.
fn proto_chunks(head: Vec<u8>, bodies: Vec<Bytes>) -> impl Iterator<Item = Bytes> + Send {
    let mut bodies = bodies.into_iter();
    let mut started = Some(head);
    std::iter::from_fn(move || {
        let mut out = started.take().or_else(|| (bodies.len() > 0).then(Vec::new))?;
        out.reserve(CHUNK_ROOM);
        while out.len() < CHUNK_BYTES
            && let Some(body) = bodies.next()
        {
            codec::proto::write_list_item(&body, &mut out);
        }
        if bodies.len() == 0 {
            out.extend_from_slice(codec::proto::LIST_TAIL);
        }
        Some(out.into())
    })
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;

    /// Joined from its parts, a list reads as if it had been encoded whole.
    #[test]
    fn joined_lists_are_the_whole_ones() {
        let long = "word ".repeat(40);
        let items = vec![
            value!({"metadata": {"name": "a"}, "data": {"k": "two\nlines\n\nand a blank one\n", "items": "\"items\":[]"}}),
            value!({"metadata": {"name": "b"}, "data": {"items: []": (long.as_str()), "tab": "\tx", "quote": "'\"\\"}}),
            value!({"metadata": {"name": "c"}, "binaryData": {"x": "AAEC"}}),
        ];
        let kind = GroupVersionKind::new("", "v1", "ConfigMapList");
        let typed = schema::builtin().schema(&kind);
        for schema in [typed, None] {
            for (media, pretty) in [(Media::Json, false), (Media::Json, true), (Media::Yaml, false)] {
                let mut accept = Accept::json();
                (accept.media, accept.pretty) = (media, pretty);
                let mut list = value!({"metadata": {"resourceVersion": "7", "continue": "\"items\": []"}, "items": []});
                list.set_type(&kind);
                let layout = Layout::of(&accept);
                let frame = layout.frame(&crate::reply::encode(&accept, schema, &list), "items").unwrap();
                let schema_of_items = schema.and_then(|schema| schema.child("items")?.items());
                let parts: Vec<Vec<u8>> = items.iter().map(|item| layout.item(item, schema_of_items)).collect();
                let joined = [&frame.head[..], &parts.join(frame.separator.as_bytes()), &frame.tail[..]].concat();
                list.set(&["items"], items.clone());
                let whole = crate::reply::encode(&accept, schema, &list);
                assert_eq!(String::from_utf8_lossy(&joined), String::from_utf8_lossy(&whole));
            }
        }
    }
}
