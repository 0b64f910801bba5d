//! RSA signatures in the PSS scheme with SHA-256 and a salt of any length (RFC 8017, section 8.1.2).
//!
//! The cryptographic library wants the salt to be as long as the hash, but kubelets make it as long as it can be. Only
//! public things are computed with here, so nothing depends on how long it takes.

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};
use num_bigint::BigUint;

const TRAILER: u8 = 0xbc;

/// A public key; both numbers with their highest byte first.
pub struct PublicKey<'a> {
    pub modulus: &'a [u8],
    pub exponent: &'a [u8],
}

impl PublicKey<'_> {
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.recover(signature).is_some_and(|(encoded, bits)| is_encoding_of(encoded, bits, message))
    }

    /// The encoded message that was signed, and how many bits of it count.
    fn recover(&self, signature: &[u8]) -> Option<(Vec<u8>, usize)> {
        let (modulus, exponent) = (BigUint::from_bytes_be(self.modulus), BigUint::from_bytes_be(self.exponent));
        let signed = BigUint::from_bytes_be(signature);
        let bits = usize::try_from(modulus.bits()).ok()?.checked_sub(1)?;
        // Exponents are small in earnest; a huge one would only keep the server busy.
        let is_odd = exponent.bit(0) && exponent.bits() > 1 && exponent.bits() <= 31;
        if signature.len() != (bits + 1).div_ceil(8) || signed >= modulus || !is_odd {
            return None;
        }
        let number = signed.modpow(&exponent, &modulus).to_bytes_be();
        let len = bits.div_ceil(8);
        let mut encoded = vec![0; len.checked_sub(number.len())?];
        encoded.extend(number);
        Some((encoded, bits))
    }
}

/// Whether this is what the message is encoded to: `masked(zeros 1 salt) | hash | trailer`.
fn is_encoding_of(mut encoded: Vec<u8>, bits: usize, message: &[u8]) -> bool {
    if encoded.pop() != Some(TRAILER) || encoded.len() <= SHA256_OUTPUT_LEN {
        return false;
    }
    let hash = encoded.split_off(encoded.len() - SHA256_OUTPUT_LEN);
    let mut block = encoded;
    let mask = 0xff >> (8 * bits.div_ceil(8) - bits);
    if block[0] & !mask != 0 {
        return false;
    }
    unmask(&mut block, &hash);
    block[0] &= mask;
    let Some(mark) = block.iter().position(|byte| *byte != 0).filter(|at| block[*at] == 1) else { return false };
    let mut salted = Context::new(&SHA256);
    salted.update(&[0; 8]);
    salted.update(digest(&SHA256, message).as_ref());
    salted.update(&block[mark + 1..]);
    salted.finish().as_ref() == hash
}

/// Takes the mask that `seed` makes (MGF1) off a block.
fn unmask(block: &mut [u8], seed: &[u8]) {
    for (counter, chunk) in (0u32..).zip(block.chunks_mut(SHA256_OUTPUT_LEN)) {
        let mut hash = Context::new(&SHA256);
        hash.update(seed);
        hash.update(&counter.to_be_bytes());
        for (byte, mask) in chunk.iter_mut().zip(hash.finish().as_ref()) {
            *byte ^= mask;
        }
    }
}
