//! Lists as streams: the beginning of the document, each item when it is sent, the end of the document.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use cache::Object;
use futures::StreamExt;
use http::StatusCode;
use object::{GroupVersionKind, Meta, Status, Value};
use schema::Schema;

use registry::{Pace, Readable, Readables};

use crate::answers::Room;
use crate::history::Unread;
use crate::large::aside;
use crate::list::{self, Page, list_kind, metadata};
use crate::media::{Accept, Media, Transform};
use crate::reply::{Aborted, Reply, ReplyBody};
use crate::scope::Scope;
use crate::{render, table, wire};

/// Lists are sent in chunks of about this size.
const CHUNK_BYTES: usize = 64 * 1024;
/// Room for a chunk and the object that exceeds it, so that most chunks are never moved to a larger place.
const CHUNK_ROOM: usize = CHUNK_BYTES + 16 * 1024;
/// So much is done between two looks at whether it is the turn of other requests.
const PIECE_BYTES: usize = 16 * 1024;
/// Of items that have to be made before their list begins, so many bytes are kept. Others are made again when they are sent.
const MADE_BYTES: usize = 1024 * 1024;

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
pub async fn cbor(scope: &Scope, mut page: Page) -> Result<Reply, Status> {
    page.read_all().await?;
    let mut pace = Pace::begin();
    let mut items = Vec::with_capacity(page.objects.len());
    let mut bytes = 0;
    let mut batches = scope.storage()?.batches(&page.objects);
    while let Some(batch) = batches.next().await {
        for object in batch.iter() {
            match aside(object.value().len(), || shown(scope, &[object])) {
                Ok(shown) => items.extend(shown),
                Err(status) => return Err(list::failed(scope, &batch, batches.rest(), status).await),
            }
            pace.worked(object.value().len()).await;
            bytes += object.value().len();
        }
    }
    let mut list = whole_list(scope, &page);
    list.set(&["items"], items);
    Ok(aside(bytes, || whole(scope, &list)))
}

