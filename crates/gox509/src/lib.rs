//! PEM blocks, certificates and chains of certificates, by the rules and with the error texts of Go's `encoding/pem`,
//! `crypto/x509` and `crypto/tls`.
//!
//! What this server checks is read by programs in Go afterwards, and its users expect of it what kube-apiserver refuses. So every
//! PEM text, certificate and certificate request of the whole program is read here, and every chain is verified here. Signatures
//! are checked by aws-lc; TLS is spoken by rustls, which asks [`tls`] whom to believe.

mod certificate;
mod constraints;
mod der;
mod extensions;
mod host;
mod key;
mod keypair;
mod mailbox;
mod name;
pub mod pem;
mod policies;
mod pool;
mod request;
pub mod rsa;
mod signature;
mod times;
pub mod tls;
mod verify;

pub use certificate::Certificate;
pub use extensions::{ExtendedUsage, Extensions};
pub use host::RELIES_ON_COMMON_NAME;
pub use key::{Curve, PublicKey};
pub use keypair::KeyPair;
pub use name::Name;
pub use pool::{Pool, parse_bundle};
pub use request::CertificateRequest;
pub use signature::is_insecure_sha1;
pub use times::Time;
pub use verify::{Chain, Options, VerifyError};
