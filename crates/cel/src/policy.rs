//! Expressions of admission policies and match conditions: which variables they have and what they must evaluate to.

use std::fmt::Write;
use std::sync::Arc;

use hashbrown::HashMap;
use object::Str;

use crate::decl::{Decl, Field, Shape, admission};
use crate::environment::{Declarations, Environment, Mode};
use crate::expression::Expression;
use crate::pool::{Pool, Pooled};
use crate::program::Program;
use crate::types::Type;

/// What an expression must evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Bool,
    String,
    StringOrNull,
    /// `Object{…}`.
    ApplyConfiguration,
    /// `[JSONPatch{…}]`.
    JsonPatch,
    Any,
}

impl Wanted {
    fn names(self) -> &'static [&'static str] {
        match self {
            Wanted::Bool => &["bool"],
            Wanted::String => &["string"],
            Wanted::StringOrNull => &["string", "null_type"],
            Wanted::ApplyConfiguration => &["Object"],
            Wanted::JsonPatch => &["list(JSONPatch)"],
            Wanted::Any => &[],
        }
    }

    fn has_patch_types(self) -> bool {
        matches!(self, Wanted::ApplyConfiguration | Wanted::JsonPatch)
    }
}

/// Why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Invalid(String),
    /// It is right by its types, but cannot be carried out.
    Internal(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Invalid(text) | Refusal::Internal(text) => f.write_str(text),
        }
    }
}

/// A variable that the server provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    Object,
    OldObject,
    NamespaceObject,
    Request,
    Params,
    Authorizer,
    RequestResource,
    /// `variables`: those that the policy defines.
    Variables,
}

/// An expression that compiled.
#[derive(Clone, Debug)]
pub struct Compiled {
    pooled: Arc<Pooled>,
    pub program: Arc<Program>,
    params: bool,
    authorizer: bool,
}

impl Compiled {
    pub fn text(&self) -> &str {
        &self.pooled.text
    }

    /// The variable at a place among the declarations.
    pub fn variable(&self, at: usize) -> Option<Variable> {
        use Variable::{Authorizer, NamespaceObject, Object, OldObject, Params, Request, RequestResource, Variables};
        let optional = self.params.then_some(Params).into_iter();
        let authorizer = self.authorizer.then_some([Authorizer, RequestResource]).into_iter().flatten();
        let always = [Object, OldObject, NamespaceObject, Request].into_iter();
        always.chain(optional).chain(authorizer).chain([Variables]).nth(at)
    }
}

/// Compiles the expressions of one policy.
#[derive(Clone, Default)]
pub struct Compiler {
    /// Whether there is `params`.
    params: bool,
    /// The types of the policy's own variables so far; None where expressions have no `variables` at all.
    variables: Option<HashMap<Str, Type>>,
    /// The types of object and of params where a schema tells them; dyn otherwise.
    object: Option<Arc<Decl>>,
    params_type: Option<Arc<Decl>>,
    /// Whether expressions are only checked, with these types.
    checks_types: bool,
    /// Where compiled expressions are shared; None for expressions that are only checked.
    pool: Option<Arc<Pool>>,
}

impl Compiler {
    /// For match conditions of webhooks and expressions without `variables`.
    pub fn new(params: bool) -> Compiler {
        Compiler { params, ..Compiler::default() }
    }

    /// For policies with `variables`.
    pub fn composed(params: bool) -> Compiler {
        Compiler { params, variables: Some(HashMap::new()), ..Compiler::default() }
    }

    /// The same with expressions that are shared with everything else that uses the pool.
    pub fn pooled(self, pool: &Arc<Pool>) -> Compiler {
        Compiler { pool: Some(pool.clone()), ..self }
    }

    /// The same with the types that schemas tell, for type checking.
    pub fn typed(self, object: Option<Arc<Decl>>, params: Option<Arc<Decl>>) -> Compiler {
        // Descriptions of types do not tell schemas apart.
        Compiler { object, params_type: params, checks_types: true, pool: None, ..self }
    }

    /// Compiles a variable and lets the expressions after it use it, even if it does not compile.
    pub fn variable(&mut self, name: &str, text: &str, mode: Mode) -> Result<Compiled, Refusal> {
        let compiled = self.compile(text, Wanted::Any, true, mode);
        let ty = compiled.as_ref().map_or(Type::Dyn, |(ty, _)| known(ty));
        if let Some(variables) = &mut self.variables {
            variables.insert(name.into(), ty);
        }
        compiled.and_then(|(_, compiled)| compiled)
    }

    /// Compiles an expression that must evaluate to a type. `authorizer` says whether it can use the authorizer.
    pub fn expression(&self, text: &str, wanted: Wanted, authorizer: bool, mode: Mode) -> Result<Compiled, Refusal> {
        self.compile(text, wanted, authorizer, mode).and_then(|(_, compiled)| compiled)
    }

