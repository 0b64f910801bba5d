//! [`Authorizer`]: one way of deciding, and [`Union`]: several in order.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use metrics::Counter;
use request::{Access, Rule, User};

use crate::configuration::MODES;
use crate::{AuthzMeters, Changes, DecisionsChanged};

/// An authorizer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// For people; "" if there is none.
    pub reason: String,
    /// What went wrong while deciding. A request that is not allowed and has an error is answered 500 instead of 403.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Deny,
    /// The next authorizer decides; the request is refused if none allows it.
    NoOpinion,
}

impl Decision {
    pub fn allow(reason: impl Into<String>) -> Decision {
        Decision { verdict: Verdict::Allow, reason: reason.into(), error: None }
    }

    pub fn deny(reason: impl Into<String>) -> Decision {
        Decision { verdict: Verdict::Deny, reason: reason.into(), error: None }
    }

    pub fn no_opinion(reason: impl Into<String>) -> Decision {
        Decision { verdict: Verdict::NoOpinion, reason: reason.into(), error: None }
    }

    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }

    /// The reason, as Ok only if this allows.
    pub fn allowed(self) -> Result<String, String> {
        if self.is_allowed() { Ok(self.reason) } else { Err(self.reason) }
    }
}

/// The decision of one of several authorizers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizerOpinion {
    pub name: String,
    pub mode: String,
    /// None if it is not asked, because one before it has decided.
    pub decision: Option<Decision>,
}

/// What a user may do in a namespace, as far as authorizers can enumerate it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesFor {
    pub rules: Vec<Rule>,
    /// Whether the user may be allowed more than the rules say.
    pub incomplete: bool,
    pub errors: Vec<String>,
}

#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    async fn decide(&self, access: &Access<'_>) -> Decision;

    /// The opinions of the authorizers that this one asks, in their order; none if it asks no others. It is for people who look for the
    /// reason of a decision, which [`Authorizer::decide`] makes.
    async fn opinions(&self, _: &Access<'_>) -> Vec<AuthorizerOpinion> {
        Vec::new()
    }

    /// The rules for a SelfSubjectRulesReview.
    fn rules_for(&self, _: &User, _namespace: &str) -> RulesFor {
        RulesFor::default()
    }

    /// When decisions last changed. An authorizer that cannot tell lets its [`Authorizer::changes`] come from time to time, with
    /// another generation each time.
    fn changed(&self) -> DecisionsChanged {
        DecisionsChanged::default()
    }

    /// Streams that wake when decisions may have changed; none where they never do.
    fn changes(&self) -> Vec<Changes> {
        Vec::new()
    }
}

/// Authorizers in order; the first with an opinion decides.
pub struct Union {
    authorizers: Vec<Named>,
    meters: Arc<AuthzMeters>,
}

/// An authorizer, with the name that its reasons are told under.
pub struct Named {
    name: String,
    /// The mode, for metrics.
    mode: String,
    authorizer: Arc<dyn Authorizer>,
    allowed: OnceLock<Arc<Counter>>,
    denied: OnceLock<Arc<Counter>>,
}

impl Named {
    pub fn new(mode: &str, name: &str, authorizer: Arc<dyn Authorizer>) -> Named {
        let (name, mode) = (name.to_string(), mode.to_string());
        Named { name, mode, authorizer, allowed: OnceLock::new(), denied: OnceLock::new() }
    }

    fn count(&self, verdict: Verdict, meters: &AuthzMeters) {
        let (counter, decision) = match verdict {
            Verdict::Allow => (&self.allowed, "allowed"),
            Verdict::Deny => (&self.denied, "denied"),
            Verdict::NoOpinion => return,
        };
        counter.get_or_init(|| meters.decisions.with(&[&self.mode, &self.name, decision])).increment();
    }
}

impl Union {
    pub fn new(authorizers: Vec<Named>, meters: Arc<AuthzMeters>) -> Union {
        Union { authorizers, meters }
    }
}

#[async_trait]
impl Authorizer for Union {
    async fn decide(&self, access: &Access<'_>) -> Decision {
        // Members of this group may do anything, whatever authorizers think.
        if access.user.is_member(User::MASTERS) {
            return Decision::allow("");
        }
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        for named in &self.authorizers {
            let decision = named.authorizer.decide(access).await;
            if decision.verdict != Verdict::NoOpinion {
                named.count(decision.verdict, &self.meters);
                return decision;
            }
            if !decision.reason.is_empty() {
                reasons.push(format!("{}: {}", named.name, decision.reason));
            }
            errors.extend(decision.error);
        }
        let error = (!errors.is_empty()).then(|| object::aggregate(errors));
        Decision { error, ..Decision::no_opinion(reasons.join("\n")) }
    }

