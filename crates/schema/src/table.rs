//! Reads the generated table.
//!
//! The table is line-based; the first word tells what a line is. Types come first:
//!
//! ```text
//! package core.v1 io.k8s.api.core.v1 v1                      alias, OpenAPI prefix, Go package
//! struct Probe [map=atomic] [union=type:field=Value,…]       a struct of that package, fields follow in print order
//!  > 1 ProbeHandler                                          embedded: protobuf tag or -, struct
//!  timeoutSeconds 3 o int32                                  field: JSON name, protobuf tag or -, flags or -, type, …
//! kind apps/v1 Deployment apps.v1.Deployment
//! ```
//!
//! Flags: `o` omitempty, `z` omitzero, `r` required. Types: `*x` pointer, `[x]` list, `{x}` map, `![x]` a list that
//! protobuf wraps in a message, lower-case words for scalars, `orlist:X`, `orbool:X` and `orstrings:X` for a struct or
//! something else, `Name` and `alias.Name` for structs, `~v1.Name` after a type for the Go name where it does not follow.
//! After the type come `list=`, `map=`, `patch=`, `default=` (stated in OpenAPI), `sets=` (not stated there) and, last,
//! `enum=a|b c|d`.
//!
//! Then the resources, groups and versions in the order of discovery:
//!
//! ```text
//! group apps                                                 - for core
//! version v1 on                                              or off by default
//! resource deployments deployment Deployment namespaced get,list short=deploy stored=apps/v1/Deployment hash=8aSe+NMegvE=
//! sub scale get,patch,update autoscaling/v1/Scale
//! column 0 string name Name                                  priority, type, format or -, title
//! ```

use hashbrown::HashMap;
use object::{GroupVersion, GroupVersionKind, Str, Value};

use crate::builtin::{Column, Group, Resource, Subresource, Version};
use crate::literal;
use crate::types::{
    Field, ListType, MapType, Node, Omit, ProtoInline, Rules, Shape, Stated, Struct, StructId, Types, Union,
};

/// Everything in the table.
#[derive(Debug)]
pub struct Table {
    pub types: Types,
    pub kinds: Vec<(GroupVersionKind, StructId)>,
    pub groups: Vec<Group>,
}

/// A little less than what a struct takes in the table on average.
const BYTES_A_STRUCT: usize = 160;

/// Reads a whole table; an error says the line and what is wrong with it.
pub fn parse(text: &str) -> Result<Table, String> {
    let mut table = Table { types: Types::with_zeros(), kinds: Vec::new(), groups: Vec::new() };
    // Room from the start: growing maps hash all their keys again and again.
    let expected = text.len() / BYTES_A_STRUCT;
    table.types.reserve(expected);
    let ids = HashMap::with_capacity(expected);
    let raw = Vec::with_capacity(expected);
    let mut reader = Reader { table, ids, sizes: Vec::with_capacity(expected), raw, package: "" };
    reader.declare(text)?;
    for (number, line) in lines(text).enumerate() {
        reader.line(line).map_err(|problem| format!("line {}: {problem}: {line:?}", number + 1))?;
    }
    reader.finish()
}

struct Reader<'a> {
    table: Table,
    /// Structs by alias and name.
    ids: HashMap<(&'a str, &'a str), StructId>,
    /// How many lines each struct has, in order: the table is big enough for vectors that grow to cost too much.
    sizes: Vec<usize>,
    /// What each struct's lines said, until embedded structs can be put in their place.
    raw: Vec<Raw>,
    package: &'a str,
}

/// A struct with the fields of its own, in the order in which they are printed.
struct Raw {
    id: StructId,
    definition: Struct,
    embedded: Vec<Embedded>,
}

struct Embedded {
    /// How many of the struct's own fields come before it.
    at: usize,
    target: StructId,
}

