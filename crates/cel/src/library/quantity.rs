//! `kubernetes.quantity`: amounts of resources.

use object::quantity::{Format, Quantity};

use crate::arena::Arena;
use crate::error::{Error, Outcome};
use crate::library::{Library, Overload, Version};
use crate::opaque::Opaque;
use crate::overload;
use crate::types::Type;
use crate::val::Val;

pub static LIBRARY: Library =
    Library { name: "kubernetes.quantity", since: Version { major: 1, minor: 28 }, until: None, overloads: OVERLOADS };

const QUANTITY: Type = Type::Abstract("kubernetes.Quantity");

#[rustfmt::skip]
static OVERLOADS: &[Overload] = &[
    overload!("quantity", "string_to_quantity", (Type::String) -> QUANTITY, quantity),
    overload!("isQuantity", "is_quantity_string", (Type::String) -> Type::Bool, is_quantity),
    overload!("sign", "quantity_sign", (QUANTITY) -> Type::Int, sign),
    overload!(member "isGreaterThan", "quantity_is_greater_than", (QUANTITY, QUANTITY) -> Type::Bool, is_greater),
    overload!(member "isLessThan", "quantity_is_less_than", (QUANTITY, QUANTITY) -> Type::Bool, is_less),
    overload!(member "compareTo", "quantity_compare_to", (QUANTITY, QUANTITY) -> Type::Int, compare),
    overload!(member "asApproximateFloat", "quantity_get_float", (QUANTITY) -> Type::Double, as_float),
    overload!(member "asInteger", "quantity_get_int", (QUANTITY) -> Type::Int, as_integer),
    overload!(member "isInteger", "quantity_is_integer", (QUANTITY) -> Type::Bool, is_integer),
    overload!(member "add", "quantity_add", (QUANTITY, QUANTITY) -> QUANTITY, add),
    overload!(member "add", "quantity_add_int", (QUANTITY, Type::Int) -> QUANTITY, add),
    overload!(member "sub", "quantity_sub", (QUANTITY, QUANTITY) -> QUANTITY, subtract),
    overload!(member "sub", "quantity_sub_int", (QUANTITY, Type::Int) -> QUANTITY, subtract),
];

fn quantity<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let quantity = Quantity::parse(text).map_err(|error| arena.error(format_args!("{error}")))?;
    Ok(Val::Opaque(Opaque::Quantity(arena.keep(quantity))))
}

fn is_quantity<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    let [Val::String(text)] = *args else { return Err(Error::NO_SUCH_OVERLOAD) };
    Ok(Val::Bool(Quantity::parse(text).is_ok()))
}

fn sign<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    one(args).map(|quantity| Val::Int(quantity.signum().into()))
}

fn is_greater<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    two(args).map(|(a, b)| Val::Bool(a.cmp(b).is_gt()))
}

fn is_less<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    two(args).map(|(a, b)| Val::Bool(a.cmp(b).is_lt()))
}

fn compare<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    two(args).map(|(a, b)| Val::Int(a.cmp(b) as i64))
}

fn as_float<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    one(args).map(|quantity| Val::Double(quantity.as_approximate_f64()))
}

fn as_integer<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    one(args)?.as_i64().map(Val::Int).ok_or(Error::new("cannot convert value to integer"))
}

fn is_integer<'a>(args: &[Val<'a>], _: &'a Arena) -> Outcome<'a> {
    one(args).map(|quantity| Val::Bool(quantity.as_i64().is_some()))
}

fn add<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    combine(args, arena, Quantity::add)
}

fn subtract<'a>(args: &[Val<'a>], arena: &'a Arena) -> Outcome<'a> {
    combine(args, arena, Quantity::sub)
}

fn combine<'a>(args: &[Val<'a>], arena: &'a Arena, change: fn(&mut Quantity, &Quantity)) -> Outcome<'a> {
    let [first, second] = args else { return Err(Error::NO_SUCH_OVERLOAD) };
    let mut result = value(first)?.clone();
    match second {
        Val::Int(i) => change(&mut result, &Quantity::new(*i, Format::DecimalExponent)),
        other => change(&mut result, value(other)?),
    }
    Ok(Val::Opaque(Opaque::ComputedQuantity(arena.keep(result))))
}

fn one<'a>(args: &[Val<'a>]) -> Outcome<'a, &'a Quantity> {
    match args {
        [only] => value(only),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

fn two<'a>(args: &[Val<'a>]) -> Outcome<'a, (&'a Quantity, &'a Quantity)> {
    match args {
        [first, second] => Ok((value(first)?, value(second)?)),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}

fn value<'a>(val: &Val<'a>) -> Outcome<'a, &'a Quantity> {
    match val {
        Val::Opaque(Opaque::Quantity(quantity) | Opaque::ComputedQuantity(quantity)) => Ok(quantity),
        _ => Err(Error::NO_SUCH_OVERLOAD),
    }
}
