//! A container image as an OCI image layout, written without a container engine: one layer of the program on nothing else, for each
//! Linux platform, and an index of them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::archive::{Archive, gzip, sha256};
use super::platform::Platform;
use super::{Release, VERSION};

/// The user that the program runs as, and that owns the folder for data.
pub const USER: u64 = 65532;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Writes the layout as `ferrokube-<version>-image.tar`, which skopeo, podman, crane, ctr and others take as it is.
pub fn write(release: &Release) -> Result<(), String> {
    let mut programs = Vec::new();
    for platform in release.platforms().into_iter().filter(|platform| platform.os == "linux") {
        let path = release.program(platform);
        programs.push((platform, fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?));
    }
    if programs.is_empty() {
        return Ok(());
    }
    let layout = Layout::of(release, &programs)?;
    let mut archive = Archive::new(release.seconds);
    archive.folders_above(layout.files.iter().map(|(path, _)| path.as_str()))?;
    for (path, bytes) in &layout.files {
        archive.file(path, 0o644, bytes)?;
    }
    release.write(&name(), &archive.finish()?).map(drop)
}

pub fn name() -> String {
    format!("ferrokube-{VERSION}-image.tar")
}

/// The files of a layout.
pub struct Layout {
    pub files: Vec<(String, Vec<u8>)>,
}

impl Layout {
    pub fn of(release: &Release, programs: &[(&Platform, Vec<u8>)]) -> Result<Layout, String> {
        let mut layout = Layout { files: vec![("oci-layout".into(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec())] };
        let created = rfc3339(release.seconds);
        let mut manifests = Vec::new();
        for (platform, program) in programs {
            let mut manifest = layout.image(release, platform, program, &created)?;
            manifest["platform"] = json!({"os": platform.os, "architecture": platform.architecture});
            manifests.push(manifest);
        }
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": annotations(release)});
        let mut index = layout.blob(INDEX, index.to_string().into_bytes());
        index["annotations"] = json!({"org.opencontainers.image.ref.name": VERSION});
        let top = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [index]});
        layout.files.push(("index.json".into(), top.to_string().into_bytes()));
        Ok(layout)
    }

    /// The image of one platform; answers with the descriptor of its manifest.
    fn image(
        &mut self,
        release: &Release,
        platform: &Platform,
        program: &[u8],
        created: &str,
    ) -> Result<Value, String> {
        let root = root(release.seconds, program)?;
        let config = json!({
            "created": created,
            "architecture": platform.architecture,
            "os": platform.os,
            "config": {
                "User": format!("{USER}:{USER}"),
                "Env": ["PATH=/usr/local/bin:/usr/bin"],
                "Entrypoint": ["/usr/bin/ferrokube"],
                "Cmd": ["serve", "--data-dir=/var/lib/ferrokube", "--bind-address=0.0.0.0"],
                "ExposedPorts": {"6443/tcp": {}},
                "Volumes": {"/var/lib/ferrokube": {}},
                "WorkingDir": "/var/lib/ferrokube",
                "Labels": annotations(release),
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&root))]},
            "history": [{"created": created, "created_by": "cargo xtask dist"}],
        });
        let config = self.blob(CONFIG, config.to_string().into_bytes());
        let layer = self.blob(LAYER, gzip(&root)?);
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        Ok(self.blob(MANIFEST, manifest.to_string().into_bytes()))
    }

    /// Adds content; answers with its descriptor.
    fn blob(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = sha256(&bytes);
        let descriptor = json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()});
        let path = format!("blobs/sha256/{digest}");
        if !self.files.iter().any(|(known, _)| *known == path) {
            self.files.push((path, bytes));
        }
        descriptor
    }
}

/// The only layer. By the name kube-apiserver the program has that program's defaults, for manifests that call it so.
fn root(seconds: u64, program: &[u8]) -> Result<Vec<u8>, String> {
    let passwd = format!(
        "root:x:0:0:root:/:/sbin/nologin\nferrokube:x:{USER}:{USER}:ferrokube:/var/lib/ferrokube:/sbin/nologin\n"
    );
    let group = format!("root:x:0:\nferrokube:x:{USER}:\n");
    let mut archive = Archive::new(seconds);
    for folder in ["etc", "usr", "usr/bin", "usr/local", "usr/local/bin", "var", "var/lib"] {
        archive.folder(folder, 0o755)?;
    }
    archive.folder("tmp", 0o1777)?;
    archive.file("etc/passwd", 0o644, passwd.as_bytes())?;
    archive.file("etc/group", 0o644, group.as_bytes())?;
    archive.file("usr/bin/ferrokube", 0o755, program)?;
    archive.link("usr/local/bin/kube-apiserver", "/usr/bin/ferrokube")?;
    archive.owned_by(USER);
    archive.folder("var/lib/ferrokube", 0o700)?;
    archive.finish()
}

fn annotations(release: &Release) -> Value {
    json!({
        "org.opencontainers.image.title": "ferrokube",
        "org.opencontainers.image.description": "The Kubernetes API server, in one small binary",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.revision": release.commit,
    })
}

/// A time in seconds since the epoch as `2026-11-19T02:00:00Z`.
pub fn rfc3339(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// Reads a layout's image for a platform from its archive and unpacks its layers into a folder, checking every digest.
pub fn unpack(archive: &Path, architecture: &str, folder: &Path) -> Result<Value, String> {
    let bytes = fs::read(archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    let files = super::check::untar(&bytes)?;
    let find = |path: &str| {
        files.iter().find(|(known, _)| known == path).map(|(_, bytes)| bytes).ok_or(format!("the layout has no {path}"))
    };
    let blob = |descriptor: &Value| -> Result<&Vec<u8>, String> {
        let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).unwrap_or("");
        let bytes = find(&format!("blobs/sha256/{digest}"))?;
        match sha256(bytes) == digest && descriptor["size"].as_u64() == Some(bytes.len() as u64) {
            true => Ok(bytes),
            false => Err(format!("{descriptor} describes other bytes")),
        }
    };
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).map_err(|error| error.to_string());
    let top = read(find("index.json")?)?;
    let index = read(blob(&top["manifests"][0])?)?;
    let manifests = index["manifests"].as_array().map_or(&[][..], Vec::as_slice);
    let chosen = manifests.iter().find(|manifest| manifest["platform"]["architecture"] == architecture);
    let manifest = read(blob(chosen.ok_or(format!("the index has no image for {architecture}"))?)?)?;
    let config = read(blob(&manifest["config"])?)?;
    let layers = manifest["layers"].as_array().map_or(&[][..], Vec::as_slice);
    for (layer, diff) in layers.iter().zip(config["rootfs"]["diff_ids"].as_array().map_or(&[][..], Vec::as_slice)) {
        let bytes = super::check::gunzip(blob(layer)?)?;
        if diff.as_str() != Some(&format!("sha256:{}", sha256(&bytes))) {
            return Err(format!("{diff} is not the digest of the layer"));
        }
        let mut reader = tar::Archive::new(bytes.as_slice());
        reader.set_preserve_permissions(true);
        reader.set_preserve_ownerships(rustix::process::geteuid().is_root());
        reader.unpack(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(config)
}
