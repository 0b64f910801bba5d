//! [`Discovery`]: from a path to a document.

use std::sync::{Arc, OnceLock, Weak};

use aggregator::{Aggregator, Specification};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, VARY};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use object::{GroupResource, GroupVersion, GroupVersionKind, Status, Str, Value};
use registry::Catalog;
use rest::accept::{self, AskedKind, Chosen};
use rest::{Accept, Api, Call, Media, Reply, ReplyBody};

use peers::Peers;

use crate::openapi::Documents;
use crate::{aggregated, conditional, extensions, groups, plain};

mod openapi;

/// Serves discovery and OpenAPI documents.
#[derive(Clone)]
pub struct Discovery {
    shared: Arc<Shared>,
}

struct Shared {
    api: Arc<Api>,
    /// Knows the APIServices; None in a server without any.
    aggregator: Option<Arc<Aggregator>>,
    /// Knows what other servers on the same store serve, if requests are passed on to them.
    peers: Option<Arc<Peers>>,
    /// Where clients reach this server: host and port.
    address: String,
    latest: ArcSwapOption<DiscoverySnapshot>,
}

/// The documents that were made of one catalog. It does not keep the catalog, so that the resources of an old one are dropped.
struct DiscoverySnapshot {
    catalog: Weak<Catalog>,
    /// That of the aggregator.
    generation: u64,
    /// That of the peers.
    peer_generation: u64,
    core: OnceLock<aggregated::Document>,
    groups: OnceLock<aggregated::Document>,
    /// Those of this server and of its peers; None if these are the same as `groups`.
    merged: OnceLock<Option<aggregated::Document>>,
    documents: Documents,
}

impl Discovery {
    /// `address` is what clients are told to reach this server at.
    pub fn new(
        api: Arc<Api>,
        aggregator: Option<Arc<Aggregator>>,
        peers: Option<Arc<Peers>>,
        address: impl Into<String>,
    ) -> Discovery {
        let shared = Shared { api, aggregator, peers, address: address.into(), latest: ArcSwapOption::empty() };
        Discovery { shared: Arc::new(shared) }
    }

    /// The answer, if the path is one of ours.
    pub async fn answer(&self, call: &Call) -> Option<Reply> {
        let reply = match call.info.path.as_str() {
            path if path == "/openapi/v2" || path == "/openapi/v3" || path.starts_with("/openapi/v3/") => {
                Some(openapi::answer(self, call).await)
            }
            path => self.shared.answer(call, path),
        };
        reply.map(|reply| without_body_for_head(call, reply))
    }

    /// The paths to list under `/`.
    pub fn listed(&self) -> Vec<String> {
        let catalog = self.shared.api.catalog.load();
        let mut paths: Vec<String> =
            ["/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/"].map(str::to_string).to_vec();
        for version in catalog.versions() {
            match version.group.as_str() {
                "" => paths.push(format!("/api/{}", version.version)),
                group => paths.extend([format!("/apis/{group}"), format!("/apis/{version}")]),
            }
        }
        let services = self.shared.aggregator.as_deref().map(Aggregator::services).unwrap_or_default();
        for version in services.iter().map(|service| &service.version).filter(|version| !version.group.is_empty()) {
            paths.extend([format!("/apis/{}", version.group), format!("/apis/{version}")]);
        }
        paths.sort();
        paths.dedup();
        paths
    }
}

impl Shared {
    /// The catalog of this moment and what was made of it.
    fn snapshot(&self) -> (Arc<Catalog>, Arc<DiscoverySnapshot>) {
        let catalog = self.api.catalog.load_full();
        let generation = self.aggregator.as_ref().map_or(0, |aggregator| aggregator.generation());
        let peer_generation = self.peers.as_ref().map_or(0, |peers| peers.generation());
        let latest = self.latest.load_full();
        if let Some(latest) = &latest
            && (latest.generation, latest.peer_generation) == (generation, peer_generation)
            && latest.catalog.ptr_eq(&Arc::downgrade(&catalog))
        {
            return (catalog, latest.clone());
        }
        // Two requests that come at once may both get here: what they make is the same, and one of them is kept.
        let documents =
            Documents::new(&catalog, &self.specifications(), latest.as_ref().map(|latest| &latest.documents));
        let snapshot = Arc::new(DiscoverySnapshot {
            catalog: Arc::downgrade(&catalog),
            generation,
            peer_generation,
            core: OnceLock::new(),
            groups: OnceLock::new(),
            merged: OnceLock::new(),
            documents,
        });
        self.latest.store(Some(snapshot.clone()));
        (catalog, snapshot)
    }

