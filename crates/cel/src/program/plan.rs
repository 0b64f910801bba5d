//! From checked tree to program, with the constants folded that cel-go folds.

use super::{
    Attribute, Base, By, Call, CallTarget, Counted, Fold, LazyRegex, MapEntry, Op, Program, Qualifier, Ref, Struct,
};
use crate::arena::Arena;
use crate::check::{Checked, Resolution, Resolved};
use crate::constant::Constant;
use crate::cost::actual;
use crate::environment::Declarations;
use crate::library::Call as Callable;
use crate::message::Message;
use crate::syntax::ast::{self, Comprehension, Kind, Node};
use crate::types::Type;
use crate::val::gotype::go_type;
use crate::val::key::Key;

/// The function whose implementation is the same for all overloads and whose second argument is a regular expression.
const MATCHES: &str = "matches";
/// The function with two arguments that cel-go implements as one with any number: it stops at the first error.
const VARIADIC: &str = "format";

type Planned = Result<Ref, String>;

/// Plans a checked expression. The error is that of a constant that cannot be computed.
pub(crate) fn plan(root: Node<'_>, checked: &Checked<'_>, declarations: &Declarations) -> Result<Program, String> {
    let mut planner = Planner { checked, ops: Vec::new(), locals: Vec::new(), most_locals: 0 };
    let root_ref = planner.plan(root)?;
    Ok(Program {
        root: root_ref,
        locals: u16::try_from(planner.most_locals).map_err(|_| "too many nested comprehensions".to_string())?,
        ops: planner.ops.into(),
        variables: declarations.names().map(Into::into).collect(),
        ty: checked.types[root.id as usize].clone(),
    })
}

struct Planner<'c, 'e, 'b> {
    checked: &'c Checked<'e>,
    ops: Vec<Op>,
    /// The names of comprehension variables, by slot.
    locals: Vec<&'b str>,
    most_locals: usize,
}

