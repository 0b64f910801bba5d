//! `--tls-curve-preferences`: which key exchanges are spoken, by the numbers that IANA and Go give them.

use aws_lc_rs::agreement::{self, ECDH_P521, EphemeralPrivateKey, UnparsedPublicKey};
use aws_lc_rs::rand::SystemRandom;
use rustls::crypto::aws_lc_rs::kx_group::{SECP256R1, SECP256R1MLKEM768, SECP384R1, X25519, X25519MLKEM768};
use rustls::crypto::{ActiveKeyExchange, CryptoProvider, GetRandomFailed, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};

/// In the order in which they are preferred, which the flag does not change, as in Go.
static ALL: [(u16, &dyn SupportedKxGroup); 6] =
    [(4588, X25519MLKEM768), (4587, SECP256R1MLKEM768), (29, X25519), (23, SECP256R1), (24, SECP384R1), (25, &P521)];
/// Known to Go and not to rustls: SecP384r1MLKEM1024.
const NOT_SPOKEN: &[u16] = &[4589];
/// The curves that are spoken unless the flag is given, as in Go.
const DEFAULT: [u16; 5] = [4588, 29, 23, 24, 25];

/// Keeps only the numbered key exchanges; without any, those that Go has by default.
pub fn narrow(provider: &mut CryptoProvider, numbers: &[i64]) -> Result<(), String> {
    let mut wanted: Vec<u16> = Vec::with_capacity(numbers.len());
    for number in numbers {
        let curve = u16::try_from(*number).ok().filter(|curve| *curve > 0);
        let curve = curve.ok_or_else(|| format!("curve preference {number} is out of range (must be 1-65535)"))?;
        if wanted.contains(&curve) {
            return Err(format!("duplicate curve preference {number}"));
        }
        if NOT_SPOKEN.contains(&curve) {
            return Err(format!("curve preference {number} is not spoken by this server"));
        }
        if !ALL.iter().any(|(known, _)| *known == curve) {
            return Err(format!("curve preference {number} is not supported by the current Go version"));
        }
        wanted.push(curve);
    }
    if wanted.is_empty() {
        wanted.extend(DEFAULT);
    }
    provider.kx_groups = ALL.iter().filter(|(number, _)| wanted.contains(number)).map(|(_, group)| *group).collect();
    Ok(())
}

/// Ephemeral ECDH on P-521, which aws-lc has and rustls does not offer by itself.
#[derive(Debug)]
struct P521;

/// The form of a public key: both coordinates are sent.
const UNCOMPRESSED: u8 = 4;

impl SupportedKxGroup for P521 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let private = EphemeralPrivateKey::generate(&ECDH_P521, &SystemRandom::new()).map_err(|_| GetRandomFailed)?;
        let public = private.compute_public_key().map_err(|_| GetRandomFailed)?;
        Ok(Box::new(Exchange { private, public: public.as_ref().to_vec() }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

struct Exchange {
    private: EphemeralPrivateKey,
    public: Vec<u8>,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        if peer.first() != Some(&UNCOMPRESSED) {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        let peer = UnparsedPublicKey::new(&ECDH_P521, peer);
        let refused = Error::from(PeerMisbehaved::InvalidKeyShare);
        agreement::agree_ephemeral(self.private, peer, refused, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(numbers: &[i64]) -> Result<Vec<NamedGroup>, String> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        narrow(&mut provider, numbers)?;
        Ok(provider.kx_groups.iter().map(|group| group.name()).collect())
    }

    #[test]
    fn curves_are_chosen_by_their_numbers() {
        assert_eq!(kept(&[25, 29]).unwrap(), [NamedGroup::X25519, NamedGroup::secp521r1]);
        assert_eq!(kept(&[]).unwrap().len(), 5);
        for (numbers, why) in [
            (&[0][..], "out of range"),
            (&[70000], "out of range"),
            (&[23, 23], "duplicate curve preference 23"),
            (&[1], "not supported by the current Go version"),
            (&[4589], "not spoken by this server"),
        ] {
            assert!(kept(numbers).unwrap_err().contains(why), "{numbers:?}");
        }
    }

    #[test]
    fn both_sides_of_p521_agree_and_broken_keys_are_refused() {
        let (one, two) = (P521.start().unwrap(), P521.start().unwrap());
        let (first, second) = (one.pub_key().to_vec(), two.pub_key().to_vec());
        assert_eq!(one.complete(&second).unwrap().secret_bytes(), two.complete(&first).unwrap().secret_bytes());
        for broken in [&[][..], &[4], &first[1..], &[2; 67]] {
            assert!(P521.start().unwrap().complete(broken).is_err());
        }
    }
}
