//! Impersonation: a request carried out as another user, after every part of that identity was authorized.

mod meters;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use authn::headers;
use authz::Authorizer;
use http::HeaderMap;
use object::names::{self, Problem};
use object::{Errors, Path, Status};
use parking_lot::Mutex;
use request::{Access, RequestInfo, User};
use tokio::time::Instant;

pub use meters::ImpersonationMeters;

use crate::metrics::ChainFilter;

/// The beginning of the names of all headers of impersonation.
const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// The extra value that names the node of the pod that a service account's token belongs to.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// From this many groups or extra values on, constrained impersonation first asks for permission to impersonate all of them.
const MANY: usize = 4;
/// How many users' last successful mode is remembered.
const REMEMBERED_MAX: usize = 10_000;

/// One way to be allowed to impersonate. The first four need two permissions: `impersonate:<mode>` on the identity and
/// `impersonate-on:<mode>:<verb>` on what the request does. The last needs only the verb `impersonate` on the identity.
struct ImpersonationMode {
    /// "" for the mode with the plain verb.
    name: &'static str,
    /// The verb for the parts of the identity, which the audit log shows as the constraint; "" for the plain one.
    verb: &'static str,
    /// Whether the mode covers this identity for this requestor.
    covers: fn(wanted: &User, requestor: &User) -> bool,
}

/// In the order they are tried.
const MODES: [ImpersonationMode; 5] = [
    ImpersonationMode {
        name: ASSOCIATED_NODE,
        verb: "impersonate:associated-node",
        covers: |wanted, requestor| only_name(wanted) && is_on_node(requestor, &wanted.name),
    },
    ImpersonationMode {
        name: "arbitrary-node",
        verb: "impersonate:arbitrary-node",
        covers: |wanted, _| only_name(wanted) && node(&wanted.name).is_some(),
    },
    ImpersonationMode {
        name: "serviceaccount",
        verb: "impersonate:serviceaccount",
        covers: |wanted, _| only_name(wanted) && wanted.service_account().is_some(),
    },
    ImpersonationMode {
        name: "user-info",
        verb: "impersonate:user-info",
        covers: |wanted, _| node(&wanted.name).is_none() && wanted.service_account().is_none(),
    },
    ImpersonationMode { name: "", verb: "", covers: |_, _| true },
];
const PLAIN: usize = MODES.len() - 1;
const ASSOCIATED_NODE: &str = "associated-node";

/// Decides who may impersonate whom.
pub struct Impersonation {
    /// The feature gate ConstrainedImpersonation; without it only the plain verb counts.
    constrained: bool,
    /// The mode that last let a user impersonate, which is tried first the next time.
    last: Mutex<HashMap<String, usize>>,
    pub meters: Arc<ImpersonationMeters>,
}

impl Impersonation {
    pub fn new(constrained: bool) -> Impersonation {
        Impersonation { constrained, last: Mutex::default(), meters: Arc::default() }
    }

    /// The filter's name in traces and metrics.
    pub fn filter(&self) -> ChainFilter {
        if self.constrained { ChainFilter::ConstrainedImpersonation } else { ChainFilter::Impersonation }
    }

    /// Who the request is carried out as: the user that the headers name, or the requestor if they name none; and the constraint
    /// under which that was allowed, "" if there is none.
    pub async fn impersonate(
        &self,
        authorizer: &dyn Authorizer,
        info: &RequestInfo,
        requestor: User,
        headers: &HeaderMap,
    ) -> Result<(User, &'static str), Status> {
        match wanted(headers)? {
            None => Ok((requestor, "")),
            // In a box, so that requests without impersonation do not carry its state.
            Some(wanted) => Box::pin(self.decide(authorizer, info, &requestor, &wanted)).await,
        }
    }

    async fn decide(
        &self,
        authorizer: &dyn Authorizer,
        info: &RequestInfo,
        requestor: &User,
        wanted: &User,
    ) -> Result<(User, &'static str), Status> {
        let began = Instant::now();
        let found = self.find(authorizer, info, requestor, wanted).await;
        let mode = found.as_ref().ok().map(|(_, mode)| mode.name);
        self.meters.attempted(mode, began.elapsed());
        found.map(|(user, mode)| (user, mode.verb))
    }

