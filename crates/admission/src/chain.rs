//! [`Chain`]: the plugins in their order.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use async_trait::async_trait;
use metrics::{Family, Histogram};
use object::{Meta, Status, Value};

use crate::{Attributes, Operation};

/// Seconds that a plugin or a whole step took.
const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

/// One admission plugin. Every hook lets the request through unless the plugin says otherwise.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// The name in `--enable-admission-plugins`.
    fn name(&self) -> &'static str;

    /// What the plugin has counted, for `/metrics`.
    fn write_metrics(&self, _out: &mut String) -> std::fmt::Result {
        Ok(())
    }

    /// Changes the object, or refuses the request. `old` is None for a creation.
    async fn mutate(&self, _: &Attributes<'_>, _object: &mut Value, _old: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }

    /// Is told of a deletion before anything validates it; there is nothing to change.
    async fn mutate_deletion(&self, _: &Attributes<'_>, _old: &Value) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses the request. `object` is None for a deletion, `old` for a creation.
    async fn validate(&self, _: &Attributes<'_>, _object: Option<&Value>, _old: Option<&Value>) -> Result<(), Status> {
        Ok(())
    }
}

/// Which requests a plugin sees. It is not called for others.
#[derive(Clone, Copy, Debug)]
pub struct Sees {
    pub operations: &'static [Operation],
    /// Resources in any group; all if there are none.
    pub resources: &'static [&'static str],
}

impl Sees {
    pub const EVERYTHING: Sees = Sees {
        operations: &[Operation::Create, Operation::Update, Operation::Delete, Operation::Connect],
        resources: &[],
    };

    pub fn sees(&self, attributes: &Attributes<'_>) -> bool {
        self.operations.contains(&attributes.operation)
            && (self.resources.is_empty() || self.resources.contains(&attributes.resource.resource.as_str()))
    }
}

/// Plugins in the order they run.
#[derive(Clone, Default)]
pub struct Chain {
    entries: Vec<Arc<Entry>>,
    steps: Arc<Timings>,
    /// None where nothing is measured.
    meters: Option<Arc<crate::AdmissionMeters>>,
}

struct Entry {
    sees: Sees,
    plugin: Arc<dyn Plugin>,
    timings: Timings,
}

impl Chain {
    /// Plugins that see everything, for tests.
    pub fn of(plugins: Vec<Arc<dyn Plugin>>) -> Chain {
        let mut chain = Chain::default();
        for plugin in plugins {
            chain.push(plugin, Sees::EVERYTHING);
        }
        chain
    }

    /// An empty chain whose plugins are measured.
    pub fn measured(meters: &Arc<crate::AdmissionMeters>) -> Chain {
        let meters = Some(meters.clone());
        Chain { entries: Vec::new(), steps: Arc::new(Timings::of("", &meters)), meters }
    }

    /// Adds a plugin that runs after all others.
    pub fn push(&mut self, plugin: Arc<dyn Plugin>, sees: Sees) {
        let timings = Timings::of(plugin.name(), &self.meters);
        self.entries.push(Arc::new(Entry { sees, plugin, timings }));
    }

