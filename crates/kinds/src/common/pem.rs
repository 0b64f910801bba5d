//! PEM blocks, as Go's `encoding/pem` finds them: anything between blocks is skipped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::prelude::{FromDer, X509Certificate};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub label: String,
    pub has_headers: bool,
    pub bytes: Vec<u8>,
}

/// Every well-formed block in the text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let label = line.trim_end().strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
        let Some(label) = label else { continue };
        if let Some(block) = body(label, &mut lines) {
            blocks.push(block);
        }
    }
    blocks
}

fn body<'a>(label: &str, lines: &mut impl Iterator<Item = &'a str>) -> Option<Block> {
    let end = format!("-----END {label}-----");
    let (mut encoded, mut has_headers) = (String::new(), false);
    for line in lines {
        let line = line.trim();
        if line == end {
            let bytes = STANDARD.decode(encoded).ok()?;
            return Some(Block { label: label.to_string(), has_headers, bytes });
        }
        // Headers come before the first line of data.
        if encoded.is_empty() && line.contains(':') {
            has_headers = true;
        } else {
            encoded.push_str(line);
        }
    }
    None
}

/// Whether there is at least one certificate in the text that can be used as an authority; says in Go's words why not.
pub fn check_authorities(text: &str) -> Result<(), &'static str> {
    let blocks = blocks(text);
    let is_certificate = |block: &&Block| block.label == "CERTIFICATE" && !block.has_headers;
    let mut certificates = blocks.iter().filter(is_certificate).map(|block| X509Certificate::from_der(&block.bytes));
    match certificates.next() {
        _ if blocks.is_empty() => Err("unable to parse bytes as PEM block"),
        None => Err("no valid certificate authority data seen"),
        Some(Ok(_)) => Ok(()),
        Some(Err(_)) if certificates.any(|certificate| certificate.is_ok()) => Ok(()),
        Some(Err(_)) => Err("failed to parse certificate: x509: malformed certificate"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found() {
        let text = "junk\n-----BEGIN A-----\nK: v\n\nYWI=\n-----END A-----\n-----BEGIN B-----\n!\n-----END B-----\n";
        assert_eq!(blocks(text), [Block { label: "A".into(), has_headers: true, bytes: b"ab".to_vec() }]);
    }
}