    /// The first mode that allows it.
    async fn find(
        &self,
        authorizer: &dyn Authorizer,
        info: &RequestInfo,
        requestor: &User,
        wanted: &User,
    ) -> Result<(User, &'static ImpersonationMode), Status> {
        let request = Access::of(info, requestor);
        let last = self.last.lock().get(&requestor.name).copied();
        let rest = (0..MODES.len()).filter(|at| Some(*at) != last);
        let mut refused = None;
        for at in last.into_iter().chain(rest).filter(|at| self.constrained || *at == PLAIN) {
            let mode = &MODES[at];
            if !(mode.covers)(wanted, requestor) {
                continue;
            }
            match Check::new(authorizer, mode, request, &self.meters).run(wanted).await {
                Ok(user) => {
                    self.remember(requestor, at);
                    return Ok((user, mode));
                }
                Err(status) => {
                    refused.get_or_insert(status);
                }
            }
        }
        Err(refused.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }

    fn remember(&self, requestor: &User, mode: usize) {
        let mut last = self.last.lock();
        if last.len() >= REMEMBERED_MAX && !last.contains_key(&requestor.name) {
            last.clear();
        }
        last.insert(requestor.name.clone(), mode);
    }
}

/// Whether the headers ask for impersonation.
pub fn is_asked(headers: &HeaderMap) -> bool {
    headers.contains_key(USER)
}

/// Whether any header belongs to impersonation; most requests have none and are not looked at any further.
fn has_any(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(PREFIX))
}

/// Removes the impersonation headers, so that neither a proxied server nor anything later in the chain acts on them again.
pub fn strip(headers: &mut HeaderMap) {
    if !has_any(headers) {
        return;
    }
    let extra: Vec<_> = headers.keys().filter(|key| key.as_str().starts_with(EXTRA)).cloned().collect();
    for key in extra {
        headers.remove(key);
    }
    for key in [USER, GROUP, UID] {
        headers.remove(key);
    }
}

/// The checks of one mode.
struct Check<'a> {
    authorizer: &'a dyn Authorizer,
    meters: &'a ImpersonationMeters,
    mode: &'a ImpersonationMode,
    /// The request as the other user would make it.
    request: Access<'a>,
    /// The requestor as the authorizer sees it.
    requestor: User,
    /// The verb for the parts of the identity.
    verb: &'static str,
}

impl<'a> Check<'a> {
    fn new(
        authorizer: &'a dyn Authorizer,
        mode: &'a ImpersonationMode,
        request: Access<'a>,
        meters: &'a ImpersonationMeters,
    ) -> Check<'a> {
        let mut requestor = request.user.clone();
        if mode.name == ASSOCIATED_NODE {
            // The permission must not depend on which node, so the authorizer sees only the names of the extra values.
            let keys = requestor.extra.iter().map(|(key, _)| key.clone()).collect();
            requestor.extra = vec![("authentication.kubernetes.io/associated-node-keys".into(), keys)];
        }
        let verb = if mode.verb.is_empty() { "impersonate" } else { mode.verb };
        Check { authorizer, meters, mode, request, requestor, verb }
    }

    async fn run(&self, wanted: &User) -> Result<User, Status> {
        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.mode.name, self.request.verb);
            self.ask(Access { verb: &verb, user: &self.requestor, ..self.request }).await?;
        }
        let mut actual = wanted.clone();
        self.name(wanted, &mut actual).await?;
        if !wanted.uid.is_empty() {
            self.ask(self.part(AUTHENTICATION, "uids", &wanted.uid)).await?;
        }
        self.groups(&wanted.groups).await?;
        self.extra(&wanted.extra).await?;
        let group = match actual.name.as_str() {
            User::ANONYMOUS => User::UNAUTHENTICATED,
            _ if actual.is_member(User::UNAUTHENTICATED) => return Ok(actual),
            _ => User::AUTHENTICATED,
        };
        if !actual.is_member(group) {
            actual.groups.push(group.into());
        }
        Ok(actual)
    }

    fn is_constrained(&self) -> bool {
        !self.mode.name.is_empty()
    }

    /// Nodes and service accounts have fixed groups.
    async fn name(&self, wanted: &User, actual: &mut User) -> Result<(), Status> {
        if let Some((namespace, name)) = wanted.service_account() {
            if wanted.groups.is_empty() {
                actual.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
            }
            let part = self.part(self.name_group(), "serviceaccounts", name);
            return self.ask(Access { namespace, ..part }).await;
        }
        match node(&wanted.name) {
            Some(name) if self.is_constrained() => {
                actual.groups = vec!["system:nodes".into()];
                self.ask(self.part(AUTHENTICATION, "nodes", name)).await
            }
            _ => self.ask(self.part(self.name_group(), "users", &wanted.name)).await,
        }
    }

    async fn groups(&self, groups: &[String]) -> Result<(), Status> {
        let part = |name| self.part(self.name_group(), "groups", name);
        if self.is_constrained() {
            for (group, shown, why) in [
                ("", "", "impersonating the empty string group is not allowed"),
                (User::MASTERS, User::MASTERS, "impersonating the system:masters group is not allowed"),
            ] {
                if groups.iter().any(|other| other == group) {
                    return Err(part(shown).refusal(why));
                }
            }
            if groups.len() >= MANY && self.ask(part("*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.ask(part(group)).await?;
        }
        Ok(())
    }

    async fn extra(&self, extra: &[(String, Vec<String>)]) -> Result<(), Status> {
        let part = |key, value| Access { subresource: key, ..self.part(AUTHENTICATION, "userextras", value) };
        if self.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| wrong_extra(key, values)) {
                return Err(part("", "").refusal(&why));
            }
            let values: usize = extra.iter().map(|(_, values)| values.len()).sum();
            if values.max(extra.len()) >= MANY && self.ask(part("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.ask(part(key, value)).await?;
            }
        }
        Ok(())
    }

    /// The API group of user names and groups, which the plain verb knows as core resources.
    fn name_group(&self) -> &'static str {
        if self.is_constrained() { AUTHENTICATION } else { "" }
    }

    /// The question whether one part of an identity may be impersonated.
    fn part<'p>(&'p self, group: &'p str, resource: &'p str, name: &'p str) -> Access<'p> {
        // A service account may impersonate the node it runs on only if it may do so on every node.
        let name = if self.mode.name == ASSOCIATED_NODE { "*" } else { name };
        Access { group, version: "v1", resource, name, ..Access::to_resource(&self.requestor, self.verb) }
    }

    async fn ask(&self, access: Access<'_>) -> Result<(), Status> {
        let began = Instant::now();
        let answer = authz::check(self.authorizer, &access).await;
        self.meters.checked(self.mode.name, answer.is_ok(), began.elapsed());
        answer
    }
}

