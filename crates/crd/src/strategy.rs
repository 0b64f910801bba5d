//! The rules of custom resources: what their schema, their subresources and their definition say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use async_trait::async_trait;
use cel::rules::{Budget, Ratchet, Validator};
use object::{Cursor, ErrorType, Errors, GroupResource, Meta, Path, Status, Str, Value, names, quote};
use registry::{Context, Effects, Error, Facts, FieldRefusal, JsonPath, ScalePaths, Shape, Strategy, Undo, custom};

use crate::columns::{self, Printer};

/// The rules of one version.
pub struct VersionStrategy {
    pub resource: GroupResource,
    pub shape: Shape,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    pub printer: Printer,
    /// Names as selectors use them, `spec.color`, beside their paths.
    pub selectable: Vec<Str>,
    pub selectable_paths: Vec<JsonPath>,
    pub terminating: Arc<AtomicBool>,
    /// The rules of the schema, compiled when they are first used.
    pub rules: Arc<Rules>,
    /// Compiled CEL expressions of the whole server.
    pub expressions: Arc<cel::Pool>,
}

pub type Rules = LazyLock<Option<Validator>, Box<dyn FnOnce() -> Option<Validator> + Send>>;

/// Finalizers that are not qualified by a domain and need not be.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

const WITH_STATUS: Facts = Facts {
    checks_finalizer_names: false,
    checks_updated_finalizer_names: false,
    repeats_metadata_errors: true,
    generation: Some(is_changed),
    allows_unconditional_update: false,
    status_resets: Facts::METADATA_AND_SPEC,
    field_refusal: FieldRefusal::Plain,
    ..Facts::WITH_STATUS
};

const WITHOUT_STATUS: Facts = Facts { has_status: false, resets: &[], ..WITH_STATUS };

/// Everything but metadata counts.
fn is_changed(new: &Value, old: &Value) -> bool {
    fn rest(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
        object.as_map().into_iter().flat_map(|fields| fields.iter()).filter(|(name, _)| *name != "metadata")
    }
    !rest(new).eq(rest(old))
}

impl Strategy for VersionStrategy {
    fn facts(&self) -> &Facts {
        if self.has_status { &WITH_STATUS } else { &WITHOUT_STATUS }
    }

    fn effects(&self) -> Option<&dyn Effects> {
        Some(self)
    }

    fn default(&self, object: &mut Value) {
        schema::default(self.shape.schema(), object);
    }

    fn validate(&self, _cx: &Context, object: &Cursor, errors: &mut Errors) {
        let (schema, value) = (self.shape.schema(), object.value());
        errors.extend(schema::validate(schema, value));
        self.validate_scale_spec(value, errors);
        self.validate_scale_status(value, errors);
        custom::validate_embedded(schema, value, custom::At::Resource, errors);
        errors.extend(schema::validate_lists(schema, value));
        self.evaluate_rules(value, None, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let (schema, value) = (self.shape.schema(), new.value());
        errors.extend(schema::validate_update(schema, value, old.value()));
        self.validate_scale_spec(value, errors);
        self.validate_scale_status(value, errors);
        custom::validate_embedded(schema, value, custom::At::Resource, errors);
        if schema::validate_lists(schema, old.value()).is_empty() {
            errors.extend(schema::validate_lists(schema, value));
        }
        self.evaluate_rules(value, Some(old.value()), errors);
    }

    /// Status writes keep all metadata but who owns which field.
    fn prepare_status_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        let managed = new.metadata_mut().remove("managedFields");
        let version = new.metadata_mut().remove("resourceVersion");
        new.set(&["metadata"], old.field("metadata").clone());
        for (name, value) in [("managedFields", managed), ("resourceVersion", version)] {
            match value {
                Some(value) => new.metadata_mut().insert(name, value),
                None => new.metadata_mut().remove(name),
            };
        }
    }

