//! [`StoredCodec`]: how objects of a resource become stored bytes, and objects again.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use object::{GroupVersion, Meta, Str, Value};
use schema::Schema;

/// Turns objects of one version into stored bytes and back.
#[async_trait]
pub trait StoredCodec: Send + Sync + 'static {
    /// The bytes to store, of the version that is stored.
    async fn encode(&self, object: &Value) -> Result<Bytes, String>;

    /// Decodes, converts to the codec's version if the bytes are of another one and no webhook does that, and applies defaults.
    fn decode(&self, bytes: &Bytes) -> Result<Value, String>;

    /// The object as decoding would give it after it was encoded, where that is known without doing it.
    fn as_decoded(&self, _object: Value) -> Option<Value> {
        None
    }

    /// Whether a webhook, or a function of the program, converts between the stored version and this one.
    fn converts_by_webhook(&self) -> bool {
        false
    }

    /// Has the conversion webhook convert stored objects; it is asked for all of them at once. None for what `decode` reads
    /// without it, or says why it cannot.
    async fn converted(&self, stored: &[Bytes]) -> Vec<Option<Result<Value, String>>> {
        vec![None; stored.len()]
    }

    /// An object of one version of the kind in another one, as it would be read in that version.
    async fn convert(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        Err(format!("{} is not converted to {to} here", object.api_version()))
    }

    /// The same with the fields that the other version does not have, as managed fields are compared.
    async fn convert_unpruned(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        self.convert(object, to).await
    }

    /// The schema of the kind in a version that its definition has, served or not.
    fn schema_in(&self, _version: &str) -> Option<Schema<'_>> {
        None
    }

    /// The string at a path (`spec.nodeName`) that has no default; "" if there is none.
    fn text_at(&self, bytes: &Bytes, path: &Str) -> Result<Str, String> {
        Ok(crate::storage::text_at(&self.decode(bytes)?, path))
    }

    /// Decodes at least what is at these paths.
    fn decode_paths(&self, bytes: &Bytes, _paths: &[Str]) -> Result<Value, String> {
        self.decode(bytes)
    }
}

/// A codec as other crates may use it: they decode a [`Readable`](crate::Readable) by its storage, and nothing else.
#[derive(Clone)]
pub struct SealedCodec(pub(crate) Arc<dyn StoredCodec>);

impl SealedCodec {
    /// Lets other crates use a codec.
    pub fn new(codec: impl StoredCodec) -> SealedCodec {
        SealedCodec(Arc::new(codec))
    }

    /// See [`StoredCodec::encode`].
    pub async fn encode(&self, object: &Value) -> Result<Bytes, String> {
        self.0.encode(object).await
    }

    /// See [`StoredCodec::converts_by_webhook`].
    pub fn converts_by_webhook(&self) -> bool {
        self.0.converts_by_webhook()
    }

    /// See [`StoredCodec::convert`].
    pub async fn convert(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        self.0.convert(object, to).await
    }

    /// See [`StoredCodec::convert_unpruned`].
    pub async fn convert_unpruned(&self, object: &Value, to: &GroupVersion) -> Result<Value, String> {
        self.0.convert_unpruned(object, to).await
    }

    /// See [`StoredCodec::schema_in`].
    pub fn schema_in(&self, version: &str) -> Option<Schema<'_>> {
        self.0.schema_in(version)
    }

    /// The object as it will be read, after it was encoded as these bytes.
    pub(crate) async fn decoded(&self, object: Value, bytes: &Bytes) -> Result<Value, String> {
        if let Some(decoded) = self.0.as_decoded(object) {
            return Ok(decoded);
        }
        let converted = match self.converts_by_webhook() {
            true => self.0.converted(std::slice::from_ref(bytes)).await.pop().flatten(),
            false => None,
        };
        converted.unwrap_or_else(|| self.0.decode(bytes))
    }
}
