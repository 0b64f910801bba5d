//! [`Denied`]: why the program refuses a request.

use ::object::{Errors, GroupKind, GroupResource, Path, Status};

/// Why a rule refuses a write, or a subresource of the program a request.
#[derive(Clone, Debug)]
pub enum Denied {
    /// 403: not for this user, or not now.
    Forbidden(String),
    /// 422: fields of the object are wrong; each with its path and what is wrong.
    Invalid(Vec<(String, String)>),
}

impl Denied {
    /// 403 with a reason.
    pub fn forbidden(why: impl Into<String>) -> Denied {
        Denied::Forbidden(why.into())
    }

    /// 422 about one field, such as `spec.size`.
    pub fn field(path: impl Into<String>, why: impl Into<String>) -> Denied {
        Denied::Invalid(vec![(path.into(), why.into())])
    }

    pub(crate) fn into_status(self, resource: &GroupResource, group: &str, kind: &str, name: &str) -> Status {
        match self {
            Denied::Forbidden(why) => Status::forbidden(resource, name, why),
            Denied::Invalid(fields) => {
                let mut errors = Errors::new();
                for (path, why) in fields {
                    errors.forbidden(&Path::of(&path), why);
                }
                Status::invalid(&GroupKind::new(group, kind), name, &errors)
            }
        }
    }
}
