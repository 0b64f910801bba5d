//! The `authorizer` of expressions. Evaluation does not wait: a check that was not answered yet is noted, answered
//! afterwards, and the expressions are evaluated again with the answer. Answers are kept for the whole request.

use std::collections::HashMap;

use cel::library::authorizer::{Answer, Authorize, Check, CheckTarget, Subject};
use parking_lot::Mutex;
use request::{Access, Selection, User};

use crate::{Attributes, Host};

/// The answers to the checks of one request.
#[derive(Default)]
pub struct Answers(Mutex<State>);

#[derive(Default)]
struct State {
    known: HashMap<Asked, Answer>,
    open: Vec<Asked>,
}

/// A check that owns its texts.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Asked {
    /// Namespace and name; None for the user who makes the request.
    service_account: Option<(String, String)>,
    verb: String,
    /// Path, or group, resource, subresource, namespace, name, field and label selector.
    path: Option<String>,
    resource: [String; 7],
}

impl Asked {
    fn of(check: &Check<'_>) -> Asked {
        let service_account = match check.subject {
            Subject::Requester => None,
            Subject::ServiceAccount { namespace, name } => Some((namespace.to_string(), name.to_string())),
        };
        let (path, resource) = match check.target {
            CheckTarget::Path(path) => (Some(path.to_string()), Default::default()),
            CheckTarget::Resource(r) => {
                let parts =
                    [r.group, r.resource, r.subresource, r.namespace, r.name, r.field_selector, r.label_selector];
                (None, parts.map(str::to_string))
            }
        };
        Asked { service_account, verb: check.verb.to_string(), path, resource }
    }

    fn user(&self, requester: &User) -> User {
        match &self.service_account {
            None => requester.clone(),
            Some((namespace, name)) => User {
                name: format!("system:serviceaccount:{namespace}:{name}"),
                groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")],
                ..User::default()
            },
        }
    }
}

impl Authorize for Answers {
    fn authorize(&self, check: &Check<'_>) -> Answer {
        let asked = Asked::of(check);
        let mut state = self.0.lock();
        if let Some(answer) = state.known.get(&asked) {
            return answer.clone();
        }
        if !state.open.contains(&asked) {
            state.open.push(asked);
        }
        Answer::default()
    }
}

impl Answers {
    /// Answers the checks that were noted. Whether there were any: then what was evaluated does not count.
    pub async fn complete(&self, attributes: &Attributes<'_>, host: &dyn Host) -> bool {
        let open = std::mem::take(&mut self.0.lock().open);
        let any = !open.is_empty();
        for asked in open {
            let user = asked.user(attributes.cx.user);
            let [group, resource, subresource, namespace, name, field_selector, label_selector] = &asked.resource;
            let access = Access {
                user: &user,
                verb: &asked.verb,
                is_resource: asked.path.is_none(),
                group,
                version: if asked.path.is_none() { "*" } else { "" },
                resource,
                subresource,
                namespace,
                name,
                path: asked.path.as_deref().unwrap_or_default(),
                field_selector: Selection::Text(field_selector),
                label_selector: Selection::Text(label_selector),
            };
            let answer = host.decision(&access).await;
            self.0.lock().known.insert(asked, answer);
        }
        any
    }
}
