//! Evaluation of a policy's expressions for one request, within a budget.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use cel::library::authorizer::{Authorizer, Resource};
use cel::policy::{Compiled, Refusal, Variable};
use cel::{Arena, Limits, Outcome, Val, Variables, native};
use object::{Str, Value};

use super::authorization::Answers;

/// What all expressions for one object may cost together.
pub const BUDGET: u64 = 10_000_000;
/// What all match conditions may cost together.
pub const CONDITIONS_BUDGET: u64 = 2_500_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// An expression as a policy keeps it.
#[derive(Debug)]
pub struct Expression {
    pub compiled: Result<Compiled, Refusal>,
}

impl Expression {
    /// "" if it does not compile.
    pub fn text(&self) -> &str {
        self.compiled.as_ref().map_or("", Compiled::text)
    }
}

/// A variable that a policy defines.
#[derive(Debug)]
pub struct Defined {
    pub name: Str,
    pub expression: Expression,
}

/// What expressions see.
pub struct Input<'i> {
    pub object: &'i Value,
    pub old: &'i Value,
    /// Null for cluster-scoped requests, and for match conditions.
    pub namespace: &'i Value,
    pub request: &'i Value,
    pub params: &'i Value,
    /// The resource that `authorizer.requestResource` asks about.
    pub resource: Resource<'i>,
    pub variables: &'i [Defined],
    pub answers: &'i Answers,
    pub deadline: Option<Instant>,
}

/// The value of each expression, or why it has none; and what is left of the budget.
pub struct Evaluated {
    pub values: Vec<Result<Value, String>>,
    /// How long each took.
    pub took: Vec<Duration>,
    pub budget: u64,
}

/// Evaluates expressions in order. The policy's variables are computed when the first of them asks. Err if the budget does
/// not suffice.
pub fn evaluate<'e>(
    expressions: impl IntoIterator<Item = &'e Expression>,
    input: &Input<'_>,
    mut budget: u64,
) -> Result<Evaluated, String> {
    let arena = Arena::new();
    let scope = Scope::new(input, &arena);
    let (mut values, mut took) = (Vec::new(), Vec::new());
    let mut began = Instant::now();
    for expression in expressions {
        let compiled = match &expression.compiled {
            Ok(compiled) => compiled,
            Err(refusal) => {
                values.push(Err(format!("compilation error: {refusal}")));
                took.push(Duration::ZERO);
                continue;
            }
        };
        let (outcome, cost) = scope.run(compiled);
        let cost = cost.saturating_add(scope.variables_cost.take());
        budget = budget.checked_sub(cost).ok_or(OUT_OF_BUDGET)?;
        values.push(match outcome {
            Ok(value) => native(value, &arena),
            Err(error) => Err(format!("expression '{}' resulted in error: {error}", compiled.text())),
        });
        let now = Instant::now();
        took.push(now - began);
        began = now;
    }
    Ok(Evaluated { values, took, budget })
}

/// The variables of all expressions of one evaluation.
struct Scope<'a> {
    object: Val<'a>,
    old: Val<'a>,
    namespace: Val<'a>,
    request: Val<'a>,
    params: Val<'a>,
    authorizer: Val<'a>,
    request_resource: Val<'a>,
    variables: &'a [Defined],
    computed: RefCell<Vec<Computed<'a>>>,
    /// What variables have cost since it was last asked for.
    variables_cost: Cell<u64>,
    arena: &'a Arena,
    deadline: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Computed<'a> {
    NotYet,
    /// A variable cannot use itself.
    Computing,
    Done(Outcome<'a>),
}

impl<'a> Scope<'a> {
    fn new(input: &'a Input<'_>, arena: &'a Arena) -> Scope<'a> {
        let authorizer = Authorizer::new(input.answers);
        Scope {
            object: cel::json(input.object),
            old: cel::json(input.old),
            namespace: cel::json(input.namespace),
            request: cel::json(input.request),
            params: cel::json(input.params),
            authorizer: authorizer.val(arena),
            request_resource: authorizer.resource_val(input.resource, arena),
            variables: input.variables,
            computed: RefCell::new(vec![Computed::NotYet; input.variables.len()]),
            variables_cost: Cell::new(0),
            arena,
            deadline: input.deadline,
        }
    }

    fn run<'e: 'a>(&self, compiled: &'e Compiled) -> (Outcome<'a>, u64) {
        let interrupted = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let limits = Limits { interrupted: Some(&interrupted), ..Limits::default() };
        let evaluated = compiled.program.evaluate(&Bound { scope: self, compiled }, self.arena, limits);
        (evaluated.outcome, evaluated.cost)
    }

    /// The value of a variable of the policy; None if there is no such variable.
    fn variable(&self, name: &str) -> Option<Outcome<'a>> {
        let at = self.variables.iter().rposition(|variable| variable.name == name)?;
        let state = self.computed.borrow().get(at).copied()?;
        match state {
            Computed::Done(outcome) => return Some(outcome),
            Computed::Computing => return None,
            Computed::NotYet => {}
        }
        self.set(at, Computed::Computing);
        let outcome = self.compute(self.variables.get(at)?);
        self.set(at, Computed::Done(outcome));
        Some(outcome)
    }

    fn set(&self, at: usize, state: Computed<'a>) {
        if let Some(computed) = self.computed.borrow_mut().get_mut(at) {
            *computed = state;
        }
    }

    fn compute(&self, variable: &'a Defined) -> Outcome<'a> {
        let name = object::quote(&variable.name);
        let compiled = variable.expression.compiled.as_ref().map_err(|refusal| {
            self.arena.error(format_args!("composited variable {name} fails to compile: {refusal}"))
        })?;
        let (outcome, cost) = self.run(compiled);
        self.variables_cost.set(self.variables_cost.get().saturating_add(cost));
        outcome.map_err(|error| self.arena.error(format_args!("composited variable {name} fails to evaluate: {error}")))
    }
}

/// The variables by their places in one expression.
struct Bound<'s, 'a> {
    scope: &'s Scope<'a>,
    compiled: &'a Compiled,
}

impl<'a> Variables<'a> for Bound<'_, 'a> {
    fn get(&self, at: usize) -> Option<Outcome<'a>> {
        let scope = self.scope;
        Some(Ok(match self.compiled.variable(at)? {
            Variable::Object => scope.object,
            Variable::OldObject => scope.old,
            Variable::NamespaceObject => scope.namespace,
            Variable::Request => scope.request,
            Variable::Params => scope.params,
            Variable::Authorizer => scope.authorizer,
            Variable::RequestResource => scope.request_resource,
            // Only its fields can be used.
            Variable::Variables => return None,
        }))
    }

    fn computes_fields(&self) -> bool {
        true
    }

    fn field(&self, at: usize, name: &str) -> Option<Option<Outcome<'a>>> {
        match self.compiled.variable(at) {
            Some(Variable::Variables) => Some(self.scope.variable(name)),
            _ => None,
        }
    }
}
