//! What an expression will cost at least and at most, from the sizes that a schema allows.

use super::kubernetes;
use super::{CallEstimate, CallNode, LIST_CREATE, MAP_CREATE, REGEX_LENGTH, Range, STRING_TRAVERSAL, STRUCT_CREATE};
use crate::check::{Checked, Resolution};
use crate::decl::{Decl, Shape};
use crate::library::Overload;
use crate::syntax::ast::{Call, Comprehension, Entry, Kind, ListLiteral, Literal, Node, Select};
use crate::types::Type;

/// Estimates a checked expression with so many parts; sizes come from the schema of `self`.
pub(crate) fn estimate(root: Node<'_>, checked: &Checked<'_>, schema: Option<&Decl>) -> Range {
    let count = checked.types.len();
    let mut estimator = Estimator {
        checked,
        schema,
        places: vec![Path::default(); count],
        paths: EstimatedPaths::default(),
        sizes: vec![None; count],
        entries: vec![None; count],
        locals: Vec::new(),
    };
    estimator.cost(root)
}

/// The names from a variable down to an expression; none if it is not a part of a variable. Upstream appends to slices that
/// share memory, so a longer path can overwrite the end of another one, and estimates depend on it: an array has room for
/// twice as many names each time it grows.
#[derive(Clone, Copy, Default)]
struct Path {
    array: usize,
    length: usize,
}

#[derive(Default)]
struct EstimatedPaths<'b> {
    arrays: Vec<Vec<&'b str>>,
}

impl<'b> EstimatedPaths<'b> {
    fn append(&mut self, path: Path, name: &'b str) -> Path {
        let length = path.length + 1;
        match self.arrays.get_mut(path.array) {
            Some(array) if path.length > 0 && path.length < array.len() => {
                array[path.length] = name;
                Path { length, ..path }
            }
            other => {
                let mut array = other.map_or(Vec::new(), |array| array[..path.length].to_vec());
                array.push(name);
                array.resize(length.next_power_of_two(), "");
                self.arrays.push(array);
                Path { array: self.arrays.len() - 1, length }
            }
        }
    }

    fn names(&self, path: Path) -> &[&'b str] {
        self.arrays.get(path.array).map_or(&[], |array| &array[..path.length])
    }
}

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

struct Local<'b> {
    name: &'b str,
    place: Path,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'c, 'e, 'b, 'd> {
    checked: &'c Checked<'e>,
    schema: Option<&'d Decl>,
    places: Vec<Path>,
    paths: EstimatedPaths<'b>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entries>>,
    locals: Vec<Local<'b>>,
}

