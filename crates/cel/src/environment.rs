//! What expressions can use: functions, types and variables.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use object::Str;

use crate::decl::Decl;
use crate::escape::is_reserved;
use crate::library::{Library, Overload, Version, json, jsonpatch, libraries, lists};
use crate::message::Message;
use crate::syntax::Macros;
use crate::types::{Link, Type};

/// The version of Kubernetes whose expressions we understand.
pub const CURRENT: Version = Version { major: 1, minor: 37 };

/// The version before, which must understand expressions that are written now.
pub const PREVIOUS: Version = Version { major: 1, minor: 36 };

/// Functions, macros and types: everything but variables.
#[derive(Debug)]
pub struct Environment {
    version: Version,
    functions: HashMap<&'static str, Function>,
    has_patch_types: bool,
    /// Whether there is `cel.bind`.
    has_bindings: bool,
    /// Whether literals are checked by Kubernetes' own rules, beyond those of the language.
    checks_literals: bool,
}

/// A function and its overloads.
#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    pub overloads: Vec<&'static Overload>,
}

/// For which expressions an environment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Expressions that are written now: only what the compatibility version knows, so that the version before can read
    /// them after a rollback.
    New(Version),
    /// Expressions that are stored already, and those of configuration files: everything.
    Stored,
}

impl Environment {
    /// The environment of all expressions but those of mutating policies.
    pub fn base(mode: Mode) -> Arc<Environment> {
        Environment::shared(mode, false)
    }

    /// The environment of mutating policies, which make objects and JSON patches.
    pub fn mutation(mode: Mode) -> Arc<Environment> {
        Environment::shared(mode, true)
    }

    /// The environment of new expressions that select devices. Attributes that are lists come with a function for them.
    pub fn devices(has_lists: bool) -> Arc<Environment> {
        static DEVICES: [OnceLock<Arc<Environment>>; 2] = [OnceLock::new(), OnceLock::new()];
        let make = || {
            let mut environment = Environment { has_bindings: true, ..Environment::new(PREVIOUS, false) };
            if has_lists {
                environment.add(&lists::INCLUDES);
            }
            Arc::new(environment)
        };
        DEVICES[usize::from(has_lists)].get_or_init(make).clone()
    }

    /// The environment of expressions that convert custom resources: everything, and texts that hold JSON.
    pub fn conversion() -> Arc<Environment> {
        static CONVERSION: OnceLock<Arc<Environment>> = OnceLock::new();
        let make = || {
            let everything = Version { major: u16::MAX, minor: u16::MAX };
            let mut environment = Environment { has_bindings: true, ..Environment::new(everything, false) };
            environment.add(&json::LIBRARY);
            Arc::new(environment)
        };
        CONVERSION.get_or_init(make).clone()
    }

    /// The environment of the language's own conformance tests, which mix types in lists and maps.
    pub fn specification() -> Arc<Environment> {
        let everything = Version { major: u16::MAX, minor: u16::MAX };
        Arc::new(Environment { checks_literals: false, ..Environment::new(everything, false) })
    }

    fn shared(mode: Mode, has_patch_types: bool) -> Arc<Environment> {
        static STORED: [OnceLock<Arc<Environment>>; 2] = [OnceLock::new(), OnceLock::new()];
        static NEW: [OnceLock<Arc<Environment>>; 2] = [OnceLock::new(), OnceLock::new()];
        let version = match mode {
            Mode::New(version) => version,
            Mode::Stored => Version { major: u16::MAX, minor: u16::MAX },
        };
        let make = || Arc::new(Environment::new(version, has_patch_types));
        let kept = match mode {
            Mode::Stored => &STORED[usize::from(has_patch_types)],
            Mode::New(_) => &NEW[usize::from(has_patch_types)],
        };
        let environment = kept.get_or_init(make);
        // Servers use one compatibility version; another one is made when asked for.
        if environment.version == version { environment.clone() } else { make() }
    }

    fn new(version: Version, has_patch_types: bool) -> Environment {
        let patch = has_patch_types.then_some(&jsonpatch::LIBRARY);
        let is_known =
            |library: &&Library| library.since <= version && library.until.is_none_or(|until| version < until);
        let functions = HashMap::new();
        let mut environment =
            Environment { version, functions, has_patch_types, has_bindings: false, checks_literals: true };
        for library in libraries().iter().copied().filter(is_known).chain(patch) {
            environment.add(library);
        }
        environment
    }

    fn add(&mut self, library: &Library) {
        for overload in library.overloads {
            let name = overload.function;
            let function = self.functions.entry(name).or_insert_with(|| Function { name, overloads: Vec::new() });
            function.overloads.push(overload);
        }
    }

    /// Tells environments apart that understand expressions differently.
    pub(crate) fn fingerprint(&self) -> String {
        let has_json = self.functions.contains_key("json.decode");
        format!("{:?} {} {} {} {has_json}", self.version, self.has_patch_types, self.has_bindings, self.checks_literals)
    }

