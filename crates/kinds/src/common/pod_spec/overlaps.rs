//! Files of a volume that are in each other's way.

use object::{Value, quote};

/// A file, and the source it comes from if there are several.
#[derive(Clone, PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: &str, source: &str) -> File {
        File { path: path.trim_end_matches('/').to_string(), source: source.to_string() }
    }

    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => quote(&self.path),
            source => format!("{} ({source})", quote(&self.path)),
        }
    }

    /// The same path, or one inside the other.
    fn overlaps(&self, other: &File) -> bool {
        let inside = |a: &str, b: &str| a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (inside(&self.path, &other.path) || inside(&other.path, &self.path))
    }
}

/// How many pairs of files, or of ports, of one pod are compared. Clients see the first 4,096 characters of all warnings, so
/// the rest of the overlaps in a pod with very many is not worth looking for.
pub const PAIRS_MAX: usize = 5_000;

/// A warning for every pair of files that overlap in a volume.
pub fn in_volumes(volumes: &[Value]) -> Vec<String> {
    let mut warnings = Warnings { texts: Vec::new(), pairs: PAIRS_MAX };
    for volume in volumes {
        let name = quote(volume.str_at(&["name"]));
        for (field, name_field, kind) in [("configMap", "name", "ConfigMap"), ("secret", "secretName", "Secret")] {
            let source = volume.field(field);
            let description = format!("{kind} {}", quote(source.str_at(&[name_field])));
            report(&name, &description, files(source, ""), &mut warnings);
        }
        report(&name, "DownwardAPI", files(volume.field("downwardAPI"), ""), &mut warnings);
        let mut all = Vec::new();
        for source in volume.list_at(&["projected", "sources"]) {
            if source.as_map().is_none_or(|map| map.values().all(Value::is_null)) {
                warnings.texts.push(format!("volume {name} (Projected) has no sources provided"));
            }
            let from = all.len();
            all.extend(projected(source));
            overlapping(&name, "Projected", &all, from, &mut warnings);
        }
    }
    warnings.texts
}

struct Warnings {
    texts: Vec<String>,
    /// How many more pairs are compared.
    pairs: usize,
}

fn report(volume: &str, description: &str, files: Vec<File>, warnings: &mut Warnings) {
    overlapping(volume, description, &files, 0, warnings);
}

/// Compares the files from `from` on with all before them.
fn overlapping(volume: &str, description: &str, files: &[File], from: usize, warnings: &mut Warnings) {
    for (i, file) in files.iter().enumerate().skip(from) {
        let compared = &files[..i.min(warnings.pairs)];
        warnings.pairs -= compared.len();
        for other in compared.iter().filter(|other| file.overlaps(other)) {
            let (file, other) = (file.shown(), other.shown());
            warnings.texts.push(format!("volume {volume} ({description}): overlapping paths: {file} with {other}"));
        }
    }
}

fn files(source: &Value, description: &str) -> Vec<File> {
    source.list_at(&["items"]).iter().map(|item| File::new(item.str_at(&["path"]), description)).collect()
}

/// The files of the first source that has any.
fn projected(source: &Value) -> Vec<File> {
    let named = |kind: &str, name: &str| format!("{kind} {}", quote(name));
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        let source = source.field(field);
        if !source.field("items").is_null() {
            return files(source, &named(kind, source.str_at(&["name"])));
        }
    }
    let downward = source.field("downwardAPI");
    if !downward.field("items").is_null() {
        return files(downward, "DownwardAPI");
    }
    let token = source.field("serviceAccountToken");
    if !token.is_null() {
        return vec![File::new(token.str_at(&["path"]), "ServiceAccountToken")];
    }
    let bundle = source.field("clusterTrustBundle");
    if !bundle.is_null() {
        let name = bundle.field("name").as_str().unwrap_or(bundle.str_at(&["signerName"]));
        return vec![File::new(bundle.str_at(&["path"]), &named("ClusterTrustBundle", name))];
    }
    let certificate = source.field("podCertificate");
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let parts = parts.iter().map(|(field, source)| File::new(certificate.str_at(&[field]), source));
    parts.filter(|file| !file.path.is_empty()).collect()
}
