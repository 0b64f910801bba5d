//! How custom resources are stored: JSON (or CBOR, behind a feature gate) in the storage version, as upstream stores them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object::{GroupVersion, GroupVersionKind, Meta, Str, Value};
use registry::{Pace, Shape, StoredCodec, custom};
use schema::Schema;

use crate::conversion::Converter;

/// The schemas of all versions of a definition; None where unknown fields are kept everywhere.
pub struct Schemas {
    pub versions: Vec<(Str, Shape)>,
    pub preserve_unknown: bool,
}

impl Schemas {
    pub fn get(&self, version: &str) -> Option<&Shape> {
        self.versions.iter().find(|(name, _)| name == version).map(|(_, shape)| shape)
    }

    /// Drops the fields of a converted object that the version does not know.
    pub fn prune(&self, object: &mut Value, version: &GroupVersion) {
        if let Some(shape) = self.get(&version.version).filter(|_| !self.preserve_unknown) {
            custom::settle_converted(shape.schema(), object);
        }
    }
}

/// Reads and writes the objects of one version.
pub struct VersionCodec {
    /// The version that requests are in.
    pub kind: GroupVersionKind,
    /// The version that is stored.
    pub stored: GroupVersion,
    pub schemas: Arc<Schemas>,
    /// None where conversion changes the version's name only.
    pub converter: Option<Arc<Converter>>,
    /// Objects are written as CBOR instead of JSON.
    pub cbor: bool,
}

#[async_trait]
impl StoredCodec for VersionCodec {
    async fn encode(&self, object: &Value) -> Result<Bytes, String> {
        if self.stored == self.kind.group_version() {
            return self.written(object);
        }
        self.written(&self.convert(object, &self.stored).await?)
    }

    fn decode(&self, bytes: &Bytes) -> Result<Value, String> {
        let (mut object, to) = (self.settled(read(bytes)?)?, self.kind.group_version());
        if object.api_version() != to.to_string() {
            self.rename(&mut object, &to);
            self.schemas.prune(&mut object, &to);
        }
        Ok(object)
    }

    fn as_decoded(&self, mut object: Value) -> Option<Value> {
        if self.cbor || self.stored != self.kind.group_version() {
            return None;
        }
        open_managed_fields(&mut object);
        // What cannot be settled is told by `decode`.
        codec::json::is_exact(&object).then(|| self.settled(object).ok())?
    }

    fn converts_by_webhook(&self) -> bool {
        self.converter.is_some()
    }

    async fn converted(&self, stored: &[Bytes]) -> Vec<Option<Result<Value, String>>> {
        let mut all = vec![None; stored.len()];
        let Some(converter) = &self.converter else { return all };
        let to = self.kind.group_version();
        // How objects of this version begin that need no conversion: fields are sorted in what is stored.
        let current = format!(r#"{{"apiVersion":"{to}","#);
        let (mut places, mut objects, mut pace) = (Vec::new(), Vec::new(), Pace::begin());
        for (place, bytes) in all.iter_mut().zip(stored).filter(|(_, bytes)| !bytes.starts_with(current.as_bytes())) {
            // What cannot be read at all is told by `decode`.
            let object = read(bytes).and_then(|object| self.settled(object));
            if let Some(object) = object.ok().filter(|object| object.api_version() != to.to_string()) {
                places.push(place);
                objects.push(object);
            }
            pace.worked(bytes.len()).await;
        }
        for (place, converted) in places.into_iter().zip(converter.convert(&objects, &to).await) {
            *place = Some(converted.map(|mut converted| {
                self.schemas.prune(&mut converted, &to);
                converted
            }));
        }
        all
    }

    async fn convert(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        let mut converted = self.convert_unpruned(object, to).await?;
        if converted.api_version() != object.api_version() {
            self.schemas.prune(&mut converted, to);
        }
        Ok(converted)
    }

    async fn convert_unpruned(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        let mut object = object.clone();
        if object.api_version() == to.to_string() {
            return Ok(object);
        }
        match &self.converter {
            Some(converter) => converter.convert_one(&object, to).await,
            None => {
                self.rename(&mut object, to);
                Ok(object)
            }
        }
    }

    fn schema_in(&self, version: &str) -> Option<Schema<'_>> {
        self.schemas.get(version).map(Shape::schema)
    }
}

/// CBOR begins with its tag, anything else is JSON: which of them is written is a matter of a feature gate.
fn read(bytes: &Bytes) -> Result<Value, String> {
    let decoded = match bytes.starts_with(codec::cbor::MAGIC) {
        true => codec::cbor::decode(bytes, None, &mut codec::Notes::ignore()),
        false => codec::json::decode(bytes, None, &mut codec::Notes::ignore()),
    };
    decoded.map_err(|error| error.to_string())
}

/// Managed fields that were just tracked are text, which a custom resource that was read has none of.
fn open_managed_fields(object: &mut Value) {
    let entries = object.metadata_mut().get_mut("managedFields").and_then(Value::as_list_mut);
    for fields in entries.into_iter().flatten().filter_map(|entry| entry.get_mut("fieldsV1")) {
        if let Value::Raw(raw) = fields {
            *fields = codec::json::open(raw);
        }
    }
}

/// Most objects are encoded in no more than this.
const ENCODED_BYTES: usize = 4 * 1024;

impl VersionCodec {
    fn written(&self, object: &Value) -> Result<Bytes, String> {
        let mut out = Vec::with_capacity(ENCODED_BYTES);
        if self.cbor {
            codec::cbor::encode(object, None, &mut out).map_err(|error| error.to_string())?;
        } else {
            codec::json::encode(object, None, &mut out);
            out.push(b'\n');
        }
        Ok(out.into())
    }

    /// A stored object in the version it was stored in, pruned and with defaults.
    fn settled(&self, mut object: Value) -> Result<Value, String> {
        let version = GroupVersion::parse(object.api_version())?;
        if let Some(shape) = self.schemas.get(&version.version) {
            custom::settle_stored(shape.schema(), &mut object, self.schemas.preserve_unknown)?;
            schema::default(shape.schema(), &mut object);
        }
        // Very old objects have no generation.
        if object.generation() == 0 {
            object.set_generation(1);
        }
        Ok(object)
    }

    /// The object in another version, where nothing but the version's name changes.
    fn rename(&self, object: &mut Value, to: &GroupVersion) {
        object.set_type(&to.with_kind(&self.kind.kind));
    }
}
