//! Tokens bound to webhook configurations, with which API servers prove to webhooks who is calling.

use std::collections::BTreeMap;

use authn::service_account::{Bound, user};
use authz::Authorizer;
use object::timestamp::Time;
use object::{Cursor, Errors, GroupResource, GroupVersionKind, Map, Meta, Status, Value, names};
use registry::ActionCall;
use request::Access;

use super::token::{reference, shown, strings};

const GATE: &str = "APIServerWebhookAuthenticationToken";
const GROUP: &str = "admissionregistration.k8s.io";
/// The one thing such a token attests.
const API_GROUPS: &str = "admissionReviewAPIGroups";
const LONGEST_SECONDS: i64 = 10 * 60;
const HTTPS_PORT: i64 = 443;

pub fn is_webhook(kind: &GroupVersionKind) -> bool {
    let configuration = matches!(kind.kind.as_str(), "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration");
    kind.group == GROUP && kind.version == "v1" && configuration
}

/// Whether a request is for a token that is bound to a webhook configuration.
pub fn is_bound(request: &Value) -> bool {
    let bound = request.at(&["spec", "boundObjectRef"]);
    let kind = object::GroupVersion::parse(bound.str_at(&["apiVersion"])).unwrap_or_default();
    is_webhook(&kind.with_kind(bound.str_at(&["kind"])))
}

pub fn attestations(request: &Value) -> BTreeMap<String, Vec<String>> {
    let entries = request.at(&["spec", "attestations"]).as_map().into_iter().flat_map(Map::iter);
    entries.map(|(key, values)| (key.to_string(), strings(values))).collect()
}

/// The fields that a request for such a token must have.
pub fn validate(spec: &Cursor, errors: &mut Errors) {
    let audiences = spec.field("audiences");
    if audiences.value().as_list().map_or(0, <[Value]>::len) != 1 {
        audiences.invalid(errors, "must be length 1 when bound to a webhook config");
    }
    let path = spec.field("attestations");
    let entries = path.value().as_map();
    if entries.map_or(0, Map::len) != 1 {
        path.invalid(errors, "webhook bound requests require exactly one admissionReviewAPIGroups attestation");
        return;
    }
    for (key, values) in entries.into_iter().flat_map(Map::iter) {
        let path = path.key(key);
        if key != API_GROUPS {
            errors.not_supported(path.path(), key, &[API_GROUPS]);
            continue;
        }
        match values.as_list().unwrap_or(&[]) {
            [group] => validate_group(&path.index(0), group.as_str().unwrap_or(""), errors),
            _ => path.invalid(errors, "must specify a single value"),
        }
    }
}

/// "" would mean the core group in one place and every group in another.
fn validate_group(path: &Cursor, group: &str, errors: &mut Errors) {
    if group.is_empty() {
        path.invalid(errors, "may not be an empty string");
    } else if group != "*" {
        for why in names::name_is_dns_subdomain(group, false) {
            path.invalid(errors, format!("must specify a valid API Group: {why}"));
        }
    }
}

/// A request for such a token, after validation.
pub struct Issuing<'a> {
    pub call: &'a ActionCall<'a>,
    pub authorizer: &'a dyn Authorizer,
    pub account: &'a Value,
    pub kind: &'a GroupVersionKind,
}

impl Issuing<'_> {
    pub async fn bind(&self, request: &mut Value, name: &str, own: &[String]) -> Result<Bound, Status> {
        if !self.call.cx.features.enabled(GATE) {
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {} (feature gate {GATE} is disabled)",
                shown(self.kind)
            )));
        }
        let audiences = strings(request.at(&["spec", "audiences"]));
        if audiences.iter().any(|audience| own.contains(audience)) {
            return Err(Status::bad_request("api server audiences are invalid for webhook token requests"));
        }
        let seconds = ["spec", "expirationSeconds"];
        request.set(&seconds, request.at(&seconds).as_int().unwrap_or(0).min(LONGEST_SECONDS));
        let group = attestations(request).remove(API_GROUPS).and_then(|groups| groups.into_iter().next());
        let (group, audience) = (group.unwrap_or_default(), audiences.into_iter().next().unwrap_or_default());
        self.authorize(&group).await?;
        let hook = self.configuration(name, &group, &audience).ok_or_else(|| {
            let about = GroupResource::new("", "serviceaccounts/token");
            Status::forbidden(&about, self.account.name(), "token request denied")
        })?;
        let hook = reference(&hook);
        let validating = self.kind.kind == "ValidatingWebhookConfiguration";
        Ok(if validating { Bound::ValidatingWebhook(hook) } else { Bound::MutatingWebhook(hook) })
    }

    /// The account itself must be allowed to speak for the group.
    async fn authorize(&self, group: &str) -> Result<(), Status> {
        let account = self.account;
        let user = user(account.namespace(), account.name(), account.uid());
        let access = Access {
            group: "authentication.k8s.io",
            version: "*",
            resource: API_GROUPS,
            name: group,
            ..Access::to_resource(&user, "attest")
        };
        authz::check(self.authorizer, &access).await
    }

    /// The configuration, if it has a webhook that is called for the group and is known by the audience.
    fn configuration(&self, name: &str, group: &str, audience: &str) -> Option<std::sync::Arc<Value>> {
        let resource = format!("{}s", self.kind.kind.to_lowercase());
        let found = self.call.cx.lookup.get(GROUP, &resource, "", name)?;
        let deleted = Time::parse(found.meta_str("deletionTimestamp"));
        if deleted.is_ok_and(|Time(at)| at < self.call.cx.now) {
            return None;
        }
        let fits = |hook: &Value| is_called_for(hook, group) && is_known_by(hook.field("clientConfig"), audience);
        (group == "*" || found.list_at(&["webhooks"]).iter().any(fits)).then_some(found)
    }
}

fn is_called_for(hook: &Value, group: &str) -> bool {
    let groups = hook.list_at(&["rules"]).iter().flat_map(|rule| rule.list_at(&["apiGroups"]));
    groups.filter_map(Value::as_str).any(|rule| rule == "*" || rule == group)
}

/// The audience is the webhook's address, spelled out for services.
fn is_known_by(config: &Value, audience: &str) -> bool {
    if config.field("url").as_str() == Some(audience) {
        return true;
    }
    let service = config.field("service");
    if service.is_null() {
        return false;
    }
    let port = service.field("port").as_int().unwrap_or(HTTPS_PORT);
    let path = service.field("path").as_str().unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let (name, namespace) = (service.str_at(&["name"]), service.str_at(&["namespace"]));
    audience == format!("https://{name}.{namespace}.svc:{port}{slash}{path}")
}
