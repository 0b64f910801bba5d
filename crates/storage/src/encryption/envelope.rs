//! What a value encrypted with a plugin's key looks like: the encrypted value beside the encrypted key it needs.

use std::collections::BTreeMap;

use aws_lc_rs::digest;

/// The message that is stored; its fields and numbers are upstream's.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub encrypted_data: Vec<u8>,
    /// The plugin's name for the key that encrypted the source.
    #[prost(string, tag = "2")]
    pub key_id: String,
    /// The encrypted data key, or the seed of data keys.
    #[prost(bytes = "vec", tag = "3")]
    pub encrypted_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    pub source_type: i32,
}

/// The source is the key of AES-GCM itself: written by old versions, read only.
pub(crate) const SOURCE_IS_KEY: i32 = 0;
/// The source is a seed; the key is derived from it and the first bytes of the data.
pub(crate) const SOURCE_IS_SEED: i32 = 1;

const ANNOTATIONS_BYTES_MAX: usize = 32 * 1024;
const KEY_ID_BYTES_MAX: usize = 1024;
const SOURCE_BYTES_MAX: usize = 1024;

impl EncryptedObject {
    pub fn validate(&self) -> Result<(), String> {
        if self.source_type != SOURCE_IS_KEY && self.source_type != SOURCE_IS_SEED {
            return Err(format!("unknown encryptedDEKSourceType: {}", self.source_type));
        }
        if self.encrypted_data.is_empty() {
            return Err("encrypted data is empty".into());
        }
        self.validate_source()
    }

    /// Everything but the data.
    pub fn validate_source(&self) -> Result<(), String> {
        let size = self.encrypted_source.len();
        if size == 0 {
            return Err("failed to validate encrypted DEK source: encrypted DEK source is empty".into());
        }
        if size > SOURCE_BYTES_MAX {
            return Err(format!(
                "failed to validate encrypted DEK source: encrypted DEK source is {size} bytes, which exceeds the max \
                 size of {SOURCE_BYTES_MAX}"
            ));
        }
        validate_key_id(&self.key_id).map_err(|error| format!("failed to validate key id: {error}"))?;
        self.validate_annotations().map_err(|error| format!("failed to validate annotations: {error}"))
    }

    fn validate_annotations(&self) -> Result<(), String> {
        for name in self.annotations.keys() {
            if !is_domain(name) {
                return Err(format!("annotations: Invalid value: {name:?}: should be a domain name"));
            }
        }
        let size: usize = self.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > ANNOTATIONS_BYTES_MAX {
            return Err(format!(
                "total size of annotations is {size}, which exceeds the max size of {ANNOTATIONS_BYTES_MAX}"
            ));
        }
        Ok(())
    }

    /// Identifies the source with everything that goes into decrypting it.
    pub fn source_digest(&self) -> [u8; 32] {
        let mut context = digest::Context::new(&digest::SHA256);
        let mut part = |bytes: &[u8]| {
            context.update(&(bytes.len() as u64).to_be_bytes());
            context.update(bytes);
        };
        part(&self.source_type.to_be_bytes());
        part(&self.encrypted_source);
        part(self.key_id.as_bytes());
        for (name, value) in &self.annotations {
            part(name.as_bytes());
            part(value);
        }
        finished(&context.finish())
    }
}

pub(crate) fn validate_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".into()),
        size if size > KEY_ID_BYTES_MAX => {
            Err(format!("keyID is {size} bytes, which exceeds the max size of {KEY_ID_BYTES_MAX}"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    finished(&digest::digest(&digest::SHA256, bytes))
}

fn finished(digest: &digest::Digest) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

/// Key identifiers may tell something about keys, so people see only this.
pub(crate) fn shown_key_id(key_id: &str) -> String {
    if key_id.is_empty() {
        return String::new();
    }
    sha256(key_id.as_bytes()).iter().fold("sha256:".to_string(), |text, byte| text + &format!("{byte:02x}"))
}

/// A DNS name of at least two labels.
fn is_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.contains('.') && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> EncryptedObject {
        EncryptedObject {
            encrypted_data: vec![1],
            key_id: "1".into(),
            encrypted_source: vec![2],
            annotations: [("a.example.com".to_string(), vec![3])].into(),
            source_type: SOURCE_IS_SEED,
        }
    }

    #[test]
    fn what_is_not_allowed() {
        assert_eq!(object().validate(), Ok(()));
        type Edit = Box<dyn Fn(&mut EncryptedObject)>;
        let cases: Vec<(Edit, &str)> = vec![
            (Box::new(|o| o.source_type = 2), "unknown encryptedDEKSourceType: 2"),
            (Box::new(|o| o.encrypted_data.clear()), "encrypted data is empty"),
            (Box::new(|o| o.encrypted_source.clear()), "encrypted DEK source is empty"),
            (Box::new(|o| o.encrypted_source = vec![0; 1025]), "1025 bytes, which exceeds the max size of 1024"),
            (Box::new(|o| o.key_id.clear()), "keyID is empty"),
            (Box::new(|o| o.key_id = "x".repeat(1025)), "keyID is 1025 bytes"),
            (Box::new(|o| drop(o.annotations.insert("nodots".into(), vec![]))), "Invalid value: \"nodots\""),
            (Box::new(|o| drop(o.annotations.insert("A.b".into(), vec![]))), "Invalid value: \"A.b\""),
            (Box::new(|o| drop(o.annotations.insert("b.c".into(), vec![0; 33000]))), "exceeds the max size of 32768"),
        ];
        for (change, expected) in cases {
            let mut changed = object();
            change(&mut changed);
            let error = changed.validate().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_digest_depends_on_everything_but_the_data() {
        let same = EncryptedObject { encrypted_data: vec![9, 9], ..object() };
        assert_eq!(same.source_digest(), object().source_digest());
        let others = [
            EncryptedObject { key_id: "2".into(), ..object() },
            EncryptedObject { encrypted_source: vec![2, 2], ..object() },
            EncryptedObject { source_type: SOURCE_IS_KEY, ..object() },
            EncryptedObject { annotations: BTreeMap::new(), ..object() },
        ];
        for other in others {
            assert_ne!(other.source_digest(), object().source_digest(), "{other:?}");
        }
    }
}