impl<'c, 'b> Planner<'c, '_, 'b> {
    fn push(&mut self, op: Op) -> Ref {
        self.ops.push(op);
        self.ops.len() as Ref - 1
    }

    fn attribute(&mut self, base: Base) -> Ref {
        self.push(Op::Attribute(Box::new(Attribute { base, qualifiers: Vec::new(), test: false })))
    }

    fn plan(&mut self, node: Node<'b>) -> Planned {
        match node.kind {
            Kind::Unspecified => Err("unsupported expr".into()),
            Kind::Literal(literal) => Ok(self.push(Op::Const(literal.constant()))),
            Kind::Ident(name) => self.ident(node, name),
            Kind::Select(select) => self.select(node, select),
            Kind::Call(call) => self.call(node, call),
            Kind::List(list) => {
                let mut elements = Vec::with_capacity(list.elements.len());
                for (i, element) in list.elements.iter().enumerate() {
                    elements.push((self.plan(element)?, list.optional.get(i) == Some(&true)));
                }
                Ok(self.list(elements))
            }
            Kind::Map(entries) => self.map(entries),
            Kind::Struct(literal) => self.message(node, literal),
            Kind::Comprehension(loops) => self.fold(loops),
        }
    }

    fn resolution(&self, node: Node<'b>) -> &'c Resolution<'c> {
        &self.checked.resolutions[node.id as usize]
    }

    fn ident(&mut self, node: Node<'b>, name: &str) -> Planned {
        match self.resolution(node) {
            Resolution::Variable(at) => self.variable(node, *at, name),
            Resolution::Type(name) => self.type_constant(name),
            _ => {
                let slot = self.locals.iter().rposition(|local| *local == name).unwrap_or(0);
                Ok(self.attribute(Base::Local(slot as u16)))
            }
        }
    }

    fn variable(&mut self, node: Node<'b>, at: usize, name: &str) -> Planned {
        if matches!(self.checked.types[node.id as usize], Type::Type(_)) {
            return Err(format!("reference to undefined type: {name}"));
        }
        Ok(self.attribute(Base::Variable(at as u16)))
    }

    fn type_constant(&mut self, name: &str) -> Planned {
        let is_registered = matches!(
            name,
            "bool" | "bytes" | "double" | "int" | "list" | "map" | "null_type" | "string" | "type" | "uint"
        ) || matches!(name, "optional_type" | "net.IP" | "net.CIDR")
            || matches!(name, "google.protobuf.Duration" | "google.protobuf.Timestamp");
        if !is_registered {
            return Err(format!("reference to undefined type: {name}"));
        }
        Ok(self.push(Op::Const(Constant::Type(name.into()))))
    }

    fn select(&mut self, node: Node<'b>, select: &ast::Select<'b>) -> Planned {
        match self.resolution(node) {
            Resolution::Variable(at) => return self.variable(node, *at, select.field),
            Resolution::Type(name) => return self.type_constant(name),
            _ => {}
        }
        let operand = self.plan(select.operand)?;
        let by = self.field(select.operand, select.field);
        Ok(self.qualify(operand, Qualifier { by, optional: false }, select.test_only))
    }

    fn field(&self, operand: Node<'b>, name: &str) -> By {
        match &self.checked.types[operand.id as usize] {
            Type::Object(decl) if decl.is_dynamic() && decl.name != "JSONPatch" => By::MessageField(name.into()),
            _ => By::Field(name.into()),
        }
    }

    /// Adds a qualifier to an attribute, or makes one of another value.
    fn qualify(&mut self, operand: Ref, qualifier: Qualifier, test: bool) -> Ref {
        if let Op::Attribute(attribute) = &mut self.ops[operand as usize]
            && !attribute.test
        {
            attribute.qualifiers.push(qualifier);
            attribute.test = test;
            return operand;
        }
        let base = Base::Operand(operand);
        self.push(Op::Attribute(Box::new(Attribute { base, qualifiers: vec![qualifier], test })))
    }

    fn call(&mut self, node: Node<'b>, call: &ast::Call<'b>) -> Planned {
        if let ("_?._", None, [operand, field]) = (call.function, call.target, call.args) {
            let operand_ref = self.plan(operand)?;
            let by = match field.kind {
                Kind::Literal(ast::Literal::String(name)) => self.field(operand, name),
                _ => By::Value(self.plan(field)?),
            };
            return Ok(self.qualify(operand_ref, Qualifier { by, optional: true }, false));
        }
        let Resolution::Call(resolved) = self.resolution(node) else {
            return Err(format!("no such overload: {}", call.function));
        };
        let target = call.target.filter(|_| !resolved.namespaced);
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in target.iter().chain(call.args) {
            args.push(self.plan(arg)?);
        }
        match (resolved.function.name, args.as_slice()) {
            ("_&&_", &[a, b]) => Ok(self.push(Op::And(a, b))),
            ("_||_", &[a, b]) => Ok(self.push(Op::Or(a, b))),
            ("_==_", &[a, b]) => Ok(self.push(Op::Equal(a, b))),
            ("_!=_", &[a, b]) => Ok(self.push(Op::NotEqual(a, b))),
            ("@not_strictly_false", &[a]) => Ok(self.push(Op::NotStrictlyFalse(a))),
            ("_?_:_", &[a, b, c]) => Ok(self.attribute(Base::Conditional(a, b, c))),
            ("_[_]", &[operand, index]) => self.index(operand, index, false),
            ("_[?_]", &[operand, index]) => self.index(operand, index, true),
            ("or", &[a, b]) => Ok(self.push(Op::Or2(a, b, false))),
            ("orValue", &[a, b]) => Ok(self.push(Op::Or2(a, b, true))),
            _ => self.function(resolved, args),
        }
    }

    fn index(&mut self, operand: Ref, index: Ref, optional: bool) -> Planned {
        let by = match &self.ops[index as usize] {
            Op::Const(Constant::String(name)) => By::Field(name.clone()),
            Op::Const(key @ (Constant::Bool(_) | Constant::Int(_) | Constant::Uint(_) | Constant::Double(_))) => {
                By::Key(key.clone())
            }
            Op::Const(other) => return Err(format!("invalid qualifier type: {}", go_type(other.val()))),
            _ => By::Value(index),
        };
        Ok(self.qualify(operand, Qualifier { by, optional }, false))
    }

    fn function(&mut self, resolved: &Resolved<'_>, args: Vec<Ref>) -> Planned {
        let name = resolved.function.name;
        let overload = match resolved.overloads.as_slice() {
            [one] => Some(*one),
            _ => None,
        };
        if let (Some("in_list"), &[element, list]) = (overload.map(|o| o.id), args.as_slice())
            && let Some(op) = self.membership(element, list)
        {
            return Ok(self.push(op));
        }
        let all = &resolved.function.overloads;
        let singleton = all.iter().find(|o| matches!(o.call, Callable::Any(_)));
        let target = match (singleton, overload.or(if all.len() == 1 { Some(all[0]) } else { None })) {
            (Some(any), _) => CallTarget::One(any),
            (None, Some(one)) => CallTarget::One(one),
            (None, None) => CallTarget::Dispatch(all.iter().copied().collect()),
        };
        let target = self.with_regex(target, &args)?;
        // With an overload that is known, or one implementation for all, two arguments are evaluated before either counts.
        let eager = args.len() == 2 && matches!(target, CallTarget::One(_)) && name != VARIADIC;
        let cost = actual(name, overload);
        let counted = overload.and_then(|overload| Counted::of(overload.function, args.len()));
        let planned = Call { function: name, target, args: args.into(), eager, cost, counted };
        let call = self.push(Op::Call(Box::new(planned)));
        self.convert(name, call)
    }

    /// Compiles the regular expression of a call if it is a constant.
    fn with_regex(&self, target: CallTarget, args: &[Ref]) -> Result<CallTarget, String> {
        let overload = match &target {
            CallTarget::One(overload) => *overload,
            CallTarget::Dispatch(overloads) => match overloads.first() {
                Some(first) => first,
                None => return Ok(target),
            },
            CallTarget::Regex(..) => return Ok(target),
        };
        let Some(Op::Const(Constant::String(pattern))) = args.get(1).map(|arg| &self.ops[*arg as usize]) else {
            return Ok(target);
        };
        if !matches!(overload.call, Callable::Regex(_)) && overload.function != MATCHES {
            return Ok(target);
        }
        let fits = match &target {
            CallTarget::Dispatch(overloads) => overloads.iter().find(|o| o.args.len() == args.len()).copied(),
            _ => Some(overload),
        };
        let regex = LazyRegex::new(pattern).map_err(|error| error.to_string())?;
        Ok(match fits {
            Some(overload) => CallTarget::Regex(overload, Box::new(regex)),
            None => target,
        })
    }

    /// `x in [1, 2]` with constants: a search in a sorted list.
    fn membership(&mut self, element: Ref, list: Ref) -> Option<Op> {
        let Op::Const(Constant::List(items)) = &self.ops[list as usize] else { return None };
        if items.is_empty() {
            return Some(Op::Const(Constant::Bool(false)));
        }
        let is_key = |item: &Constant| {
            matches!(
                item,
                Constant::Bool(_) | Constant::Int(_) | Constant::Uint(_) | Constant::Double(_) | Constant::String(_)
            )
        };
        if !items.iter().all(is_key) {
            return None;
        }
        Some(Op::InSet(element, items.clone()))
    }

    /// Conversions of constants are constants.
    fn convert(&mut self, name: &str, call: Ref) -> Planned {
        const CONVERSIONS: [&str; 10] =
            ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];
        let Op::Call(planned) = &self.ops[call as usize] else { return Ok(call) };
        let [arg] = *planned.args else { return Ok(call) };
        let Op::Const(_) = &self.ops[arg as usize] else { return Ok(call) };
        if !CONVERSIONS.contains(&name) {
            return Ok(call);
        }
        let constant = self.evaluate(call)?;
        Ok(self.push(Op::Const(constant)))
    }

    /// The value of an operation that depends on nothing.
    fn evaluate(&self, at: Ref) -> Result<Constant, String> {
        let arena = Arena::new();
        let value = super::eval::constant(&self.ops, at, &arena).map_err(|error| error.to_string())?;
        Constant::of(value, &arena).ok_or_else(|| "a constant of this type cannot be kept".to_string())
    }

    fn list(&mut self, elements: Vec<(Ref, bool)>) -> Ref {
        let is_constant = |(at, optional): &(Ref, bool)| !optional && matches!(self.ops[*at as usize], Op::Const(_));
        if !elements.iter().all(is_constant) {
            return self.push(Op::List(elements.into()));
        }
        let items = elements.iter().filter_map(|(at, _)| match &self.ops[*at as usize] {
            Op::Const(constant) => Some(constant.clone()),
            _ => None,
        });
        let constant = Constant::List(items.collect());
        self.push(Op::Const(constant))
    }

    fn map(&mut self, entries: &'b [ast::Entry<'b>]) -> Planned {
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            let (key, value) = (self.plan(entry.key)?, self.plan(entry.value)?);
            planned.push(MapEntry { key, value, optional: entry.optional });
        }
        let is_constant = |entry: &MapEntry| {
            !entry.optional
                && matches!(self.ops[entry.key as usize], Op::Const(_))
                && matches!(self.ops[entry.value as usize], Op::Const(_))
        };
        if !planned.iter().all(is_constant) {
            return Ok(self.push(Op::Map(planned.into())));
        }
        let mut constants: Vec<(Constant, Constant)> = Vec::with_capacity(planned.len());
        for entry in &planned {
            if let (Op::Const(key), Op::Const(value)) = (&self.ops[entry.key as usize], &self.ops[entry.value as usize])
            {
                constants.retain(|(known, _)| !same_key(known, key));
                constants.push((key.clone(), value.clone()));
            }
        }
        constants.sort_by(|(a, _), (b, _)| Key::of(&a.val()).cmp(&Key::of(&b.val())));
        Ok(self.push(Op::Const(Constant::Map(constants.into()))))
    }

    fn message(&mut self, node: Node<'b>, literal: &ast::StructLiteral<'b>) -> Planned {
        let Resolution::Struct(name) = self.resolution(node) else {
            return Err(format!("unknown type: {}", literal.type_name));
        };
        let mut fields = Vec::with_capacity(literal.fields.len());
        for field in literal.fields {
            fields.push((field.name.into(), self.plan(field.value)?, field.optional));
        }
        let planned = Struct { name: name.clone(), message: Message::named(name), fields: fields.into() };
        Ok(self.push(Op::Struct(Box::new(planned))))
    }

    fn fold(&mut self, loops: &Comprehension<'b>) -> Planned {
        let init = self.plan(loops.init)?;
        let range = self.plan(loops.range)?;
        let accumulator = self.locals.len();
        self.locals.push(loops.accumulator);
        self.locals.push(loops.var);
        self.locals.extend(loops.var2);
        self.most_locals = self.most_locals.max(self.locals.len());
        let condition = self.plan(loops.condition)?;
        let step = self.plan(loops.step)?;
        self.locals.truncate(accumulator + 1);
        let result = self.plan(loops.result)?;
        self.locals.truncate(accumulator);
        let slot = |offset: usize| (accumulator + offset) as u16;
        Ok(self.push(Op::Fold(Box::new(Fold {
            range,
            accumulator: slot(0),
            var: slot(1),
            var2: loops.var2.map(|_| slot(2)),
            init,
            condition,
            step,
            result,
        }))))
    }
}

fn same_key(a: &Constant, b: &Constant) -> bool {
    // Only keys of one type are the same entry: 1 and 1.0 are two.
    let key = Key::of(&a.val());
    std::mem::discriminant(a) == std::mem::discriminant(b) && !matches!(key, Key::Other) && key == Key::of(&b.val())
}
