//! When a type can stand for another, and what type variables must be for that.

use crate::types::{Link, Type};

/// What type variables stand for.
#[derive(Debug, Default)]
pub struct Substitutions {
    bound: Vec<Option<Type>>,
    /// What was bound before, to undo an attempt that failed.
    trail: Vec<(u32, Option<Type>)>,
}

impl Substitutions {
    /// A new type variable.
    pub fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Fresh(self.bound.len() as u32 - 1)
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Fresh(number) => self.bound.get(*number as usize)?.as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, variable: &Type, ty: Type) {
        if let Type::Fresh(number) = variable {
            let old = self.bound[*number as usize].replace(ty);
            self.trail.push((*number, old));
        }
    }

    /// Tries a step; what it bound is undone unless it succeeds.
    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> bool) -> bool {
        let mark = self.trail.len();
        let succeeded = step(self);
        if !succeeded {
            while self.trail.len() > mark {
                if let Some((number, old)) = self.trail.pop() {
                    self.bound[number as usize] = old;
                }
            }
        }
        succeeded
    }

    pub fn is_assignable(&mut self, to: &Type, from: &Type) -> bool {
        self.attempt(|subs| subs.assignable(to, from))
    }

    pub fn are_assignable(&mut self, to: &[Type], from: &[Type]) -> bool {
        to.len() == from.len() && self.attempt(|subs| to.iter().zip(from).all(|(to, from)| subs.assignable(to, from)))
    }

    fn assignable(&mut self, t1: &Type, t2: &Type) -> bool {
        if is_variable(t2) {
            let (valid, has_substitution) = self.is_valid_substitution(t1, t2);
            if valid {
                return true;
            }
            if has_substitution {
                return false;
            }
        }
        if is_variable(t1) {
            return self.is_valid_substitution(t2, t1).0;
        }
        if is_dyn_or_error(t1) || is_dyn_or_error(t2) {
            return true;
        }
        if matches!(t1, Type::Null) {
            return is_nullable(t2);
        }
        if matches!(t2, Type::Null) {
            return is_nullable(t1);
        }
        match (t1, t2) {
            (Type::Type(_), _) => matches!(t2, Type::Type(_)),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.assignable(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.assignable(ak, bk) && self.assignable(av, bv),
            (Type::List(_) | Type::Map(..) | Type::Optional(_), _) => false,
            _ => accepts(t2, t1),
        }
    }

    /// Whether `variable`, or what it stands for, is a valid substitution for `ty`; and whether it stands for anything.
    fn is_valid_substitution(&mut self, ty: &Type, variable: &Type) -> (bool, bool) {
        if is_exact(ty, variable) {
            return (true, true);
        }
        if let Some(bound) = self.find(variable).cloned() {
            if is_exact(ty, &bound) {
                return (true, true);
            }
            if self.assignable(ty, &bound) {
                let general = most_general(ty, &bound);
                if self.is_absent(variable, &general) {
                    self.bind(variable, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.is_absent(variable, ty) {
            self.bind(variable, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether the variable does not occur in the type.
    fn is_absent(&self, variable: &Type, within: &Type) -> bool {
        if is_exact(variable, within) {
            return false;
        }
        match within {
            Type::Fresh(_) => self.find(within).is_none_or(|bound| self.is_absent(variable, bound)),
            Type::List(inner) | Type::Optional(inner) | Type::Type(Some(inner)) => self.is_absent(variable, inner),
            Type::Map(key, value) => self.is_absent(variable, key) && self.is_absent(variable, value),
            _ => true,
        }
    }

    /// The type with variables replaced by what they stand for; those that stand for nothing become dyn if asked.
    pub fn substitute(&self, ty: &Type, unbound_to_dyn: bool) -> Type {
        if let Some(bound) = self.find(ty) {
            return self.substitute(bound, unbound_to_dyn);
        }
        match ty {
            Type::Fresh(_) | Type::Param(_) if unbound_to_dyn => Type::Dyn,
            Type::List(inner) => Type::List(self.link(inner, unbound_to_dyn)),
            Type::Optional(inner) => Type::Optional(self.link(inner, unbound_to_dyn)),
            Type::Type(Some(inner)) => Type::Type(Some(self.link(inner, unbound_to_dyn))),
            Type::Map(key, value) => Type::Map(self.link(key, unbound_to_dyn), self.link(value, unbound_to_dyn)),
            other => other.clone(),
        }
    }

    fn link(&self, inner: &Link, unbound_to_dyn: bool) -> Link {
        if has_variables(inner) { self.substitute(inner, unbound_to_dyn).into() } else { inner.clone() }
    }
}

fn has_variables(ty: &Type) -> bool {
    match ty {
        Type::Fresh(_) | Type::Param(_) => true,
        Type::List(inner) | Type::Optional(inner) | Type::Type(Some(inner)) => has_variables(inner),
        Type::Map(key, value) => has_variables(key) || has_variables(value),
        _ => false,
    }
}

/// The type of a declaration with its parameters replaced.
pub fn instantiate(ty: &Type, parameters: &[(&'static str, Type)]) -> Type {
    let link = |inner: &Link| match has_variables(inner) {
        true => Link::from(instantiate(inner, parameters)),
        false => inner.clone(),
    };
    match ty {
        Type::Param(name) => {
            parameters.iter().find(|(parameter, _)| parameter == name).map_or(Type::Dyn, |(_, ty)| ty.clone())
        }
        Type::List(inner) => Type::List(link(inner)),
        Type::Optional(inner) => Type::Optional(link(inner)),
        Type::Type(Some(inner)) => Type::Type(Some(link(inner))),
        Type::Map(key, value) => Type::Map(link(key), link(value)),
        other => other.clone(),
    }
}

/// Adds the names of the parameters in a type.
pub fn parameters(ty: &Type, names: &mut Vec<&'static str>) {
    match ty {
        Type::Param(name) if !names.contains(name) => names.push(name),
        Type::List(inner) | Type::Optional(inner) | Type::Type(Some(inner)) => parameters(inner, names),
        Type::Map(key, value) => {
            parameters(key, names);
            parameters(value, names);
        }
        _ => {}
    }
}

fn is_variable(ty: &Type) -> bool {
    matches!(ty, Type::Fresh(_) | Type::Param(_))
}

pub fn is_dyn(ty: &Type) -> bool {
    matches!(ty, Type::Dyn | Type::Any)
}

pub fn is_dyn_or_error(ty: &Type) -> bool {
    matches!(ty, Type::Dyn | Type::Any | Type::Error)
}

/// Whether null can be given where the type is expected.
fn is_nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Optional(_)
            | Type::Opaque(_)
            | Type::Abstract(_)
            | Type::Object(_)
            | Type::Duration
            | Type::Timestamp
            | Type::Wrapper(_)
            | Type::Null
    )
}

/// The name of a type with fields or without.
fn object_name(ty: &Type) -> Option<&str> {
    match ty {
        Type::Abstract(name) => Some(name),
        Type::Object(decl) => Some(&decl.name),
        _ => None,
    }
}

/// A wrapper counts as what it wraps, except where null matters.
fn unwrapped(ty: &Type) -> &Type {
    match ty {
        Type::Wrapper(inner) => inner,
        other => other,
    }
}

/// Whether a value of `from` is accepted as `to`, without type variables.
fn accepts(to: &Type, from: &Type) -> bool {
    match (to, from) {
        (Type::Wrapper(_), Type::Null) => true,
        _ => is_exact(unwrapped(to), unwrapped(from)),
    }
}

/// Whether two types are the same.
pub fn is_exact(a: &Type, b: &Type) -> bool {
    same(a, b, true)
}

/// Whether two types are the same but for the names of type parameters.
pub fn is_equivalent(a: &Type, b: &Type) -> bool {
    same(a, b, false)
}

fn same(a: &Type, b: &Type, names: bool) -> bool {
    match (unwrapped(a), unwrapped(b)) {
        (Type::Dyn, Type::Dyn)
        | (Type::Error, Type::Error)
        | (Type::Null, Type::Null)
        | (Type::Bool, Type::Bool)
        | (Type::Int, Type::Int)
        | (Type::Uint, Type::Uint)
        | (Type::Double, Type::Double)
        | (Type::String, Type::String)
        | (Type::Bytes, Type::Bytes)
        | (Type::Duration, Type::Duration)
        | (Type::Timestamp, Type::Timestamp)
        | (Type::Any, Type::Any)
        | (Type::Type(None), Type::Type(None)) => true,
        (Type::List(a), Type::List(b))
        | (Type::Optional(a), Type::Optional(b))
        | (Type::Type(Some(a)), Type::Type(Some(b))) => same(a, b, names),
        (Type::Map(ak, av), Type::Map(bk, bv)) => same(ak, bk, names) && same(av, bv, names),
        (Type::Opaque(a), Type::Opaque(b)) => a == b,
        (Type::Fresh(a), Type::Fresh(b)) => a == b || !names,
        (Type::Param(a), Type::Param(b)) => a == b || !names,
        (a, b) => object_name(a).is_some() && object_name(a) == object_name(b),
    }
}

/// The more general of two types that go together.
pub fn most_general(a: &Type, b: &Type) -> Type {
    if is_equal_or_less_specific(a, b) { a.clone() } else { b.clone() }
}

fn is_equal_or_less_specific(a: &Type, b: &Type) -> bool {
    if is_dyn(a) || is_variable(a) {
        return true;
    }
    if is_dyn(b) || is_variable(b) {
        return false;
    }
    match (a, b) {
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_equal_or_less_specific(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => {
            is_equal_or_less_specific(ak, bk) && is_equal_or_less_specific(av, bv)
        }
        _ => is_exact(a, b),
    }
}
