//! What clients are told when reads and writes fail: the Status of each cause.

#![allow(clippy::unwrap_used)] // In tests a failed assumption is a failed test, in helpers too.

use object::{Errors, GroupKind, GroupResource, Path, Reason, Status};
use registry::{Error, Taken, Unreadable};

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

fn store(error: storage::Error) -> Error {
    Error::Store { error, resource: pods(), verb: "update", name: "p".into() }
}

fn read(error: cache::Error) -> Error {
    Error::Read { error, resource: pods(), verb: "list" }
}

fn taken(taken: Taken) -> Error {
    Error::AlreadyExists { resource: pods(), name: "p".into(), taken }
}

#[test]
fn causes_become_statuses() {
    let mut errors = Errors::new();
    errors.required(&Path::of("spec"), "");
    let cases = [
        (Error::from(Status::bad_request("no")), 400, "no"),
        (Error::Failed("no".into()), 500, "no"),
        (Error::NotFound { resource: pods(), name: "p".into() }, 404, r#"pods "p" not found"#),
        (taken(Taken::ByObject), 409, r#"pods "p" already exists"#),
        (taken(Taken::ByDeleted), 409, r#"object is being deleted: pods "p" already exists"#),
        (taken(Taken::Generated), 409, "the server was not able to generate a unique name for the object"),
        (
            Error::Invalid { kind: GroupKind::new("", "Pod"), name: "p".into(), errors },
            422,
            r#"Pod "p" is invalid: spec: Required value"#,
        ),
        (
            Error::Conflict { resource: pods(), name: "p".into(), why: "why".into() },
            409,
            r#"Operation cannot be fulfilled on pods "p": why"#,
        ),
        (
            Error::Unreadable { key: "/pods/p".into(), why: Unreadable::Undecodable("why".into()) },
            500,
            "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /pods/p",
        ),
        (Error::Unnamed(Unreadable::Sealed("why".into())), 500, "Internal error occurred: why"),
        (Error::Unnamed(Unreadable::Undecodable("why".into())), 500, "why"),
        (store(storage::Error::NotFound), 404, r#"pods "p" not found"#),
        (store(storage::Error::TooLarge { size: 1 << 20, limit: 1 }), 500, "etcdserver: request is too large"),
        (
            store(storage::Error::TooLarge { size: 3 << 20, limit: 1 }),
            500,
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3145728 vs. 2097152)",
        ),
        (store(storage::Error::Full("full".into())), 500, "full"),
        (store(storage::Error::unavailable("gone")), 500, "The update operation against pods could not be completed"),
        (read(cache::Error::TooLarge { requested: 9, current: 7 }), 504, "Too large resource version: 9, current: 7"),
    ];
    for (error, code, message) in cases {
        let shown = format!("{error:?}");
        let (kind, status) = (error.reason(), Status::from(error));
        assert_eq!(status.code, code, "{shown}");
        assert!(status.message.contains(message), "{shown}: {}", status.message);
        // What callers decide by is what clients see.
        if kind != Reason::Unknown {
            assert_eq!(kind, status.reason, "{shown}");
        }
    }
}
