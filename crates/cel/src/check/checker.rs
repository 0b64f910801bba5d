//! The checker.

use super::unify::{Substitutions, instantiate, is_dyn, is_dyn_or_error, is_exact, most_general, parameters};
use super::validate::validate;
use crate::environment::{Declarations, Environment, Function};
use crate::library::Overload;
use crate::syntax::ast::{Call, Comprehension, Entry, Kind, ListLiteral, Literal, Node, Select, StructLiteral};
use crate::syntax::source::Errors;
use crate::types::Type;

/// What is known about an expression after it was checked, by the number of each part.
#[derive(Debug)]
pub struct Checked<'e> {
    pub types: Vec<Type>,
    pub resolutions: Vec<Resolution<'e>>,
}

/// What a name or a call stands for.
#[derive(Debug, Clone)]
pub enum Resolution<'e> {
    None,
    /// A variable of the environment, by its place.
    Variable(usize),
    /// A variable of a comprehension.
    Local,
    /// A type.
    Type(Box<str>),
    Call(Resolved<'e>),
    /// The full name of the type of a message.
    Struct(Box<str>),
}

/// The function that is called, and which of its overloads it can be.
#[derive(Debug, Clone)]
pub struct Resolved<'e> {
    pub function: &'e Function,
    pub overloads: Vec<&'static Overload>,
    /// The target is a part of the function's name.
    pub namespaced: bool,
}

/// Checks a tree with `count` expressions. The result is complete if no error was reported.
pub fn check<'e, 'b>(
    root: Node<'b>,
    count: u32,
    environment: &'e Environment,
    declarations: &'e Declarations,
    errors: &mut Errors<'b>,
) -> Checked<'e> {
    let count = count as usize;
    let mut checker = Checker {
        environment,
        declarations,
        errors,
        subs: Substitutions::default(),
        locals: Vec::new(),
        types: vec![Type::Error; count],
        resolutions: vec![Resolution::None; count],
    };
    checker.check(root);
    let subs = checker.subs;
    let types = checker.types.iter().map(|ty| subs.substitute(ty, true)).collect();
    let checked = Checked { types, resolutions: checker.resolutions };
    if errors.is_empty() && environment.validates_literals() {
        validate(root, &checked, environment, errors);
    }
    checked
}

struct Checker<'e, 'b, 'c> {
    environment: &'e Environment,
    declarations: &'e Declarations,
    errors: &'c mut Errors<'b>,
    subs: Substitutions,
    /// Variables of comprehensions, innermost last.
    locals: Vec<(&'b str, Type)>,
    types: Vec<Type>,
    resolutions: Vec<Resolution<'e>>,
}

