//! `--config`: the flags that kubeadm makes of a `ClusterConfiguration`, read from the file kubeadm reads. Flags of the command line count
//! more than those of the file.

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches};
use codec::Notes;
use object::Value;

pub const NAME: &str = "config";

const GROUP: &str = "kubeadm.k8s.io";
/// Versions whose `extraArgs` are a map, and a list of names and values.
const WITH_MAP: &str = "v1beta3";
const WITH_LIST: &str = "v1beta4";

/// Where kubeadm keeps keys and certificates if the file does not say.
const CERTIFICATES: &str = "/etc/kubernetes/pki";

/// Flags that make no sense in the file.
const NOT_IN_FILES: [&str; 3] = [NAME, "help", "version"];

/// The use of a field for an API server that runs as a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    /// Flags follow from it.
    Read,
    /// It has fields of its own, which are in the table.
    Parent,
    /// It is about something else.
    Elsewhere,
    /// It is about the API server, but only a pod can have it. Named in the log.
    WithoutEffect,
}

/// The fields of a ClusterConfiguration; any other is refused.
const FIELDS: &[(&str, Field)] = &[
    ("apiServer", Field::Parent),
    ("apiServer.certSANs", Field::WithoutEffect),
    ("apiServer.extraArgs", Field::Read),
    ("apiServer.extraEnvs", Field::WithoutEffect),
    ("apiServer.extraVolumes", Field::WithoutEffect),
    ("apiServer.timeoutForControlPlane", Field::Elsewhere),
    ("apiVersion", Field::Read),
    ("caCertificateValidityPeriod", Field::Elsewhere),
    ("certificateValidityPeriod", Field::Elsewhere),
    ("certificatesDir", Field::Read),
    ("clusterName", Field::Elsewhere),
    ("controlPlaneEndpoint", Field::Elsewhere),
    ("controllerManager", Field::Elsewhere),
    ("dns", Field::Elsewhere),
    ("encryptionAlgorithm", Field::Elsewhere),
    ("etcd", Field::Parent),
    ("etcd.external", Field::Parent),
    ("etcd.external.caFile", Field::Read),
    ("etcd.external.certFile", Field::Read),
    ("etcd.external.endpoints", Field::Read),
    ("etcd.external.keyFile", Field::Read),
    ("etcd.local", Field::Read),
    ("featureGates", Field::Elsewhere),
    ("imageRepository", Field::Elsewhere),
    ("kind", Field::Read),
    ("kubernetesVersion", Field::Elsewhere),
    ("networking", Field::Parent),
    ("networking.dnsDomain", Field::Read),
    ("networking.podSubnet", Field::Elsewhere),
    ("networking.serviceSubnet", Field::Read),
    ("proxy", Field::Elsewhere),
    ("scheduler", Field::Elsewhere),
];

/// Flags of kubeadm that depend on nothing.
const ALWAYS: &[(&str, &str)] = &[
    ("enable-admission-plugins", "NodeRestriction"),
    ("enable-bootstrap-token-auth", "true"),
    ("allow-privileged", "true"),
    ("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname"),
    ("authorization-mode", "Node,RBAC"),
];

/// Flags that name files of the folder with certificates.
const FILES: &[(&str, &str)] = &[
    ("service-account-key-file", "sa.pub"),
    ("service-account-signing-key-file", "sa.key"),
    ("client-ca-file", "ca.crt"),
    ("tls-cert-file", "apiserver.crt"),
    ("tls-private-key-file", "apiserver.key"),
    ("kubelet-client-certificate", "apiserver-kubelet-client.crt"),
    ("kubelet-client-key", "apiserver-kubelet-client.key"),
    ("requestheader-client-ca-file", "front-proxy-ca.crt"),
    ("proxy-client-cert-file", "front-proxy-client.crt"),
    ("proxy-client-key-file", "front-proxy-client.key"),
];

/// Flags that go with the front proxy's certificates.
const FRONT_PROXY: &[(&str, &str)] = &[
    ("requestheader-username-headers", "X-Remote-User"),
    ("requestheader-group-headers", "X-Remote-Group"),
    ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
    ("requestheader-allowed-names", "front-proxy-client"),
];

const ETCD_FILES: &[(&str, &str)] = &[
    ("etcd-cafile", "etcd/ca.crt"),
    ("etcd-certfile", "apiserver-etcd-client.crt"),
    ("etcd-keyfile", "apiserver-etcd-client.key"),
];

