//! The primitives, in the layouts that kube-apiserver writes: a nonce, then what the cipher made of the value.

use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::iv::FixedLength;
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead, KeyInit};

const GCM_NONCE_BYTES: usize = 12;
const GCM_TAG_BYTES: usize = 16;
const CBC_BLOCK_BYTES: usize = 16;
const SECRETBOX_NONCE_BYTES: usize = 24;
const SECRETBOX_TAG_BYTES: usize = 16;
/// Random bytes from which, with the seed, the key of one value is derived.
const INFO_BYTES: usize = 32;
/// What a seed and a key derived from it have.
pub(crate) const SEED_BYTES: usize = 32;

const TOO_SHORT: &str = "the stored data was shorter than the required size";

pub(crate) enum Cipher {
    /// AES-CBC with PKCS#7 padding. Does not authenticate anything.
    Cbc(Box<(PaddedBlockEncryptingKey, PaddedBlockDecryptingKey)>),
    /// AES-GCM, which authenticates the value and its place.
    Gcm(Box<LessSafeKey>),
    /// XSalsa20 and Poly1305, which authenticate the value.
    Secretbox(Box<XSalsa20Poly1305>),
    /// AES-GCM with a key for each value, derived from a seed.
    Seeded(Prk),
}

impl Cipher {
    pub fn cbc(key: &[u8]) -> Result<Self, String> {
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            32 => &AES_256,
            other => return Err(invalid_key_size(other)),
        };
        let key = || UnboundCipherKey::new(algorithm, key).map_err(|_| invalid_key_size(key.len()));
        let encrypt = PaddedBlockEncryptingKey::cbc_pkcs7(key()?).map_err(|_| "AES-CBC is not available")?;
        let decrypt = PaddedBlockDecryptingKey::cbc_pkcs7(key()?).map_err(|_| "AES-CBC is not available")?;
        Ok(Cipher::Cbc(Box::new((encrypt, decrypt))))
    }

    pub fn gcm(key: &[u8]) -> Result<Self, String> {
        Ok(Cipher::Gcm(Box::new(gcm_key(key)?)))
    }

    pub fn secretbox(key: &[u8]) -> Result<Self, String> {
        let size = |_| format!("expected key size 32 for secretbox provider, got {}", key.len());
        Ok(Cipher::Secretbox(Box::new(XSalsa20Poly1305::new_from_slice(key).map_err(size)?)))
    }

    pub fn seeded(seed: &[u8]) -> Result<Self, String> {
        if seed.len() < SEED_BYTES {
            return Err(format!("invalid seed length {} used for key generation", seed.len()));
        }
        Ok(Cipher::Seeded(Prk::new_less_safe(HKDF_SHA256, seed)))
    }

    /// Adds the encrypted value to `out`.
    pub fn seal(&self, value: &[u8], place: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Cipher::Cbc(keys) => {
                let iv: [u8; CBC_BLOCK_BYTES] = random()?;
                let mut buffer = value.to_vec();
                let context = EncryptionContext::Iv128(FixedLength::from(iv));
                keys.0.less_safe_encrypt(&mut buffer, context).map_err(|_| "AES-CBC failed")?;
                out.extend_from_slice(&iv);
                out.extend_from_slice(&buffer);
                Ok(())
            }
            Cipher::Gcm(key) => seal_gcm(key, value, place, out),
            Cipher::Secretbox(key) => {
                let nonce: [u8; SECRETBOX_NONCE_BYTES] = random()?;
                let sealed = key.encrypt(&nonce.into(), value).map_err(|_| "secretbox failed")?;
                out.extend_from_slice(&nonce);
                out.extend_from_slice(&sealed);
                Ok(())
            }
            Cipher::Seeded(seed) => {
                let info: [u8; INFO_BYTES] = random()?;
                out.extend_from_slice(&info);
                seal_gcm(&derive(seed, &info)?, value, place, out)
            }
        }
    }

    pub fn open(&self, data: &[u8], place: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Cipher::Cbc(keys) => {
                let (iv, sealed) = data.split_first_chunk::<CBC_BLOCK_BYTES>().ok_or(TOO_SHORT)?;
                if sealed.len() % CBC_BLOCK_BYTES != 0 {
                    return Err("the stored data is not a multiple of the block size".into());
                }
                if sealed.is_empty() {
                    return Err("invalid PKCS7 data (empty or not padded)".into());
                }
                let mut buffer = sealed.to_vec();
                let context = DecryptionContext::Iv128(FixedLength::from(*iv));
                let opened = keys.1.decrypt(&mut buffer, context).map_err(|_| "invalid padding on input")?.len();
                buffer.truncate(opened);
                Ok(buffer)
            }
            Cipher::Gcm(key) => open_gcm(key, data, place),
            Cipher::Secretbox(key) => {
                let (nonce, sealed) = data.split_first_chunk::<SECRETBOX_NONCE_BYTES>().ok_or(TOO_SHORT)?;
                if sealed.len() < SECRETBOX_TAG_BYTES {
                    return Err(TOO_SHORT.into());
                }
                let wrong = |_| "secretbox authentication failed: wrong key or damaged data".to_string();
                key.decrypt(&(*nonce).into(), sealed).map_err(wrong)
            }
            Cipher::Seeded(seed) => {
                let (info, sealed) = data.split_first_chunk::<INFO_BYTES>().ok_or(TOO_SHORT)?;
                open_gcm(&derive(seed, info)?, sealed, place)
            }
        }
    }
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| "unable to read sufficient random bytes")?;
    Ok(bytes)
}

