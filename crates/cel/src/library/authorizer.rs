//! `kubernetes.authz` and `kubernetes.authzSelectors`: asks whether a user may do something.

use object::names;

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::opaque::Opaque;
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "kubernetes.authz", since: Version { major: 1, minor: 27 }, until: None, overloads: OVERLOADS };

pub static SELECTORS: Library = Library {
    name: "kubernetes.authzSelectors",
    since: Version { major: 1, minor: 31 },
    until: None,
    overloads: SELECTOR_OVERLOADS,
};

pub const AUTHORIZER: Type = Type::Abstract("kubernetes.authorization.Authorizer");
pub const RESOURCE_CHECK: Type = Type::Abstract("kubernetes.authorization.ResourceCheck");
const PATH_CHECK: Type = Type::Abstract("kubernetes.authorization.PathCheck");
const GROUP_CHECK: Type = Type::Abstract("kubernetes.authorization.GroupCheck");
const DECISION: Type = Type::Abstract("kubernetes.authorization.Decision");

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!(member "path", "authorizer_path", (AUTHORIZER, Type::String) -> PATH_CHECK, path),
    overload!(member "group", "authorizer_group", (AUTHORIZER, Type::String) -> GROUP_CHECK, group),
    overload!(member "serviceAccount", "authorizer_serviceaccount", (AUTHORIZER, Type::String, Type::String) -> AUTHORIZER, service_account),
    overload!(member "resource", "groupcheck_resource", (GROUP_CHECK, Type::String) -> RESOURCE_CHECK, resource),
    overload!(member "subresource", "resourcecheck_subresource", (RESOURCE_CHECK, Type::String) -> RESOURCE_CHECK, subresource),
    overload!(member "namespace", "resourcecheck_namespace", (RESOURCE_CHECK, Type::String) -> RESOURCE_CHECK, namespace),
    overload!(member "name", "resourcecheck_name", (RESOURCE_CHECK, Type::String) -> RESOURCE_CHECK, name),
    overload!(member "check", "pathcheck_check", (PATH_CHECK, Type::String) -> DECISION, check_path),
    overload!(member "check", "resourcecheck_check", (RESOURCE_CHECK, Type::String) -> DECISION, check_resource),
    overload!(member "errored", "decision_errored", (DECISION) -> Type::Bool, errored),
    overload!(member "error", "decision_error", (DECISION) -> Type::String, error),
    overload!(member "allowed", "decision_allowed", (DECISION) -> Type::Bool, allowed),
    overload!(member "reason", "decision_reason", (DECISION) -> Type::String, reason),
];

#[rustfmt::skip]
static SELECTOR_OVERLOADS: &[Overload] = &[
    overload!(member "fieldSelector", "authorizer_fieldselector", (RESOURCE_CHECK, Type::String) -> RESOURCE_CHECK, field_selector),
    overload!(member "labelSelector", "authorizer_labelselector", (RESOURCE_CHECK, Type::String) -> RESOURCE_CHECK, label_selector),
];

/// Answers the checks that expressions make.
pub trait Authorize {
    fn authorize(&self, check: &Check<'_>) -> Answer;
}

impl std::fmt::Debug for dyn Authorize + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authorize")
    }
}

/// Whether a user may do something.
#[derive(Clone, Copy, Debug)]
pub struct Check<'c> {
    pub subject: Subject<'c>,
    pub verb: &'c str,
    pub target: CheckTarget<'c>,
}

/// Who would do it.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'c> {
    /// The user whose request is being handled.
    Requester,
    ServiceAccount {
        namespace: &'c str,
        name: &'c str,
    },
}

/// What it would be done to.
#[derive(Clone, Copy, Debug)]
pub enum CheckTarget<'c> {
    Path(&'c str),
    Resource(Resource<'c>),
}

/// A resource, with selectors as they were written; the API version is `*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resource<'c> {
    pub group: &'c str,
    pub resource: &'c str,
    pub subresource: &'c str,
    pub namespace: &'c str,
    pub name: &'c str,
    pub field_selector: &'c str,
    pub label_selector: &'c str,
}

/// The answer to a check.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub allowed: bool,
    pub reason: String,
    /// Why the check could not be carried out.
    pub error: Option<String>,
}

/// The value of `authorizer`.
#[derive(Clone, Copy, Debug)]
pub struct Authorizer<'a> {
    pub authorize: &'a dyn Authorize,
    pub subject: Subject<'a>,
}

#[derive(Clone, Copy, Debug)]
pub struct PathCheck<'a> {
    authorizer: Authorizer<'a>,
    path: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub struct GroupCheck<'a> {
    authorizer: Authorizer<'a>,
    group: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub struct ResourceCheck<'a> {
    authorizer: Authorizer<'a>,
    resource: Resource<'a>,
}

