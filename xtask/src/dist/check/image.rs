//! The image's layout, unpacked and run by chroot as its configuration says: its user, its entry point, its command.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::super::platform::Platform;
use super::super::{Release, oci};
use super::namespaces;
use super::unit::chroot;
use crate::conformance::{Lab, free_port};

pub fn run(release: &Release, platform: &Platform) -> Result<String, String> {
    let archive = release.folder.join(oci::name());
    let mut lab = Lab::new("dist-image")?;
    if !rustix::process::geteuid().is_root() {
        return Err("only root can run an image by chroot: sudo -E cargo xtask dist --check image".into());
    }
    let root = lab.folder.join("root");
    let began = Instant::now();
    let image = oci::unpack(&archive, platform.architecture, &root)?;
    let config = &image["config"];
    let port = free_port()?;
    let words = |name: &str| config[name].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut command = chroot();
    command.arg(format!("--userspec={}", config["User"].as_str().unwrap_or(""))).arg(&root);
    command.args(words("Entrypoint")).args(words("Cmd")).arg(format!("--secure-port={port}")).env_clear();
    for (name, value) in words("Env").filter_map(|pair| pair.split_once('=')) {
        command.env(name, value);
    }
    let data = root.join(Path::new("var/lib/ferrokube"));
    let server = lab.start(&mut command, &data, port)?;
    let took = namespaces(&server, began)?;
    lab.stop("ferrokube")?;
    let mut renamed = chroot();
    renamed.arg(&root).args(["/usr/local/bin/kube-apiserver", "--version"]);
    let said = crate::conformance::standard_output("kube-apiserver", &mut renamed)?;
    Ok(format!("{took}; as kube-apiserver it is {}", said.trim()))
}
