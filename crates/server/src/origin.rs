//! What the history says about the changes that a request makes.

use request::User;
use rest::{Api, Call};

/// None for reads, and where no history is kept. `user` is who sent the request, whoever it acts as.
pub(crate) fn of(api: &Api, call: &Call, user: &User, audit_id: &str) -> Option<history::Origin> {
    let info = &call.info;
    if api.history.is_none() || !info.is_resource || info.verb.is_read() {
        return None;
    }
    let origin = history::Origin {
        user: user.name.clone(),
        impersonator: String::new(),
        user_agent: call.header("user-agent").into(),
        verb: info.verb.as_str().into(),
        subresource: info.subresource.clone(),
        audit_id: audit_id.into(),
    };
    Some(origin.cut())
}