#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    allowed: bool,
    reason: &'a str,
    error: Option<&'a str>,
}

impl<'a> Authorizer<'a> {
    /// The authorizer for the user whose request is being handled.
    pub fn new(authorize: &'a dyn Authorize) -> Authorizer<'a> {
        Authorizer { authorize, subject: Subject::Requester }
    }

    /// As the variable `authorizer`.
    pub fn val(self, arena: &'a Arena) -> Val<'a> {
        Val::Opaque(Opaque::Authorizer(arena.copy(self)))
    }

    /// As the variable `authorizer.requestResource`: a check of the resource that the request is about.
    pub fn resource_val(self, resource: Resource<'a>, arena: &'a Arena) -> Val<'a> {
        Val::Opaque(Opaque::ResourceCheck(arena.copy(ResourceCheck { authorizer: self, resource })))
    }

    fn ask(self, verb: &'a str, target: CheckTarget<'a>, arena: &'a Arena) -> Val<'a> {
        let answer = self.authorize.authorize(&Check { subject: self.subject, verb, target });
        let error = answer.error.map(|error| arena.str(&error));
        let decision = Decision { allowed: answer.allowed, reason: arena.str(&answer.reason), error };
        Val::Opaque(Opaque::Decision(arena.copy(decision)))
    }
}

fn path<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Authorizer(authorizer)), Val::String(path)] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    if path.trim().is_empty() {
        return Err(Error::new("path must not be empty"));
    }
    Ok(Val::Opaque(Opaque::PathCheck(arena.copy(PathCheck { authorizer: *authorizer, path }))))
}

fn group<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Authorizer(authorizer)), Val::String(group)] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    Ok(Val::Opaque(Opaque::GroupCheck(arena.copy(GroupCheck { authorizer: *authorizer, group }))))
}

fn service_account<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::Authorizer(authorizer)), Val::String(namespace), Val::String(name)] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    if !names::name_is_dns_subdomain(name, false).is_empty() {
        return Err(Error::new("Invalid service account name"));
    }
    if !names::name_is_dns_label(namespace, false).is_empty() {
        return Err(Error::new("Invalid service account namespace"));
    }
    let subject = Subject::ServiceAccount { namespace, name };
    Ok(Authorizer { authorize: authorizer.authorize, subject }.val(arena))
}

fn resource<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::GroupCheck(check)), Val::String(resource)] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    if resource.trim().is_empty() {
        return Err(Error::new("resource must not be empty"));
    }
    Ok(check.authorizer.resource_val(Resource { group: check.group, resource, ..Resource::default() }, arena))
}

fn subresource<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    narrow(args, arena, |resource, text| resource.subresource = text)
}

fn namespace<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    narrow(args, arena, |resource, text| resource.namespace = text)
}

fn name<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    narrow(args, arena, |resource, text| resource.name = text)
}

fn field_selector<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    narrow(args, arena, |resource, text| resource.field_selector = text)
}

fn label_selector<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    narrow(args, arena, |resource, text| resource.label_selector = text)
}

/// The same check with one more thing known about the resource.
fn narrow<'a>(args: &[Val<'a>], arena: &'a Arena, set: fn(&mut Resource<'a>, &'a str)) -> Outcome<'a> {
    let [Val::Opaque(Opaque::ResourceCheck(check)), Val::String(text)] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    let mut resource = check.resource;
    set(&mut resource, text);
    Ok(check.authorizer.resource_val(resource, arena))
}

fn check_path<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::PathCheck(check)), Val::String(verb)] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    Ok(check.authorizer.ask(verb, CheckTarget::Path(check.path), arena))
}

fn check_resource<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::Opaque(Opaque::ResourceCheck(check)), Val::String(verb)] = *args else {
        return Err(Error::NO_SUCH_OVERLOAD);
    };
    Ok(check.authorizer.ask(verb, CheckTarget::Resource(check.resource), arena))
}

fn errored<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    decision(args).map(|decision| Val::Bool(decision.error.is_some()))
}

fn error<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    decision(args).map(|decision| Val::String(decision.error.unwrap_or("")))
}

fn allowed<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    decision(args).map(|decision| Val::Bool(decision.allowed))
}

fn reason<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    decision(args).map(|decision| Val::String(decision.reason))
}

fn decision<'a>(args: &[Val<'a>]) -> Outcome<'a, &'a Decision<'a>> {
    match *args {
        [Val::Opaque(Opaque::Decision(decision))] => Ok(decision),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}
