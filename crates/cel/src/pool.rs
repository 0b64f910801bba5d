//! [`Pool`]: compiled expressions, shared between all who use the same text and types.

use std::sync::{Arc, Weak};
use std::time::Instant;

use hashbrown::HashMap;
use metrics::Histogram;
use object::Str;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::environment::{Declarations, Environment};
use crate::expression::{CompileError, Expression};

/// The table is searched for expressions that are gone when it has grown to this.
const SWEEP_LEAST: usize = 1024;

/// Prometheus' default buckets, in seconds.
const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Expressions that are in use somewhere. The pool itself keeps none of them alive.
pub struct Pool {
    table: Mutex<Table>,
    /// How long it took to compile expressions.
    pub compilations: Histogram,
    /// How long it took to evaluate the rules of objects.
    pub evaluations: Histogram,
}

impl Default for Pool {
    fn default() -> Pool {
        let seconds = || Histogram::new(SECONDS);
        Pool { table: Mutex::default(), compilations: seconds(), evaluations: seconds() }
    }
}

#[derive(Default)]
struct Table {
    expressions: HashMap<[u8; 32], Weak<Pooled>>,
    /// How large the table is when it is swept next.
    sweep_at: usize,
}

/// An expression and its text.
#[derive(Debug)]
pub struct Pooled {
    pub text: Str,
    pub expression: Expression,
}

/// How much is in a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Expressions with different texts or types.
    pub expressions: usize,
    /// How often they are used together.
    pub uses: usize,
}

impl Pool {
    /// Compiles an expression, or finds it. `types` describes the declarations: expressions whose texts, environments and
    /// descriptions are equal are the same.
    pub fn expression(
        &self,
        text: &str,
        environment: &Environment,
        declarations: &Declarations,
        types: &str,
    ) -> Result<Arc<Pooled>, CompileError> {
        let key = key(text, environment, types);
        if let Some(known) = self.table.lock().expressions.get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        // Compiled without the lock: two callers may both do it, and the second finds the first one's.
        let began = Instant::now();
        let compiled = Expression::compile(text, environment, declarations);
        self.compilations.observe(began.elapsed().as_secs_f64());
        let expression = compiled?;
        let made = Arc::new(Pooled { text: text.into(), expression });
        let mut table = self.table.lock();
        if let Some(known) = table.expressions.get(&key).and_then(Weak::upgrade) {
            return Ok(known);
        }
        if table.expressions.len() >= table.sweep_at.max(SWEEP_LEAST) {
            table.expressions.retain(|_, expression| expression.strong_count() > 0);
            table.sweep_at = table.expressions.len() * 2;
        }
        table.expressions.insert(key, Arc::downgrade(&made));
        Ok(made)
    }

    pub fn count(&self) -> Count {
        let table = self.table.lock();
        let uses = table.expressions.values().map(Weak::strong_count).filter(|uses| *uses > 0);
        uses.fold(Count::default(), |count, uses| Count { expressions: count.expressions + 1, uses: count.uses + uses })
    }
}

fn key(text: &str, environment: &Environment, types: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [environment.fingerprint().as_str(), types, text] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Mode;
    use crate::types::Type;

    #[test]
    fn expressions_are_kept_once_for_a_text_and_types() {
        let pool = Pool::default();
        let environment = Environment::base(Mode::Stored);
        let compile = |text: &str, ty: Type, types: &str| {
            pool.expression(text, &environment, &Declarations::new().variable_of("a", ty), types)
        };
        let ints: Vec<_> = (0..1000).map(|_| compile("a + a", Type::Int, "int").unwrap()).collect();
        let text = compile("a + a", Type::String, "string").unwrap();
        assert!(!Arc::ptr_eq(&ints[0], &text));
        assert_eq!(pool.count(), Count { expressions: 2, uses: 1001 });
        assert!(compile("a +", Type::Int, "int").is_err());
        drop(ints);
        assert_eq!(pool.count(), Count { expressions: 1, uses: 1 });
    }

    #[test]
    fn expressions_that_are_gone_do_not_fill_the_table() {
        let pool = Pool::default();
        let environment = Environment::base(Mode::Stored);
        for n in 0..SWEEP_LEAST * 3 {
            pool.expression(&n.to_string(), &environment, &Declarations::new(), "").unwrap();
        }
        assert!(pool.table.lock().expressions.len() <= SWEEP_LEAST);
        assert_eq!(pool.count(), Count::default());
    }
}