fn gcm_key(key: &[u8]) -> Result<LessSafeKey, String> {
    let algorithm = match key.len() {
        16 => &AES_128_GCM,
        24 => &AES_192_GCM,
        32 => &AES_256_GCM,
        other => return Err(invalid_key_size(other)),
    };
    Ok(LessSafeKey::new(UnboundKey::new(algorithm, key).map_err(|_| invalid_key_size(key.len()))?))
}

fn seal_gcm(key: &LessSafeKey, value: &[u8], place: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let nonce: [u8; GCM_NONCE_BYTES] = random()?;
    out.extend_from_slice(&nonce);
    let start = out.len();
    out.extend_from_slice(value);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag =
        key.seal_in_place_separate_tag(nonce, Aad::from(place), &mut out[start..]).map_err(|_| "AES-GCM failed")?;
    out.extend_from_slice(tag.as_ref());
    Ok(())
}

fn open_gcm(key: &LessSafeKey, data: &[u8], place: &[u8]) -> Result<Vec<u8>, String> {
    let (nonce, sealed) = data.split_first_chunk::<GCM_NONCE_BYTES>().ok_or(TOO_SHORT)?;
    if sealed.len() < GCM_TAG_BYTES {
        return Err(TOO_SHORT.into());
    }
    let mut buffer = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    // Go's words for it, which operators search for.
    let wrong = |_| "cipher: message authentication failed".to_string();
    let opened = key.open_in_place(nonce, Aad::from(place), &mut buffer).map_err(wrong)?.len();
    buffer.truncate(opened);
    Ok(buffer)
}

/// HKDF's second step only: the seed is random already.
fn derive(seed: &Prk, info: &[u8; INFO_BYTES]) -> Result<LessSafeKey, String> {
    struct Length;
    impl KeyType for Length {
        fn len(&self) -> usize {
            SEED_BYTES
        }
    }
    let mut key = [0; SEED_BYTES];
    seed.expand(&[info], Length)
        .and_then(|okm| okm.fill(&mut key))
        .map_err(|_| "failed to derive a key from the seed")?;
    gcm_key(&key)
}

fn invalid_key_size(size: usize) -> String {
    format!("crypto/aes: invalid key size {size}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ciphers() -> Vec<(&'static str, Cipher)> {
        let key = |size: u8| (0..size).collect::<Vec<_>>();
        vec![
            ("cbc 128", Cipher::cbc(&key(16)).unwrap()),
            ("cbc 192", Cipher::cbc(&key(24)).unwrap()),
            ("cbc 256", Cipher::cbc(&key(32)).unwrap()),
            ("gcm 128", Cipher::gcm(&key(16)).unwrap()),
            ("gcm 192", Cipher::gcm(&key(24)).unwrap()),
            ("gcm 256", Cipher::gcm(&key(32)).unwrap()),
            ("secretbox", Cipher::secretbox(&key(32)).unwrap()),
            ("seeded", Cipher::seeded(&key(32)).unwrap()),
        ]
    }

    #[test]
    fn what_was_sealed_can_be_opened_in_its_place_only() {
        for (name, cipher) in ciphers() {
            for length in [0, 1, 15, 16, 17, 1000] {
                let value = vec![7; length];
                let mut sealed = b"prefix".to_vec();
                cipher.seal(&value, b"/place", &mut sealed).unwrap();
                let sealed = &sealed[6..];
                assert_eq!(cipher.open(sealed, b"/place").unwrap(), value, "{name} {length}");
                let mut again = Vec::new();
                cipher.seal(&value, b"/place", &mut again).unwrap();
                assert_ne!(again, sealed, "{name}: a nonce was used twice");
                if name.starts_with("gcm") || name == "seeded" {
                    assert!(cipher.open(sealed, b"/elsewhere").is_err(), "{name}");
                }
            }
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        for (name, cipher) in ciphers() {
            let mut sealed = Vec::new();
            cipher.seal(b"some value", b"/place", &mut sealed).unwrap();
            for end in 0..sealed.len() {
                assert!(cipher.open(&sealed[..end], b"/place").is_err(), "{name} cut at {end}");
            }
            if !name.starts_with("cbc") {
                for at in 0..sealed.len() {
                    let mut damaged = sealed.clone();
                    damaged[at] ^= 1;
                    assert!(cipher.open(&damaged, b"/place").is_err(), "{name} damaged at {at}");
                }
            }
        }
    }

    /// The vector that NaCl's own tests use.
    #[test]
    fn secretbox_is_nacls() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let key = hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
        let mut data = hex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37");
        data.extend(hex("f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186ac0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5"));
        let opened = Cipher::secretbox(&key).unwrap().open(&data, b"").unwrap();
        assert!(opened.starts_with(&hex("be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffc")));
        assert_eq!(opened.len(), 131);
    }
}
