//! TokenRequest: a token for a service account, bound to a pod, secret or node if asked.

use std::sync::Arc;

use async_trait::async_trait;
use authn::service_account::{Bound, Claims, Issuer, Reference};
use authz::Authorizer;
use object::timestamp::Time;
use object::{
    BadValue, Cursor, Errors, GroupKind, GroupResource, GroupVersion, GroupVersionKind, Meta, Status, Timestamp, Value,
};
use registry::{Action, ActionCall};

use crate::webhook_token;

/// Requests of exactly this length are for pods' mounted tokens, which may live on for a year.
const POD_TOKEN_SECONDS: i64 = 3607;
const SHORTEST_SECONDS: i64 = 10 * 60;
const LONGEST_SECONDS: i64 = 1 << 32;

/// How tokens are issued.
#[derive(Clone)]
pub struct TokenSettings {
    pub issuer: Arc<Issuer>,
    /// Whom a token is for whose request names nobody.
    pub audiences: Vec<String>,
    /// The longest that a token is good for; 0 is without a limit.
    pub max_seconds: i64,
    /// Whether pods' tokens live on, so that clients which do not renew them keep working.
    pub extend_expiration: bool,
    /// For how long they do.
    pub extended_seconds: i64,
}

pub struct Issue {
    pub tokens: TokenSettings,
    pub authorizer: Arc<dyn Authorizer>,
}

#[async_trait]
impl Action for Issue {
    async fn check(&self, call: &mut ActionCall<'_>) -> Result<(), Status> {
        call.about = self.account(call).await?;
        self.complete(call);
        validate(&call.body)
    }

    async fn create(&self, mut call: ActionCall<'_>) -> Result<Value, Status> {
        let (mut request, account) = (std::mem::take(&mut call.body), std::mem::take(&mut call.about));
        let bound = self.bound(&call, &mut request, &account).await?;
        let seconds = self.shortened(&call, &mut request);
        let audiences = strings(request.at(&["spec", "audiences"]));
        let extended = self.extend(&bound, seconds, &audiences);
        let now = call.cx.now.secs;
        let about = Reference { name: account.name().into(), uid: account.uid().into() };
        let lasts = if extended { self.tokens.extended_seconds } else { seconds };
        let mut claims = Claims::new(account.namespace(), about, bound, audiences, now, lasts);
        claims.jti = uuid::Uuid::new_v4().to_string();
        if let Some(said) = &mut claims.kubernetes {
            said.warnafter = extended.then_some(now + seconds);
            said.attestations = webhook_token::attestations(&request);
        }
        let token = self.tokens.issuer.issue(claims).await;
        let token = token.map_err(|error| Status::internal(format!("failed to generate token: {error}")))?;
        request.set(&["status", "token"], token);
        let expires = Time(Timestamp::new(now + seconds, 0)).to_string();
        request.set(&["status", "expirationTimestamp"], expires);
        Ok(request)
    }
}

impl Issue {
    /// The account that the request is for; what the request says about it must fit.
    async fn account(&self, call: &ActionCall<'_>) -> Result<Value, Status> {
        let name = call.body.name();
        if !name.is_empty() && name != call.name {
            let mut errors = Errors::new();
            let path = Cursor::root(&call.body).field("metadata").field("name");
            path.invalid(&mut errors, "must match the service account name if specified");
            return Err(Status::invalid(&kind(), call.name, &errors));
        }
        let account = stored(call, "serviceaccounts", call.cx.namespace, call.name).await?;
        let uid = call.body.uid();
        if !uid.is_empty() && uid != account.uid() {
            let why = format!(
                "the UID in the token request ({uid}) does not match the UID of the service account ({})",
                account.uid()
            );
            if call.cx.features.enabled("TokenRequestServiceAccountUIDValidation") {
                return Err(Status::conflict(&GroupResource::new(GROUP, "TokenRequest"), call.name, why));
            }
            call.cx.warn([format!(
                "{why} but TokenRequestServiceAccountUIDValidation is not enabled. In the future, this will return a conflict error"
            )]);
        }
        Ok(account)
    }

    /// Fills in what the request left open.
    fn complete(&self, call: &mut ActionCall<'_>) {
        let (request, account) = (&mut call.body, &call.about);
        if request.list_at(&["spec", "audiences"]).is_empty() {
            request.set(&["spec", "audiences"], self.tokens.audiences.clone());
        }
        for (field, value) in [("name", account.name()), ("namespace", account.namespace()), ("uid", account.uid())] {
            if request.meta_str(field).is_empty() {
                request.set_meta_str(field, value);
            }
        }
        request.set_meta_str("creationTimestamp", &Time(call.cx.now).to_string());
        if request.at(&["spec", "boundObjectRef"]).is_null() {
            request.set(&["spec", "boundObjectRef"], Value::Null);
        }
        request.remove(&["status"]);
    }

