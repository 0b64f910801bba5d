//! How custom resources are stored: JSON in the storage version, as upstream stores them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object::{GroupVersion, GroupVersionKind, Meta, Str, Value};
use registry::{Shape, StoredCodec, custom};

use crate::conversion::Converter;

/// The schemas of all versions of a definition; None where unknown fields are kept everywhere.
pub struct Schemas {
    pub versions: Vec<(Str, Shape)>,
    pub preserve_unknown: bool,
}

impl Schemas {
    fn get(&self, version: &str) -> Option<&Shape> {
        self.versions.iter().find(|(name, _)| name == version).map(|(_, shape)| shape)
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
}

#[async_trait]
impl StoredCodec for VersionCodec {
    fn encode(&self, object: &Value) -> Result<Bytes, String> {
        let mut out = Vec::with_capacity(512);
        if self.stored == self.kind.group_version() {
            codec::json::encode(object, None, &mut out);
        } else {
            let converted = self.convert(object.clone(), &self.stored)?;
            codec::json::encode(&converted, None, &mut out);
        }
        out.push(b'\n');
        Ok(out.into())
    }

    fn decode(&self, bytes: &Bytes) -> Result<Value, String> {
        let decoded = codec::json::decode(bytes, None, &mut codec::Notes::ignore());
        let object = self.settled(decoded.map_err(|error| error.to_string())?)?;
        self.convert(object, &self.kind.group_version())
    }

    fn prepares(&self) -> bool {
        self.converter.is_some()
    }

    async fn prepare(&self, stored: &[Bytes]) -> Result<(), String> {
        let Some(converter) = &self.converter else { return Ok(()) };
        let decoded = stored.iter().filter_map(|bytes| {
            let object = codec::json::decode(bytes, None, &mut codec::Notes::ignore()).ok()?;
            self.settled(object).ok()
        });
        converter.prepare(decoded.collect(), &self.kind.group_version()).await
    }
}

impl VersionCodec {
    /// A stored object in the version it was stored in, pruned and with defaults.
    fn settled(&self, mut object: Value) -> Result<Value, String> {
        let version = GroupVersion::parse(object.api_version())?;
        if let Some(shape) = self.schemas.get(&version.version) {
            if !self.schemas.preserve_unknown {
                custom::settle_stored(shape.schema(), &mut object);
            }
            schema::default(shape.schema(), &mut object);
        }
        // Very old objects have no generation.
        if object.generation() == 0 {
            object.set_generation(1);
        }
        Ok(object)
    }

    /// The object in another version; what that version does not know is dropped.
    fn convert(&self, mut object: Value, to: &GroupVersion) -> Result<Value, String> {
        if object.api_version() == to.to_string() {
            return Ok(object);
        }
        match &self.converter {
            Some(converter) => object = converter.convert_now(&object, to)?,
            None => object.set_type(&to.with_kind(&self.kind.kind)),
        }
        if let Some(shape) = self.schemas.get(&to.version).filter(|_| !self.schemas.preserve_unknown) {
            custom::settle_stored(shape.schema(), &mut object);
        }
        Ok(object)
    }
}
