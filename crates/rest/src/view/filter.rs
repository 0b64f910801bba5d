//! `filter`: a CEL expression that decides which objects a list or watch is about.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use cache::Object;
use cel::{Arena, Declarations, Environment, Expression, Limits, Mode, Program, Time, Type, Val};
use object::{Status, Str, Timestamp, Value};
use registry::{Error, ListCondition, Readable};

use super::namespaces::NamespaceObjects;
use super::reader::ObjectReader;
use crate::large::aside;
use crate::scope::Scope;

/// The variables of an expression. `oldObject` is null where an object is looked at alone.
static VARIABLES: [(&str, Type); 4] =
    [("object", Type::Dyn), ("oldObject", Type::Dyn), ("namespaceObject", Type::Dyn), ("now", Type::Timestamp)];
/// The longest expression.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The most that one evaluation may cost.
const OBJECT_COST_MAX: u64 = 20_000;
/// The most that all evaluations for one list may cost, or those for the initial objects of a watch: as much as those of one admission
/// policy.
const REQUEST_COST_MAX: u64 = 10_000_000;
/// A unit of cost takes about as long as reading so many bytes.
const COST_BYTES: usize = 32;

/// A filter of one request.
pub struct ObjectFilter {
    text: Str,
    program: Arc<Program>,
    reader: ObjectReader,
    /// `namespaceObject`, if the expression reads it.
    namespaces: Option<Arc<NamespaceObjects>>,
    /// Whether the expression reads `oldObject`, and so decides about changes, too.
    reads_old: bool,
    /// `now`: when the request began, so that what an object is to the filter changes only with the object.
    now: Timestamp,
    /// How much the request may still spend.
    left: AtomicU64,
    /// Whether each object is charged alone.
    is_alone: AtomicBool,
}

impl ObjectFilter {
    pub fn compile(scope: &Scope, text: &str) -> Result<ObjectFilter, Status> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(invalid(&format!("the expression has more than {TEXT_BYTES_MAX} bytes")));
        }
        let environment = Environment::base(Mode::Stored);
        let declarations = VARIABLES
            .iter()
            .fold(Declarations::new(), |declarations, (name, ty)| declarations.variable_of(name, ty.clone()));
        let compiled = Expression::compile(text, &environment, &declarations)
            .map_err(|error| invalid(&format!("compilation failed: {error}")))?;
        let got = compiled.ty.declared_name();
        if got != "bool" {
            return Err(invalid(&format!("must evaluate to bool but got {got}")));
        }
        let program = compiled.program.map_err(|why| invalid(&format!("program instantiation failed: {why}")))?;
        let reads = |variable: &str| cel::reads(text, &environment, variable);
        let is_read = |variable: &str| reads(variable).is_none_or(|paths| !paths.is_empty());
        let namespaces = match is_read("namespaceObject") {
            true => Some(Arc::new(NamespaceObjects::new(scope)?)),
            false => None,
        };
        let paths = reads("object").zip(reads("oldObject"));
        Ok(ObjectFilter {
            text: text.into(),
            program,
            reader: ObjectReader::new(scope, paths.map(|(object, old)| [object, old].concat())),
            namespaces,
            reads_old: is_read("oldObject"),
            now: scope.api.clock.now(),
            left: AtomicU64::new(REQUEST_COST_MAX),
            is_alone: AtomicBool::new(false),
        })
    }

    /// The namespaces that its value depends on besides the object.
    pub fn namespaces(&self) -> Option<&Arc<NamespaceObjects>> {
        self.namespaces.as_ref()
    }

    /// Evaluates the expression; Err says why it has no value. Then what it has cost.
    fn evaluate(&self, object: &Value, old: &Value, namespace: &Value) -> (Result<bool, String>, u64) {
        let alone = self.is_alone.load(Ordering::Relaxed);
        let left = self.left.load(Ordering::Relaxed);
        if !alone && left == 0 {
            return (Err("the filter costs more than one request may".into()), 0);
        }
        let arena = Arena::new();
        let variables = |at: usize| {
            Some(Ok(match at {
                0 => cel::json(object),
                1 => cel::json(old),
                2 => cel::json(namespace),
                _ => Val::Timestamp(Time::utc(self.now)),
            }))
        };
        let cost = if alone { OBJECT_COST_MAX } else { OBJECT_COST_MAX.min(left) };
        let evaluated = self.program.evaluate(&variables, &arena, Limits { cost, interrupted: None });
        if !alone {
            // Two chunks of one list are never evaluated at once, so nothing is lost between reading and writing.
            self.left.store(left.saturating_sub(evaluated.cost), Ordering::Relaxed);
        }
        let result = match evaluated.outcome {
            Ok(Val::Bool(holds)) => Ok(holds),
            Ok(_) => Err("must evaluate to bool".to_string()),
            Err(error) => Err(error.to_string()),
        };
        (result, evaluated.cost)
    }

    /// Reads an object, and what it was before, and evaluates the expression.
    fn judge(&self, object: Readable<'_>, before: Option<Readable<'_>>, work: &mut usize) -> Result<bool, Error> {
        let bytes = object.value().len() + before.map_or(0, |before| before.value().len());
        aside(bytes, || {
            *work += bytes;
            // Lists and watches say that it cannot be read.
            let Some(shown) = self.reader.read(object)? else { return Ok(true) };
            let old = match before {
                Some(before) => self.reader.read(before)?,
                None => None,
            };
            let namespace = match &self.namespaces {
                Some(namespaces) => namespaces.of(object, work)?,
                None => Arc::default(),
            };
            let (holds, cost) = self.evaluate(&shown, &old.unwrap_or_default(), &namespace);
            *work = work.saturating_add(usize::try_from(cost).unwrap_or(usize::MAX).saturating_mul(COST_BYTES));
            holds.map_err(|why| {
                let (name, text) = (self.reader.name(object), object::quote(&self.text));
                Error::Refused(invalid(&format!("expression {text} resulted in error: {why} (of {name})")))
            })
        })
    }
}

/// The refusal of an expression.
pub fn invalid(why: &str) -> Status {
    Status::bad_request(format!("invalid filter: {why}"))
}

#[async_trait]
impl ListCondition for ObjectFilter {
    async fn prepare(&self, objects: &[Arc<Object>]) -> Result<(), Error> {
        match &self.namespaces {
            Some(namespaces) => namespaces.prepare(objects).await,
            None => Ok(()),
        }
    }

    fn holds(&self, object: Readable<'_>, work: &mut usize) -> Result<bool, Error> {
        self.judge(object, None, work)
    }

    fn holds_for_change(&self, object: Readable<'_>, before: Readable<'_>, work: &mut usize) -> Result<bool, Error> {
        if self.reads_old { self.judge(object, Some(before), work) } else { Ok(true) }
    }

    fn end_of_initial(&self) {
        self.is_alone.store(true, Ordering::Relaxed);
    }

    fn again(&self) -> Arc<dyn ListCondition> {
        Arc::new(ObjectFilter {
            text: self.text.clone(),
            program: self.program.clone(),
            reader: self.reader.clone(),
            namespaces: self.namespaces.clone(),
            reads_old: self.reads_old,
            now: self.now,
            left: AtomicU64::new(0),
            is_alone: AtomicBool::new(true),
        })
    }
}

impl std::fmt::Debug for ObjectFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