    /// Only the status is checked, and by its own part of the schema.
    fn validate_status_update(&self, _cx: &Context, new: &Cursor, old: &Cursor, errors: &mut Errors) {
        let schema = self.shape.schema();
        if let (Some(status), Some(value)) = (schema.child("status"), new.value().get("status")) {
            let old = old.value().field("status");
            errors.extend(schema::validate_part_update(status, value, old, "status"));
        }
        self.validate_scale_status(new.value(), errors);
        if schema::validate_lists(schema, old.value()).is_empty() {
            errors.extend(schema::validate_lists(schema, new.value()));
        }
        self.evaluate_rules(new.value(), Some(old.value()), errors);
    }

    fn warnings(&self, _cx: &Context, object: &Value, old: Option<&Value>) -> Vec<String> {
        let known: Vec<&str> = old.map(|old| old.finalizers().collect()).unwrap_or_default();
        let mut added: Vec<&str> = object.finalizers().filter(|name| !known.contains(name)).collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn selectable_fields(&self) -> &[Str] {
        &self.selectable
    }

    fn select_field(&self, object: &Value, field: &str) -> String {
        let paths = self.selectable.iter().zip(&self.selectable_paths);
        let path = paths.filter(|(name, _)| *name == field).map(|(_, path)| path).next();
        let found = path.and_then(|path| path.find(object).ok()).unwrap_or_default();
        found.first().filter(|value| !value.is_null()).map(|value| columns::text(value)).unwrap_or_default()
    }

    fn cells(&self, cx: &Context, object: &Value) -> Vec<Value> {
        self.printer.cells(cx, object)
    }
}

#[async_trait]
impl Effects for VersionStrategy {
    async fn begin_create(&self, _cx: &Context<'_>, object: &mut Value) -> Result<Option<Box<dyn Undo>>, Error> {
        if self.terminating.load(Ordering::Acquire) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&self.resource, object.name(), why).into());
        }
        Ok(None)
    }
}

impl VersionStrategy {
    /// Evaluates `x-kubernetes-validations`, unless the object, its metadata included, is so wrong that rules could not rely
    /// on its types.
    fn evaluate_rules(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        let Some(validator) = &**self.rules else { return };
        use ErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        let blocks = |kind: ErrorType| matches!(kind, NotSupported | Required | TooLong | TooMany | TypeInvalid);
        if errors.iter().any(|error| blocks(error.kind)) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                       complete validation";
            return errors.invalid(&Path::root(), Value::Null, why);
        }
        let ratchet = old.map_or(Ratchet::none(), |old| Ratchet::update(self.shape.schema(), object, old));
        let mut budget = Budget::default();
        let began = Instant::now();
        validator.validate(&Path::root(), object, old, ratchet, &mut budget, errors);
        self.expressions.evaluations.observe(began.elapsed().as_secs_f64());
        // What is wrong in parts that an update did not change is tolerated.
        errors.warn(budget.warnings);
    }

    fn validate_scale_spec(&self, object: &Value, errors: &mut Errors) {
        if let Some(scale) = &self.scale {
            check_replicas(scale.spec_replicas(object), &scale.spec_replicas, errors);
        }
    }

    fn validate_scale_status(&self, object: &Value, errors: &mut Errors) {
        let Some(scale) = &self.scale else { return };
        check_replicas(scale.status_replicas(object), &scale.status_replicas, errors);
        if let Err(why) = scale.selector(object) {
            errors.invalid(&dotted(&scale.selector), "", why);
        }
    }
}

fn check_replicas(found: Result<Option<i64>, String>, path: &[Str], errors: &mut Errors) {
    match found {
        Err(why) => errors.invalid(&dotted(path), 0, why),
        Ok(Some(replicas)) if replicas < 0 => {
            errors.invalid(&dotted(path), replicas, "should be a non-negative integer");
        }
        Ok(Some(replicas)) if replicas > i64::from(i32::MAX) => {
            errors.invalid(&dotted(path), replicas, format!("should be less than or equal to {}", i32::MAX));
        }
        Ok(_) => {}
    }
}

fn dotted(path: &[Str]) -> Path {
    Path::root().field(&ScalePaths::dotted(path))
}

fn finalizer_warnings(name: &str) -> Vec<String> {
    let at = format!("metadata.finalizers: {}", quote(name));
    let mut warnings: Vec<String> =
        names::label_key(name).into_iter().map(|message| format!("{at}: {message}")).collect();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(format!(
            "{at}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}
