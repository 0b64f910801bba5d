//! The hashes that clients see.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use sha2::{Digest, Sha512};

/// SHA-512 in upper-case hexadecimal: what stands in ETags and in the URLs of OpenAPI documents.
pub fn sha512(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digest = Sha512::digest(bytes);
    let digits = digest.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    digits.map(char::from).collect()
}

/// Eight characters of FNV-1 in URL-safe base64, behind the names of shared parameters.
pub fn short(text: &[u8]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text {
        hash = hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte);
    }
    URL_SAFE.encode(&hash.to_be_bytes()[..6])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_upstreams() {
        // As a real server names the parameter that every namespaced path has.
        let parameter = r#"{"uniqueItems":true,"type":"string","description":"object name and auth scope, such as for teams and projects","name":"namespace","in":"path","required":true}"#;
        assert_eq!(short(parameter.as_bytes()), "vgWSWtn3");
        assert!(sha512(b"").starts_with("CF83E1357EEFB8BD"));
    }
}
