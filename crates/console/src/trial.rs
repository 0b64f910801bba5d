//! What would happen to a request, and what the rules of a schema may cost: questions that change nothing.

use audit::{Level, Policy, Stage};
use authz::{AuthorizerOpinion, Verdict};
use cel::rules::{MAX_RULE_COST, MAX_SCHEMA_COST, RuleCost, rule_costs};
use codec::Notes;
use object::{Errors, Status};
use request::{Access, RequestInfo, User};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::ConsolePaths;

/// How many rules are told, those that cost most first, and how many problems.
const RULES_SHOWN: usize = 100;
const PROBLEMS_SHOWN: usize = 20;

/// A request that somebody might send.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TriedRequest {
    method: String,
    /// The path and query, as they are sent.
    path: String,
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    /// Tried instead of the audit policy in force.
    audit_policy: Option<String>,
}

impl ConsolePaths {
    /// The answers of the authorizers, of priority and fairness, and of the audit policy to a request.
    pub async fn tried(&self, body: &[u8]) -> Result<Value, Status> {
        let bad = |why: String| Status::bad_request(why);
        let tried: TriedRequest = serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
        let uri: http::Uri =
            tried.path.parse::<http::Uri>().map_err(|error| bad(format!("the path cannot be read: {error}")))?;
        let path = request::unescape(uri.path()).ok_or_else(|| bad("the path has an invalid escape".into()))?;
        let info = RequestInfo::parse(&tried.method, &path, &server::query(&uri));
        let user = User { name: tried.user, groups: tried.groups, ..User::default() };
        let policy = match &tried.audit_policy {
            Some(text) => Some(Policy::read(text.as_bytes()).map_err(|error| bad(error.to_string()))?.into()),
            None => self.parts.audit_policy(),
        };
        let opinions = self.authorizer.opinions(&Access::of(&info, &user)).await;
        Ok(json!({
            "verb": info.verb.as_str(),
            "isResource": info.is_resource,
            "group": info.group,
            "resource": info.resource,
            "subresource": info.subresource,
            "namespace": info.namespace,
            "name": info.name,
            "authorizers": opinions.iter().map(opinion).collect::<Vec<_>>(),
            "flow": self.seats.flow().map(|flow| {
                let found = flow.classify(&info, &user);
                json!({"flowSchema": found.schema.as_str(), "priorityLevel": found.level.as_str()})
            }),
            "audit": policy.map(|policy| recorded(&policy, &info, &user)),
        }))
    }
}

fn opinion(one: &AuthorizerOpinion) -> Value {
    let verdict = one.decision.as_ref().map(|decision| match decision.verdict {
        Verdict::Allow => "allow",
        Verdict::Deny => "deny",
        Verdict::NoOpinion => "no opinion",
    });
    let reason = one.decision.as_ref().map(|decision| decision.reason.as_str());
    let error = one.decision.as_ref().and_then(|decision| decision.error.as_deref());
    json!({"name": one.name, "mode": one.mode, "verdict": verdict, "reason": reason, "error": error})
}

/// How much an audit policy has of a request; rules count from one.
fn recorded(policy: &Policy, info: &RequestInfo, user: &User) -> Value {
    match policy.rule_for(info, user) {
        None => json!({"rule": null, "level": Level::None.as_str(), "stages": []}),
        Some((at, decision)) => {
            let stages = Stage::ALL.into_iter().filter(|stage| !decision.omit_stages.contains(*stage));
            let stages: Vec<&str> = stages.map(|stage| stage.as_str()).collect();
            json!({
                "rule": at + 1,
                "level": decision.level.as_str(),
                "stages": if decision.level == Level::None { Vec::new() } else { stages },
                "omitsManagedFields": decision.omit_managed_fields,
            })
        }
    }
}

/// Tells how much the rules of a schema, which the body is, may cost. It takes long for a long schema, so it is called away from other requests.
pub fn costs_of(body: &[u8]) -> Result<Value, Status> {
    let schema = codec::json::decode(body, None, &mut Notes::ignore());
    let schema = schema.map_err(|error| Status::bad_request(error.to_string()))?;
    let mut errors = Errors::new();
    let mut costs = rule_costs(&schema, &mut errors);
    let total = costs.iter().fold(0_u64, |total, rule| total.saturating_add(rule.cost));
    let count = costs.len();
    costs.sort_by_key(|rule| std::cmp::Reverse(rule.cost));
    let row = |rule: &RuleCost| json!({"path": rule.path, "cost": rule.cost});
    let problems = errors.iter().take(PROBLEMS_SHOWN).map(|error| [error.field.as_str(), ": ", &error.body()].concat());
    Ok(json!({
        "count": count,
        "total": total,
        "totalMax": MAX_SCHEMA_COST,
        "ruleMax": MAX_RULE_COST,
        "items": costs.iter().take(RULES_SHOWN).map(row).collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_by_what_they_cost() {
        let schema = r#"{"type":"object","properties":{
            "few":{"type":"array","maxItems":10,"items":{"type":"string","maxLength":10,
                "x-kubernetes-validations":[{"rule":"self.startsWith('a')"}]}},
            "many":{"type":"array","maxItems":1000,"items":{"type":"string","maxLength":1000,
                "x-kubernetes-validations":[{"rule":"self.contains('b')"}]}},
            "wrong":{"type":"string","x-kubernetes-validations":[{"rule":"self +"}]}}}"#;
        let told = costs_of(schema.as_bytes()).unwrap();
        assert_eq!((&told["count"], &told["totalMax"]), (&json!(3), &json!(100_000_000)));
        let paths: Vec<&str> =
            told["items"].as_array().unwrap().iter().filter_map(|row| row["path"].as_str()).collect();
        assert!(paths[0].contains("properties[many].items") && paths[1].contains("properties[few]"), "{paths:?}");
        assert!(told["items"][0]["cost"].as_u64() > told["items"][1]["cost"].as_u64());
        assert_eq!(told["problems"].as_array().unwrap().len(), 1);
        assert!(costs_of(b"[").is_err());
    }

    #[test]
    fn audit_policies_say_by_which_rule() {
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
                      - level: None\n  users: [eve]\n- level: Request\n  verbs: [create]\n";
        let policy = Policy::read(policy.as_bytes()).unwrap();
        let of = |method: &str, name: &str| {
            let user = User { name: name.into(), ..User::default() };
            recorded(&policy, &RequestInfo::parse(method, "/api/v1/namespaces/n/pods", &[]), &user)
        };
        assert_eq!(of("POST", "eve"), json!({"rule": 1, "level": "None", "stages": [], "omitsManagedFields": false}));
        let stages = ["ResponseStarted", "ResponseComplete", "Panic"];
        assert_eq!(
            of("POST", "a"),
            json!({"rule": 2, "level": "Request", "stages": stages, "omitsManagedFields": false})
        );
        assert_eq!(of("GET", "a"), json!({"rule": null, "level": "None", "stages": []}));
    }
}
