//! What the API says about itself in words: the descriptions that OpenAPI and `kubectl explain` show.
//!
//! `cargo xtask generate` takes them out of the source of the k8s-openapi crate and packs them into `data/descriptions.deflate`;
//! they are unpacked when first asked for. Only what serves OpenAPI depends on this crate. The file NOTICE says whose texts they are.

mod columns;

use std::io::Read;
use std::sync::OnceLock;

use flate2::read::DeflateDecoder;
use hashbrown::HashMap;

pub use columns::column;

static PACKED: &[u8] = include_bytes!("../data/descriptions.deflate");

/// The description of a field of a definition (`io.k8s.api.core.v1.PodSpec`), or with the field "" of the definition itself.
///
/// There are none for the `items` and the `metadata` of lists, nor for lists themselves: their source has one generic list.
/// What it says of enum values is not there either.
pub fn of(definition: &str, field: &str) -> Option<&'static str> {
    let unpacked = unpacked();
    // Every object's type is described in the same words.
    let definition =
        if definition.ends_with("List") && matches!(field, "apiVersion" | "kind") { ANY_OBJECT } else { definition };
    let &(start, length) = unpacked.index.get(definition)?.get(field)?;
    unpacked.texts.get(start..start + length)
}

const ANY_OBJECT: &str = "io.k8s.api.core.v1.Pod";

#[derive(Default)]
struct Unpacked {
    texts: String,
    /// Definition, then field, to where the text starts and how long it is.
    index: HashMap<String, HashMap<String, (usize, usize)>>,
}

fn unpacked() -> &'static Unpacked {
    static UNPACKED: OnceLock<Unpacked> = OnceLock::new();
    UNPACKED.get_or_init(|| unpack(PACKED).unwrap_or_default())
}

/// Reads what `xtask/src/generate/descriptions.rs` packed; it documents the layout.
fn unpack(packed: &[u8]) -> Option<Unpacked> {
    let mut text = String::new();
    DeflateDecoder::new(packed).read_to_string(&mut text).ok()?;
    let (index, texts) = text.split_once("\n\n").or_else(|| text.split_once('\n'))?;
    let mut unpacked = Unpacked { texts: texts.to_string(), index: HashMap::new() };
    let mut current = None;
    for line in index.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix('\t') {
            None => current = Some(unpacked.index.entry(line.to_string()).or_default()),
            Some(rest) => {
                let mut words = rest.split('\t');
                let (field, start, length) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                current.as_mut()?.insert(field.to_string(), (start, length));
            }
        }
    }
    Some(unpacked)
}

#[cfg(test)]
mod tests;
