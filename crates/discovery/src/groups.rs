//! The served groups and their versions, in the order that clients are to prefer them in.

use aggregator::{Aggregator, ApiService, CUSTOM, Group, Priority};
use object::{GroupVersion, Str, compare_versions};
use registry::Catalog;

/// The group that APIServices themselves are in. It has none, and it comes first.
const REGISTRATION: &str = "apiregistration.k8s.io";
const REGISTRATION_PRIORITY: Priority = Priority { group: 20_001, version: 15 };
/// Of what is served without an APIService.
const DEFAULT: Priority = Priority { group: 1000, version: 15 };

/// All groups but core as `/apis` lists them: those of APIServices.
pub fn listed(catalog: &Catalog, aggregator: Option<&Aggregator>) -> Vec<Group> {
    let services = services(catalog, aggregator, |version| !version.group.is_empty());
    let own = find_local(catalog, REGISTRATION);
    own.into_iter().chain(aggregator::sorted(services.iter().collect())).collect()
}

/// One group as `/apis/<group>` describes it.
pub fn find(catalog: &Catalog, aggregator: Option<&Aggregator>, name: &str) -> Option<Group> {
    let services = services(catalog, aggregator, |version| version.group == name);
    aggregator::sorted(services.iter().collect()).into_iter().next().or_else(|| find_local(catalog, name))
}

/// All groups but core as the aggregated documents list them: what is served here and by backends, whether there is an
/// APIService for it or not.
pub fn served(catalog: &Catalog, aggregator: Option<&Aggregator>) -> Vec<Group> {
    let mut versions: Vec<(GroupVersion, Priority)> =
        catalog.versions().iter().map(|version| (version.clone(), local_priority(catalog, version))).collect();
    for service in aggregator.map(Aggregator::services).unwrap_or_default() {
        if service.backend.is_some() {
            versions.retain(|(version, _)| *version != service.version);
            versions.push((service.version.clone(), service.priority));
        }
    }
    versions.retain(|(version, _)| !version.group.is_empty());
    by_name(versions)
}

/// The groups that this server serves, by priority and name.
pub fn local(catalog: &Catalog) -> Vec<Group> {
    served(catalog, None)
}

/// Groups by priority, then by name.
fn by_name(versions: Vec<(GroupVersion, Priority)>) -> Vec<Group> {
    let mut groups: hashbrown::HashMap<Str, Vec<(GroupVersion, Priority)>> = hashbrown::HashMap::new();
    for (version, priority) in versions {
        groups.entry(version.group.clone()).or_default().push((version, priority));
    }
    let mut groups: Vec<(i64, Group)> = groups
        .into_iter()
        .map(|(name, mut versions)| {
            versions.sort_by(|(a, first), (b, second)| {
                second.version.cmp(&first.version).then_with(|| compare_versions(&b.version, &a.version))
            });
            let priority = versions.iter().map(|(_, priority)| priority.group).max().unwrap_or(0);
            (priority, Group { name, versions: versions.into_iter().map(|(version, _)| version).collect() })
        })
        .collect();
    groups.sort_by(|(first, a), (second, b)| second.cmp(first).then_with(|| a.name.cmp(&b.name)));
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The APIServices that are stored, and those that definitions will have in a moment. Without an aggregator, those that it
/// would make.
fn services(
    catalog: &Catalog,
    aggregator: Option<&Aggregator>,
    is_wanted: impl Fn(&GroupVersion) -> bool,
) -> Vec<ApiService> {
    let stored = aggregator.map(Aggregator::services).unwrap_or_default();
    let mut services: Vec<ApiService> =
        stored.iter().filter(|service| is_wanted(&service.version)).map(|service| ApiService::clone(service)).collect();
    let known: hashbrown::HashSet<GroupVersion> = services.iter().map(|service| service.version.clone()).collect();
    for version in catalog.versions().iter().filter(|version| is_wanted(version) && !known.contains(*version)) {
        let priority = match is_custom(catalog, version) {
            true => Some(CUSTOM),
            false if aggregator.is_none() => aggregator::builtin(version),
            false => None,
        };
        services.extend(priority.map(|priority| ApiService::implied(version.clone(), priority)));
    }
    services
}

fn find_local(catalog: &Catalog, name: &str) -> Option<Group> {
    let own = catalog.versions().iter().filter(|version| version.group == name);
    by_name(own.map(|version| (version.clone(), local_priority(catalog, version))).collect()).into_iter().next()
}

fn local_priority(catalog: &Catalog, version: &GroupVersion) -> Priority {
    match version.group.as_str() {
        REGISTRATION => REGISTRATION_PRIORITY,
        _ => match aggregator::builtin(version) {
            Some(priority) => priority,
            None if is_custom(catalog, version) => CUSTOM,
            None => DEFAULT,
        },
    }
}

/// Whether definitions alone serve a group-version.
fn is_custom(catalog: &Catalog, version: &GroupVersion) -> bool {
    catalog.of(version).all(|resource| resource.is_custom())
}
