//! `kms-plugin <socket>`: a key management plugin for servers under test, until it is killed. It hides nothing.

use std::path::Path;

use storage::encryption::mock::MockPlugin;

#[tokio::main]
async fn main() {
    let socket = std::env::args().nth(1).expect("usage: kms-plugin <socket>");
    let _plugin = MockPlugin::start(Path::new(&socket));
    std::future::pending::<()>().await;
}
