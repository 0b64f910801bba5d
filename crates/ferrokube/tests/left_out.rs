//! An option that needs a feature which the program was built without is refused, and the feature named. With the feature it is not.

#![allow(clippy::unwrap_used, clippy::panic)] // In tests a failed assumption is a failed test, in helpers too.

use std::path::Path;
use std::time::Duration;

use ferrokube::{Api, Options, Server};

/// What cannot work anyway fails for another reason, and soon.
fn set(feature: &str, file: &Path, options: &mut Options) {
    options.store.start_timeout = Duration::from_millis(1);
    match feature {
        "console" => options.console = true,
        "egress" => options.egress_file = Some(file.into()),
        "etcd" => options.store.etcd_servers = vec!["http://127.0.0.1:1".into()],
        "kms" => options.store.encryption_config = Some(file.into()),
        "oidc" => options.authentication.config_file = Some(file.into()),
        other => panic!("{other}"),
    }
}

const EGRESS: &str = "\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections: [{name: cluster, connection: {proxyProtocol: Direct}}]
";
const KMS: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers: [{kms: {apiVersion: v2, name: away, endpoint: 'unix:///nowhere/kms.sock', timeout: 10ms}}]
";
const OIDC: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: 'https://127.0.0.1:1', audiences: [a]}
  claimMappings: {username: {claim: sub, prefix: ''}}
";

#[tokio::test]
async fn options_of_features_that_were_left_out_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("configuration.yaml");
    for (feature, is_there, text) in [
        ("console", cfg!(feature = "console"), ""),
        ("egress", cfg!(feature = "egress"), EGRESS),
        ("etcd", cfg!(feature = "etcd"), ""),
        ("kms", cfg!(feature = "kms"), KMS),
        ("oidc", cfg!(feature = "oidc"), OIDC),
    ] {
        std::fs::write(&file, text).unwrap();
        let builder = Server::builder().api(Api::minimal()).options(|options| set(feature, &file, options));
        let refused = builder.start().await.err().map(|error| error.to_string()).unwrap_or_default();
        let left_out = format!("the feature {feature} was left out of this program");
        assert_eq!(refused.contains(&left_out), !is_there, "{feature}: {refused}");
    }
    let refused =
        Server::builder().data_dir(folder.path().join("data")).start().await.err().map(|error| error.to_string());
    assert_eq!(refused.is_some(), !cfg!(feature = "embedded"), "{refused:?}");
}