impl<'c, 'b, 'd> Estimator<'c, '_, 'b, 'd> {
    fn cost(&mut self, node: Node<'b>) -> Range {
        match node.kind {
            Kind::Unspecified | Kind::Literal(_) => Range::fixed(0),
            Kind::Ident(name) => {
                let place = self.local(name).map(|local| local.place);
                self.places[node.id as usize] = place.unwrap_or_else(|| self.paths.append(Path::default(), name));
                Range::fixed(1)
            }
            Kind::Select(select) => self.select(node, select),
            Kind::Call(call) => self.call(node, call),
            Kind::List(list) => self.list(node, list),
            Kind::Map(entries) => self.map(node, entries),
            Kind::Struct(literal) => {
                let fields = literal.fields.iter().fold(Range::fixed(0), |sum, field| sum.plus(self.cost(field.value)));
                fields.plus(Range::fixed(STRUCT_CREATE))
            }
            Kind::Comprehension(loops) if is_bind(loops) => self.bind(node, loops),
            Kind::Comprehension(loops) => self.comprehension(node, loops),
        }
    }

    fn local(&self, name: &str) -> Option<&Local<'b>> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn ty(&self, node: Node<'b>) -> &'c Type {
        &self.checked.types[node.id as usize]
    }

    fn place(&self, node: Node<'b>) -> Path {
        if let Kind::Ident(name) = node.kind
            && let Some(local) = self.local(name)
        {
            return local.place;
        }
        self.places[node.id as usize]
    }

    fn select(&mut self, node: Node<'b>, select: &Select<'b>) -> Range {
        if matches!(self.checked.resolutions[node.id as usize], Resolution::Variable(_) | Resolution::Type(_)) {
            self.places[node.id as usize] = self.paths.append(Path::default(), select.field);
            return Range::fixed(1);
        }
        let operand = self.cost(select.operand);
        if select.test_only {
            return operand;
        }
        let place = self.place(select.operand);
        self.places[node.id as usize] = self.paths.append(place, select.field);
        match self.ty(select.operand) {
            Type::Map(..) | Type::Object(_) | Type::Abstract(_) | Type::Param(_) => operand.plus(Range::fixed(1)),
            _ => operand,
        }
    }

    fn call(&mut self, node: Node<'b>, call: &Call<'b>) -> Range {
        if let ("dyn", [arg]) = (call.function, call.args) {
            let cost = self.cost(arg);
            self.copy_sizes(node, arg);
            return cost.plus(Range::fixed(1));
        }
        let mut costs = Vec::with_capacity(call.args.len());
        let mut args = Vec::with_capacity(call.args.len());
        for arg in call.args {
            costs.push(self.cost(arg));
            args.push(self.call_node(arg));
        }
        if call.function == "_?._" {
            let sum = costs.iter().fold(Range::fixed(1), |sum, cost| sum.plus(*cost));
            let size = self.size(node);
            self.set_size(node, size);
            return sum;
        }
        let Resolution::Call(resolved) = &self.checked.resolutions[node.id as usize] else { return Range::fixed(0) };
        let mut sum = Range::fixed(0);
        let mut receiver = None;
        if let Some(target) = call.target.filter(|_| !resolved.namespaced) {
            sum = self.cost(target);
            receiver = Some(self.call_node(target));
        }
        let mut cost = Range::new(u64::MAX, 0);
        let mut size: Option<Range> = None;
        for overload in &resolved.overloads {
            let function = resolved.function.name;
            let estimate = self.function(node, call, function, overload, receiver.as_ref(), &args, &costs);
            cost = cost.union(estimate.cost);
            size = match (size, estimate.result_size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let (true, Some(operand)) = (matches!(overload.id, "index_list" | "index_map"), call.args.first()) {
                size = self.entries(operand).map(|entries| entries.value);
                let place = self.place(operand);
                let name = if overload.id == "index_list" { "@items" } else { "@values" };
                self.places[node.id as usize] = self.paths.append(place, name);
            }
            size = size.or_else(|| self.size(node));
        }
        self.set_size(node, size);
        sum.plus(cost)
    }

    fn call_node(&mut self, node: Node<'b>) -> CallNode<'c> {
        let ty = self.ty(node);
        let place = self.place(node);
        let items = self.path_size(self.paths.names(place), Some("@items"));
        let literal = match node.kind {
            Kind::Literal(Literal::Int(i)) => Some(*i),
            _ => None,
        };
        CallNode { ty, size: self.size(node), literal, item_size: items }
    }

    #[allow(clippy::too_many_arguments)]
    fn function(
        &mut self,
        node: Node<'b>,
        call: &Call<'b>,
        function: &str,
        overload: &Overload,
        receiver: Option<&CallNode<'_>>,
        args: &[CallNode<'_>],
        costs: &[Range],
    ) -> CallEstimate {
        let all = costs.iter().fold(Range::fixed(0), |sum, cost| sum.plus(*cost));
        let known = overload.estimate.and_then(|estimate| estimate(receiver, args));
        if let Some(known) = known.or_else(|| kubernetes::estimate(function, overload.id, receiver, args)) {
            return CallEstimate { cost: known.cost.plus(all), ..known };
        }
        match (overload.id, args, costs) {
            ("logical_or" | "logical_and", _, [first, second]) => {
                CallEstimate::of(Range::new(first.min, first.plus(*second).max))
            }
            ("conditional", [_, yes, no], [condition, yes_cost, no_cost]) => {
                let size = yes.size_or_unknown().union(no.size_or_unknown());
                let both = (self.entries(call.args[1]), self.entries(call.args[2]));
                self.set_entries(node, join(both.0, both.1));
                CallEstimate { cost: condition.plus(yes_cost.union(*no_cost)), result_size: Some(size) }
            }
            ("add_string" | "add_bytes" | "add_list", [a, b], _) => {
                let size = a.size_or_unknown().plus(b.size_or_unknown());
                let both = (self.entries(call.args[0]), self.entries(call.args[1]));
                self.set_entries(node, join(both.0, both.1));
                let own = if overload.id == "add_list" { Range::fixed(1) } else { size.scaled(STRING_TRAVERSAL) };
                CallEstimate { cost: own.plus(all), result_size: Some(size) }
            }
            _ => {
                let own = standard(overload.id, receiver, args).unwrap_or(CallEstimate::of(Range::fixed(1)));
                CallEstimate { cost: own.cost.plus(all), ..own }
            }
        }
    }

    fn list(&mut self, node: Node<'b>, list: &ListLiteral<'b>) -> Range {
        let mut sum = Range::fixed(LIST_CREATE);
        let mut value = Range::new(if list.elements.is_empty() { 0 } else { u64::MAX }, 0);
        for element in list.elements {
            sum = sum.plus(self.cost(element));
            value = value.union(self.size_or_unknown(element));
        }
        self.set_entries(node, Some(Entries { is_list: true, key: Range::fixed(1), value }));
        sum
    }

    fn map(&mut self, node: Node<'b>, literal: &'b [Entry<'b>]) -> Range {
        let mut sum = Range::fixed(MAP_CREATE);
        let none = Range::new(if literal.is_empty() { 0 } else { u64::MAX }, 0);
        let mut entries = Entries { is_list: false, key: none, value: none };
        for entry in literal {
            sum = sum.plus(self.cost(entry.key)).plus(self.cost(entry.value));
            entries.key = entries.key.union(self.size_or_unknown(entry.key));
            entries.value = entries.value.union(self.size_or_unknown(entry.value));
        }
        self.set_entries(node, Some(entries));
        sum
    }

    fn bind(&mut self, node: Node<'b>, loops: &Comprehension<'b>) -> Range {
        let mut sum = self.cost(loops.range).plus(self.cost(loops.init));
        self.push_value(loops.accumulator, loops.init);
        sum = sum.plus(self.cost(loops.result));
        self.locals.pop();
        // The sizes are looked up when the variable is gone, as upstream does.
        self.copy_sizes(node, loops.result);
        sum
    }

    fn push_value(&mut self, name: &'b str, value: Node<'b>) {
        let place = self.place(value);
        let (entries, size) = (self.entries(value), self.size(value));
        self.locals.push(Local { name, place, size, entries });
    }

    fn comprehension(&mut self, node: Node<'b>, loops: &Comprehension<'b>) -> Range {
        let mut sum = self.cost(loops.range).plus(self.cost(loops.init));
        self.push_value(loops.accumulator, loops.init);
        let entries = self.entries(loops.range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.ty(loops.range), Type::List(_)),
        };
        let range = self.place(loops.range);
        let (key, value) = (entries.map(|entries| entries.key), entries.map(|entries| entries.value));
        let first = match (loops.var2.is_some(), is_list) {
            (true, true) => (key, "@indices"),
            (false, true) => (value, "@items"),
            (_, false) => (key, "@keys"),
        };
        let outer = self.locals.len();
        let place = self.paths.append(range, first.1);
        self.locals.push(Local { name: loops.var, place, size: first.0, entries: None });
        if let Some(name) = loops.var2 {
            let place = self.paths.append(range, if is_list { "@items" } else { "@values" });
            self.locals.push(Local { name, place, size: value, entries: None });
        }
        let condition = self.cost(loops.condition);
        let step = self.cost(loops.step);
        self.locals.truncate(outer);
        sum = sum.plus(self.cost(loops.result));
        self.locals.truncate(outer - 1);
        let count = self.size_or_unknown(loops.range);
        sum = sum.plus(count.times(step.plus(condition)));
        match loops.init.kind {
            Kind::Literal(_) => {
                let size = self.size(loops.init);
                self.set_size(node, size);
            }
            Kind::List(_) | Kind::Map(_) => {
                self.set_size(node, Some(count));
                let entries = self.entries(loops.step);
                self.set_entries(node, entries);
            }
            _ => {}
        }
        sum
    }

    fn copy_sizes(&mut self, to: Node<'b>, from: Node<'b>) {
        let (size, entries) = (self.size(from), self.entries(from));
        self.set_size(to, size);
        self.set_entries(to, entries);
    }

    fn set_size(&mut self, node: Node<'b>, size: Option<Range>) {
        if size.is_some() {
            self.sizes[node.id as usize] = size;
        }
    }

    fn set_entries(&mut self, node: Node<'b>, entries: Option<Entries>) {
        if entries.is_some() {
            self.entries[node.id as usize] = entries;
        }
    }

    fn size_or_unknown(&mut self, node: Node<'b>) -> Range {
        self.size(node).unwrap_or(Range::UNKNOWN)
    }

    fn size(&mut self, node: Node<'b>) -> Option<Range> {
        if let Some(size) = self.sizes[node.id as usize] {
            return Some(size);
        }
        if let Some(size) = literal_size(node) {
            return Some(Range::fixed(size));
        }
        if let Some(size) = self.path_size(self.paths.names(self.place(node)), None) {
            self.sizes[node.id as usize] = Some(size);
            return Some(size);
        }
        if is_scalar(self.ty(node)) {
            return Some(Range::fixed(1));
        }
        match node.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    /// The size that the schema allows at a path, and then at a child of it. The variable that the path begins with does not
    /// matter.
    fn path_size(&self, names: &[&str], child: Option<&str>) -> Option<Range> {
        let (_, names) = names.split_first()?;
        let mut decl = self.schema?;
        let mut steps = names.iter().copied().chain(child).peekable();
        while let Some(name) = steps.next() {
            if name == "@keys" && matches!(decl.shape, Shape::Map(_)) {
                // Keys have a type without a size, and nothing below it.
                return steps.peek().is_none().then_some(Range::fixed(0));
            }
            decl = below(decl, name)?;
        }
        Some(Range::new(0, decl.max_elements as u64))
    }

    fn entries(&self, node: Node<'b>) -> Option<Entries> {
        if let Some(entries) = self.entries[node.id as usize] {
            return Some(entries);
        }
        match node.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }
}

/// The part of a declaration; only what expressions can see is found.
fn below<'d>(decl: &'d Decl, name: &str) -> Option<&'d Decl> {
    let found = match (name, &decl.shape) {
        ("@items" | "@values", Shape::List { items, .. }) => items.as_ref(),
        ("@items" | "@values", Shape::Map(values)) => Some(values),
        // The attributes of a device are as large as each other, whatever they are called.
        (_, Shape::Map(values)) if matches!(values.shape, Shape::Json(Type::Any)) => Some(values),
        (name, Shape::Object(_)) => decl.visible_field(name),
        _ => None,
    };
    found.filter(|decl| decl.ty().is_some()).map(|decl| &**decl)
}

fn is_bind(loops: &Comprehension<'_>) -> bool {
    let empty = matches!(loops.range.kind, Kind::List(list) if list.elements.is_empty());
    let never = matches!(loops.condition.kind, Kind::Literal(Literal::Bool(false)));
    empty && never && loops.accumulator != crate::syntax::ast::ACCUMULATOR
}

fn join(a: Option<Entries>, b: Option<Entries>) -> Option<Entries> {
    let (a, b) = (a?, b?);
    Some(Entries { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) })
}

