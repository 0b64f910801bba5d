//! RSA signatures where aws-lc has other limits than Go: keys below 2,048 bits, unusual exponents, salts of any length.
//!
//! Only public things are computed with here, so nothing depends on how long it takes.

use aws_lc_rs::digest::{self, Algorithm, Context, digest};
use num_bigint::BigUint;

const TRAILER: u8 = 0xbc;

/// How long the salt of a PSS signature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Salt {
    Any,
    /// As long as the hash.
    Hash,
}

/// A public key; both numbers with their highest byte first.
pub struct Key<'a> {
    pub modulus: &'a [u8],
    pub exponent: &'a [u8],
}

/// The bits of a number without leading zeros.
pub fn bits(number: &[u8]) -> usize {
    let number = &number[number.iter().take_while(|byte| **byte == 0).count()..];
    number.first().map_or(0, |first| 8 * number.len() - first.leading_zeros() as usize)
}

impl Key<'_> {
    /// Whether the signature is in the PSS scheme (RFC 8017, section 8.1.2).
    pub fn verifies_pss(&self, hash: &'static Algorithm, salt: Salt, message: &[u8], signature: &[u8]) -> bool {
        let bits = bits(self.modulus).saturating_sub(1);
        let Some(encoded) = self.recover(signature, bits.div_ceil(8)) else { return false };
        is_pss_encoding_of(encoded, bits, hash, salt, message)
    }

    /// Whether the signature is in the scheme of PKCS #1 v1.5 (RFC 8017, section 8.2.2).
    pub(crate) fn verifies_pkcs1(&self, hash: &'static Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let length = bits(self.modulus).div_ceil(8);
        let Some(encoded) = self.recover(signature, length) else { return false };
        let hashed = digest(hash, message);
        let info = [digest_info(hash), hashed.as_ref()].concat();
        let Some(padding) = length.checked_sub(info.len() + 3).filter(|padding| *padding >= 8) else { return false };
        encoded == [&[0, 1], vec![0xff; padding].as_slice(), &[0], &info].concat()
    }

    /// The encoded message that was signed, in so many bytes.
    fn recover(&self, signature: &[u8], length: usize) -> Option<Vec<u8>> {
        let (modulus, exponent) = (BigUint::from_bytes_be(self.modulus), BigUint::from_bytes_be(self.exponent));
        let signed = BigUint::from_bytes_be(signature);
        // Exponents are small in earnest; a huge one would only keep the server busy.
        let is_odd = exponent.bit(0) && exponent.bits() > 1 && exponent.bits() <= 31 && modulus.bit(0);
        if modulus.bits() > BITS_MAX
            || signature.len() != bits(self.modulus).div_ceil(8)
            || signed >= modulus
            || !is_odd
        {
            return None;
        }
        let number = signed.modpow(&exponent, &modulus).to_bytes_be();
        let mut encoded = vec![0; length.checked_sub(number.len())?];
        encoded.extend(number);
        Some(encoded)
    }
}

/// The work grows with the cube of it, and no key in earnest is larger. Go has no such bound.
const BITS_MAX: u64 = 16_384;

/// What stands before a hash in PKCS #1 v1.5.
fn digest_info(hash: &'static Algorithm) -> &'static [u8] {
    const SHA1: &[u8] = &[0x30, 0x21, 0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0, 4, 20];
    const SHA256: &[u8] = &[0x30, 0x31, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 32];
    const SHA384: &[u8] = &[0x30, 0x41, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2, 5, 0, 4, 48];
    const SHA512: &[u8] = &[0x30, 0x51, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3, 5, 0, 4, 64];
    match hash.output_len() {
        20 => SHA1,
        32 => SHA256,
        48 => SHA384,
        _ => SHA512,
    }
}

/// Whether this is what the message is encoded to: `masked(zeros 1 salt) | hash | trailer`.
fn is_pss_encoding_of(mut encoded: Vec<u8>, bits: usize, hash: &'static Algorithm, salt: Salt, message: &[u8]) -> bool {
    let length = hash.output_len();
    if encoded.pop() != Some(TRAILER) || encoded.len() <= length {
        return false;
    }
    let hashed = encoded.split_off(encoded.len() - length);
    let mut block = encoded;
    let mask = 0xff >> (8 * bits.div_ceil(8) - bits);
    if block[0] & !mask != 0 {
        return false;
    }
    unmask(&mut block, hash, &hashed);
    block[0] &= mask;
    let Some(mark) = block.iter().position(|byte| *byte != 0).filter(|at| block[*at] == 1) else { return false };
    let given = &block[mark + 1..];
    if salt == Salt::Hash && given.len() != length {
        return false;
    }
    let mut salted = Context::new(hash);
    salted.update(&[0; 8]);
    salted.update(digest(hash, message).as_ref());
    salted.update(given);
    salted.finish().as_ref() == hashed
}

/// XOR with the mask that is generated from a hash (MGF1).
fn unmask(block: &mut [u8], hash: &'static Algorithm, seed: &[u8]) {
    for (counter, chunk) in (0u32..).zip(block.chunks_mut(hash.output_len())) {
        let mut context = Context::new(hash);
        context.update(seed);
        context.update(&counter.to_be_bytes());
        for (byte, mask) in chunk.iter_mut().zip(context.finish().as_ref()) {
            *byte ^= mask;
        }
    }
}

/// The hash that kubelets sign with.
pub const SHA256: &Algorithm = &digest::SHA256;
