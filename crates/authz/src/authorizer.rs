//! [`Authorizer`]: one way of deciding, and [`Union`]: several in order.

use std::sync::Arc;

use async_trait::async_trait;
use registry::Act;
use request::{RequestInfo, User};

/// What is to be decided. Built from a request, or made up by whoever needs to know (impersonation, escalation checks).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub user: User,
    pub verb: String,
    pub is_resource: bool,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
    pub field_selector: String,
    pub label_selector: String,
}

impl Attributes {
    pub fn of(info: &RequestInfo, user: &User) -> Attributes {
        Attributes {
            user: user.clone(),
            verb: info.verb.as_str().to_string(),
            is_resource: info.is_resource,
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            path: info.path.clone(),
            field_selector: info.field_selector.clone(),
            label_selector: info.label_selector.clone(),
        }
    }

    /// Something else than what was asked for.
    pub fn about(user: &User, act: &Act<'_>) -> Attributes {
        Attributes {
            user: user.clone(),
            verb: act.verb.into(),
            is_resource: true,
            group: act.group.into(),
            version: act.version.into(),
            resource: act.resource.into(),
            subresource: act.subresource.into(),
            namespace: act.namespace.into(),
            name: act.name.into(),
            ..Attributes::default()
        }
    }
}

/// An authorizer's answer, with a reason for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(String),
    Deny(String),
    /// Somebody else may decide; if nobody does, the request is refused.
    NoOpinion(String),
}

#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    async fn decide(&self, attributes: &Attributes) -> Decision;
}

/// The first authorizer with an opinion decides. Each has the name that its reasons are told under.
pub struct Union(pub Vec<(String, Arc<dyn Authorizer>)>);

#[async_trait]
impl Authorizer for Union {
    async fn decide(&self, attributes: &Attributes) -> Decision {
        let mut reasons = Vec::new();
        for (name, authorizer) in &self.0 {
            match authorizer.decide(attributes).await {
                Decision::NoOpinion(reason) if !reason.is_empty() => reasons.push(format!("{name}: {reason}")),
                Decision::NoOpinion(_) => {}
                decided => return decided,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
    }
}

/// Whether `--authorization-mode` names modes that exist, each once.
pub fn check_modes(modes: &[String]) -> Result<(), String> {
    const KNOWN: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
    if modes.is_empty() {
        return Err("at least one authorization-mode must be passed".into());
    }
    for (place, mode) in modes.iter().enumerate() {
        if !KNOWN.contains(&mode.as_str()) {
            return Err(format!("authorization-mode {} is not a valid mode", object::quote(mode)));
        }
        if modes[..place].contains(mode) {
            return Err(format!("authorization-mode {} has mode specified more than once", go_list(modes)));
        }
    }
    Ok(())
}

/// Strings as Go prints a slice of them.
fn go_list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| object::quote(item)).collect::<Vec<_>>().join(" "))
}

/// Members of `system:masters` may do anything, whatever the other authorizers think.
pub struct Masters;

#[async_trait]
impl Authorizer for Masters {
    async fn decide(&self, attributes: &Attributes) -> Decision {
        if attributes.user.is_member(User::MASTERS) {
            return Decision::Allow(String::new());
        }
        Decision::NoOpinion(String::new())
    }
}

/// `--authorization-mode=AlwaysAllow`.
pub struct AlwaysAllow;

#[async_trait]
impl Authorizer for AlwaysAllow {
    async fn decide(&self, _: &Attributes) -> Decision {
        Decision::Allow(String::new())
    }
}

/// `--authorization-mode=AlwaysDeny`.
pub struct AlwaysDeny;

#[async_trait]
impl Authorizer for AlwaysDeny {
    async fn decide(&self, _: &Attributes) -> Decision {
        Decision::NoOpinion("Everything is forbidden.".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| item.to_string()).collect()
    }

    #[test]
    fn modes_exist_and_are_named_once() {
        for (modes, want) in [
            (&["Node", "RBAC"][..], Ok(())),
            (&[], Err("at least one authorization-mode must be passed")),
            (&["Nope"], Err("authorization-mode \"Nope\" is not a valid mode")),
            (&["RBAC", "RBAC"], Err("authorization-mode [\"RBAC\" \"RBAC\"] has mode specified more than once")),
        ] {
            assert_eq!(check_modes(&strings(modes)), want.map_err(str::to_string), "{modes:?}");
        }
    }

    #[tokio::test]
    async fn reasons_are_told_under_the_name_of_their_mode() {
        let union =
            Union(vec![("system:masters".into(), Arc::new(Masters)), ("alwaysdeny".into(), Arc::new(AlwaysDeny))]);
        let question = |groups: &[&str]| {
            let user = User { name: "u".into(), groups: strings(groups), ..User::default() };
            Attributes { user, ..Attributes::default() }
        };
        assert_eq!(union.decide(&question(&["system:masters"])).await, Decision::Allow(String::new()));
        let refused = Decision::NoOpinion("alwaysdeny: Everything is forbidden.".into());
        assert_eq!(union.decide(&question(&[])).await, refused);
    }
}