pub fn arg() -> Arg {
    Arg::new(NAME)
        .long(NAME)
        .value_name("FILE")
        .value_parser(clap::value_parser!(std::path::PathBuf))
        .help(
            "Take flags from this file of kubeadm (ClusterConfiguration and InitConfiguration, v1beta3 or v1beta4): the flags \
             kubeadm gives to kube-apiserver for it. Flags that are given here too count instead of those of the file",
        )
        .help_heading("ferrokube")
}

/// The command line with the flags of its file.
pub struct Expanded {
    pub matches: ArgMatches,
    /// Fields of the file that have no effect.
    pub without_effect: Vec<String>,
}

/// Adds the flags of the file; None where no file is named.
pub fn expand(matches: &ArgMatches, called_as: &str) -> Result<Option<Expanded>, String> {
    let Some(path) = matches.get_one::<std::path::PathBuf>(NAME) else { return Ok(None) };
    let about = |why: String| format!("--{NAME}: {}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
    let mut found = Found::read(&text).map_err(about)?;
    let command = super::command(called_as);
    let mut given: Vec<OsString> = Vec::new();
    for id in command.get_arguments().map(|argument| argument.get_id().as_str()) {
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        found.remove(id);
        for value in matches.get_raw(id).into_iter().flatten() {
            let mut argument = OsString::from(format!("--{id}="));
            argument.push(value);
            given.push(argument);
        }
    }
    let of_file = found.flags.iter().map(|(name, value)| OsString::from(format!("--{name}={value}")));
    let all = std::iter::once(OsString::from(called_as)).chain(of_file).chain(given);
    let matches = command.try_get_matches_from(all).map_err(|error| {
        let said = error.to_string();
        about(said.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string())
    })?;
    Ok(Some(Expanded { matches, without_effect: found.without_effect }))
}

/// The flags of a file.
#[derive(Debug, Default)]
struct Found {
    flags: Vec<(String, String)>,
    without_effect: Vec<String>,
}

impl Found {
    fn read(text: &str) -> Result<Found, String> {
        let (mut cluster, mut init) = (None, None);
        for document in codec::yaml::documents(text) {
            codec::yaml::to_json(document.as_bytes(), true).map_err(|error| error.to_string())?;
            let object = codec::yaml::decode(document.as_bytes(), None, &mut Notes::ignore());
            let object = object.map_err(|error| error.to_string())?;
            let place = match object.str_at(&["kind"]) {
                "ClusterConfiguration" => &mut cluster,
                "InitConfiguration" => &mut init,
                _ => continue,
            };
            check_version(&object)?;
            if place.replace(object).is_some() {
                return Err("there are two documents of one kind".into());
            }
        }
        if cluster.is_none() && init.is_none() {
            return Err("there is no ClusterConfiguration in it".into());
        }
        let mut found = Found::default();
        if let Some(init) = &init {
            found.add_endpoint(init)?;
        }
        if let Some(cluster) = &cluster {
            found.add_cluster(cluster)?;
        }
        Ok(found)
    }

    /// Where this server is, from the InitConfiguration, the rest of which is about the node.
    fn add_endpoint(&mut self, init: &Value) -> Result<(), String> {
        let endpoint = init.at(&["localAPIEndpoint"]);
        if let Some(address) = text(endpoint, "advertiseAddress", "localAPIEndpoint.advertiseAddress")? {
            self.add("advertise-address", address);
        }
        match endpoint.get("bindPort") {
            None => {}
            Some(Value::Int(port)) => self.add("secure-port", port.to_string()),
            Some(_) => return Err("localAPIEndpoint.bindPort must be a number".into()),
        }
        Ok(())
    }

    fn add_cluster(&mut self, cluster: &Value) -> Result<(), String> {
        self.check_fields(cluster, "")?;
        for (name, value) in ALWAYS {
            self.add(name, *value);
        }
        let networking = cluster.at(&["networking"]);
        if let Some(range) = text(networking, "serviceSubnet", "networking.serviceSubnet")? {
            self.add("service-cluster-ip-range", range);
        }
        if let Some(domain) = text(networking, "dnsDomain", "networking.dnsDomain")? {
            self.add("service-account-issuer", format!("https://kubernetes.default.svc.{domain}"));
        }
        let certificates = text(cluster, "certificatesDir", "certificatesDir")?;
        if let Some(folder) = certificates {
            self.add_files(folder, FILES);
            for (name, value) in FRONT_PROXY {
                self.add(name, *value);
            }
        }
        self.add_etcd(cluster.at(&["etcd"]), certificates.unwrap_or(CERTIFICATES))?;
        let extra = extra_arguments(cluster.at(&["apiServer"]), cluster.str_at(&["apiVersion"]))?;
        extra.iter().for_each(|(name, _)| self.remove(name));
        self.flags.extend(extra);
        Ok(())
    }

    fn add_etcd(&mut self, etcd: &Value, certificates: &str) -> Result<(), String> {
        match (etcd.get("external"), etcd.get("local")) {
            (Some(_), Some(_)) => Err("etcd.external and etcd.local exclude each other".into()),
            (Some(external), None) => {
                self.add("etcd-servers", list(external, "endpoints", "etcd.external.endpoints")?.join(","));
                for (field, name) in
                    [("caFile", "etcd-cafile"), ("certFile", "etcd-certfile"), ("keyFile", "etcd-keyfile")]
                {
                    if let Some(file) = text(external, field, field)?.filter(|file| !file.is_empty()) {
                        self.add(name, file);
                    }
                }
                Ok(())
            }
            (None, Some(_)) => {
                let is_v6 = |flag: &(String, String)| flag.0 == "advertise-address" && flag.1.contains(':');
                let is_on_v6 = self.flags.iter().any(is_v6);
                self.add("etcd-servers", if is_on_v6 { "https://[::1]:2379" } else { "https://127.0.0.1:2379" });
                self.add_files(certificates, ETCD_FILES);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    fn add_files(&mut self, folder: &str, files: &[(&str, &str)]) {
        for (name, file) in files {
            self.add(name, Path::new(folder).join(file).display().to_string());
        }
    }

    fn add(&mut self, name: &str, value: impl Into<String>) {
        self.flags.push((name.into(), value.into()));
    }

    /// Takes away what is given elsewhere. A file that says how to authorize replaces modes.
    fn remove(&mut self, name: &str) {
        let replaced = if name == "authorization-config" { "authorization-mode" } else { name };
        self.flags.retain(|(flag, _)| flag != name && flag != replaced);
    }

    /// Refuses fields that are not known, and notes those without effect.
    fn check_fields(&mut self, object: &Value, above: &str) -> Result<(), String> {
        let Some(fields) = object.as_map() else {
            return Err(format!("{} must be an object", above.trim_end_matches('.')));
        };
        for (name, value) in fields.iter() {
            let path = format!("{above}{name}");
            match FIELDS.iter().find(|(known, _)| *known == path) {
                None => return Err(format!("unknown field {}", object::quote(&path))),
                Some((_, Field::Parent)) => self.check_fields(value, &format!("{path}."))?,
                Some((_, Field::WithoutEffect)) if !value.is_empty() => self.without_effect.push(path),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn check_version(object: &Value) -> Result<(), String> {
    let version = object.str_at(&["apiVersion"]);
    match version.split_once('/') {
        Some((GROUP, WITH_MAP | WITH_LIST)) => Ok(()),
        _ => Err(format!(
            "apiVersion {} is not known; {GROUP}/{WITH_LIST} and {GROUP}/{WITH_MAP} are",
            object::quote(version)
        )),
    }
}

/// `extraArgs`, in the order of the file.
fn extra_arguments(server: &Value, version: &str) -> Result<Vec<(String, String)>, String> {
    const PATH: &str = "apiServer.extraArgs";
    let mut found = Vec::new();
    match server.get("extraArgs") {
        None | Some(Value::Null) => {}
        Some(Value::Map(flags)) if version.ends_with(WITH_MAP) => {
            for (name, value) in flags.iter() {
                let value = value.as_str().ok_or_else(|| format!("{PATH}.{name} must be a string"))?;
                found.push((name.to_string(), value.to_string()));
            }
        }
        Some(Value::List(flags)) if version.ends_with(WITH_LIST) => {
            for (at, flag) in flags.iter().enumerate() {
                let field = |name: &str| {
                    let value = flag.get(name).and_then(Value::as_str);
                    value.map(str::to_string).ok_or_else(|| format!("{PATH}[{at}].{name} must be a string"))
                };
                found.push((field("name")?, field("value")?));
            }
        }
        Some(_) if version.ends_with(WITH_MAP) => return Err(format!("{PATH} must be a map of names and values")),
        Some(_) => return Err(format!("{PATH} must be a list of names and values")),
    }
    match found.iter().find(|(name, _)| NOT_IN_FILES.contains(&name.as_str())) {
        Some((name, _)) => Err(format!("{PATH}: --{name} can only be given on the command line")),
        None => Ok(found),
    }
}

fn text<'a>(object: &'a Value, name: &str, path: &str) -> Result<Option<&'a str>, String> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or_else(|| format!("{path} must be a string")),
    }
}

fn list(object: &Value, name: &str, path: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("{path} must be a list of strings");
    let items = object.get(name).and_then(Value::as_list).ok_or_else(wrong)?;
    items.iter().map(|item| item.as_str().map(str::to_string).ok_or_else(wrong)).collect()
}

#[cfg(test)]
mod tests;
