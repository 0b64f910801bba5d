//! How custom resources are stored: JSON in the storage version, as upstream stores them.

use std::sync::Arc;

use bytes::Bytes;
use object::{GroupVersion, GroupVersionKind, Meta, Str, Value};
use registry::{Shape, StoredCodec, custom};

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
}

impl StoredCodec for VersionCodec {
    fn encode(&self, object: &Value) -> Result<Bytes, String> {
        let mut out = Vec::with_capacity(512);
        if self.stored == self.kind.group_version() {
            codec::json::encode(object, None, &mut out);
        } else {
            let mut converted = object.clone();
            self.convert(&mut converted, &self.stored);
            codec::json::encode(&converted, None, &mut out);
        }
        out.push(b'\n');
        Ok(out.into())
    }

    fn decode(&self, bytes: &Bytes) -> Result<Value, String> {
        let decoded = codec::json::decode(bytes, None, &mut codec::Notes::ignore());
        let mut object = decoded.map_err(|error| error.to_string())?;
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
        let wanted = self.kind.group_version();
        if version != wanted {
            self.convert(&mut object, &wanted);
        }
        Ok(object)
    }
}

impl VersionCodec {
    /// Conversion without a webhook: the version changes, and what the other version does not know is dropped.
    fn convert(&self, object: &mut Value, to: &GroupVersion) {
        object.set_type(&to.with_kind(&self.kind.kind));
        if let Some(shape) = self.schemas.get(&to.version).filter(|_| !self.schemas.preserve_unknown) {
            custom::settle_stored(shape.schema(), object);
        }
    }
}
