use super::*;
use crate::flags::{command, serve};

/// As kubeadm stores it in the cluster.
const STORED: &str = "\
apiServer: {}
apiVersion: kubeadm.k8s.io/v1beta4
caCertificateValidityPeriod: 87600h0m0s
certificateValidityPeriod: 8760h0m0s
certificatesDir: /etc/kubernetes/pki
clusterName: kubernetes
controllerManager: {}
dns: {}
encryptionAlgorithm: RSA-2048
etcd:
  local:
    dataDir: /var/lib/etcd
imageRepository: registry.k8s.io
kind: ClusterConfiguration
kubernetesVersion: v1.37.1
networking:
  dnsDomain: cluster.local
  podSubnet: 10.244.0.0/16
  serviceSubnet: 10.96.0.0/12
proxy: {}
scheduler: {}
";

fn flags(text: &str) -> Result<String, String> {
    let found = Found::read(text)?;
    Ok(found.flags.iter().map(|(name, value)| format!("--{name}={value}")).collect::<Vec<_>>().join("\n"))
}

fn cluster(fields: &str) -> String {
    format!("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n{fields}")
}

#[test]
fn a_stored_configuration_gives_the_flags_of_kubeadm() {
    let init = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {advertiseAddress: 192.0.2.7, bindPort: 6443}\n";
    let mut got: Vec<String> = flags(&format!("{STORED}{init}")).unwrap().lines().map(str::to_string).collect();
    got.sort();
    let want = "\
--advertise-address=192.0.2.7
--allow-privileged=true
--authorization-mode=Node,RBAC
--client-ca-file=/etc/kubernetes/pki/ca.crt
--enable-admission-plugins=NodeRestriction
--enable-bootstrap-token-auth=true
--etcd-cafile=/etc/kubernetes/pki/etcd/ca.crt
--etcd-certfile=/etc/kubernetes/pki/apiserver-etcd-client.crt
--etcd-keyfile=/etc/kubernetes/pki/apiserver-etcd-client.key
--etcd-servers=https://127.0.0.1:2379
--kubelet-client-certificate=/etc/kubernetes/pki/apiserver-kubelet-client.crt
--kubelet-client-key=/etc/kubernetes/pki/apiserver-kubelet-client.key
--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname
--proxy-client-cert-file=/etc/kubernetes/pki/front-proxy-client.crt
--proxy-client-key-file=/etc/kubernetes/pki/front-proxy-client.key
--requestheader-allowed-names=front-proxy-client
--requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt
--requestheader-extra-headers-prefix=X-Remote-Extra-
--requestheader-group-headers=X-Remote-Group
--requestheader-username-headers=X-Remote-User
--secure-port=6443
--service-account-issuer=https://kubernetes.default.svc.cluster.local
--service-account-key-file=/etc/kubernetes/pki/sa.pub
--service-account-signing-key-file=/etc/kubernetes/pki/sa.key
--service-cluster-ip-range=10.96.0.0/12
--tls-cert-file=/etc/kubernetes/pki/apiserver.crt
--tls-private-key-file=/etc/kubernetes/pki/apiserver.key";
    assert_eq!(got.join("\n"), want);
}

