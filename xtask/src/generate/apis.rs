//! Groups, versions and resources, from recorded discovery: the table's second half.

use std::collections::BTreeMap;

use base64::Engine;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::Result;
use super::types::Facts;

pub struct Group {
    /// "" for core.
    pub name: String,
    pub versions: Vec<Version>,
}

pub struct Version {
    pub name: String,
    pub enabled: bool,
    pub resources: Vec<Resource>,
}

pub struct Resource {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub hash: Option<String>,
    /// group/version/Kind of what is kept in the store.
    pub stored: Option<(String, String, String)>,
    pub subresources: Vec<Subresource>,
    pub columns: Vec<Column>,
}

pub struct Subresource {
    pub name: String,
    pub verbs: Vec<String>,
    /// group, version and kind; the first two are empty where they are the resource's own.
    pub kind: (String, String, String),
}

pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub priority: i64,
}

/// Every group in the order in which discovery lists it.
pub fn groups(recorded: &facts::Facts, facts: &Facts) -> Result<Vec<Group>> {
    let everything = recorded.json("all-apis/discovery-aggregated.json")?;
    let by_default = recorded.json("discovery/aggregated.json")?;
    let columns = [recorded.json("table-columns.json")?, recorded.json("all-apis/table-columns-added.json")?];
    let hashes = hashes(&recorded.json("all-apis/discovery-unaggregated.json")?);
    let mut groups = Vec::new();
    for (root, group) in items(&everything) {
        let name = text(&group["metadata"]["name"]);
        let mut versions = Vec::new();
        for version in list(&group["versions"]) {
            let version_name = text(&version["version"]);
            let on = items(&by_default).find(|(_, g)| text(&g["metadata"]["name"]) == name);
            let on = on.and_then(|(_, g)| list(&g["versions"]).iter().find(|v| v["version"] == version["version"]));
            let path = if name.is_empty() {
                format!("{root}/{version_name}")
            } else {
                format!("{root}/{name}/{version_name}")
            };
            let mut resources = Vec::new();
            for resource in list(&version["resources"]) {
                check_same(on, resource, &path)?;
                let plural = text(&resource["resource"]);
                let key = format!("{path}/{plural}");
                let hash = hashes.get(&key).cloned();
                let kind = text(&resource["responseKind"]["kind"]);
                let stored = hash.as_ref().map(|hash| stored(hash, &name, &kind, facts)).transpose()?;
                let columns = columns.iter().find_map(|c| c.get(&key)).map(read_columns).unwrap_or_default();
                resources.push(read_resource(resource, hash, stored, columns));
            }
            versions.push(Version { name: version_name, enabled: on.is_some(), resources });
        }
        groups.push(Group { name, versions });
    }
    Ok(groups)
}

/// Where a version is on by default, its resources must not depend on what else is on: the table says it per version.
fn check_same(on: Option<&Json>, resource: &Json, path: &str) -> Result<()> {
    let Some(on) = on else { return Ok(()) };
    let same = list(&on["resources"]).iter().any(|r| r == resource);
    if same { Ok(()) } else { Err(format!("{path}/{}: differs between the two recordings", resource["resource"])) }
}

fn read_resource(
    resource: &Json,
    hash: Option<String>,
    stored: Option<(String, String, String)>,
    columns: Vec<Column>,
) -> Resource {
    let subresources = list(&resource["subresources"]).iter().map(|sub| {
        let kind = &sub["responseKind"];
        Subresource {
            name: text(&sub["subresource"]),
            verbs: strings(&sub["verbs"]),
            kind: (text(&kind["group"]), text(&kind["version"]), text(&kind["kind"])),
        }
    });
    Resource {
        plural: text(&resource["resource"]),
        singular: text(&resource["singularResource"]),
        kind: text(&resource["responseKind"]["kind"]),
        namespaced: resource["scope"] == "Namespaced",
        verbs: strings(&resource["verbs"]),
        short_names: strings(&resource["shortNames"]),
        categories: strings(&resource["categories"]),
        hash,
        stored,
        subresources: subresources.collect(),
        columns,
    }
}

fn read_columns(columns: &Json) -> Vec<Column> {
    let columns = list(columns).iter().map(|column| Column {
        name: text(&column["name"]),
        kind: text(&column["type"]),
        format: text(&column["format"]),
        priority: column["priority"].as_i64().unwrap_or(0),
    });
    columns.collect()
}

/// Storage version hashes by path.
fn hashes(plain: &Json) -> BTreeMap<String, String> {
    let mut hashes = BTreeMap::new();
    for (path, document) in plain.as_object().into_iter().flatten() {
        for resource in list(&document["resources"]) {
            if let Some(hash) = resource["storageVersionHash"].as_str() {
                hashes.insert(format!("{path}/{}", text(&resource["name"])), hash.to_owned());
            }
        }
    }
    hashes
}

/// The hash is of the stored group, version and kind, so the kind that has this hash is the stored one. It is nearly always
/// of the same group (events are not).
fn stored(hash: &str, group: &str, kind: &str, facts: &Facts) -> Result<(String, String, String)> {
    let mut candidates: Vec<_> = facts.kinds.iter().filter(|k| k.kind == kind).collect();
    candidates.sort_by_key(|k| k.group != group);
    let found = candidates.iter().find(|k| {
        let digest = Sha256::digest(format!("{}/{}/{}", k.group, k.version, k.kind));
        base64::engine::general_purpose::STANDARD.encode(&digest[..8]) == hash
    });
    let found = found.ok_or_else(|| format!("no kind has the storage version hash {hash} of {kind}.{group}"))?;
    Ok((found.group.clone(), found.version.clone(), found.kind.clone()))
}

fn items(document: &Json) -> impl Iterator<Item = (&str, &Json)> {
    ["/api", "/apis"].into_iter().flat_map(|root| list(&document[root]["items"]).iter().map(move |g| (root, g)))
}

fn list(value: &Json) -> &[Json] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_default().into()
}

fn strings(value: &Json) -> Vec<String> {
    list(value).iter().map(text).collect()
}