/// What constrained impersonation refuses about an extra value, whatever the requestor may do.
fn wrong_extra(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".into());
    }
    let mut errors = Errors::default();
    let path = Path::root().field("extra").field("key");
    for problem in names::domain_prefixed_path(key) {
        match problem {
            Problem::Required => errors.required(&path, ""),
            Problem::Invalid { value, detail } => errors.invalid(&path, value, detail),
            Problem::TooLong { max_bytes } => errors.too_long(&path, max_bytes),
        }
    }
    if !errors.is_empty() {
        return Some(format!("impersonating an invalid key in extra is not allowed: {}", errors.aggregate()));
    }
    if key.to_lowercase() != key {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", object::quote(key)));
    }
    let empty = values.iter().any(String::is_empty);
    empty.then(|| "impersonating the empty string value in extra is not allowed".into())
}

/// The identity that the headers ask for. A header that is not UTF-8 is an error: ignoring it would carry the request out
/// with the rights of the requestor.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    if !has_any(headers) {
        return Ok(None);
    }
    let all = |name: &str| {
        let texts = headers::texts(headers, name).map_err(|error| Status::bad_request(error.to_string()))?;
        Ok::<_, Status>(texts.into_iter().map(str::to_string).collect::<Vec<String>>())
    };
    let name = all(USER)?.into_iter().next().unwrap_or_default();
    let groups = all(GROUP)?;
    let uid = all(UID)?.into_iter().next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for header in headers.keys().map(http::HeaderName::as_str).filter(|name| name.starts_with(EXTRA)) {
        let key = headers::extra_key(header, EXTRA).map_err(|error| Status::bad_request(error.to_string()))?;
        extra.entry(key).or_default().extend(all(header)?);
    }
    let wanted = User { name, uid, groups, extra: extra.into_iter().collect() };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if only_name(&wanted) {
        return Ok(None);
    }
    Err(Status::bad_request(format!("requested {} without impersonating a user name", shown(&wanted))))
}

/// A user as upstream's message prints one.
fn shown(user: &User) -> String {
    let list = |items: &[String]| items.iter().map(|item| object::quote(item)).collect::<Vec<_>>().join(", ");
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_string(),
        groups => format!("[]string{{{}}}", list(groups)),
    };
    let extra = match user.extra.as_slice() {
        [] => "map[string][]string(nil)".to_string(),
        extra => {
            let entry =
                |(key, values): &(String, Vec<String>)| format!("{}:[]string{{{}}}", object::quote(key), list(values));
            format!("map[string][]string{{{}}}", extra.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    };
    let (name, uid) = (object::quote(&user.name), object::quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

fn only_name(user: &User) -> bool {
    user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty()
}

/// The node of a node's user name.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| names::name_is_dns_subdomain(name, false).is_empty())
}

/// Whether the requestor is a service account whose token belongs to a pod on the node with this user name.
fn is_on_node(requestor: &User, node_user: &str) -> bool {
    let told = requestor.extra.iter().find(|(key, _)| key == NODE_NAME).map(|(_, values)| values.as_slice());
    let [told] = told.unwrap_or_default() else { return false };
    requestor.service_account().is_some() && node(node_user) == Some(told.as_str())
}
