//! OpenAPI: the operations and types of the catalog, described for clients and for people.
//!
//! There is one document of the second version, and one for each group-version of the third. They are written when first
//! asked for. A document is kept for as long as its resources are the very same ones, whatever else changes in the
//! catalog; what is kept does not keep resources alive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};

use aggregator::Specification;
use bytes::Bytes;
use codec::Notes;
use object::{GroupVersion, Timestamp, Value};
use registry::{Catalog, Resource};

use crate::{extensions, groups, hash};
use definitions::Audience;
use routes::Route;

mod definitions;
pub mod json;
mod merge;
mod names;
mod parameters;
mod paths;
mod proto;
mod routes;
mod schemas;
mod v2;
mod v3;

#[cfg(test)]
mod tests;

/// What the documents of built-in resources are called, and the version of Kubernetes they are of.
const TITLE_AND_VERSION: (&str, &str) = ("Kubernetes", "1.37");

/// All documents of one catalog.
pub struct Documents {
    v2: Arc<Document>,
    /// By name in the index: `apis/apps/v1`.
    v3: BTreeMap<String, Arc<Document>>,
    /// Documents of the third version that other API servers have, with their URLs.
    elsewhere: BTreeMap<String, String>,
}

/// A document, in the forms that were asked for so far.
pub struct Document {
    of: Of,
    /// Documents of other API servers that this one is made of, or that are merged into it.
    others: Vec<Arc<Value>>,
    /// The resources that it was made for, to see whether it still holds.
    resources: Vec<Weak<Resource>>,
    etag: OnceLock<String>,
    json: OnceLock<Bytes>,
    proto: OnceLock<Bytes>,
    modified: OnceLock<Timestamp>,
    /// With what ferrokube has beyond upstream's API, and its hash.
    extended: OnceLock<(String, Bytes)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    Everything,
    /// A path that every server has.
    Fixed(&'static str),
    Group(String),
    Version(GroupVersion),
    /// What another API server has in the second version only, in the third; it is the only one of `others`.
    Converted,
}

/// How a document is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    Proto,
}

impl Documents {
    /// The documents of a catalog and of other API servers; those that are the same as before are taken over.
    pub fn new(catalog: &Catalog, others: &[Arc<Specification>], before: Option<&Documents>) -> Documents {
        let mut all: Vec<(String, Document)> = Vec::new();
        for (name, _) in routes::fixed() {
            all.push((name.into(), Document::new(Of::Fixed(name), &[])));
        }
        for version in catalog.versions() {
            let resources: Vec<Arc<Resource>> = catalog.listed(version).cloned().collect();
            let name = routes::root(version)[1..].to_string();
            all.push((name, Document::new(Of::Version(version.clone()), &resources)));
        }
        // Groups of custom resources alone have no document, as upstream has it.
        for group in groups::local(catalog) {
            let is_builtin = |version: &GroupVersion| catalog.has_builtin(version);
            if group.versions.iter().any(is_builtin) {
                all.push((format!("apis/{}", group.name), Document::new(Of::Group(group.name.to_string()), &[])));
            }
        }
        for (name, converted) in others.iter().flat_map(|other| other.converted.iter()) {
            let mut document = Document::new(Of::Converted, &[]);
            document.others.push(converted.clone());
            all.push((name.clone(), document));
        }
        let keep = |name: &str, new: Document| {
            let old = before.and_then(|before| before.v3.get(name));
            old.filter(|old| old.is_of_the_same(&new)).cloned().unwrap_or_else(|| Arc::new(new))
        };
        let v3 = all.into_iter().map(|(name, new)| (name.clone(), keep(&name, new))).collect();
        let mut v2 = Document::new(Of::Everything, &[]);
        v2.others = others.iter().filter_map(|other| other.v2.clone()).collect();
        let elsewhere = others.iter().flat_map(|other| other.v3.clone()).collect();
        Documents { v2: Arc::new(v2), v3, elsewhere }
    }

    pub fn v2(&self) -> &Arc<Document> {
        &self.v2
    }

    pub fn v3(&self, name: &str) -> Option<&Arc<Document>> {
        self.v3.get(name)
    }

    /// The index of the third version: where each document is, its hash included so that it can be kept forever.
    pub fn index(&self, catalog: &Catalog, now: Timestamp, extensions: bool) -> Vec<u8> {
        let mut json = json::Json::new(true);
        json.object(|json| {
            json.key("paths").object(|json| {
                let names: BTreeSet<&String> = self.v3.keys().chain(self.elsewhere.keys()).collect();
                for name in names {
                    let own = || self.v3.get(name).map(|document| url(name, document.etag(catalog, now)));
                    // The document of a group stays ours; that of a version is its server's.
                    let is_version = name.matches('/').count() == 2;
                    let elsewhere = || self.elsewhere.get(name).cloned();
                    let url = match (is_version, extensions) {
                        (true, false) => elsewhere().or_else(own),
                        (false, false) => own().or_else(elsewhere),
                        (_, true) => Some(["/openapi/v3/", name, "?extensions=true"].concat()),
                    };
                    json.key(name).object(|json| json.key("serverRelativeURL").string(&url.unwrap_or_default()));
                }
                if extensions {
                    let url = ["/openapi/v3", extensions::DOCUMENT].join("/");
                    json.key(extensions::DOCUMENT).object(|json| json.key("serverRelativeURL").string(&url));
                }
            });
        });
        json.finish()
    }
}