    /// The text of what is wrong with an expression's types, without "compilation failed".
    pub fn type_check(&mut self, variables: &[(Str, Str)], text: &str) -> Option<String> {
        for (name, text) in variables {
            let _ = self.variable(name, text, Mode::Stored);
        }
        let environment = Environment::base(Mode::Stored);
        let checked =
            Expression::compile(text, &environment, &self.declarations(&self.mentioned(text), Wanted::Any, true));
        checked.err().map(|error| error.to_string())
    }

    #[allow(clippy::type_complexity)] // The type is known even where no program can be made.
    fn compile(
        &self,
        text: &str,
        wanted: Wanted,
        authorizer: bool,
        mode: Mode,
    ) -> Result<(Type, Result<Compiled, Refusal>), Refusal> {
        let patches = wanted.has_patch_types();
        let environment = if patches { Environment::mutation(mode) } else { Environment::base(mode) };
        let mentioned = self.mentioned(text);
        let declarations = self.declarations(&mentioned, wanted, authorizer);
        let pooled = match &self.pool {
            Some(pool) => {
                pool.expression(text, &environment, &declarations, &self.types(&mentioned, wanted, authorizer))
            }
            None => Expression::compile(text, &environment, &declarations)
                .map(|expression| Arc::new(Pooled { text: text.into(), expression })),
        };
        let pooled = pooled.map_err(|error| Refusal::Invalid(format!("compilation failed: {error}")))?;
        let compiled = &pooled.expression;
        let (got, names) = (compiled.ty.declared_name(), wanted.names());
        match names {
            [] => {}
            names if names.contains(&got.as_str()) => {}
            [one] => return Err(Refusal::Invalid(format!("must evaluate to {one} but got {got}"))),
            several => {
                let several = several.join(" ");
                return Err(Refusal::Invalid(format!("must evaluate to one of [{several}] but got {got}")));
            }
        }
        let program = compiled.program.clone();
        let program = program.map_err(|why| Refusal::Internal(format!("program instantiation failed: {why}")));
        let (ty, params) = (compiled.ty.clone(), self.params);
        Ok((ty, program.map(|program| Compiled { pooled, program, params, authorizer })))
    }

    /// The variables whose names stand in the text, sorted. Others cannot matter to it, and declaring all of them for each
    /// expression would take time with the square of their number.
    fn mentioned(&self, text: &str) -> Vec<(&Str, &Type)> {
        let Some(variables) = self.variables.as_ref().filter(|variables| !variables.is_empty()) else {
            return Vec::new();
        };
        let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        // Between backquotes stand names that are not identifiers.
        let mut found: Vec<(&Str, &Type)> =
            words.chain(text.split('`')).filter_map(|word| variables.get_key_value(word)).collect();
        found.sort_by_key(|(name, _)| *name);
        found.dedup_by_key(|(name, _)| *name);
        found
    }

    /// Describes the declarations of expressions whose object and params have no known types.
    fn types(&self, variables: &[(&Str, &Type)], wanted: Wanted, authorizer: bool) -> String {
        let mut types = format!("policy {} {authorizer} {}", self.params, wanted.has_patch_types());
        for (name, ty) in variables {
            let _ = write!(types, " {name}:{}", ty.declared_name());
        }
        if self.variables.is_some() { types + " composed" } else { types }
    }

    fn declarations(&self, variables: &[(&Str, &Type)], wanted: Wanted, authorizer: bool) -> Declarations {
        let optional = admission::Optional {
            params: self.params,
            authorizer,
            // Upstream's type checker does not know it.
            request_resource: !self.checks_types,
            patch_types: wanted.has_patch_types(),
        };
        let ty = |decl: &Option<Arc<Decl>>| decl.as_ref().and_then(Decl::ty).unwrap_or(Type::Dyn);
        let declarations = admission::typed_declarations(optional, ty(&self.object), ty(&self.params_type));
        match self.variables {
            Some(_) => declarations.variable_of("variables", Type::Object(object_of(variables))),
            None => declarations,
        }
    }
}

/// The type of `variables`, whose fields are sorted by name.
fn object_of(variables: &[(&Str, &Type)]) -> Arc<Decl> {
    let field = |(name, ty): &(&Str, &Type)| Field {
        name: Str::clone(name),
        escaped: Some(Str::clone(name)),
        decl: Arc::new(Decl::json(Type::clone(ty))),
    };
    Arc::new(Decl {
        name: "kubernetes.variables".into(),
        shape: Shape::Object(variables.iter().map(field).collect()),
        nullable: false,
        max_elements: 0,
        min_serialized_size: 2,
    })
}

/// What other expressions know about a variable's type: scalars, lists and maps; dyn for everything else.
fn known(ty: &Type) -> Type {
    match ty {
        Type::Any
        | Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => ty.clone(),
        Type::List(items) => Type::list(known(items)),
        Type::Map(keys, values) => Type::map(known(keys), known(values)),
        _ => Type::Dyn,
    }
}