#[test]
fn fields_become_flags() {
    let always = ALWAYS.iter().map(|(name, value)| format!("--{name}={value}")).collect::<Vec<_>>().join("\n");
    for (fields, want) in [
        ("", ""),
        ("networking: {serviceSubnet: 10.1.0.0/16}", "\n--service-cluster-ip-range=10.1.0.0/16"),
        (
            "etcd: {external: {endpoints: ['https://a:1', 'https://b:1'], caFile: ca, certFile: '', keyFile: ''}}",
            "\n--etcd-servers=https://a:1,https://b:1\n--etcd-cafile=ca",
        ),
        (
            "apiServer: {extraArgs: [{name: v, value: '4'}, {name: tls-sni-cert-key, value: a}, {name: tls-sni-cert-key, value: b}]}",
            "\n--v=4\n--tls-sni-cert-key=a\n--tls-sni-cert-key=b",
        ),
    ] {
        assert_eq!(flags(&cluster(fields)).unwrap(), format!("{always}{want}"), "{fields}");
    }
    let modes = |fields: &str| {
        let found = flags(&cluster(fields)).unwrap();
        found.lines().filter(|flag| flag.contains("authorization")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(modes("apiServer: {extraArgs: [{name: authorization-mode, value: RBAC}]}"), "--authorization-mode=RBAC");
    assert_eq!(modes("apiServer: {extraArgs: [{name: authorization-config, value: f}]}"), "--authorization-config=f");
    let old = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\napiServer: {extraArgs: {v: '2'}}";
    assert!(flags(old).unwrap().ends_with("\n--v=2"));
}

#[test]
fn what_a_process_cannot_have_is_named() {
    let found = Found::read(&cluster("apiServer: {certSANs: [a], extraVolumes: [], extraEnvs: [{name: A, value: b}]}"))
        .unwrap();
    assert_eq!(found.without_effect, ["apiServer.certSANs", "apiServer.extraEnvs"]);
}

#[test]
fn files_that_cannot_be_understood_are_refused() {
    for (text, want) in [
        ("", "there is no ClusterConfiguration in it"),
        (
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1",
            "there is no ClusterConfiguration in it",
        ),
        (
            "kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta9",
            "apiVersion \"kubeadm.k8s.io/v1beta9\" is not known; kubeadm.k8s.io/v1beta4 and kubeadm.k8s.io/v1beta3 are",
        ),
        ("kind: ClusterConfiguration", "apiVersion \"\" is not known"),
        (&cluster("apiserver: {}"), "unknown field \"apiserver\""),
        (&cluster("apiServer: {extraArg: []}"), "unknown field \"apiServer.extraArg\""),
        (&cluster("apiServer: 5"), "apiServer must be an object"),
        (&cluster("apiServer: {extraArgs: {v: '2'}}"), "apiServer.extraArgs must be a list of names and values"),
        (&cluster("apiServer: {extraArgs: [{name: v, value: 2}]}"), "apiServer.extraArgs[0].value must be a string"),
        (
            &cluster("apiServer: {extraArgs: [{name: config, value: x}]}"),
            "--config can only be given on the command line",
        ),
        (&cluster("etcd: {local: {}, external: {endpoints: []}}"), "etcd.external and etcd.local exclude each other"),
        (&cluster("etcd: {external: {endpoints: x}}"), "etcd.external.endpoints must be a list of strings"),
        (&cluster("networking: {serviceSubnet: [a]}"), "networking.serviceSubnet must be a string"),
        (&cluster("clusterName: a\nclusterName: b"), "already set"),
        (&format!("{STORED}---\n{STORED}"), "there are two documents of one kind"),
    ] {
        let why = flags(text).unwrap_err();
        assert!(why.contains(want), "{text}: {why}");
    }
}

/// Any text is a file or is refused; none makes the reader panic.
#[test]
fn damaged_files_are_refused_or_read() {
    for at in 0..STORED.len() {
        for put in ["", ":", "{", "\n", "- ", "\u{0}"] {
            let text = format!("{}{put}{}", &STORED[..at], &STORED[at + usize::from(put.is_empty())..]);
            let _ = flags(&text);
        }
    }
}

#[test]
fn the_command_line_counts_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.yaml");
    let served = |fields: &str, arguments: &[&str]| {
        std::fs::write(&path, cluster(fields)).unwrap();
        let config = format!("--config={}", path.display());
        let arguments = ["ferrokube", config.as_str()].into_iter().chain(arguments.iter().copied());
        serve(&command("ferrokube").try_get_matches_from(arguments).unwrap(), "ferrokube")
    };
    let extra =
        "apiServer: {certSANs: [a], extraArgs: [{name: event-ttl, value: 3h}, {name: secure-port, value: '7'}]}";
    let found = served(extra, &["--secure-port=8", "--data-dir=d"]).unwrap();
    assert_eq!((found.config.port, found.config.event_ttl.as_secs()), (8, 3 * 3600));
    assert!(found.config.data_dir.ends_with("d"), "{}", found.config.data_dir.display());
    assert_eq!(found.config.authorization.modes.join(","), "Node,RBAC");
    assert!(!found.config.standalone, "{}", found.standalone_because);
    assert!(found.without_effect.contains(&"apiServer.certSANs".to_string()), "{:?}", found.without_effect);
    for (fields, want) in [
        ("apiServer: {extraArgs: [{name: secure-prt, value: '7'}]}", "unexpected argument '--secure-prt' found"),
        ("apiServer: {extraArgs: [{name: secure-port, value: x}]}", "strconv.ParseInt"),
        ("apiServer: {extraArgs: [{name: '', value: x}]}", "--config: "),
    ] {
        let why = served(fields, &[]).err().unwrap();
        assert!(why.contains(want), "{fields}: {why}");
    }
    let missing = command("ferrokube").try_get_matches_from(["ferrokube", "--config=/no/such/file"]).unwrap();
    assert!(serve(&missing, "ferrokube").err().unwrap().contains("/no/such/file: No such file"));
}