    /// What other API servers tell in OpenAPI, in the order in which their documents are merged into ours.
    fn specifications(&self) -> Vec<Arc<Specification>> {
        let Some(aggregator) = &self.aggregator else { return Vec::new() };
        let mut backends = aggregator.backends();
        if backends.is_empty() {
            return Vec::new();
        }
        let services = aggregator.services();
        let priority = |name: &Str| services.iter().find(|known| known.name == *name).map_or(0, |s| s.priority.group);
        backends.sort_by(|a, b| priority(&b.name).cmp(&priority(&a.name)).then_with(|| a.name.cmp(&b.name)));
        backends.iter().filter_map(|backend| backend.specification()).collect()
    }

    fn answer(&self, call: &Call, path: &str) -> Option<Reply> {
        let segments: Vec<&str> = path.strip_prefix('/')?.trim_end_matches('/').split('/').collect();
        match segments.as_slice() {
            ["api"] => Some(self.routed(call, |call| self.api_versions(call))),
            ["api", version] => Some(self.version(call, &GroupVersion::new("", *version))),
            ["api", ..] => Some(self.refuse(call, &not_found())),
            // Upstream's router for the others takes any number of slashes at the end.
            ["apis"] if path.len() <= "/apis/".len() => Some(self.group_list(call)),
            ["apis", group] => self.group(call, group),
            ["apis", group, version] => Some(self.version(call, &GroupVersion::new(*group, *version))),
            _ => None,
        }
    }

    fn api_versions(&self, call: &Call) -> Reply {
        if let Some(chosen) = self.aggregated(call) {
            let (catalog, snapshot) = self.snapshot();
            return self.document(call, chosen, snapshot.core.get_or_init(|| aggregated::core(&catalog)));
        }
        self.plain(call, &plain::api_versions(&self.address))
    }

    fn group_list(&self, call: &Call) -> Reply {
        let (catalog, snapshot) = self.snapshot();
        if let Some(chosen) = self.aggregated(call) {
            let own = snapshot.groups.get_or_init(|| aggregated::all(&catalog, self.aggregator.as_deref()));
            let all = self.with_peers(&snapshot, own, chosen.profile);
            return match extensions::are_asked_for(call) {
                true => self.document(call, chosen, &extensions::with_group(all)),
                false => self.document(call, chosen, all),
            };
        }
        let mut groups = groups::listed(&catalog, self.aggregator.as_deref());
        groups.extend(extensions::are_asked_for(call).then(extensions::group));
        self.plain(call, &plain::group_list(&groups))
    }

