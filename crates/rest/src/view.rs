//! [`View`]: what a request asks for beyond upstream's parameters (docs/lists.md). It is made from the parameters once; each of
//! them is a module, and a request without any has no view.

mod context;
mod count;
mod fields;
mod filter;
mod namespaces;
mod order;
mod path;
mod reader;
mod redact;
mod visible;

use std::sync::Arc;

use object::{Status, quote};
use registry::ListCondition;
use request::Verb;

use crate::Call;
use crate::scope::Scope;
pub use context::ListContext;
pub use count::ListCount;
pub use fields::FieldChoice;
pub use filter::ObjectFilter;
pub use order::ListOrder;
pub use path::FieldPath;
pub use reader::ObjectReader;
pub use redact::{is_for as is_redacted, is_member, is_secrets, reads as reads_secrets, redact, was_redacted};
use visible::VisibleObjects;
pub use visible::is_asked_for as asks_for_visible;

/// The parameters, sorted.
pub const PARAMETERS: [&str; 7] = [visible::PARAMETER, "count", "drop", "fields", "filter", "groupBy", "sortBy"];

/// Those that compute something of every object, however few are sent.
const LOOK_AT_ALL: [&str; 3] = ["filter", "groupBy", "sortBy"];

/// Whether a list is work for every object of its resource, whatever its limit is.
pub fn looks_at_all(call: &Call) -> bool {
    asks_for_visible(call) || call.query.iter().any(|(name, _)| LOOK_AT_ALL.contains(&name.as_str()))
}

/// The parameters of a request. Everything that is here is carried out, whatever the answer's form.
#[derive(Default)]
pub struct View {
    /// `authorized` and `filter`, in this order: a filter never sees what is not visible.
    pub conditions: Vec<Arc<dyn ListCondition>>,
    /// Facts besides the objects that the conditions depend on.
    pub context: ListContext,
    /// `fields` and `drop`.
    pub fields: Option<FieldChoice>,
    /// `count` and `groupBy`.
    pub count: Option<ListCount>,
    /// `sortBy`.
    pub order: Option<ListOrder>,
}

impl View {
    /// Reads the parameters. None where there are none, and for requests that are passed on to something else with all of theirs.
    pub fn read(scope: &Scope) -> Result<Option<Box<View>>, Status> {
        let query = &scope.call.query;
        let is_mine = |name: &str| PARAMETERS.contains(&name);
        // The header is sent with every request: where nothing is stored, there is nothing to see in part.
        let asks_for_visible = asks_for_visible(&scope.call) && is_stored(scope);
        let asks = asks_for_visible || !scope.accept.drop.is_empty() || query.iter().any(|(name, _)| is_mine(name));
        if !asks || is_connection(scope) {
            return Ok(None);
        }
        for (at, (name, value)) in query.iter().enumerate().filter(|(_, (name, _))| is_mine(name)) {
            check_place(scope, name)?;
            if value.is_empty() {
                return Err(wrong(name, "must not be empty"));
            }
            if query[..at].iter().any(|(other, _)| other == name) {
                return Err(wrong(name, "is given more than once"));
            }
        }
        read_flag(scope, visible::PARAMETER)?;
        // A list that is permitted as a whole shows everything; a watch may not be for as long as it lasts.
        let is_dynamic = scope.call.info.verb == Verb::Watch || scope.call.is_in_part();
        let visible = if asks_for_visible && is_dynamic { Some(VisibleObjects::new(scope)?) } else { None };
        let filter = match scope.call.query("filter") {
            Some(text) => Some(ObjectFilter::compile(scope, text)?),
            None => None,
        };
        let namespaces = filter.as_ref().and_then(ObjectFilter::namespaces).cloned();
        let mut conditions: Vec<Arc<dyn ListCondition>> = Vec::new();
        conditions.extend(visible.clone().map(|visible| Arc::new(visible) as Arc<dyn ListCondition>));
        conditions.extend(filter.map(|filter| Arc::new(filter) as Arc<dyn ListCondition>));
        let view = View {
            conditions,
            context: ListContext { visible, namespaces },
            fields: read_fields(scope)?,
            count: read_count(scope)?,
            order: match scope.call.query("sortBy") {
                Some(text) => Some(ListOrder::parse(scope, text).map_err(|why| wrong("sortBy", &why))?),
                None => None,
            },
        };
        view.check_combination(scope)?;
        Ok(Some(Box::new(view)))
    }