    /// What the plugins have counted.
    pub fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        self.entries.iter().try_for_each(|entry| entry.plugin.write_metrics(out))
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|entry| entry.plugin.name())
    }

    /// Lets every plugin change the object, and once more if a webhook or policy changed it.
    pub async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let began = Instant::now();
        attributes.reinvocation.begin();
        let mut outcome = self.mutate_once(attributes, object, old).await;
        if outcome.is_ok() && attributes.reinvocation.begin_again() {
            outcome = self.mutate_once(attributes, object, old).await;
        }
        self.steps.observe(Step::Admit, attributes.operation, &outcome, began);
        outcome
    }

    async fn mutate_once(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let mut began = Instant::now();
        for entry in self.seeing(attributes) {
            let outcome = entry.plugin.mutate(attributes, object, old).await;
            began = entry.timings.observe(Step::Admit, attributes.operation, &outcome, began);
            outcome?;
        }
        Ok(())
    }

    fn seeing(&self, attributes: &Attributes<'_>) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|entry| &**entry).filter(|entry| entry.sees.sees(attributes))
    }

    /// Asks both halves about a deletion, which neither changes.
    pub async fn admit_deletion(&self, attributes: &Attributes<'_>, old: &Value) -> Result<(), Status> {
        let (mut began, mut outcome) = (Instant::now(), Ok(()));
        let step = began;
        for entry in self.seeing(attributes) {
            outcome = entry.plugin.mutate_deletion(attributes, old).await;
            began = entry.timings.observe(Step::Admit, attributes.operation, &outcome, began);
            if outcome.is_err() {
                break;
            }
        }
        self.steps.observe(Step::Admit, attributes.operation, &outcome, step);
        outcome?;
        self.validate(attributes, None, Some(old)).await
    }

    /// Asks every plugin about a write that is about to be stored.
    pub async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        attributes.named(object.map_or("", |object| object.name()));
        let mut began = Instant::now();
        let (step, mut outcome) = (began, Ok(()));
        for entry in self.seeing(attributes) {
            outcome = entry.plugin.validate(attributes, object, old).await;
            began = entry.timings.observe(Step::Validate, attributes.operation, &outcome, began);
            if outcome.is_err() {
                break;
            }
        }
        self.steps.observe(Step::Validate, attributes.operation, &outcome, step);
        outcome
    }
}

/// The two halves of admission: the label `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Admit,
    Validate,
}

/// How long plugins and steps take, under upstream's names. Plugins are measured only for requests that they see.
pub struct ChainMeters {
    plugins: Family<Histogram>,
    steps: Family<Histogram>,
}

impl Default for ChainMeters {
    fn default() -> ChainMeters {
        ChainMeters {
            plugins: Family::new(
                "apiserver_admission_controller_admission_duration_seconds",
                "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each \
                 operation and API resource and type (validate or admit).",
                &["name", "type", "operation", "rejected"],
                || Histogram::new(SECONDS),
            ),
            steps: Family::new(
                "apiserver_admission_step_admission_duration_seconds",
                "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource \
                 and step type (validate or admit).",
                &["type", "operation", "rejected"],
                || Histogram::new(SECONDS),
            ),
        }
    }
}

impl ChainMeters {
    pub fn write(&self, out: &mut String) -> fmt::Result {
        self.plugins.write(out)?;
        self.steps.write(out)?;
        let name = "apiserver_admission_step_admission_duration_seconds_summary";
        let help = "[ALPHA] Admission sub-step latency summary in seconds, broken out for each operation and API resource and \
                    step type (validate or admit).";
        metrics::head(out, name, "summary", help)?;
        let mut written = Ok(());
        self.steps.each(|labels, step| written = written.and_then(|()| step.write_summary(name, labels, out)));
        written
    }
}

/// The series of one plugin, or of the steps if it has no name, each found once.
#[derive(Default)]
struct Timings {
    name: &'static str,
    meters: Option<Arc<crate::AdmissionMeters>>,
    series: [OnceLock<Arc<Histogram>>; 16],
}

impl Timings {
    fn of(name: &'static str, meters: &Option<Arc<crate::AdmissionMeters>>) -> Timings {
        Timings { name, meters: meters.clone(), series: Default::default() }
    }

    /// Records what has taken from `began` until now, which is returned.
    fn observe(&self, step: Step, operation: Operation, outcome: &Result<(), Status>, began: Instant) -> Instant {
        let Some(meters) = &self.meters else { return began };
        let now = Instant::now();
        let rejected = outcome.is_err();
        let at = (step as usize) << 3 | (operation as usize) << 1 | usize::from(rejected);
        if let Some(series) = self.series.get(at) {
            let find = || {
                let step = if step == Step::Admit { "admit" } else { "validate" };
                let rejected = if rejected { "true" } else { "false" };
                let operation = operation.as_str();
                match self.name {
                    "" => meters.plugins.steps.with(&[step, operation, rejected]),
                    name => meters.plugins.plugins.with(&[name, step, operation, rejected]),
                }
            };
            series.get_or_init(find).observe((now - began).as_secs_f64());
        }
        now
    }
}
