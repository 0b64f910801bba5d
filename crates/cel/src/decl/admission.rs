//! The types of the variables that admission policies and match conditions have.

use std::sync::Arc;

use super::{Decl, ListKind, Shape};
use crate::environment::Declarations;
use crate::types::Type;

/// Which variables besides those of every policy there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Optional {
    pub params: bool,
    pub authorizer: bool,
    /// `authorizer.requestResource`, where there is an authorizer.
    pub request_resource: bool,
    /// `Object{…}` and `JSONPatch{…}`, for mutations.
    pub patch_types: bool,
}

/// The variables of an admission policy: object, oldObject, namespaceObject, request, then params, then authorizer and
/// authorizer.requestResource.
pub fn declarations(optional: Optional) -> Declarations {
    typed_declarations(optional, Type::Dyn, Type::Dyn)
}

/// The same where the types of the objects and of params are known.
pub fn typed_declarations(optional: Optional, object: Type, params: Type) -> Declarations {
    let mut declarations = Declarations::new()
        .variable_of("object", object.clone())
        .variable_of("oldObject", object)
        .variable_of("namespaceObject", Type::Object(namespace()))
        .variable_of("request", Type::Object(request()));
    if optional.params {
        declarations = declarations.variable_of("params", params);
    }
    if optional.authorizer {
        declarations = declarations.variable_of("authorizer", Type::Abstract("kubernetes.authorization.Authorizer"));
        if optional.request_resource {
            let check = Type::Abstract("kubernetes.authorization.ResourceCheck");
            declarations = declarations.variable_of("authorizer.requestResource", check);
        }
    }
    if optional.patch_types { declarations.with_patch_types() } else { declarations }
}

fn plain(shape: Shape) -> Arc<Decl> {
    Arc::new(Decl { name: Default::default(), shape, nullable: true, max_elements: 0, min_serialized_size: 1 })
}

fn string() -> Arc<Decl> {
    plain(Shape::String)
}

fn list(items: Arc<Decl>) -> Arc<Decl> {
    let shape = Shape::List { items: Some(items), kind: ListKind::Atomic };
    Arc::new(Decl { name: Default::default(), shape, nullable: true, max_elements: -1, min_serialized_size: 2 })
}

fn map(values: Arc<Decl>) -> Arc<Decl> {
    let shape = Shape::Map(values);
    Arc::new(Decl { name: Default::default(), shape, nullable: true, max_elements: -1, min_serialized_size: 2 })
}

/// A user, as authentication knows it.
pub fn user_info() -> Arc<Decl> {
    Decl::object(
        "kubernetes.UserInfo",
        [("username", string()), ("uid", string()), ("groups", list(string())), ("extra", map(list(string())))],
    )
}

/// `request`.
pub fn request() -> Arc<Decl> {
    let names = |name: &str, last: &'static str| {
        Decl::object(name, [("group", string()), ("version", string()), (last, string())])
    };
    let kind = names("kubernetes.GroupVersionKind", "kind");
    let resource = names("kubernetes.GroupVersionResource", "resource");
    Decl::object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", string()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", string()),
            ("name", string()),
            ("namespace", string()),
            ("operation", string()),
            ("userInfo", user_info()),
            ("dryRun", plain(Shape::Bool)),
            ("options", plain(Shape::Json(Type::Dyn))),
        ],
    )
}

/// `namespaceObject`.
pub fn namespace() -> Arc<Decl> {
    let condition = Decl::object(
        "kubernetes.NamespaceCondition",
        [
            ("status", string()),
            ("type", string()),
            ("lastTransitionTime", plain(Shape::DateTime)),
            ("message", string()),
            ("reason", string()),
        ],
    );
    let metadata = Decl::object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", string()),
            ("generateName", string()),
            ("namespace", string()),
            ("labels", map(string())),
            ("annotations", map(string())),
            ("UID", string()),
            ("creationTimestamp", plain(Shape::DateTime)),
            ("deletionGracePeriodSeconds", plain(Shape::Int)),
            ("deletionTimestamp", plain(Shape::DateTime)),
            ("generation", plain(Shape::Int)),
            ("resourceVersion", string()),
            ("finalizers", list(string())),
        ],
    );
    Decl::object(
        "kubernetes.Namespace",
        [
            ("metadata", metadata),
            ("spec", Decl::object("kubernetes.NamespaceSpec", [("finalizers", list(string()))])),
            (
                "status",
                Decl::object("kubernetes.NamespaceStatus", [("conditions", list(condition)), ("phase", string())]),
            ),
        ],
    )
}
