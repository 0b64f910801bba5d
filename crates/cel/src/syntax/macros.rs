//! Macros: calls that become other expressions while they are parsed.

use super::ast::{ACCUMULATOR, Comprehension, Kind, ListLiteral, Literal, Node, Select};
use super::parser::Parser;

/// Which macros and which syntax an environment has besides the standard ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Macros {
    /// `a.?b`, `a[?b]`, `[?a]`, `optMap`, `optFlatMap`.
    pub optional: bool,
    /// `transformList` and the other macros with two variables.
    pub two_variables: bool,
    pub sort_by: bool,
    /// `cel.bind`.
    pub bindings: bool,
}

/// What the macro makes of a call; none if there is no such macro. A wrong use is reported and becomes an error node.
pub fn expand<'b>(
    parser: &mut Parser<'b, '_>,
    offset: u32,
    function: &str,
    target: Option<Node<'b>>,
    args: &[Node<'b>],
) -> Option<Node<'b>> {
    let known = parser.macros;
    let mut maker = Maker { parser, offset };
    let expanded = match (target, function, args) {
        (None, "has", [arg]) => maker.has(arg),
        (Some(range), "all", [var, predicate]) => maker.quantifier(Quantifier::All, range, var, None, predicate),
        (Some(range), "exists", [var, predicate]) => maker.quantifier(Quantifier::Exists, range, var, None, predicate),
        (Some(range), "exists_one", [var, predicate]) => {
            maker.quantifier(Quantifier::ExistsOne, range, var, None, predicate)
        }
        (Some(range), "map", [var, transform]) => maker.map(range, var, None, transform),
        (Some(range), "map", [var, filter, transform]) => maker.map(range, var, Some(filter), transform),
        (Some(range), "filter", [var, filter]) => maker.map(range, var, Some(filter), var),
        (Some(target), "optMap", [var, transform]) if known.optional => maker.opt_map(target, var, transform, true),
        (Some(target), "optFlatMap", [var, transform]) if known.optional => {
            maker.opt_map(target, var, transform, false)
        }
        (Some(target), "bind", [var, value, result]) if known.bindings && matches!(target.kind, Kind::Ident("cel")) => {
            maker.bind_named(var, value, result)
        }
        (Some(list), "sortBy", [var, key]) if known.sort_by => maker.sort_by(list, var, key),
        (Some(range), name, args) if known.two_variables => maker.two_variables(range, name, args)?,
        _ => return None,
    };
    Some(match expanded {
        Ok(node) => node,
        Err((offset, message)) => maker.parser.error_node(offset, message),
    })
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

type Expanded<'b> = Result<Node<'b>, (u32, String)>;

/// Makes the nodes of an expansion; errors in them point at the call.
struct Maker<'b, 'p, 'q> {
    parser: &'p mut Parser<'b, 'q>,
    offset: u32,
}

impl<'b> Maker<'b, '_, '_> {
    fn has(&mut self, arg: Node<'b>) -> Expanded<'b> {
        match arg.kind {
            Kind::Select(select) if !select.test_only => {
                let test = Select { operand: select.operand, field: select.field, test_only: true };
                let test = self.parser.bump.alloc(test);
                Ok(self.parser.node(self.offset, Kind::Select(test)))
            }
            _ => Err((arg.offset, "invalid argument to has() macro".into())),
        }
    }

    fn quantifier(
        &mut self,
        kind: Quantifier,
        range: Node<'b>,
        var: Node<'b>,
        var2: Option<Node<'b>>,
        predicate: Node<'b>,
    ) -> Expanded<'b> {
        let (var, var2) = variables(var, var2, "argument must be a simple name")?;
        let (init, condition, step, result);
        match kind {
            Quantifier::All => {
                init = self.literal(Literal::Bool(true));
                let accumulator = self.accumulator();
                condition = self.call("@not_strictly_false", &[accumulator]);
                let accumulator = self.accumulator();
                step = self.call("_&&_", &[accumulator, predicate]);
                result = self.accumulator();
            }
            Quantifier::Exists => {
                init = self.literal(Literal::Bool(false));
                let accumulator = self.accumulator();
                let not = self.call("!_", &[accumulator]);
                condition = self.call("@not_strictly_false", &[not]);
                let accumulator = self.accumulator();
                step = self.call("_||_", &[accumulator, predicate]);
                result = self.accumulator();
            }
            Quantifier::ExistsOne => {
                init = self.literal(Literal::Int(0));
                condition = self.literal(Literal::Bool(true));
                let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                let more = self.call("_+_", &[accumulator, one]);
                let same = self.accumulator();
                step = self.call("_?_:_", &[predicate, more, same]);
                let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                result = self.call("_==_", &[accumulator, one]);
            }
        }
        Ok(self.comprehension(range, var, var2, ACCUMULATOR, [init, condition, step, result]))
    }