impl<'a> Reader<'a> {
    /// First pass: names, so that structs can refer to each other.
    fn declare(&mut self, text: &'a str) -> Result<(), String> {
        let (mut alias, mut prefix) = ("", "");
        for line in lines(text) {
            if let Some(rest) = line.strip_prefix("package ") {
                let mut words = rest.split(' ');
                alias = words.next().unwrap_or("");
                prefix = words.next().ok_or_else(|| format!("a package without a prefix: {line:?}"))?;
            } else if let Some(rest) = line.strip_prefix("struct ") {
                let name = rest.split(' ').next().unwrap_or("");
                let id = self.table.types.declare(Str::from([prefix, ".", name].concat()));
                self.ids.insert((alias, name), id);
                self.sizes.push(0);
            } else if line.starts_with(' ')
                && let Some(size) = self.sizes.last_mut()
            {
                *size += 1;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &'a str) -> Result<(), String> {
        if let Some(member) = line.strip_prefix(' ') {
            let (name, rest) = first_word(member);
            return if name == ">" { self.inline(rest) } else { self.field(name, rest) };
        }
        let (word, rest) = first_word(line);
        match word {
            "#" => Ok(()),
            "package" => {
                self.package = rest.split(' ').next().unwrap_or("");
                Ok(())
            }
            "struct" => self.start_struct(rest),
            "kind" => self.kind(rest),
            "group" => {
                let name = if rest == "-" { "" } else { rest };
                self.table.groups.push(Group { name: name.into(), versions: Vec::new() });
                Ok(())
            }
            "version" => self.version(rest),
            "resource" => self.resource(rest),
            "sub" => self.subresource(rest),
            "column" => self.column(rest),
            _ => Err("unknown line".into()),
        }
    }

    fn start_struct(&mut self, rest: &'a str) -> Result<(), String> {
        let mut words = rest.split(' ');
        let name = words.next().unwrap_or("");
        let id = self.find(name)?;
        let version = self.package.rsplit('.').next().unwrap_or("");
        let mut definition = Struct {
            go_name: [version, ".", name].concat().into(),
            fields: Vec::with_capacity(self.sizes.get(self.raw.len()).map_or(0, |size| size + TYPE_META_FIELDS)),
            ..Struct::default()
        };
        for attribute in words {
            match attribute.split_once('=') {
                Some(("map", value)) => definition.map_type = Some(map_type(value)?),
                Some(("union", value)) => definition.unions.push(union(value)?),
                _ => return Err(format!("unknown attribute {attribute:?}")),
            }
        }
        self.raw.push(Raw { id, definition, embedded: Vec::new() });
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Raw, String> {
        self.raw.last_mut().ok_or_else(|| "a field outside of a struct".into())
    }

    fn inline(&mut self, rest: &'a str) -> Result<(), String> {
        let (tag, name) = rest.split_once(' ').ok_or("an embedded struct without a name")?;
        let (tag, target) = (number(tag)?, self.find(name)?);
        let current = self.current()?;
        let at = current.definition.fields.len();
        current.embedded.push(Embedded { at, target });
        if tag > 0 {
            current.definition.proto_inlines.push(ProtoInline { tag, target });
        }
        Ok(())
    }

    fn field(&mut self, name: &'a str, rest: &'a str) -> Result<(), String> {
        let (tag, rest) = first_word(rest);
        let (flags, rest) = first_word(rest);
        let (shape, rest) = first_word(rest);
        let pointer = shape.starts_with('*');
        let mut node = self.node(shape.strip_prefix('*').unwrap_or(shape))?;
        attributes(&mut node, rest)?;
        let omit = omit(&node.shape, pointer, flags);
        let required = flags.as_bytes().contains(&b'r');
        let field = Field { name: name.into(), node, tag: number(tag)?, required, omit, pointer, no_defaults: false };
        self.current()?.definition.fields.push(field);
        Ok(())
    }

    /// A type.
    fn node(&self, spelled: &'a str) -> Result<Node, String> {
        let (proto_wrapped, spelled) = match spelled.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, spelled),
        };
        let (shape, rest) = if let Some(inner) = spelled.strip_prefix('[') {
            let end = inner.rfind(']').ok_or("an open bracket")?;
            (Shape::List(Box::new(self.node(&inner[..end])?)), &inner[end + 1..])
        } else if let Some(inner) = spelled.strip_prefix('{') {
            let end = inner.rfind('}').ok_or("an open brace")?;
            (Shape::Map(Box::new(self.node(&inner[..end])?)), &inner[end + 1..])
        } else {
            let end = spelled.as_bytes().iter().position(|b| *b == b'~').unwrap_or(spelled.len());
            (self.base(&spelled[..end])?, &spelled[end..])
        };
        let go_type = rest.strip_prefix('~').map(Str::from);
        Ok(Node { shape, proto_wrapped, go_type, ..Node::default() })
    }

    fn base(&self, name: &'a str) -> Result<Shape, String> {
        Ok(match name {
            "any" => Shape::Any,
            "raw" => Shape::RawExtension,
            "fields" => Shape::Fields,
            "bool" => Shape::Bool,
            "int32" => Shape::Int32,
            "int64" => Shape::Int64,
            "float64" => Shape::Float,
            "string" => Shape::String,
            "bytes" => Shape::Bytes,
            "intorstring" => Shape::IntOrString,
            "quantity" => Shape::Quantity,
            "time" => Shape::Time,
            "microtime" => Shape::MicroTime,
            "duration" => Shape::Duration,
            _ => match name.split_once(':') {
                None => Shape::Struct(self.find(name)?),
                Some(("orlist", target)) => Shape::StructOrList(self.find(target)?),
                Some(("orbool", target)) => Shape::StructOrBool(self.find(target)?),
                Some(("orstrings", target)) => Shape::StructOrStrings(self.find(target)?),
                Some((what, _)) => return Err(format!("unknown type {what:?}")),
            },
        })
    }

    fn find(&self, name: &'a str) -> Result<StructId, String> {
        let key = name.rsplit_once('.').unwrap_or((self.package, name));
        self.ids.get(&key).copied().ok_or_else(|| format!("no struct {name:?}"))
    }

    fn kind(&mut self, rest: &'a str) -> Result<(), String> {
        let mut words = rest.split(' ');
        let (Some(group_version), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
            return Err("a kind is a group version, a name and a struct".into());
        };
        let id = self.find(name)?;
        self.table.kinds.push((GroupVersion::parse(group_version)?.with_kind(kind), id));
        Ok(())
    }

    fn version(&mut self, rest: &'a str) -> Result<(), String> {
        let (name, state) = rest.split_once(' ').ok_or("a version is a name and on or off")?;
        let enabled = match state {
            "on" => true,
            "off" => false,
            _ => return Err(format!("neither on nor off: {state:?}")),
        };
        let group = self.table.groups.last_mut().ok_or("a version outside of a group")?;
        group.versions.push(Version { name: name.into(), enabled, resources: Vec::new() });
        Ok(())
    }

    fn resource(&mut self, rest: &'a str) -> Result<(), String> {
        let group = self.table.groups.last_mut().ok_or("a resource outside of a group")?;
        let group_version = GroupVersion::new(group.name.clone(), "");
        let version = group.versions.last_mut().ok_or("a resource outside of a version")?;
        let group_version = GroupVersion { version: version.name.clone(), ..group_version };
        let mut words = rest.split(' ');
        let mut next = || words.next().ok_or("a resource is plural, singular, kind, scope and verbs");
        let (plural, singular, kind, scope, verbs) = (next()?, next()?, next()?, next()?, next()?);
        let mut resource = Resource {
            name: group_version.with_resource(plural),
            singular: singular.into(),
            kind: group_version.with_kind(kind),
            namespaced: scope == "namespaced",
            verbs: split(verbs),
            enabled: version.enabled,
            ..Resource::default()
        };
        for attribute in words {
            match attribute.split_once('=') {
                Some(("short", value)) => resource.short_names = split(value),
                Some(("categories", value)) => resource.categories = split(value),
                Some(("hash", value)) => resource.storage_version_hash = value.into(),
                Some(("stored", value)) => resource.stored = Some(qualified(value, &group_version)?),
                _ => return Err(format!("unknown attribute {attribute:?}")),
            }
        }
        version.resources.push(resource);
        Ok(())
    }

    fn last_resource(&mut self) -> Result<&mut Resource, String> {
        let version = self.table.groups.last_mut().and_then(|g| g.versions.last_mut());
        Ok(version.and_then(|v| v.resources.last_mut()).ok_or("outside of a resource")?)
    }

    fn subresource(&mut self, rest: &'a str) -> Result<(), String> {
        let resource = self.last_resource()?;
        let mut words = rest.split(' ');
        let (Some(name), Some(verbs), Some(kind)) = (words.next(), words.next(), words.next()) else {
            return Err("a subresource is a name, verbs and a kind".into());
        };
        let own = resource.kind.group_version();
        let kind = qualified(kind, &own)?;
        resource.subresources.push(Subresource { name: name.into(), verbs: split(verbs), kind });
        Ok(())
    }

    fn column(&mut self, rest: &'a str) -> Result<(), String> {
        let resource = self.last_resource()?;
        let mut words = rest.splitn(4, ' ');
        let (Some(priority), Some(kind), Some(format), Some(name)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err("a column is a priority, a type, a format and a name".into());
        };
        let priority = priority.parse().map_err(|_| "not a number")?;
        let format = if format == "-" { "" } else { format };
        resource.columns.push(Column { name: name.into(), kind: kind.into(), format: format.into(), priority });
        Ok(())
    }

    /// Second pass: embedded structs are put in their place, and map types of structs reach the nodes that use them.
    fn finish(self) -> Result<Table, String> {
        let Reader { mut table, mut raw, .. } = self;
        let at: HashMap<StructId, usize> = raw.iter().enumerate().map(|(at, raw)| (raw.id, at)).collect();
        let map_types: HashMap<StructId, MapType> =
            raw.iter().filter_map(|raw| Some((raw.id, raw.definition.map_type?))).collect();
        let mut whole = Vec::with_capacity(raw.len());
        for index in 0..raw.len() {
            if raw[index].embedded.is_empty() {
                continue;
            }
            for (place, fields) in embedded(&raw, &at, index, 0)?.into_iter().rev() {
                whole.push((index, place, fields));
            }
        }
        for (index, place, fields) in whole {
            raw[index].definition.fields.splice(place..place, fields);
        }
        for raw in &mut raw {
            for field in &mut raw.definition.fields {
                inherit_map_type(&mut field.node, &map_types);
            }
            table.types.define(raw.id, std::mem::take(&mut raw.definition));
        }
        table.types.mark_defaults();
        Ok(table)
    }
}

/// Embedded structs nest a few levels at most; more means that one embeds itself.
const MAX_EMBEDDING: usize = 8;

/// apiVersion and kind, which every kind embeds.
const TYPE_META_FIELDS: usize = 2;

/// The fields of a struct's embedded structs, and where they go among its own. Their tags belong to another message.
fn embedded(
    raw: &[Raw],
    at: &HashMap<StructId, usize>,
    index: usize,
    depth: usize,
) -> Result<Vec<(usize, Vec<Field>)>, String> {
    if depth > MAX_EMBEDDING {
        return Err(format!("{} embeds itself", raw[index].definition.go_name));
    }
    let fields_of = |inner: &Embedded| {
        let target = *at.get(&inner.target).ok_or("an embedded struct is missing")?;
        let mut fields = raw[target].definition.fields.clone();
        for (place, theirs) in embedded(raw, at, target, depth + 1)?.into_iter().rev() {
            fields.splice(place..place, theirs);
        }
        fields.iter_mut().for_each(|field| field.tag = 0);
        Ok((inner.at, fields))
    };
    raw[index].embedded.iter().map(fields_of).collect()
}

fn inherit_map_type(node: &mut Node, map_types: &HashMap<StructId, MapType>) {
    match &mut node.shape {
        Shape::Struct(id) if !node.stated.map_type => node.map_type = map_types.get(id).copied().unwrap_or_default(),
        Shape::List(inner) | Shape::Map(inner) => inherit_map_type(inner, map_types),
        _ => {}
    }
}

/// When Go leaves the field out; see [`Omit`].
fn omit(shape: &Shape, pointer: bool, flags: &str) -> Omit {
    let omit_empty = flags.as_bytes().contains(&b'o');
    match shape {
        _ if flags.as_bytes().contains(&b'z') => Omit::Zero,
        _ if !omit_empty => Omit::Never,
        _ if pointer => Omit::Nil,
        Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Any | Shape::Fields => Omit::Nil,
        Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float | Shape::String => Omit::Zero,
        _ => Omit::Never,
    }
}

fn attributes(node: &mut Node, mut rest: &str) -> Result<(), String> {
    while !rest.is_empty() {
        if let Some(values) = rest.strip_prefix("enum=") {
            let enumeration = values.split('|').map(Value::from).collect();
            innermost(node).rules = Some(Box::new(Rules { enumeration, ..Rules::default() }));
            return Ok(());
        }
        let (attribute, more) = first_word(rest);
        rest = more;
        match attribute.split_once('=') {
            Some(("list", value)) => {
                node.list_type = list_type(value)?;
                node.stated.list_type = true;
            }
            Some(("map", value)) => {
                node.map_type = map_type(value)?;
                node.stated.map_type = true;
            }
            Some(("patch", value)) => patch(node, value)?,
            Some(("default", value)) => {
                node.default = Some(literal::parse(value)?);
                node.stated = Stated { default: true, ..node.stated };
            }
            Some(("sets", value)) => node.default = Some(literal::parse(value)?),
            _ => return Err(format!("unknown attribute {attribute:?}")),
        }
    }
    Ok(())
}

/// Enums restrict the values of lists and maps.
fn innermost(node: &mut Node) -> &mut Node {
    match node.shape {
        Shape::List(_) | Shape::Map(_) => match &mut node.shape {
            Shape::List(inner) | Shape::Map(inner) => innermost(inner),
            _ => unreachable!("matched just above"),
        },
        _ => node,
    }
}

fn list_type(text: &str) -> Result<ListType, String> {
    match text.split_once(':') {
        Some(("map", keys)) => Ok(ListType::Map(split(keys))),
        None if text == "atomic" => Ok(ListType::Atomic),
        None if text == "set" => Ok(ListType::Set),
        _ => Err(format!("unknown list type {text:?}")),
    }
}

fn map_type(text: &str) -> Result<MapType, String> {
    match text {
        "atomic" => Ok(MapType::Atomic),
        "granular" => Ok(MapType::Granular),
        _ => Err(format!("unknown map type {text:?}")),
    }
}

fn patch(node: &mut Node, text: &str) -> Result<(), String> {
    let (strategies, key) = text.split_once(':').unwrap_or((text, ""));
    for strategy in strategies.split(',') {
        match strategy {
            "merge" => node.patch_merge = true,
            "retainKeys" => node.patch_retain_keys = true,
            "replace" => node.patch_replace = true,
            _ => return Err(format!("unknown patch strategy {strategy:?}")),
        }
    }
    node.patch_merge_key = (!key.is_empty()).then(|| key.into());
    Ok(())
}

fn union(text: &str) -> Result<Union, String> {
    let (discriminator, members) = text.split_once(':').ok_or("a union without members")?;
    let members = members.split(',').map(|m| m.split_once('=').map(|(field, value)| (field.into(), value.into())));
    Ok(Union {
        discriminator: (!discriminator.is_empty()).then(|| discriminator.into()),
        members: members.collect::<Option<_>>().ok_or("a union member without a value")?,
    })
}

/// `Kind` of the group version at hand, or `group/version/Kind`.
fn qualified(text: &str, own: &GroupVersion) -> Result<GroupVersionKind, String> {
    match text.rsplit_once('/') {
        Some((group_version, kind)) => Ok(GroupVersion::parse(group_version)?.with_kind(kind)),
        None => Ok(own.with_kind(text)),
    }
}

/// The lines of the text. Ours are short and many, so finding their ends is a good part of reading the table.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', text.as_bytes()).map(move |end| {
        let line = &text[start..end];
        start = end + 1;
        line
    })
}

/// The text up to the first space, and what is behind it.
fn first_word(text: &str) -> (&str, &str) {
    match text.as_bytes().iter().position(|b| *b == b' ') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

fn split(list: &str) -> Vec<Str> {
    list.split(',').map(Str::from).collect()
}

fn number(tag: &str) -> Result<u32, String> {
    if tag == "-" { Ok(0) } else { tag.parse().map_err(|_| format!("not a tag: {tag:?}")) }
}
