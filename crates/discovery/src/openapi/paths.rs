//! Routes put together by path: what all operations of a path take is said once.

use std::collections::BTreeMap;

use super::parameters::Parameter;
use super::routes::Route;

/// The operations at one path, in the order of the document.
pub struct Item<'a> {
    /// The parameters that all of them take.
    pub common: Vec<&'a Parameter>,
    pub operations: Vec<Operation<'a>>,
}

/// A route, and what only it takes.
pub struct Operation<'a> {
    pub route: &'a Route,
    pub parameters: Vec<&'a Parameter>,
}

/// All paths, sorted.
pub fn group(routes: &[Route]) -> BTreeMap<&str, Item<'_>> {
    let mut by_path: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
    for route in routes {
        by_path.entry(&route.path).or_default().push(route);
    }
    by_path.into_iter().map(|(path, routes)| (path, item(routes))).collect()
}

fn item(mut routes: Vec<&Route>) -> Item<'_> {
    routes.sort_by_key(|route| route.method);
    let everywhere =
        |parameter: &Parameter| routes.iter().all(|route| route.parameters.iter().any(|other| other.is(parameter)));
    // Where operations describe a parameter differently, the last one is heard.
    let mut common: Vec<&Parameter> = Vec::new();
    for parameter in routes.iter().rev().flat_map(|route| &route.parameters) {
        if everywhere(parameter) && !common.iter().any(|other| other.is(parameter)) {
            common.push(parameter);
        }
    }
    let operations = routes
        .iter()
        .map(|route| {
            let own = route.parameters.iter().filter(|p| !common.iter().any(|other| other.is(p)));
            Operation { route, parameters: sorted(own.collect()) }
        })
        .collect();
    Item { common: sorted(common), operations }
}

fn sorted(mut parameters: Vec<&Parameter>) -> Vec<&Parameter> {
    parameters.sort_by(|a, b| (&a.name, a.place.name()).cmp(&(&b.name, b.place.name())));
    parameters
}

/// The words that go with a status code.
pub fn status_text(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        401 => "Unauthorized",
        _ => "OK",
    }
}