    fn map(&mut self, range: Node<'b>, var: Node<'b>, filter: Option<Node<'b>>, transform: Node<'b>) -> Expanded<'b> {
        let (var, _) = variables(var, None, "argument is not an identifier")?;
        Ok(self.collect(range, var, None, filter, transform))
    }

    /// A comprehension that makes a list.
    fn collect(
        &mut self,
        range: Node<'b>,
        var: &'b str,
        var2: Option<&'b str>,
        filter: Option<Node<'b>>,
        transform: Node<'b>,
    ) -> Node<'b> {
        let init = self.list(&[]);
        let condition = self.literal(Literal::Bool(true));
        let (accumulator, item) = (self.accumulator(), self.list(&[transform]));
        let step = self.call("_+_", &[accumulator, item]);
        let step = self.filtered(filter, step);
        let result = self.accumulator();
        self.comprehension(range, var, var2, ACCUMULATOR, [init, condition, step, result])
    }

    /// `filter ? step : accumulator`.
    fn filtered(&mut self, filter: Option<Node<'b>>, step: Node<'b>) -> Node<'b> {
        match filter {
            Some(filter) => {
                let same = self.accumulator();
                self.call("_?_:_", &[filter, step, same])
            }
            None => step,
        }
    }

    /// The macros with two variables; none if the name is none of them.
    fn two_variables(&mut self, range: Node<'b>, name: &str, args: &[Node<'b>]) -> Option<Expanded<'b>> {
        let (var, var2, filter, transform) = match *args {
            [var, var2, transform] => (var, var2, None, transform),
            [var, var2, filter, transform] => (var, var2, Some(filter), transform),
            _ => return None,
        };
        let quantifier = match (name, filter) {
            ("all", None) => Some(Quantifier::All),
            ("exists", None) => Some(Quantifier::Exists),
            ("exists_one" | "existsOne", None) => Some(Quantifier::ExistsOne),
            ("transformList" | "transformMap" | "transformMapEntry", _) => None,
            _ => return None,
        };
        if let Some(quantifier) = quantifier {
            return Some(self.quantifier(quantifier, range, var, Some(var2), transform));
        }
        let (var, var2) = match variables(var, Some(var2), "argument must be a simple name") {
            Ok(names) => names,
            Err(error) => return Some(Err(error)),
        };
        if name == "transformList" {
            return Some(Ok(self.collect(range, var, var2, filter, transform)));
        }
        let accumulator = self.accumulator();
        let step = if name == "transformMap" {
            let key = self.parser.node(self.offset, Kind::Ident(var));
            self.call("cel.@mapInsert", &[accumulator, key, transform])
        } else {
            self.call("cel.@mapInsert", &[accumulator, transform])
        };
        let step = self.filtered(filter, step);
        let init = self.parser.node(self.offset, Kind::Map(&[]));
        let condition = self.literal(Literal::Bool(true));
        let result = self.accumulator();
        Some(Ok(self.comprehension(range, var, var2, ACCUMULATOR, [init, condition, step, result])))
    }

    /// `target.hasValue() ? optional.of(transform with var = target.value()) : optional.none()`.
    fn opt_map(&mut self, target: Node<'b>, var: Node<'b>, transform: Node<'b>, wrap: bool) -> Expanded<'b> {
        let Kind::Ident(name) = var.kind else {
            let function = if wrap { "optMap" } else { "optFlatMap" };
            return Err((var.offset, format!("{function}() variable name must be a simple identifier")));
        };
        let has_value = self.parser.plain_call(self.offset, "hasValue", Some(target), &[]);
        let target = self.copy(target);
        let value = self.parser.plain_call(self.offset, "value", Some(target), &[]);
        let bound = self.bind(name, value, transform);
        let some = if wrap { self.call("optional.of", &[bound]) } else { bound };
        let none = self.call("optional.none", &[]);
        Ok(self.call("_?_:_", &[has_value, some, none]))
    }

    fn sort_by(&mut self, list: Node<'b>, var: Node<'b>, key: Node<'b>) -> Expanded<'b> {
        const INPUT: &str = "@__sortBy_input__";
        match list.kind {
            Kind::List(_) | Kind::Select(_) | Kind::Ident(_) | Kind::Comprehension(_) | Kind::Call(_) => {}
            _ => {
                let message =
                    "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
                return Err((list.offset, message.into()));
            }
        }
        let range = self.parser.node(self.offset, Kind::Ident(INPUT));
        let keys = self.map(range, var, None, key)?;
        let input = self.parser.node(self.offset, Kind::Ident(INPUT));
        let sorted = self.parser.plain_call(self.offset, "@sortByAssociatedKeys", Some(input), &[keys]);
        Ok(self.bind(INPUT, list, sorted))
    }

    fn bind_named(&mut self, var: Node<'b>, value: Node<'b>, result: Node<'b>) -> Expanded<'b> {
        match var.kind {
            Kind::Ident(name) => Ok(self.bind(name, value, result)),
            _ => Err((var.offset, "cel.bind() variable names must be simple identifiers".into())),
        }
    }

    /// `result` with the variable set to a value: a comprehension over nothing.
    fn bind(&mut self, name: &'b str, value: Node<'b>, result: Node<'b>) -> Node<'b> {
        let range = self.list(&[]);
        let condition = self.literal(Literal::Bool(false));
        let step = self.parser.node(self.offset, Kind::Ident(name));
        self.comprehension(range, "#unused", None, name, [value, condition, step, result])
    }

    fn literal(&mut self, value: Literal<'b>) -> Node<'b> {
        self.parser.literal(self.offset, value)
    }

    fn accumulator(&mut self) -> Node<'b> {
        self.parser.node(self.offset, Kind::Ident(ACCUMULATOR))
    }

    fn call(&mut self, function: &'static str, args: &[Node<'b>]) -> Node<'b> {
        self.parser.plain_call(self.offset, function, None, args)
    }

    fn list(&mut self, elements: &[Node<'b>]) -> Node<'b> {
        let elements = self.parser.bump.alloc_slice_copy(elements);
        let list = self.parser.bump.alloc(ListLiteral { elements, optional: &[] });
        self.parser.node(self.offset, Kind::List(list))
    }

    fn comprehension(
        &mut self,
        range: Node<'b>,
        var: &'b str,
        var2: Option<&'b str>,
        accumulator: &'b str,
        [init, condition, step, result]: [Node<'b>; 4],
    ) -> Node<'b> {
        let loops = Comprehension { range, var, var2, accumulator, init, condition, step, result };
        let loops = self.parser.bump.alloc(loops);
        self.parser.node(self.offset, Kind::Comprehension(loops))
    }

    /// A copy with numbers of its own.
    fn copy(&mut self, node: Node<'b>) -> Node<'b> {
        super::copy::copy(self.parser, node)
    }
}

/// The names of the variables of a comprehension.
fn variables<'b>(
    var: Node<'b>,
    var2: Option<Node<'b>>,
    not_a_name: &str,
) -> Result<(&'b str, Option<&'b str>), (u32, String)> {
    let name = |node: Node<'b>| match node.kind {
        Kind::Ident(name) => Ok(name),
        _ => Err((node.offset, not_a_name.to_string())),
    };
    let first = name(var)?;
    let second = var2.map(name).transpose()?;
    if let (Some(second), Some(node)) = (second, var2)
        && first == second
    {
        return Err((node.offset, format!("duplicate variable name: {first}")));
    }
    for (name, node) in [(Some(first), Some(var)), (second, var2)] {
        if let (Some(ACCUMULATOR), Some(node)) = (name, node) {
            return Err((node.offset, "iteration variable overwrites accumulator variable".into()));
        }
    }
    Ok((first, second))
}