impl<'e, 'b> Checker<'e, 'b, '_> {
    fn check(&mut self, node: Node<'b>) {
        match node.kind {
            Kind::Unspecified => self.set(node, Type::Error),
            Kind::Literal(literal) => self.set(node, literal_type(literal)),
            Kind::Ident(name) => self.ident(node, name),
            Kind::Select(select) => self.select(node, select),
            Kind::Call(call) => self.call(node, call),
            Kind::List(list) => self.list(node, list),
            Kind::Map(entries) => self.map(node, entries),
            Kind::Struct(literal) => self.message(node, literal),
            Kind::Comprehension(loops) => self.comprehension(node, loops),
        }
    }

    fn set(&mut self, node: Node<'b>, ty: Type) {
        self.types[node.id as usize] = ty;
    }

    fn get(&self, node: Node<'b>) -> Type {
        self.types[node.id as usize].clone()
    }

    fn resolve(&mut self, node: Node<'b>, resolution: Resolution<'e>) {
        self.resolutions[node.id as usize] = resolution;
    }

    fn ident(&mut self, node: Node<'b>, name: &'b str) {
        if !name.starts_with('.')
            && let Some((_, ty)) = self.locals.iter().rev().find(|(local, _)| *local == name)
        {
            let ty = ty.clone();
            self.set(node, ty);
            self.resolve(node, Resolution::Local);
            return;
        }
        if !self.global(node, name.strip_prefix('.').unwrap_or(name)) {
            self.set(node, Type::Error);
            self.undeclared(node.offset, name);
        }
    }

    fn undeclared(&mut self, offset: u32, name: &str) {
        self.errors.at(offset, format!("undeclared reference to '{name}' (in container '')"));
    }

    /// Whether the name is a variable or type of the environment; if so, that is what the node is.
    fn global(&mut self, node: Node<'b>, name: &str) -> bool {
        if let Some((at, ty)) = self.declarations.variable(name) {
            self.set(node, ty.clone());
            self.resolve(node, Resolution::Variable(at));
            return true;
        }
        if let Some(ty) = self.environment.type_named(name).or_else(|| self.declarations.struct_named(name)) {
            self.set(node, Type::Type(Some(ty.into())));
            self.resolve(node, Resolution::Type(name.into()));
            return true;
        }
        false
    }

    fn select(&mut self, node: Node<'b>, select: &Select<'b>) {
        if let Some(name) = qualified_name(node) {
            let first = name.split('.').next().unwrap_or("");
            let is_local = self.locals.iter().any(|(local, _)| *local == first);
            if !is_local && self.global(node, name.strip_prefix('.').unwrap_or(&name)) {
                return;
            }
        }
        let ty = self.select_field(node, select.operand, select.field, false);
        let ty = if select.test_only { Type::Bool } else { self.subs.substitute(&ty, false) };
        self.set(node, ty);
    }

    fn select_field(&mut self, node: Node<'b>, operand: Node<'b>, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.subs.substitute(&self.get(operand), false);
        let (target, is_optional) = unwrap_optional(&operand);
        let result = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(decl) => match self.declarations.field(decl, field, self.environment) {
                Some(ty) => ty,
                None => self.undefined_field(node.offset, field),
            },
            Type::Abstract(name) => {
                // Types of libraries have no fields, and most of them are not known by name.
                match self.environment.struct_field(name, field) {
                    Some(Some(ty)) => ty,
                    Some(None) => self.undefined_field(node.offset, field),
                    None => {
                        self.errors.at(node.offset, format!("unexpected failed resolution of '{name}'"));
                        Type::Error
                    }
                }
            }
            Type::Fresh(_) | Type::Param(_) => {
                self.subs.is_assignable(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !is_dyn_or_error(other) {
                    self.errors.at(node.offset, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if is_optional || optional { Type::optional(result) } else { result }
    }

    fn undefined_field(&mut self, offset: u32, field: &str) -> Type {
        self.errors.at(offset, format!("undefined field '{field}'"));
        Type::Error
    }

    fn call(&mut self, node: Node<'b>, call: &Call<'b>) {
        if let ("_?._", None, [operand, field]) = (call.function, call.target, call.args)
            && let Kind::Literal(Literal::String(name)) = field.kind
        {
            let ty = self.select_field(node, operand, name, true);
            let ty = self.subs.substitute(&ty, false);
            self.set(node, ty);
            return;
        }
        for arg in call.args {
            self.check(arg);
        }
        let Some(target) = call.target else {
            let name = call.function.strip_prefix('.').unwrap_or(call.function);
            match self.environment.function(name) {
                Some(function) => self.overload(node, function, None, call.args, false),
                None => self.undeclared_call(node, call.function),
            }
            return;
        };
        if let Some(prefix) = qualified_name(target) {
            let name = format!("{prefix}.{}", call.function);
            if let Some(function) = self.environment.function(name.strip_prefix('.').unwrap_or(&name)) {
                self.overload(node, function, None, call.args, true);
                return;
            }
        }
        self.check(target);
        match self.environment.function(call.function) {
            Some(function) => self.overload(node, function, Some(target), call.args, false),
            None => self.undeclared_call(node, call.function),
        }
    }

    fn undeclared_call(&mut self, node: Node<'b>, function: &str) {
        self.set(node, Type::Error);
        self.undeclared(node.offset, function);
    }

    /// Finds the overloads that the call can be.
    fn overload(
        &mut self,
        node: Node<'b>,
        function: &'e Function,
        target: Option<Node<'b>>,
        args: &'b [Node<'b>],
        namespaced: bool,
    ) {
        if matches!(function.name, "_&&_" | "_||_") {
            self.logic(node, function, args);
            return;
        }
        let nodes = target.iter().chain(args);
        let arg_types: Vec<Type> = nodes.map(|node| self.types[node.id as usize].clone()).collect();
        let mut result: Option<Type> = None;
        let mut overloads = Vec::new();
        for overload in function.overloads.iter().filter(|overload| overload.member == target.is_some()) {
            let Some(ty) = self.try_overload(overload, &arg_types) else { continue };
            overloads.push(*overload);
            result = Some(match result {
                None => ty,
                Some(before) if is_dyn(&before) || is_exact(&ty, &before) => before,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(ty) => {
                self.set(node, ty);
                self.resolve(node, Resolution::Call(Resolved { function, overloads, namespaced }));
            }
            None => {
                let types: Vec<Type> = arg_types.iter().map(|ty| self.subs.substitute(ty, true)).collect();
                let message = no_matching_overload(function.name, &types, target.is_some());
                self.errors.at(node.offset, message);
                self.set(node, Type::Error);
            }
        }
    }

    /// The result type if the arguments fit the overload.
    fn try_overload(&mut self, overload: &'static Overload, args: &[Type]) -> Option<Type> {
        let mut names = Vec::new();
        parameters(&overload.result, &mut names);
        overload.args.iter().for_each(|arg| parameters(arg, &mut names));
        if names.is_empty() {
            return self.subs.are_assignable(args, overload.args).then(|| overload.result.clone());
        }
        let fresh: Vec<(&'static str, Type)> = names.into_iter().map(|name| (name, self.subs.fresh())).collect();
        let candidates: Vec<Type> = overload.args.iter().map(|arg| instantiate(arg, &fresh)).collect();
        if !self.subs.are_assignable(args, &candidates) {
            return None;
        }
        Some(self.subs.substitute(&instantiate(&overload.result, &fresh), false))
    }

    /// `&&` and `||`: both operands must be booleans.
    fn logic(&mut self, node: Node<'b>, function: &'e Function, args: &'b [Node<'b>]) {
        let mut fits = true;
        for arg in args {
            let ty = self.get(arg);
            if !self.subs.is_assignable(&ty, &Type::Bool) {
                self.mismatch(arg, &Type::Bool, &ty);
                fits = false;
            }
        }
        self.set(node, if fits { Type::Bool } else { Type::Error });
        let overloads = function.overloads.clone();
        self.resolve(node, Resolution::Call(Resolved { function, overloads, namespaced: false }));
    }

    fn mismatch(&mut self, node: Node<'b>, expected: &Type, found: &Type) {
        self.errors.at(node.offset, format!("expected type '{expected}' but found '{found}'"));
    }

    fn list(&mut self, node: Node<'b>, list: &ListLiteral<'b>) {
        let mut items: Option<Type> = None;
        for (i, element) in list.elements.iter().enumerate() {
            self.check(element);
            let mut ty = self.get(element);
            if list.optional.get(i) == Some(&true) {
                ty = self.unwrapped_entry(element, ty);
            }
            items = Some(self.join(element, items, ty));
        }
        let items = items.unwrap_or_else(|| self.subs.fresh());
        self.set(node, Type::list(items));
    }

    /// The type inside of an optional element.
    fn unwrapped_entry(&mut self, node: Node<'b>, ty: Type) -> Type {
        let (inner, is_optional) = unwrap_optional(&ty);
        if !is_optional && !is_dyn(inner) {
            self.mismatch(node, &Type::optional(ty.clone()), &ty);
        }
        inner.clone()
    }

    fn join(&mut self, node: Node<'b>, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.subs.is_assignable(&previous, &current) {
            return most_general(&previous, &current);
        }
        // Where literals are validated afterwards, that is when different types are reported.
        if self.environment.joins_literals() {
            return Type::Dyn;
        }
        self.mismatch(node, &previous, &current);
        Type::Error
    }

    fn map(&mut self, node: Node<'b>, entries: &'b [Entry<'b>]) {
        let (mut key_type, mut value_type) = (None, None);
        for entry in entries {
            self.check(entry.key);
            let ty = self.get(entry.key);
            key_type = Some(self.join(entry.key, key_type, ty));
            self.check(entry.value);
            let mut ty = self.get(entry.value);
            if entry.optional {
                ty = self.unwrapped_entry(entry.value, ty);
            }
            value_type = Some(self.join(entry.value, value_type, ty));
        }
        let key = key_type.unwrap_or_else(|| self.subs.fresh());
        let value = value_type.unwrap_or_else(|| self.subs.fresh());
        self.set(node, Type::map(key, value));
    }

    fn message(&mut self, node: Node<'b>, literal: &StructLiteral<'b>) {
        let name = literal.type_name.strip_prefix('.').unwrap_or(literal.type_name);
        let ty = self.environment.type_named(name).or_else(|| self.declarations.struct_named(name));
        let Some(ty) = ty else {
            self.undeclared(node.offset, literal.type_name);
            self.set(node, Type::Error);
            return;
        };
        self.resolve(node, Resolution::Struct(name.into()));
        let fields = self.environment.message(&ty);
        let is_message = fields.is_some() || matches!(ty, Type::Object(_) | Type::Abstract(_));
        if !is_message {
            self.errors.at(node.offset, format!("'{}' is not a message type", ty.declared_name()));
        }
        self.set(node, if is_message { ty.clone() } else { Type::Error });
        for field in literal.fields {
            self.check(field.value);
            let expected = match (&ty, fields) {
                _ if !is_message => None,
                (_, Some(message)) => message.field(field.name),
                (Type::Object(decl), _) => self.declarations.field(decl, field.name, self.environment),
                _ => None,
            };
            let expected = match expected {
                Some(ty) => ty,
                None if is_message => self.undefined_field(field.offset, field.name),
                None => {
                    let name = ty.declared_name();
                    self.errors.at(field.offset, format!("unexpected failed resolution of '{name}'"));
                    Type::Error
                }
            };
            let mut value = self.get(field.value);
            if field.optional {
                value = self.unwrapped_entry(field.value, value);
            }
            if !self.subs.is_assignable(&expected, &value) {
                let name = field.name;
                let message = format!("expected type of field '{name}' is '{expected}' but provided type is '{value}'");
                self.errors.at(field.offset, message);
            }
        }
    }

    fn comprehension(&mut self, node: Node<'b>, loops: &Comprehension<'b>) {
        self.check(loops.range);
        self.check(loops.init);
        let range = self.subs.substitute(&self.get(loops.range), false);
        let accumulator = self.get(loops.init);
        self.locals.push((loops.accumulator, accumulator.clone()));
        let (first, second) = match &range {
            Type::List(items) if loops.var2.is_some() => (Type::Int, (**items).clone()),
            Type::List(items) => ((**items).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Fresh(_) | Type::Param(_) => {
                self.subs.is_assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.errors.at(loops.range.offset, message);
                (Type::Error, Type::Error)
            }
        };
        let outer = self.locals.len();
        self.locals.push((loops.var, first));
        if let Some(var2) = loops.var2 {
            self.locals.push((var2, second));
        }
        self.check(loops.condition);
        self.assert(loops.condition, &Type::Bool);
        self.check(loops.step);
        self.assert(loops.step, &accumulator);
        self.locals.truncate(outer);
        self.check(loops.result);
        self.locals.truncate(outer - 1);
        let ty = self.subs.substitute(&self.get(loops.result), false);
        self.set(node, ty);
    }

    fn assert(&mut self, node: Node<'b>, expected: &Type) {
        let found = self.get(node);
        if !self.subs.is_assignable(expected, &found) {
            self.mismatch(node, expected, &found);
        }
    }
}

fn literal_type(literal: &Literal<'_>) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

fn unwrap_optional(ty: &Type) -> (&Type, bool) {
    match ty {
        Type::Optional(inner) => (inner, true),
        other => (other, false),
    }
}

/// `a.b.c` for names and selections of names.
fn qualified_name(node: Node<'_>) -> Option<String> {
    match node.kind {
        Kind::Ident(name) => Some(name.to_string()),
        Kind::Select(select) if !select.test_only => {
            let mut name = qualified_name(select.operand)?;
            name.push('.');
            name.push_str(select.field);
            Some(name)
        }
        _ => None,
    }
}

fn no_matching_overload(function: &str, types: &[Type], is_member: bool) -> String {
    let names: Vec<String> = types.iter().map(ToString::to_string).collect();
    let signature = match names.split_first() {
        Some((receiver, args)) if is_member => format!("{receiver}.({})", args.join(", ")),
        _ => format!("({})", names.join(", ")),
    };
    format!("found no matching overload for '{function}' applied to '{signature}'")
}