/// Where a document of the third version is.
pub fn url(name: &str, etag: &str) -> String {
    format!("/openapi/v3/{name}?hash={etag}")
}

impl Document {
    fn new(of: Of, resources: &[Arc<Resource>]) -> Document {
        Document {
            of,
            others: Vec::new(),
            resources: resources.iter().map(Arc::downgrade).collect(),
            etag: OnceLock::new(),
            json: OnceLock::new(),
            proto: OnceLock::new(),
            modified: OnceLock::new(),
            extended: OnceLock::new(),
        }
    }

    fn is_of_the_same(&self, other: &Document) -> bool {
        self.of == other.of
            && self.resources.len() == other.resources.len()
            && self.resources.iter().zip(&other.resources).all(|(a, b)| a.ptr_eq(b))
            && self.others.len() == other.others.len()
            && self.others.iter().zip(&other.others).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// The hash of the JSON form, which stands for all of them.
    pub fn etag(&self, catalog: &Catalog, now: Timestamp) -> &str {
        self.etag.get_or_init(|| {
            self.modified.get_or_init(|| now);
            match self.json.get() {
                Some(json) => hash::sha512(json),
                None => hash::sha512(&self.write(catalog)),
            }
        })
    }

    /// When it was first written.
    pub fn modified(&self, now: Timestamp) -> Timestamp {
        *self.modified.get_or_init(|| now)
    }

    pub fn bytes(&self, catalog: &Catalog, form: Form) -> Bytes {
        let json = || self.json.get_or_init(|| self.write(catalog).into());
        match form {
            Form::Json => json().clone(),
            Form::Proto => self.proto.get_or_init(|| self.as_proto(catalog)).clone(),
        }
    }

    /// The JSON form with what ferrokube has beyond upstream's API, and its hash.
    pub fn extended(&self, catalog: &Catalog) -> (String, Bytes) {
        let extended = self.extended.get_or_init(|| {
            let json = Bytes::from(extensions::with_parameters(&self.bytes(catalog, Form::Json)));
            (hash::sha512(&json), json)
        });
        extended.clone()
    }

    fn as_proto(&self, catalog: &Catalog) -> Bytes {
        let json = self.json.get().cloned().unwrap_or_else(|| self.write(catalog).into());
        let root = if self.of == Of::Everything { &proto::V2 } else { &proto::V3 };
        let document = codec::json::decode(&json, None, &mut Notes::ignore());
        document.map(|document| proto::convert(&document, root)).unwrap_or_default().into()
    }

    fn write(&self, catalog: &Catalog) -> Vec<u8> {
        match &self.of {
            Of::Everything => merge::merge(everything(catalog), &self.others),
            Of::Fixed(name) => {
                let routes: Vec<Route> =
                    routes::fixed().into_iter().filter(|(known, _)| known == name).map(|(_, route)| route).collect();
                v3::write(&routes, &[], &Audience::Everybody)
            }
            Of::Group(group) => v3::write(&[routes::for_group(group)], &[], &Audience::Everybody),
            Of::Version(version) => group_version(catalog, version),
            Of::Converted => {
                let mut json = Vec::new();
                self.others.iter().for_each(|document| codec::json::encode(document, None, &mut json));
                json
            }
        }
    }
}

fn group_version(catalog: &Catalog, version: &GroupVersion) -> Vec<u8> {
    let resources: Vec<Arc<Resource>> = catalog.listed(version).cloned().collect();
    let mut all = routes::of(catalog, version);
    if resources.iter().all(|resource| resource.is_custom()) {
        return v3::write(&all, &resources, &Audience::Custom);
    }
    all.push(routes::for_version(version));
    v3::write(&all, &resources, &Audience::Version(version.clone()))
}

fn everything(catalog: &Catalog) -> Vec<u8> {
    let resources: Vec<Arc<Resource>> =
        catalog.versions().iter().flat_map(|version| catalog.listed(version)).cloned().collect();
    let mut all: Vec<Route> = routes::fixed().into_iter().map(|(_, route)| route).collect();
    for version in catalog.versions() {
        all.extend(routes::of(catalog, version));
        if catalog.has_builtin(version) {
            all.push(routes::for_version(version));
        }
    }
    for group in groups::local(catalog) {
        if group.versions.iter().any(|version| catalog.has_builtin(version)) {
            all.push(routes::for_group(&group.name));
        }
    }
    v2::write(&all, &resources)
}