/// Tables, partial metadata, YAML and indented JSON. The page has objects.
pub async fn text(scope: &Arc<Scope>, page: Page) -> Result<Reply, Status> {
    let (list, kind, field) = around(scope, &page)?;
    let schema = match scope.accept.transform {
        Transform::None => scope.resource.form.list_schema(&kind),
        _ => schema::builtin().schema(&kind),
    };
    let layout = TextLayout::of(&scope.accept);
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
fn shown_items(scope: &Scope, objects: &[Readable<'_>]) -> Result<Vec<Value>, Status> {
    let read = || -> Result<Vec<Value>, Status> {
        let storage = scope.storage()?;
        objects.iter().map(|object| Ok(storage.decode(*object)?)).collect()
    };
    match &scope.accept.transform {
        Transform::Table(version) => table::rows(scope, version, &read()?),
        Transform::PartialList(version) => {
            Ok(read()?.iter().map(|object| table::partial(scope, object, version)).collect())
        }
        _ => shown(scope, objects),
    }
}

/// The objects in the requested version; structured ones without their type, which the list states.
fn shown(scope: &Scope, objects: &[Readable<'_>]) -> Result<Vec<Value>, Status> {
    let shown = objects.iter().map(|object| {
        let mut item = render::value(&scope.resource, *object, object.revision())?;
        scope.project(&mut item);
        scope.resource.form.strip_type(&mut item);
        Ok(item)
    });
    shown.collect()
}

/// How text is laid out.
#[derive(Clone, Copy)]
enum TextLayout {
    Compact,
    Indented,
    Yaml,
}

impl TextLayout {
    fn of(accept: &Accept) -> TextLayout {
        match (accept.media, accept.pretty) {
            (Media::Yaml, _) => TextLayout::Yaml,
            (_, true) => TextLayout::Indented,
            (_, false) => TextLayout::Compact,
        }
    }

    /// Splits an encoded list at its empty field of items. The text of the field cannot stand anywhere else: inside of a string
    /// its quotes would be escaped, and in YAML it would be indented.
    fn frame(self, list: &Bytes, field: &str) -> Option<Frame> {
        let (empty, opened, separator, closed) = match self {
            TextLayout::Compact => (format!(r#""{field}":[]"#), format!(r#""{field}":["#), ",", "]"),
            TextLayout::Indented => (format!(r#""{field}": []"#), format!("\"{field}\": [\n    "), ",\n    ", "\n  ]"),
            TextLayout::Yaml => (format!("\n{field}: []\n"), format!("\n{field}:\n"), "", ""),
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
            TextLayout::Compact => codec::json::encode(item, schema, &mut out),
            TextLayout::Indented => {
                let mut lines = Vec::with_capacity(1024);
                codec::json::encode_pretty(item, schema, &mut lines);
                for (n, line) in lines.split(|byte| *byte == b'\n').enumerate() {
                    out.extend_from_slice(if n > 0 { b"\n    " } else { b"" });
                    out.extend_from_slice(line);
                }
            }
            TextLayout::Yaml => {
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
    Text { layout: TextLayout, schema: Option<Schema<'static>> },
    /// Messages whose length was told before; the first of them are kept.
    Proto { made: VecDeque<Bytes> },
}

/// A list that is being sent.
struct Joined {
    scope: Arc<Scope>,
    /// Objects that can be encoded, and which of them is the next.
    ready: Readables<Vec<Arc<Object>>>,
    next: usize,
    /// Objects that follow them: where a webhook converts them, as many as are in memory at once are converted together.
    waiting: Vec<Arc<Object>>,
    /// Objects that are read from the store when those before them have been written.
    rest: Option<Unread>,
    frame: Frame,
    /// Text before the next item.
    separator: &'static str,
    items: Items,
    /// Objects that only this list keeps in memory.
    _room: Option<Room>,
    pace: Pace,
    done: bool,
}

/// Joins the items chunk by chunk. What goes wrong in the first chunk is the answer; later the stream is cut.
async fn join(scope: &Arc<Scope>, page: Page, frame: Frame, items: Items) -> Result<Reply, Status> {
    let Page { objects, rest, .. } = page;
    let estimate = objects.iter().map(|object| object.value().len()).sum();
    let answers = scope.api.answers.clone();
    let room = rest.is_some().then(|| answers.take(scope.user(), estimate));
    let mut joined = Joined {
        scope: scope.clone(),
        ready: Readables::default(),
        next: 0,
        waiting: objects,
        rest,
        frame,
        separator: "",
        items,
        _room: room,
        pace: Pace::begin(),
        done: false,
    };
    let first = match joined.next_chunk().await {
        Some(Err(status)) => return Err(list::failed(scope, &joined.ready, &joined.waiting, status).await),
        Some(Ok(chunk)) => Some(Ok(answers.take(scope.user(), 0).hold(chunk))),
        None => None,
    };
    let rest = futures::stream::unfold(joined, |mut joined| async move {
        if joined.done {
            return None;
        }
        let answers = &joined.scope.api.answers;
        let room = answers.room(joined.scope.user(), CHUNK_BYTES).await;
        let chunk = joined.next_chunk().await?;
        Some((chunk.map(|chunk| room.hold(chunk)).map_err(|_| Aborted), joined))
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
        let mut out = Vec::with_capacity(CHUNK_ROOM);
        out.put_slice(&std::mem::take(&mut self.frame.head));
        while out.len() < CHUNK_BYTES {
            match self.write_piece(&mut out).await {
                Ok(true) => {}
                Ok(false) => {
                    out.put_slice(&self.frame.tail);
                    self.done = true;
                    break;
                }
                Err(status) => {
                    self.done = true;
                    return Some(Err(status));
                }
            }
        }
        Some(Ok(out.into()))
    }

    /// Writes some more items, and lets other requests run if it is their turn. False at the end.
    async fn write_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, Status> {
        if self.next == self.ready.objects().len() && !self.make_ready().await? {
            return Ok(false);
        }
        let first = self.next;
        match self.items {
            Items::Stored => self.write_stored(out)?,
            Items::Converted | Items::Text { .. } | Items::Proto { .. } => self.write_next(out)?,
        }
        let bytes = self.ready.objects()[first..self.next].iter().map(|object| object.value().len()).sum();
        self.pace.worked(bytes).await;
        Ok(true)
    }

    /// Makes more objects ready, now that the others were written, and reads them from the store if need be. False if there are
    /// none.
    async fn make_ready(&mut self) -> Result<bool, Status> {
        if let (true, Some(rest)) = (self.waiting.is_empty(), &mut self.rest) {
            self.waiting = rest.read().await?;
        }
        let storage = self.scope.storage()?;
        let rest = self.waiting.split_off(storage.batch_len(&self.waiting));
        self.ready = storage.prepare(std::mem::replace(&mut self.waiting, rest)).await;
        self.next = 0;
        Ok(!self.ready.objects().is_empty())
    }

    /// Writes objects that need no conversion.
    fn write_stored(&mut self, out: &mut Vec<u8>) -> Result<(), Status> {
        let enough = CHUNK_BYTES.min(out.len() + PIECE_BYTES);
        while out.len() < enough
            && let Some(object) = self.ready.get(self.next)
        {
            out.put_slice(self.separator.as_bytes());
            self.separator = self.frame.separator;
            render::write_body(&self.scope.resource, object, Media::Json, &mut |body| out.put_slice(body))?;
            self.next += 1;
        }
        Ok(())
    }

    /// Converts and decodes as many objects as are handled at once, then writes them.
    fn write_next(&mut self, out: &mut Vec<u8>) -> Result<(), Status> {
        let (count, bytes) = piece_of(&self.ready.objects()[self.next..]);
        let objects: Vec<Readable<'_>> = self.ready.iter().skip(self.next).take(count).collect();
        let items: Vec<Bytes> = match &mut self.items {
            Items::Text { layout, schema } => aside(bytes, || {
                let items = shown_items(&self.scope, &objects)?;
                Ok::<_, Status>(items.iter().map(|item| layout.item(item, *schema).into()).collect())
            })?,
            Items::Proto { made } => {
                let item = |object| made.pop_front().map_or_else(|| message(&self.scope, object), Ok);
                objects.into_iter().map(item).collect::<Result<_, _>>()?
            }
            Items::Stored | Items::Converted => {
                let body =
                    |object: Readable<'_>| render::body(&self.scope.resource, object, object.revision(), Media::Json);
                objects.into_iter().map(body).collect::<Result<_, _>>()?
            }
        };
        for item in items {
            out.put_slice(self.separator.as_bytes());
            self.separator = self.frame.separator;
            match self.items {
                Items::Proto { .. } => codec::proto::write_list_item(&item, out),
                _ => out.put_slice(&item),
            }
            self.next += 1;
        }
        Ok(())
    }
}

/// How many of the objects are handled at once, and how much they take up in the store.
fn piece_of(objects: &[Arc<Object>]) -> (usize, usize) {
    let mut bytes = 0;
    let enough = objects.iter().position(|object| {
        bytes += object.value().len();
        bytes >= PIECE_BYTES
    });
    (enough.map_or(objects.len(), |last| last + 1), bytes)
}

/// An object as it stands in a protobuf list: whole, or its metadata.
fn message(scope: &Scope, object: Readable<'_>) -> Result<Bytes, Status> {
    let Transform::PartialList(version) = &scope.accept.transform else {
        return render::projected_body(scope, object, object.revision(), Media::Proto);
    };
    let kind = GroupVersionKind::new("meta.k8s.io", "v1", "PartialObjectMetadata");
    let schema = schema::builtin().schema(&kind).ok_or_else(|| Status::internal("metadata has no protobuf form"))?;
    aside(object.value().len(), || {
        let partial = table::partial(scope, &scope.storage()?.decode(object)?, version);
        let mut out = Vec::with_capacity(1024);
        codec::proto::encode_message(&partial, schema, &mut out).map_err(Status::internal)?;
        Ok(out.into())
    })
}

/// Protobuf puts the length of the list in front, so the items are made before the first byte is sent. They are shared with the
/// cache, or else made once more for sending.
pub async fn proto(scope: &Arc<Scope>, page: Page) -> Result<Reply, Status> {
    let mut made = VecDeque::new();
    let (mut made_bytes, mut items) = (0, 0);
    let mut pace = Pace::begin();
    let mut rest = page.rest.clone();
    let mut read = page.objects.clone();
    loop {
        let mut batches = scope.storage()?.batches(&read);
        while let Some(batch) = batches.next().await {
            for object in batch.iter() {
                let message = match message(scope, object) {
                    Ok(message) => message,
                    Err(status) => return Err(list::failed(scope, &batch, batches.rest(), status).await),
                };
                items += codec::proto::list_item_len(message.len());
                if made_bytes < MADE_BYTES {
                    made_bytes += message.len();
                    made.push_back(message);
                }
                pace.worked(object.value().len()).await;
            }
        }
        read = match &mut rest {
            Some(rest) => rest.read().await?,
            None => Vec::new(),
        };
        if read.is_empty() {
            break;
        }
    }
    let (list, kind, _) = around(scope, &page)?;
    let version = list.api_version().to_string();
    let mut head = Vec::with_capacity(256);
    let schema = schema::builtin().schema(&kind).and_then(|schema| schema.child("metadata"));
    let schema = schema.ok_or_else(|| Status::internal("the list has no protobuf form"))?;
    let metadata = (list.metadata(), schema);
    codec::proto::write_list_head(&version, &kind.kind, metadata, items, &mut head).map_err(Status::internal)?;
    let frame = Frame { head: head.into(), separator: "", tail: Bytes::from_static(codec::proto::LIST_TAIL) };
    join(scope, page, frame, Items::Proto { made }).await
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
                let layout = TextLayout::of(&accept);
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
