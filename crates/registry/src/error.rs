//! Why a read or a write of objects fails, and the Status that clients get for it.

use object::{Cause, Errors, GroupKind, GroupResource, Reason, Status};

/// Why a read or a write of objects fails.
#[derive(Debug)]
pub enum Error {
    /// The kind, admission or the change itself refuses, in the API's words.
    Refused(Status),
    /// The object breaks rules of its kind.
    Invalid {
        /// The kind.
        kind: GroupKind,
        /// The object's name.
        name: String,
        /// The broken rules.
        errors: Errors,
    },
    /// There is no such object.
    NotFound {
        /// The resource.
        resource: GroupResource,
        /// The name that was asked for.
        name: String,
    },
    /// The name of a new object is taken.
    AlreadyExists {
        /// The resource.
        resource: GroupResource,
        /// The name.
        name: String,
        /// By what it is taken.
        taken: Taken,
    },
    /// The object is not in the state that the request is about.
    Conflict {
        /// The resource.
        resource: GroupResource,
        /// The object's name.
        name: String,
        /// The precondition that does not hold.
        why: String,
    },
    /// The object is stored but cannot be read; `key` is as upstream's messages show it.
    Unreadable {
        /// Its key in the store.
        key: String,
        /// Why it cannot be read.
        why: Unreadable,
    },
    /// An object that cannot be read would be changed, or errors do not name such objects.
    Unnamed(Unreadable),
    /// The cache did not do what `verb` needs.
    Read {
        /// The cache's error.
        error: cache::Error,
        /// The resource.
        resource: GroupResource,
        /// The verb of the request.
        verb: &'static str,
    },
    /// The store did not do what `verb` needs.
    Store {
        /// The store's error.
        error: storage::Error,
        /// The resource.
        resource: GroupResource,
        /// The verb of the request.
        verb: &'static str,
        /// The object's name.
        name: String,
    },
    /// Any other failure: upstream passes on its text.
    Failed(String),
}

/// By what a name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// By an object that stays.
    ByObject,
    /// By an object that is being deleted.
    ByDeleted,
    /// By an object that has, by chance, the name that was generated.
    Generated,
}

/// An object that is stored but cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// No configured key decrypts it.
    Sealed(String),
    /// It is not an object of its kind.
    Undecodable(String),
}

impl Error {
    /// The reason in the Status that is made of this error.
    pub fn reason(&self) -> Reason {
        match self {
            Error::Refused(status) => status.reason.clone(),
            Error::Invalid { .. } => Reason::Invalid,
            Error::NotFound { .. } | Error::Store { error: storage::Error::NotFound, .. } => Reason::NotFound,
            Error::AlreadyExists { .. } | Error::Store { error: storage::Error::KeyExists(_), .. } => {
                Reason::AlreadyExists
            }
            Error::Conflict { .. } | Error::Store { error: storage::Error::Conflict(_), .. } => Reason::Conflict,
            _ => Reason::Unknown,
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        Error::Refused(status)
    }
}

/// The one place where failures of the registry become what clients are told.
impl From<Error> for Status {
    fn from(error: Error) -> Status {
        match error {
            Error::Refused(status) => status,
            Error::Invalid { kind, name, errors } => Status::invalid(&kind, &name, &errors),
            Error::NotFound { resource, name } => Status::not_found(&resource, &name),
            Error::AlreadyExists { resource, name, taken } => already_exists(&resource, &name, taken),
            Error::Conflict { resource, name, why } => Status::conflict(&resource, &name, why),
            Error::Unreadable { key, why } => Status::internal(why.at(&key)),
            Error::Unnamed(Unreadable::Sealed(why)) => Status::internal(why),
            Error::Unnamed(Unreadable::Undecodable(why)) | Error::Failed(why) => Status::unknown(500, why),
            Error::Read { error, resource, verb } => read_failed(error, &resource, verb),
            Error::Store { error, resource, verb, name } => store_failed(error, &resource, verb, &name),
        }
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Unreadable::Sealed(why) | Unreadable::Undecodable(why)) = self;
        f.write_str(why)
    }
}

impl Unreadable {
    /// As upstream's storage layer says it of a key.
    pub fn at(&self, key: &str) -> String {
        storage_error("corrupt object, Code: 7", key, self)
    }

    /// The error of a list that has it, where errors do not name what cannot be read.
    pub fn in_list(&self, key: &str) -> Status {
        match self {
            Unreadable::Sealed(why) => {
                Status::internal(format!("unable to transform key {}: {why}", object::quote(key)))
            }
            Unreadable::Undecodable(why) => Status::unknown(500, why.clone()),
        }
    }
}

/// What upstream's storage layer says of a key.
pub(crate) fn storage_error(what: &str, key: &str, why: impl std::fmt::Display) -> String {
    format!("StorageError: {what}, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}")
}

/// Upstream's wording when the object was changed since it was read.
pub const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
/// Upstream's wording when the revision that was asked for has been compacted away.
pub const EXPIRED: &str = "The resourceVersion for the provided list is too old.";

fn already_exists(resource: &GroupResource, name: &str, taken: Taken) -> Status {
    let mut status = Status::already_exists(resource, name);
    match taken {
        Taken::ByObject => status,
        Taken::ByDeleted => {
            status.message = format!("object is being deleted: {}", status.message);
            status
        }
        Taken::Generated => Status::generate_name_conflict(resource, name),
    }
}

fn read_failed(error: cache::Error, resource: &GroupResource, verb: &str) -> Status {
    match error {
        cache::Error::Expired { .. } => Status::expired(error.to_string()),
        cache::Error::TooLarge { requested, current } => {
            let message = format!("Too large resource version: {requested}, current: {current}");
            let mut status = Status::timeout(message, 1);
            if let Some(details) = &mut status.details {
                details.causes.push(Cause {
                    reason: "ResourceVersionTooLarge".into(),
                    message: "Too large resource version".into(),
                    field: String::new(),
                });
            }
            status
        }
        cache::Error::Store(error) => store_failed(error, resource, verb, ""),
    }
}

fn store_failed(error: storage::Error, resource: &GroupResource, verb: &str, name: &str) -> Status {
    match error {
        storage::Error::KeyExists(_) => Status::already_exists(resource, name),
        storage::Error::Conflict(_) => Status::conflict(resource, name, MODIFIED),
        storage::Error::NotFound => Status::not_found(resource, name),
        storage::Error::Compacted { .. } => Status::expired(EXPIRED),
        storage::Error::TooLarge { size, .. } => Status::unknown(500, too_large(size)),
        // Upstream hands on what etcd says.
        storage::Error::Full(message) => Status::unknown(500, message),
        storage::Error::Timeout(_) | storage::Error::Unavailable(_) => {
            tracing::warn!(%resource, verb, %error, "the store did not answer");
            Status::server_timeout(resource, verb, 2)
        }
        other => Status::internal(other),
    }
}

/// The largest request that etcd's client sends.
const SENT_BYTES_MAX: usize = 2 << 20;

/// The error of an object that is too large to be stored: upstream passes on what etcd or its client says.
fn too_large(size: usize) -> String {
    match size {
        ..=SENT_BYTES_MAX => "etcdserver: request is too large".to_string(),
        _ => format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {SENT_BYTES_MAX})"
        ),
    }
}