    fn since(&self, minor: u16) -> bool {
        self.version >= Version { major: 1, minor }
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    pub(crate) fn macros(&self) -> Macros {
        Macros {
            optional: self.since(28),
            two_variables: self.since(32),
            sort_by: self.since(34),
            bindings: self.has_bindings,
        }
    }

    /// Whether literals of durations, timestamps and regular expressions are checked with the expression.
    pub(crate) fn validates_literals(&self) -> bool {
        self.checks_literals && self.since(29)
    }

    /// Whether lists and maps of different types are lists and maps of dyn to the checker.
    pub(crate) fn joins_literals(&self) -> bool {
        self.since(29)
    }

    pub(crate) fn keywords_are_fields(&self) -> bool {
        self.since(31)
    }

    /// A type that expressions can name.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        const A: Type = Type::Param("A");
        const B: Type = Type::Param("B");
        Some(match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "google.protobuf.Duration" => Type::Duration,
            "int" => Type::Int,
            "list" => Type::List(Link::Static(&A)),
            "map" => Type::Map(Link::Static(&A), Link::Static(&B)),
            "null_type" => Type::Null,
            "string" => Type::String,
            "google.protobuf.Timestamp" => Type::Timestamp,
            "type" => Type::Type(None),
            "uint" => Type::Uint,
            "optional_type" if self.since(28) => Type::Optional(Link::Static(&Type::Dyn)),
            "net.IP" if self.since(30) => Type::Opaque("net.IP"),
            "net.CIDR" if self.since(30) => Type::Opaque("net.CIDR"),
            _ => return Message::named(name).map(Message::ty),
        })
    }

    /// The message type with fields that a type is made of.
    pub(crate) fn message(&self, ty: &Type) -> Option<Message> {
        Message::of(ty)
    }

    /// The type of a field of a library type; the inner none for a type that is known but has no such field.
    pub(crate) fn struct_field(&self, _name: &str, _field: &str) -> Option<Option<Type>> {
        None
    }
}

/// The variables of an expression and the types that they bring.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    variables: Vec<(Str, Type)>,
    patch_types: bool,
    /// How large the values of variables can be.
    decls: Vec<(Str, Arc<Decl>)>,
}

impl Declarations {
    pub fn new() -> Declarations {
        Declarations::default()
    }

    /// Adds a variable of a type. Values are given to an evaluation in the same order.
    pub fn variable_of(mut self, name: &str, ty: Type) -> Declarations {
        self.variables.push((name.into(), ty));
        self
    }

    /// Adds a variable that a schema describes; none if the schema has no type.
    pub fn declared(mut self, name: &str, decl: &Arc<Decl>) -> Option<Declarations> {
        self.variables.push((name.into(), decl.ty()?));
        self.decls.push((name.into(), decl.clone()));
        Some(self)
    }

    /// Lets expressions make `Object{…}` and `JSONPatch{…}`.
    pub fn with_patch_types(mut self) -> Declarations {
        self.patch_types = true;
        self
    }

    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }

    /// The schema that bounds sizes: that of `self` or `device`.
    pub(crate) fn schema(&self) -> Option<&Arc<Decl>> {
        self.decls.iter().find(|(name, _)| name == "self" || name == "device").map(|(_, decl)| decl)
    }

    /// The place and type of a variable; the one added last counts.
    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Type)> {
        self.variables.iter().rposition(|(known, _)| known == name).map(|at| (at, &self.variables[at].1))
    }

    /// A message type that the variables or the kind of policy bring.
    pub(crate) fn struct_named(&self, name: &str) -> Option<Type> {
        if self.patch_types && (name == "JSONPatch" || name == "Object" || name.starts_with("Object.")) {
            return Some(Type::Object(Arc::new(Decl::unnamed_fields(name))));
        }
        let scalar = match name {
            // Schemas bring these names for types.
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            _ => return self.variables.iter().find_map(|(_, ty)| object_named(ty, name)),
        };
        (!self.decls.is_empty()).then_some(scalar)
    }

    /// The type of a field; none if there is no such field.
    pub(crate) fn field(&self, decl: &Arc<Decl>, name: &str, environment: &Environment) -> Option<Type> {
        if self.patch_types && decl.is_dynamic() {
            return Some(match (decl.name.as_str(), name) {
                ("JSONPatch", "op" | "from" | "path") => Type::String,
                ("JSONPatch", "value") => Type::Dyn,
                // Upstream has a field of no type here.
                ("JSONPatch", _) => Type::Opaque(""),
                _ => Type::Dyn,
            });
        }
        decl.field(name).or_else(|| {
            let keyword = environment.keywords_are_fields() && is_reserved(name);
            keyword.then(|| decl.field(&format!("__{name}__"))).flatten()
        })
    }
}

/// The object type with a name inside of a type.
fn object_named(ty: &Type, name: &str) -> Option<Type> {
    match ty {
        Type::Object(decl) if decl.name == name => Some(ty.clone()),
        Type::List(inner) | Type::Optional(inner) => object_named(inner, name),
        Type::Map(_, value) => object_named(value, name),
        _ => None,
    }
}
