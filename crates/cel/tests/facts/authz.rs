//! The fake authorizer of the facts: it decides by verb, and its reason lists what it was asked.

use cel::library::authorizer::{Answer, Authorize, Check, CheckTarget, Resource, Subject};
use object::{fields, labels};
use serde_json::Value as Json;

pub struct Fake(pub Json);

impl Fake {
    fn lists(&self, list: &str, verb: &str) -> bool {
        self.0[list].as_array().is_some_and(|verbs| verbs.iter().any(|listed| listed == verb))
    }

    /// The resource of the request.
    pub fn resource(&self) -> Resource<'_> {
        let text = |name: &str| self.0["resource"][name].as_str().unwrap_or("");
        Resource {
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            ..Resource::default()
        }
    }
}

impl Authorize for Fake {
    fn authorize(&self, check: &Check<'_>) -> Answer {
        let user = match check.subject {
            Subject::Requester => self.0["user"].as_str().unwrap_or("").to_string(),
            Subject::ServiceAccount { namespace, name } => format!("system:serviceaccount:{namespace}:{name}"),
        };
        let target = match check.target {
            CheckTarget::Path(path) => format!("path={path}"),
            CheckTarget::Resource(resource) => described(&resource),
        };
        Answer {
            allowed: self.lists("allow", check.verb),
            reason: format!("user={user} verb={} {target}", check.verb),
            error: self.lists("error", check.verb).then(|| "fake authorizer error".to_string()),
        }
    }
}

fn described(check: &Resource<'_>) -> String {
    let fields = fields::Selector::parse(check.field_selector);
    let labels = labels::Selector::parse(check.label_selector, None);
    let requirements = |selector: Option<String>| format!("[{}]", selector.unwrap_or_default());
    format!(
        "group={} version=* resource={} subresource={} namespace={} name={} fields={} labels={} fieldError={} labelError={}",
        check.group,
        check.resource,
        check.subresource,
        check.namespace,
        check.name,
        requirements(fields.as_ref().ok().map(ToString::to_string)),
        requirements(labels.as_ref().ok().map(ToString::to_string)),
        fields.is_err(),
        labels.is_err()
    )
}
