//! Declarations from the schemas of the catalog, as upstream makes them from the API's OpenAPI documents.

use std::sync::Arc;

use object::Str;
use schema::{Schema, StructId};

use super::{Decl, Field, ListKind, Shape};
use crate::escape::escape;
use crate::types::Type;

/// How much of a schema expressions see.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaSight {
    /// What the API's OpenAPI documents tell.
    Documents,
    /// Everything, as JSON: values of any type are dyn, and texts are texts whatever their format.
    Json,
}

impl Decl {
    /// The declaration of objects that expressions convert: fields of any type are dyn, and a text is moved as it is.
    pub fn for_conversion(schema: Schema<'_>, name: &str) -> Arc<Decl> {
        Decl::seen(schema, name, SchemaSight::Json)
    }

    /// The declaration for a kind. Object types are called `name` and, below it, after their path. It tells types only, not
    /// how large values can get.
    pub fn from_schema(schema: Schema<'_>, name: &str) -> Arc<Decl> {
        Decl::seen(schema, name, SchemaSight::Documents)
    }

    fn seen(schema: Schema<'_>, name: &str, sight: SchemaSight) -> Arc<Decl> {
        let decl = build(schema, name, sight, &mut Vec::new());
        let (false, Some(object_meta)) = (schema.types.have_zeros(), schema::object_meta()) else { return decl };
        let Shape::Object(fields) = &decl.shape else { return decl };
        // The OpenAPI documents say what every custom resource has, which their definitions leave out.
        let string = || Arc::new(Decl { shape: Shape::String, ..Decl::json(Type::Dyn) });
        let metadata = build(object_meta, &format!("{name}.metadata"), sight, &mut Vec::new());
        let common = [("apiVersion", string()), ("kind", string()), ("metadata", metadata)];
        let own = fields.iter().filter(|field| !matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
        let own = own.map(|field| Field {
            name: field.name.clone(),
            escaped: field.escaped.clone(),
            decl: field.decl.clone(),
        });
        let common =
            common.into_iter().map(|(name, decl)| Field { name: name.into(), escaped: Some(name.into()), decl });
        let mut fields: Vec<Field> = own.chain(common).collect();
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Arc::new(Decl { name: name.into(), shape: Shape::Object(fields.into()), ..Decl::json(Type::Dyn) })
    }
}

/// `around` are the structs that the schema is inside of: they cannot be inside of themselves.
fn build(schema: Schema<'_>, name: &str, sight: SchemaSight, around: &mut Vec<StructId>) -> Arc<Decl> {
    let is_custom = !schema.types.have_zeros();
    let hidden = || match sight {
        SchemaSight::Documents => Shape::Unknown(Str::default()),
        SchemaSight::Json => Shape::Json(Type::Dyn),
    };
    use schema::Shape::{Bytes, Fields, MicroTime, Quantity, RawExtension, Time};
    let shape = match &schema.shape {
        schema::Shape::String | Bytes | Time | MicroTime | Quantity if sight == SchemaSight::Json => Shape::String,
        RawExtension | Fields if sight == SchemaSight::Json => hidden(),
        schema::Shape::Bool => Shape::Bool,
        schema::Shape::Int32 | schema::Shape::Int64 => Shape::Int,
        schema::Shape::Float => Shape::Double,
        schema::Shape::String => string(schema),
        schema::Shape::Duration => Shape::String,
        schema::Shape::Bytes => Shape::Bytes,
        schema::Shape::Time | schema::Shape::MicroTime => Shape::DateTime,
        schema::Shape::IntOrString if is_custom => Shape::Json(Type::Dyn),
        // The OpenAPI documents state several types for these, which expressions cannot see.
        schema::Shape::IntOrString | schema::Shape::Quantity => hidden(),
        schema::Shape::Any
        | schema::Shape::StructOrList(_)
        | schema::Shape::StructOrBool(_)
        | schema::Shape::StructOrStrings(_) => hidden(),
        schema::Shape::RawExtension | schema::Shape::Fields => Shape::Object(Box::default()),
        schema::Shape::List(items) => {
            let items = build(schema.with(items), &format!("{name}.@idx"), sight, around);
            Shape::List { items: Some(items), kind: ListKind::Atomic }
        }
        schema::Shape::Map(values) => Shape::Map(build(schema.with(values), &format!("{name}.@elem"), sight, around)),
        schema::Shape::Struct(id) if around.contains(id) => Shape::Object(Box::default()),
        schema::Shape::Struct(id) => {
            around.push(*id);
            let fields = schema.types.get(*id).fields.iter().map(|field| {
                let escaped = escape(&field.name).map(Str::from);
                let path = format!("{name}.{}", escaped.as_deref().unwrap_or(&field.name));
                Field { name: field.name.clone(), decl: build(schema.with(&field.node), &path, sight, around), escaped }
            });
            let fields = fields.collect();
            around.pop();
            Shape::Object(fields)
        }
    };
    let name = if matches!(shape, Shape::Object(_)) { name.into() } else { Str::default() };
    Arc::new(Decl { name, shape, nullable: false, max_elements: 0, min_serialized_size: 1 })
}

fn string(schema: Schema<'_>) -> Shape {
    match schema.rules.as_ref().and_then(|rules| rules.format.as_deref()) {
        Some("byte") => Shape::Bytes,
        Some("duration") => Shape::Duration,
        Some("date") => Shape::Date,
        Some("date-time") => Shape::DateTime,
        _ => Shape::String,
    }
}
