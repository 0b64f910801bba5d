//! Impersonation: acting as somebody else, if one may.

use authz::{Attributes, Authorizer, Decision};
use http::HeaderMap;
use object::Status;
use request::{RequestInfo, User};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// Who the request is to be carried out as: whoever the headers name, after every part of it was authorized.
///
/// Two ways lead there: the verb `impersonate` on everything that is impersonated, or the narrower verbs
/// `impersonate:<mode>` on who and `impersonate-on:<mode>:<verb>` on what is done as them.
pub async fn impersonate(
    authorizer: &dyn Authorizer,
    info: &RequestInfo,
    user: User,
    headers: &HeaderMap,
) -> Result<User, Status> {
    let Some(wanted) = wanted(headers)? else { return Ok(user) };
    if all_allowed(authorizer, &user, &wanted, "impersonate").await.is_ok() {
        return Ok(complete(wanted));
    }
    let mode = mode_of(&wanted);
    let mut on = Attributes::of(info, &user);
    on.verb = format!("impersonate-on:{mode}:{}", info.verb);
    ask(authorizer, &on).await?;
    all_allowed(authorizer, &user, &wanted, &format!("impersonate:{mode}")).await?;
    Ok(complete(wanted))
}

async fn all_allowed(authorizer: &dyn Authorizer, user: &User, wanted: &User, verb: &str) -> Result<(), Status> {
    for part in parts(wanted) {
        ask(authorizer, &Attributes { user: user.clone(), verb: verb.into(), is_resource: true, ..part }).await?;
    }
    Ok(())
}

async fn ask(authorizer: &dyn Authorizer, attributes: &Attributes) -> Result<(), Status> {
    match authorizer.decide(attributes).await {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(authz::refusal(attributes, &reason)),
    }
}

/// What kind of user is impersonated, as the narrower verbs name it.
fn mode_of(wanted: &User) -> &'static str {
    if service_account(&wanted.name).is_some() {
        "serviceaccount"
    } else if wanted.name.starts_with("system:node:") {
        "arbitrary-node"
    } else {
        "user-info"
    }
}

fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let all = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_string).collect()
    };
    let name = all(USER).into_iter().next().unwrap_or_default();
    let groups = all(GROUP);
    let uid = all(UID).into_iter().next().unwrap_or_default();
    let mut extra: Vec<(String, Vec<String>)> = Vec::new();
    for key in headers.keys().filter_map(|key| key.as_str().strip_prefix(EXTRA)) {
        let values = all(&format!("{EXTRA}{key}"));
        extra.push((unescape(key), values));
    }
    extra.sort();
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        let wanted = User { name, uid, groups, extra };
        let message = format!("requested {} without impersonating a user name", shown(&wanted));
        return Err(Status::bad_request(message));
    }
    Ok(Some(User { name, uid, groups, extra }))
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

/// Header names cannot hold every key, so keys are percent-encoded in them.
fn unescape(key: &str) -> String {
    let mut out = Vec::new();
    let bytes = key.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let escaped = (bytes[at] == b'%').then(|| key.get(at + 1..at + 3)).flatten();
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).to_lowercase()
}

/// One question for the authorizer for each thing that is impersonated.
fn parts(wanted: &User) -> Vec<Attributes> {
    let mut parts = Vec::new();
    match service_account(&wanted.name) {
        Some((namespace, name)) => parts.push(Attributes {
            version: "v1".into(),
            resource: "serviceaccounts".into(),
            namespace: namespace.into(),
            name: name.into(),
            ..Attributes::default()
        }),
        None => parts.push(Attributes {
            version: "v1".into(),
            resource: "users".into(),
            name: wanted.name.clone(),
            ..Attributes::default()
        }),
    }
    parts.extend(wanted.groups.iter().map(|group| Attributes {
        version: "v1".into(),
        resource: "groups".into(),
        name: group.clone(),
        ..Attributes::default()
    }));
    let authentication = |resource: &str, subresource: &str, name: &str| Attributes {
        group: "authentication.k8s.io".into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        name: name.into(),
        ..Attributes::default()
    };
    for (key, values) in &wanted.extra {
        parts.extend(values.iter().map(|value| authentication("userextras", key, value)));
    }
    if !wanted.uid.is_empty() {
        parts.push(authentication("uids", "", &wanted.uid));
    }
    parts
}

/// Namespace and name of a service account's user name.
fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// The groups that come with being that user.
fn complete(mut user: User) -> User {
    if user.name == User::ANONYMOUS {
        if !user.is_member(User::UNAUTHENTICATED) {
            user.groups.push(User::UNAUTHENTICATED.into());
        }
        return user;
    }
    if let Some((namespace, _)) = service_account(&user.name.clone())
        && user.groups.is_empty()
    {
        user.groups.push("system:serviceaccounts".into());
        user.groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    if !user.is_member(User::UNAUTHENTICATED) && !user.is_member(User::AUTHENTICATED) {
        user.groups.push(User::AUTHENTICATED.into());
    }
    user
}
