//! A server as those were that the answers were recorded from.

use apiserver::{Config, OwnServiceConfig, Running, StoreConfig, Versions, start};

pub struct RecordedSetup {
    pub running: Running,
    _folder: tempfile::TempDir,
}

pub async fn server(store: StoreConfig, versions: Versions) -> RecordedSetup {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "admin-token,admin,admin-uid,\"system:masters\"\nuser-token,alice,alice-uid,\"devs\"\n")
        .unwrap();
    let config = Config {
        data_dir: folder.path().join("data"),
        port: 0,
        token_auth_file: Some(tokens),
        disable_admission_plugins: vec!["ServiceAccount".into()],
        store,
        versions,
        // A case asks for the address 10.0.0.77: in a small network another Service may have been given it by chance.
        own_service: OwnServiceConfig { cluster_ip_range: "10.0.0.0/12".into(), ..OwnServiceConfig::default() },
        ..Config::default()
    };
    RecordedSetup { running: start(config).await.unwrap(), _folder: folder }
}

impl RecordedSetup {
    pub async fn stop(self) {
        self.running.stop(std::time::Duration::ZERO).await;
    }
}
