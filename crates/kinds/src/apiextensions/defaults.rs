//! Defaults in schemas: each must be a value that its own part of the schema accepts, rules included.

use cel::rules::{Budget, Ratchet, Validator};
use object::{Cursor, Errors, Path, Value};
use registry::custom::{self, At};
use schema::Schema;

use super::schemas::any_part;
use super::structural::{self, EMBEDDED};

/// Schemas nest no deeper than documents do; this bounds the walk all the same.
const MAX_DEPTH: usize = 100;

/// Checks all defaults of a structural schema; whether they have unknown fields only if `pruned`.
pub fn validate(schema: &Cursor, pruned: bool, errors: &mut Errors) {
    if !has_defaults(schema.value()) {
        return;
    }
    let mut walk = Walk { pruned, budget: Budget::default(), errors };
    // A default of the root is judged as an object that is embedded elsewhere: it has a type and metadata.
    let embedded = schema.field("default").is_set().then(|| {
        let mut root = schema.value().clone();
        root.set(&[EMBEDDED], true);
        root
    });
    let root = embedded.as_ref().unwrap_or(schema.value());
    walk.schema(&Cursor::new(root, schema.path().clone()), &Inside::resource(root), 0);
}

/// Whether a schema has defaults with fields that the schema does not know.
pub fn has_unpruned(schema: &Value) -> bool {
    let is_unpruned = |part: &Value| {
        let default = part.field("default");
        !default.is_null() && {
            let (types, node) = schema::from_openapi_part(part);
            !schema::prune(Schema::new(&types, &node), &mut default.clone()).is_empty()
        }
    };
    has_defaults(schema) && structural::is_structural(schema) && any_part(schema, &is_unpruned)
}

fn has_defaults(schema: &Value) -> bool {
    any_part(schema, &|part| !part.field("default").is_null())
}

/// Where a schema is inside of an object.
#[derive(Clone)]
struct Inside<'s> {
    /// The schema of the object.
    resource: &'s Value,
    /// The way from the object to here.
    steps: Vec<Step<'s>>,
    /// In the type or the metadata of the object.
    metadata: bool,
}

#[derive(Clone, Copy)]
enum Step<'s> {
    Field(&'s str),
    Item,
}

impl<'s> Inside<'s> {
    fn resource(schema: &'s Value) -> Inside<'s> {
        Inside { resource: schema, steps: Vec::new(), metadata: false }
    }

    fn below(&self, step: Step<'s>, metadata: bool) -> Inside<'s> {
        let mut steps = self.steps.clone();
        steps.push(step);
        Inside { resource: self.resource, steps, metadata: self.metadata || metadata }
    }

    /// An object that has nothing but this value.
    fn object_with(&self, value: Value) -> Value {
        let mut object = self.steps.iter().rev().fold(value, |inner, step| match step {
            Step::Field(name) => {
                let mut map = Value::map();
                map.set(&[name], inner);
                map
            }
            Step::Item => Value::List(vec![inner]),
        });
        for (field, stated) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
            if object.get(field).is_none() {
                object.set(&[field], stated);
            }
        }
        object
    }
}

struct Walk<'w> {
    pruned: bool,
    /// What the rules may cost together.
    budget: Budget<'static>,
    errors: &'w mut Errors,
}

impl Walk<'_> {
    fn schema<'s>(&mut self, schema: &Cursor<'s>, inside: &Inside<'s>, depth: usize) {
        if depth > MAX_DEPTH || self.budget.is_used_up() {
            return;
        }
        let is_embedded = schema.field(EMBEDDED).bool();
        let embedded = is_embedded.then(|| Inside::resource(schema.value()));
        let inside = embedded.as_ref().unwrap_or(inside);
        let is_resource = inside.steps.is_empty();
        if schema.field("default").is_set() {
            self.default(schema, inside, is_resource);
        }
        let items = schema.field("items");
        if items.value().as_map().is_some() {
            self.schema(&items, &inside.below(Step::Item, false), depth + 1);
        }
        for (name, property) in schema.field("properties").entries() {
            let metadata = is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
            self.schema(&property, &inside.below(Step::Field(name), metadata), depth + 1);
        }
    }

    fn default(&mut self, schema: &Cursor, inside: &Inside, is_resource: bool) {
        let default = schema.field("default");
        let (types, node) = schema::from_openapi_part(schema.value());
        let part = Schema::new(&types, &node);
        let fine = if inside.metadata { self.metadata(&default, inside) } else { self.object(&default, part) };
        if !fine {
            return;
        }
        let found = schema::validate_part(part, default.value(), &default.path().to_string());
        if !found.is_empty() {
            return self.errors.extend(found);
        }
        if let Some(validator) = Validator::new(schema.value(), is_resource, &cel::Pool::default()) {
            self.rules(&validator, default.path(), default.value());
        }
    }

    /// A default inside of metadata must make valid metadata.
    fn metadata(&mut self, default: &Cursor, inside: &Inside) -> bool {
        let (types, node) = schema::from_openapi(inside.resource, false);
        let resource = Schema::new(&types, &node);
        let mut object = inside.object_with(default.value().clone());
        let root = Path::root();
        let problem = match custom::coerce_embedded(resource, &mut object, At::Part(&root)) {
            Err(error) => Some(error.to_string()),
            Ok(_) => {
                let mut found = Errors::new();
                custom::validate_embedded(resource, &object, At::Part(&root), &mut found);
                (!found.is_empty()).then(|| found.aggregate())
            }
        };
        if let Some(problem) = &problem {
            default.invalid(self.errors, format!("must result in valid metadata: {problem}"));
        }
        problem.is_none()
    }

    fn object(&mut self, default: &Cursor, part: Schema<'_>) -> bool {
        let mut value = default.value().clone();
        if self.pruned && !schema::prune(part, &mut value.clone()).is_empty() {
            default.invalid(self.errors, "must not have unknown fields");
        }
        let at = At::Part(default.path());
        if let Err(error) = custom::coerce_embedded(part, &mut value, at) {
            self.errors.push(error);
            return false;
        }
        let mut found = Errors::new();
        custom::validate_embedded(part, &value, at, &mut found);
        let fine = found.is_empty();
        self.errors.extend(found);
        fine
    }

    /// The rules must hold when the default appears and when it stays.
    fn rules(&mut self, validator: &Validator, path: &Path, default: &Value) {
        let mut staying = self.budget.fork();
        let mut found = Errors::new();
        validator.validate(path, default, Some(default), Ratchet::none(), &mut staying, &mut found);
        let mut left = staying;
        if found.is_empty() {
            let mut appearing = self.budget.fork();
            validator.validate(path, default, None, Ratchet::none(), &mut appearing, &mut found);
            left = left.lesser(appearing);
        }
        self.budget = left;
        self.errors.extend(found);
    }
}