    async fn opinions(&self, access: &Access<'_>) -> Vec<AuthorizerOpinion> {
        let is_master = access.user.is_member(User::MASTERS);
        let (mut opinions, mut is_decided) = (Vec::new(), is_master);
        if is_master {
            let decision = Some(Decision::allow("members of this group may do anything"));
            opinions.push(AuthorizerOpinion { name: User::MASTERS.into(), mode: String::new(), decision });
        }
        for Named { name, mode, authorizer, .. } in &self.authorizers {
            let decision = if is_decided { None } else { Some(authorizer.decide(access).await) };
            is_decided |= decision.as_ref().is_some_and(|decision| decision.verdict != Verdict::NoOpinion);
            opinions.push(AuthorizerOpinion { name: name.clone(), mode: mode.clone(), decision });
        }
        opinions
    }

    fn rules_for(&self, user: &User, namespace: &str) -> RulesFor {
        let mut all = RulesFor::default();
        for named in &self.authorizers {
            let RulesFor { rules, incomplete, errors } = named.authorizer.rules_for(user, namespace);
            all.rules.extend(rules);
            all.incomplete |= incomplete;
            if !errors.is_empty() {
                all.errors.push(object::aggregate(errors));
            }
        }
        all
    }

    fn changed(&self) -> DecisionsChanged {
        let all = self.authorizers.iter().map(|named| named.authorizer.changed());
        all.fold(DecisionsChanged::default(), DecisionsChanged::join)
    }

    fn changes(&self) -> Vec<Changes> {
        self.authorizers.iter().flat_map(|named| named.authorizer.changes()).collect()
    }
}

/// Whether `--authorization-mode` names modes that exist, each once.
pub fn check_modes(modes: &[String]) -> Result<(), String> {
    if modes.is_empty() {
        return Err("at least one authorization-mode must be passed".into());
    }
    for (place, mode) in modes.iter().enumerate() {
        if !MODES.contains(&mode.as_str()) {
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

/// `--authorization-mode=AlwaysAllow`.
pub struct AlwaysAllow;

#[async_trait]
impl Authorizer for AlwaysAllow {
    async fn decide(&self, _: &Access<'_>) -> Decision {
        Decision::allow("")
    }

    fn rules_for(&self, _: &User, _: &str) -> RulesFor {
        let all = || vec!["*".to_string()];
        let resources = Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() };
        let paths = Rule { verbs: all(), urls: all(), ..Rule::default() };
        RulesFor { rules: vec![resources, paths], ..RulesFor::default() }
    }
}

/// `--authorization-mode=AlwaysDeny`.
pub struct AlwaysDeny;

#[async_trait]
impl Authorizer for AlwaysDeny {
    async fn decide(&self, _: &Access<'_>) -> Decision {
        Decision::no_opinion("Everything is forbidden.")
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
        let meters: Arc<AuthzMeters> = Arc::default();
        let named = Named::new("AlwaysDeny", "alwaysdeny", Arc::new(AlwaysDeny));
        let union = Union::new(vec![named], meters);
        for (groups, want) in [
            (&["system:masters"][..], Decision::allow("")),
            (&[], Decision::no_opinion("alwaysdeny: Everything is forbidden.")),
        ] {
            let user = User { name: "u".into(), groups: strings(groups), ..User::default() };
            assert_eq!(union.decide(&Access::to_resource(&user, "get")).await, want);
        }
    }

    #[tokio::test]
    async fn authorizers_are_asked_until_one_has_an_opinion() {
        let named = |name: &str, authorizer: Arc<dyn Authorizer>| Named::new("Mode", name, authorizer);
        let all = vec![
            named("first", Arc::new(AlwaysDeny)),
            named("second", Arc::new(AlwaysAllow)),
            named("third", Arc::new(AlwaysAllow)),
        ];
        let union = Union::new(all, Arc::default());
        for (groups, want) in [
            (&[][..], "first NoOpinion, second Allow, third -"),
            (&["system:masters"], "system:masters Allow, first -, second -, third -"),
        ] {
            let user = User { name: "u".into(), groups: strings(groups), ..User::default() };
            let opinions = union.opinions(&Access::to_resource(&user, "get")).await;
            let shown = opinions.iter().map(|one| {
                let verdict = one.decision.as_ref().map_or("-".into(), |decision| format!("{:?}", decision.verdict));
                [one.name.as_str(), &verdict].join(" ")
            });
            assert_eq!(shown.collect::<Vec<_>>().join(", "), want);
        }
    }
}