    fn check_combination(&self, scope: &Scope) -> Result<(), Status> {
        let has = |name: &str| scope.call.query(name).is_some();
        if has("groupBy") && self.count.is_none() {
            return Err(wrong("groupBy", "needs count=true"));
        }
        let counted = ["limit", "continue", "sortBy", "fields", "drop"].into_iter().find(|name| has(name));
        match counted.filter(|_| self.count.is_some()) {
            Some(name) => Err(wrong(name, "cannot be used with count")),
            None => Ok(()),
        }
    }
}

/// Whether the request is for something that is connected to, which has parameters of its own.
fn is_connection(scope: &Scope) -> bool {
    let name = scope.call.info.subresource.as_str();
    scope.resource.subresource(name).is_some_and(|subresource| subresource.connect.is_some())
}

/// Whether the request is for stored objects, and not for a part of them.
fn is_stored(scope: &Scope) -> bool {
    scope.resource.storage.is_some() && scope.resource.report.is_none() && scope.call.info.subresource.is_empty()
}

/// Whether the request is one that a parameter is for: a list or watch of stored objects, and for some others too.
fn check_place(scope: &Scope, name: &str) -> Result<(), Status> {
    let info = &scope.call.info;
    let has_place = match info.verb {
        // The deprecated paths are authorized for what they name.
        _ if info.is_watch_path && name == visible::PARAMETER => false,
        Verb::List => true,
        Verb::Watch => matches!(name, visible::PARAMETER | "drop" | "fields" | "filter"),
        Verb::Get => matches!(name, "drop" | "fields"),
        _ => false,
    };
    if is_stored(scope) && has_place {
        return Ok(());
    }
    let (verb, path) = (info.verb.as_str(), info.parts.join("/"));
    Err(wrong(name, &format!("cannot be used with the verb {} of {}", quote(verb), quote(&path))))
}

fn read_fields(scope: &Scope) -> Result<Option<FieldChoice>, Status> {
    let paths = |name: &'static str| match scope.call.query(name) {
        Some(text) => FieldPath::list(text).map(Some).map_err(|why| wrong(name, &why)),
        None => Ok(None),
    };
    let kept = paths("fields")?;
    let mut dropped = paths("drop")?.unwrap_or_default();
    if !scope.accept.drop.is_empty() {
        let invalid = |why| Status::not_acceptable(format!("the media type's parameter drop: {why}"));
        dropped.extend(FieldPath::list(&scope.accept.drop).map_err(invalid)?);
    }
    if kept.is_none() && dropped.is_empty() {
        return Ok(None);
    }
    FieldChoice::new(kept, dropped).map(Some).map_err(|why| wrong("drop", &why))
}

fn read_count(scope: &Scope) -> Result<Option<ListCount>, Status> {
    if !read_flag(scope, "count")? {
        return Ok(None);
    }
    let text = scope.call.query("groupBy");
    ListCount::parse(scope, text).map(Some).map_err(|why| wrong("groupBy", &why))
}

fn read_flag(scope: &Scope, name: &str) -> Result<bool, Status> {
    match scope.call.query(name) {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(other) => Err(wrong(name, &format!("must be true or false, not {}", quote(other)))),
    }
}

/// The refusal of a parameter.
pub fn wrong(name: &str, why: &str) -> Status {
    Status::bad_request(format!("the parameter {} {why}", quote(name)))
}