    /// The document of this server and its peers, unless the client wants this server's alone.
    fn with_peers<'a>(
        &self,
        snapshot: &'a DiscoverySnapshot,
        own: &'a aggregated::Document,
        profile: &str,
    ) -> &'a aggregated::Document {
        let Some(peers) = &self.peers else { return own };
        if profile == "nopeer" {
            peers.meters.no_peer();
            return own;
        }
        peers.meters.merged(snapshot.merged.get().is_none());
        let merged = snapshot.merged.get_or_init(|| {
            let served = peers.served();
            let served = served.iter().map(|(server, peer)| (server.clone(), peer.groups.clone())).collect();
            peers::merge(&peers.server, own.value.list_at(&["items"]), &served).map(aggregated::document)
        });
        merged.as_ref().unwrap_or(own)
    }

    fn group(&self, call: &Call, group: &str) -> Option<Reply> {
        let found = groups::find(&self.api.catalog.load(), self.aggregator.as_deref(), group);
        let found = found.or_else(|| Some(extensions::group()).filter(|extension| extension.name == group));
        Some(self.plain(call, &plain::group(&found?)))
    }

    /// The resources of a version. Built-in ones are behind upstream's router, which has its own words for what it does
    /// not like; custom ones are not.
    fn version(&self, call: &Call, version: &GroupVersion) -> Reply {
        let catalog = self.api.catalog.load();
        let is_builtin = catalog.has_builtin(version);
        if !is_builtin {
            let is_served = catalog.versions().contains(version);
            let mut group = catalog.versions().iter().filter(|other| other.group == version.group);
            let has_builtin = group.any(|other| catalog.has_builtin(other));
            return match is_served {
                false if extensions::group().versions.contains(version) => {
                    self.plain(call, &extensions::resource_list())
                }
                true => self.plain(call, &plain::resource_list(&catalog, version)),
                false if has_builtin || version.group.is_empty() => self.refuse(call, &not_found()),
                false => rest::page_not_found(),
            };
        }
        self.routed(call, |call| self.plain(call, &plain::resource_list(&catalog, version)))
    }

    /// What upstream's router checks before it lets a request through.
    fn routed(&self, call: &Call, answer: impl FnOnce(&Call) -> Reply) -> Reply {
        let offered: Vec<&str> = self.offered().into_iter().map(Media::content_type).collect();
        if let Err(status) = accept::check_route(call, &offered, &offered) {
            return self.refuse(call, &status);
        }
        answer(call)
    }

    fn offered(&self) -> Vec<Media> {
        let mut offered = vec![Media::Json, Media::Yaml, Media::Proto];
        if self.api.features.enabled(rest::CBOR) {
            offered.push(Media::Cbor);
        }
        offered
    }

    /// Whether the client asks for everything at once.
    fn aggregated<'a>(&self, call: &'a Call) -> Option<Chosen<'a>> {
        let wanted = AskedKind { group: aggregated::GROUP, version: aggregated::VERSION, kind: aggregated::KIND };
        // A header that is not there is satisfied with anything, and so is the plain document.
        let chosen = accept::choose(&call.headers, &call.query, &self.offered(), |_, convert| convert == Some(wanted));
        chosen.filter(|chosen| chosen.convert.is_some())
    }

    fn document(&self, call: &Call, chosen: Chosen<'_>, document: &aggregated::Document) -> Reply {
        let etag = format!("\"{}\"", document.etag);
        let mut headers = HeaderMap::new();
        headers.insert(ETAG, conditional::header(&etag));
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        if call.header("if-none-match") == etag {
            return Reply::with(StatusCode::NOT_MODIFIED, headers, ReplyBody::Ready(Bytes::new()));
        }
        let media = chosen.media.content_type();
        let kind = format!("{media};g={};v={};as={}", aggregated::GROUP, aggregated::VERSION, aggregated::KIND);
        headers.insert(CONTENT_TYPE, conditional::header(&kind));
        let bytes = rest::encode_value(&writing(chosen), &aggregated::kind(), &document.value);
        Reply::with(StatusCode::OK, headers, ReplyBody::Ready(bytes))
    }

    /// One of the old documents, as the client wants to read it.
    fn plain(&self, call: &Call, document: &Value) -> Reply {
        let offered = self.offered();
        let Some(chosen) = accept::choose(&call.headers, &call.query, &offered, |_, convert| convert.is_none()) else {
            let message = format!("only the following media types are accepted: {}", list(&offered));
            return rest::failure(&Status::not_acceptable(message), &Accept::indented());
        };
        let kind = GroupVersionKind::new("", "v1", document.str_at(&["kind"]));
        Reply::value(StatusCode::OK, &writing(chosen), &kind, document)
    }

    /// A failure, as the client wants to read it.
    fn refuse(&self, call: &Call, status: &Status) -> Reply {
        rest::failure(status, &Accept::of_status_in(&call.headers, &call.query, &self.offered()))
    }
}

fn writing(chosen: Chosen<'_>) -> Accept {
    Accept::plain(chosen.media, chosen.pretty)
}

fn list(offered: &[Media]) -> String {
    offered.iter().map(|media| media.content_type()).collect::<Vec<_>>().join(", ")
}

fn not_found() -> Status {
    Status::generic(404, "", &GroupResource::default(), "", "")
}

fn without_body_for_head(call: &Call, mut reply: Reply) -> Reply {
    if call.method == Method::HEAD {
        reply.body = ReplyBody::Ready(Bytes::new());
    }
    reply
}
