//! [`Authorizer`]: one way of deciding, and [`Union`]: several in order.

use std::sync::Arc;

use async_trait::async_trait;
use request::{Access, User};

/// An authorizer's answer, with a reason for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(String),
    Deny(String),
    /// The next authorizer decides; the request is refused if none allows it.
    NoOpinion(String),
}

#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    async fn decide(&self, access: &Access<'_>) -> Decision;
}

/// The first authorizer with an opinion decides. Each has the name that its reasons are told under.
pub struct Union(pub Vec<(String, Arc<dyn Authorizer>)>);

#[async_trait]
impl Authorizer for Union {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        let mut reasons = Vec::new();
        for (name, authorizer) in &self.0 {
            match authorizer.decide(access).await {
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
    async fn decide(&self, access: &Access<'_>) -> Decision {
        if access.user.is_member(User::MASTERS) {
            return Decision::Allow(String::new());
        }
        Decision::NoOpinion(String::new())
    }
}

/// `--authorization-mode=AlwaysAllow`.
pub struct AlwaysAllow;

#[async_trait]
impl Authorizer for AlwaysAllow {
    async fn decide(&self, _: &Access<'_>) -> Decision {
        Decision::Allow(String::new())
    }
}

/// `--authorization-mode=AlwaysDeny`.
pub struct AlwaysDeny;

#[async_trait]
impl Authorizer for AlwaysDeny {
    async fn decide(&self, _: &Access<'_>) -> Decision {
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
        for (groups, want) in [
            (&["system:masters"][..], Decision::Allow(String::new())),
            (&[], Decision::NoOpinion("alwaysdeny: Everything is forbidden.".into())),
        ] {
            let user = User { name: "u".into(), groups: strings(groups), ..User::default() };
            assert_eq!(union.decide(&Access::to_resource(&user, "get")).await, want);
        }
    }
}
