//! [`Resolve`]: from a Service to an address.

use async_trait::async_trait;

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Finds the address of a Service: its ClusterIP, or one of its endpoints.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// Err is upstream's text, such as `service "x" not found`.
    async fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Address, String>;
}