fn literal_size(node: Node<'_>) -> Option<u64> {
    Some(match node.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count() as u64,
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List(list) => list.elements.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Wrapper(inner) => is_scalar(inner),
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

/// Functions of the standard library whose cost depends on sizes; the cost of the arguments is added later.
fn standard(id: &str, receiver: Option<&CallNode<'_>>, args: &[CallNode<'_>]) -> Option<CallEstimate> {
    let size = |node: &CallNode<'_>| node.size_or_unknown();
    Some(match (id, receiver, args) {
        ("string_format", Some(format), _) => CallEstimate::of(size(format).scaled(STRING_TRAVERSAL)),
        ("string_to_bytes", _, [text]) => CallEstimate {
            cost: size(text).scaled(STRING_TRAVERSAL),
            result_size: Some(Range::new(size(text).min, size(text).max.wrapping_mul(4))),
        },
        ("bytes_to_string", _, [bytes]) => CallEstimate {
            cost: size(bytes).scaled(STRING_TRAVERSAL),
            result_size: Some(Range::new(size(bytes).min / 4, size(bytes).max)),
        },
        ("strings_quote", _, [text]) => CallEstimate {
            cost: size(text).scaled(STRING_TRAVERSAL),
            result_size: Some(Range::new(
                size(text).min.wrapping_add(2),
                size(text).max.wrapping_mul(2).wrapping_add(2),
            )),
        },
        ("starts_with_string" | "ends_with_string", _, [part]) => CallEstimate::of(size(part).scaled(STRING_TRAVERSAL)),
        ("in_list", _, [_, list]) => CallEstimate::of(size(list).scaled(1.0)),
        ("matches_string", Some(text), [pattern]) | ("matches", None, [text, pattern]) => {
            let text = size(text).plus(Range::fixed(1)).scaled(STRING_TRAVERSAL);
            CallEstimate::of(text.times(size(pattern).scaled(REGEX_LENGTH)))
        }
        ("contains_string", Some(text), [part]) => {
            CallEstimate::of(size(text).scaled(STRING_TRAVERSAL).times(size(part).scaled(STRING_TRAVERSAL)))
        }
        (
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals",
            _,
            [a, b],
        ) => {
            let most = size(a).max.min(size(b).max);
            CallEstimate::of(Range::new(u64::from(most > 0), most).scaled(STRING_TRAVERSAL))
        }
        _ => return None,
    })
}
