//! How many watches a write will have to serve.

use std::sync::Arc;

use hashbrown::HashMap;
use object::Str;
use parking_lot::Mutex;
use request::{RequestInfo, Verb};

/// Counts the watches under way, by what they watch.
#[derive(Clone, Default)]
pub struct Watches(Arc<Mutex<HashMap<Watched, u64>>>);

/// The scope of a watch: a resource, optionally one namespace, optionally one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Watched {
    group: Str,
    resource: Str,
    namespace: Str,
    name: Str,
}

impl Watched {
    fn by(info: &RequestInfo, namespace: &str, name: &str) -> Watched {
        Watched {
            group: info.group.as_str().into(),
            resource: info.resource.as_str().into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl Watches {
    /// Counts a watch until the ticket is dropped. Watches of the pods of one node are not counted: a write concerns
    /// hardly any of them.
    pub fn register(&self, info: &RequestInfo) -> Option<WatchTicket> {
        if info.verb != Verb::Watch || (info.resource == "pods" && selects_one_node(&info.field_selector)) {
            return None;
        }
        let watched = Watched::by(info, &info.namespace, &info.name);
        *self.0.lock().entry(watched.clone()).or_default() += 1;
        Some(WatchTicket { watches: self.clone(), watched })
    }

    /// How many watches may be interested in what this request changes.
    pub fn interested(&self, info: &RequestInfo) -> u64 {
        if matches!(info.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Proxy) {
            return 0;
        }
        let counts = self.0.lock();
        if counts.is_empty() {
            return 0;
        }
        let count = |namespace: &str, name: &str| counts.get(&Watched::by(info, namespace, name)).copied().unwrap_or(0);
        let mut sum = count("", "");
        if !info.namespace.is_empty() {
            sum += count(&info.namespace, "");
        }
        if !info.name.is_empty() {
            sum += count(&info.namespace, &info.name);
        }
        sum
    }
}

fn selects_one_node(field_selector: &str) -> bool {
    field_selector.split(',').any(|term| {
        let value = term.trim().strip_prefix("spec.nodeName").map(|rest| rest.trim_start_matches('='));
        value.is_some_and(|node| !node.is_empty() && !node.starts_with('!'))
    })
}

/// A counted watch.
pub struct WatchTicket {
    watches: Watches,
    watched: Watched,
}

impl Drop for WatchTicket {
    fn drop(&mut self) {
        let mut counts = self.watches.0.lock();
        if let Some(count) = counts.get_mut(&self.watched) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.watched);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_count_where_they_watch() {
        let watches = Watches::default();
        let watch = |path: &str, query: &[(&str, &str)]| {
            let mut query: Vec<(String, String)> = query.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            query.push(("watch".into(), "true".into()));
            watches.register(&RequestInfo::parse("GET", path, &query))
        };
        let tickets = [
            watch("/api/v1/pods", &[]),
            watch("/api/v1/namespaces/a/pods", &[]),
            watch("/api/v1/namespaces/b/pods", &[]),
            watch("/api/v1/namespaces/a/pods", &[("fieldSelector", "metadata.name=x")]),
            watch("/api/v1/pods", &[("fieldSelector", "spec.nodeName=n1")]),
            watch("/api/v1/pods", &[("fieldSelector", "spec.nodeName=")]),
            watch("/api/v1/configmaps", &[]),
        ];
        let interested = |method: &str, path: &str| watches.interested(&RequestInfo::parse(method, path, &[]));
        assert_eq!(interested("PUT", "/api/v1/namespaces/a/pods/x"), 4);
        assert_eq!(interested("PUT", "/api/v1/namespaces/a/pods/y"), 3);
        assert_eq!(interested("POST", "/api/v1/namespaces/b/pods"), 3);
        assert_eq!(interested("GET", "/api/v1/namespaces/b/pods/x"), 0);
        drop(tickets);
        assert!(watches.0.lock().is_empty());
    }
}