    /// The object that the token is bound to, which must be there and be the one that is meant.
    async fn bound(&self, call: &ActionCall<'_>, request: &mut Value, account: &Value) -> Result<Bound, Status> {
        let wanted = request.at(&["spec", "boundObjectRef"]).clone();
        if wanted.is_null() {
            return Ok(Bound::Nothing);
        }
        let (version, name) = (wanted.str_at(&["apiVersion"]), wanted.str_at(&["name"]));
        let kind = GroupVersion::parse(version).unwrap_or_default().with_kind(wanted.str_at(&["kind"]));
        let bound = match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Pod") => bound_pod(call, name).await?,
            ("", "Node") => Bound::Node(reference(&stored(call, "nodes", "", name).await?)),
            ("", "Secret") => Bound::Secret(reference(&stored(call, "secrets", call.cx.namespace, name).await?)),
            _ if webhook_token::is_webhook(&kind) => {
                let issuing = webhook_token::Issuing { call, authorizer: &*self.authorizer, account, kind: &kind };
                issuing.bind(request, name, &self.tokens.audiences).await?
            }
            _ => return Err(Status::bad_request(format!("cannot bind token to object of type {}", shown(&kind)))),
        };
        let uid = wanted.str_at(&["uid"]);
        if uid.is_empty() || uid == uid_of(&bound) {
            return Ok(bound);
        }
        let about = GroupResource::new(kind.group.clone(), kind.kind.clone());
        Err(Status::conflict(
            &about,
            name,
            format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        ))
    }

    /// How long the token is good for, and no longer than allowed.
    fn shortened(&self, call: &ActionCall<'_>, request: &mut Value) -> i64 {
        let (wanted, longest) = (seconds(request), self.tokens.max_seconds);
        if longest == 0 || wanted <= longest {
            return wanted;
        }
        call.cx.warn([format!("requested expiration of {wanted} seconds shortened to {longest} seconds")]);
        request.set(&["spec", "expirationSeconds"], longest);
        longest
    }

    /// Whether this is a pod's mounted token for this server, which works on after it was to expire.
    fn extend(&self, bound: &Bound, seconds: i64, audiences: &[String]) -> bool {
        let for_us = audiences.iter().all(|audience| self.tokens.audiences.contains(audience));
        self.tokens.extend_expiration && matches!(bound, Bound::Pod(..)) && seconds == POD_TOKEN_SECONDS && for_us
    }
}

const GROUP: &str = "authentication.k8s.io";

fn kind() -> GroupKind {
    GroupKind::new(GROUP, "TokenRequest")
}

/// A kind as Go prints it.
pub fn shown(kind: &GroupVersionKind) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

fn seconds(request: &Value) -> i64 {
    request.at(&["spec", "expirationSeconds"]).as_int().unwrap_or(0)
}

pub fn strings(list: &Value) -> Vec<String> {
    list.as_list().unwrap_or(&[]).iter().filter_map(Value::as_str).map(str::to_string).collect()
}

fn validate(request: &Value) -> Result<(), Status> {
    let mut errors = Errors::new();
    let spec = Cursor::root(request).field("spec");
    let path = spec.field("expirationSeconds");
    if seconds(request) < SHORTEST_SECONDS {
        path.invalid(&mut errors, "may not specify a duration less than 10 minutes");
    }
    if seconds(request) > LONGEST_SECONDS {
        path.invalid(&mut errors, "may not specify a duration larger than 2^32 seconds");
    }
    let attestations = spec.field("attestations");
    if webhook_token::is_bound(request) {
        webhook_token::validate(&spec, &mut errors);
    } else if !attestations.is_empty() {
        errors = Errors::new();
        let why = "attestations may only be specified with a webhook bound object reference";
        attestations.invalid_as(&mut errors, BadValue::Value(attestations.value().clone()), why);
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&kind(), "", &errors)) }
}

async fn stored(call: &ActionCall<'_>, resource: &str, namespace: &str, name: &str) -> Result<Value, Status> {
    let storage = call.cx.catalog.stored("", resource);
    let storage = storage.ok_or_else(|| Status::not_found(&GroupResource::new("", resource), name))?;
    Ok(storage.get(namespace, name).await?)
}

async fn bound_pod(call: &ActionCall<'_>, name: &str) -> Result<Bound, Status> {
    let pod = stored(call, "pods", call.cx.namespace, name).await?;
    if pod.str_at(&["spec", "serviceAccountName"]) != call.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            object::quote(call.name)
        )));
    }
    // The node's name tells something even where the node itself is not there.
    let node = Some(pod.str_at(&["spec", "nodeName"])).filter(|node| !node.is_empty()).map(|node| {
        let found = call.cx.lookup.get("", "nodes", "", node);
        Reference { name: node.to_string(), uid: found.map(|node| node.uid().to_string()).unwrap_or_default() }
    });
    Ok(Bound::Pod(reference(&pod), node))
}

pub fn reference(object: &Value) -> Reference {
    Reference { name: object.name().into(), uid: object.uid().into() }
}

fn uid_of(bound: &Bound) -> &str {
    match bound {
        Bound::Nothing => "",
        Bound::Pod(to, _)
        | Bound::Secret(to)
        | Bound::Node(to)
        | Bound::ValidatingWebhook(to)
        | Bound::MutatingWebhook(to) => &to.uid,
    }
}
