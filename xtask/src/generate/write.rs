//! The table as text. `crates/schema/src/table.rs` reads it and documents the format.

use std::fmt::Write;

use super::apis::{Group, Resource};
use super::types::{Facts, Field, Item, Struct};

const HEAD: &str = "\
# Kubernetes v1.37: every built-in type and resource. Written by `cargo xtask generate`; do not edit.
# The format is documented where it is read, in crates/schema/src/table.rs.
";

pub fn table(facts: &Facts, groups: &[Group]) -> String {
    let mut out = String::from(HEAD);
    structs(&mut out, facts);
    for kind in &facts.kinds {
        let group_version = group_version(&kind.group, &kind.version);
        line(&mut out, format_args!("kind {group_version} {} {}", kind.kind, short(&kind.definition, "")));
    }
    for group in groups {
        line(&mut out, format_args!("group {}", if group.name.is_empty() { "-" } else { &group.name }));
        for version in &group.versions {
            line(&mut out, format_args!("version {} {}", version.name, if version.enabled { "on" } else { "off" }));
            version.resources.iter().for_each(|r| resource(&mut out, r));
        }
    }
    out
}

fn structs(out: &mut String, facts: &Facts) {
    let mut package = "";
    for (name, definition) in &facts.structs {
        let (own_package, own_name) = name.rsplit_once('.').unwrap_or(("", name));
        if own_package != package {
            package = own_package;
            let go_package = definition.go_name.split('.').next().unwrap_or_default();
            line(out, format_args!("package {} {package} {go_package}", alias(package)));
        }
        struct_line(out, own_name, definition);
        for item in &definition.items {
            match item {
                Item::Inline { tag, target } => line(out, format_args!(" > {tag} {}", short(target, package))),
                Item::Field(field) => field_line(out, field, package),
            }
        }
    }
}

fn struct_line(out: &mut String, name: &str, definition: &Struct) {
    let mut text = format!("struct {name}");
    if let Some(map_type) = &definition.map_type {
        text += &format!(" map={map_type}");
    }
    for (discriminator, members) in &definition.unions {
        let members: Vec<String> = members.iter().map(|(field, value)| format!("{field}={value}")).collect();
        text += &format!(" union={discriminator}:{}", members.join(","));
    }
    line(out, format_args!("{text}"));
}

fn field_line(out: &mut String, field: &Field, package: &str) {
    let mut flags = field.flags.clone();
    if field.required {
        flags.push('r');
    }
    let flags = if flags.is_empty() { "-" } else { &flags };
    let mut text = format!(" {} {} {flags} {}", field.name, field.tag, shape(&field.shape, package));
    match &field.list_type {
        Some(kind) if field.list_keys.is_empty() => text += &format!(" list={kind}"),
        Some(kind) => text += &format!(" list={kind}:{}", field.list_keys.join(",")),
        None => {}
    }
    if let Some(map_type) = &field.map_type {
        text += &format!(" map={map_type}");
    }
    match (field.patch_strategy.as_str(), field.patch_merge_key.as_str()) {
        ("", _) => {}
        (strategy, "") => text += &format!(" patch={strategy}"),
        (strategy, key) => text += &format!(" patch={strategy}:{key}"),
    }
    if let Some(default) = &field.default {
        text += &format!(" default={default}");
    }
    if let Some(default) = &field.sets {
        text += &format!(" sets={default}");
    }
    if !field.enumeration.is_empty() {
        text += &format!(" enum={}", field.enumeration.join("|"));
    }
    line(out, format_args!("{text}"));
}

fn resource(out: &mut String, resource: &Resource) {
    let scope = if resource.namespaced { "namespaced" } else { "cluster" };
    let mut text = format!("resource {} {} {} {scope}", resource.plural, resource.singular, resource.kind);
    text += &format!(" {}", resource.verbs.join(","));
    if !resource.short_names.is_empty() {
        text += &format!(" short={}", resource.short_names.join(","));
    }
    if !resource.categories.is_empty() {
        text += &format!(" categories={}", resource.categories.join(","));
    }
    if let (Some(hash), Some((group, version, kind))) = (&resource.hash, &resource.stored) {
        text += &format!(" stored={}/{kind} hash={hash}", group_version(group, version));
    }
    line(out, format_args!("{text}"));
    for sub in &resource.subresources {
        let (group, version, kind) = &sub.kind;
        let prefix = if version.is_empty() { String::new() } else { group_version(group, version) + "/" };
        line(out, format_args!("sub {} {} {prefix}{kind}", sub.name, sub.verbs.join(",")));
    }
    for column in &resource.columns {
        let format = if column.format.is_empty() { "-" } else { &column.format };
        line(out, format_args!("column {} {} {format} {}", column.priority, column.kind, column.name));
    }
}

/// A type with short struct names and without the Go names that follow from it.
fn shape(facts_shape: &str, package: &str) -> String {
    let (prefix, rest) = facts_shape.split_at(facts_shape.len() - facts_shape.trim_start_matches(['*', '!']).len());
    let (inner, go_name) = match rest.chars().next() {
        Some(open @ ('[' | '{')) => {
            let close = if open == '[' { ']' } else { '}' };
            // A Go name may hold brackets of its own: `{x}~map[a]b`. The matching one ends the type.
            let end = matching(rest, open, close);
            let element = shape(&rest[1..end], package);
            (format!("{open}{element}{close}"), rest[end + 1..].strip_prefix('~'))
        }
        _ => {
            let (base, go_name) = rest.split_once('~').map_or((rest, None), |(base, go_name)| (base, Some(go_name)));
            // Only field tracking looks into these; everything else passes them on.
            let base = if go_name == Some("v1.FieldsV1") { "fields" } else { base };
            let spelled = match base.split_once(':') {
                Some((base, target)) => format!("{base}:{}", short(target, package)),
                None => short(base, package),
            };
            (spelled, go_name.filter(|name| *name != usual_go_name(base)))
        }
    };
    match go_name {
        Some(name) => format!("{prefix}{inner}~{name}"),
        None => format!("{prefix}{inner}"),
    }
}

fn matching(text: &str, open: char, close: char) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == open) - i32::from(c == close);
        if depth == 0 {
            return at;
        }
    }
    text.len() - 1
}

fn usual_go_name(base: &str) -> &str {
    match base {
        "time" => "v1.Time",
        "microtime" => "v1.MicroTime",
        "duration" => "v1.Duration",
        "quantity" => "resource.Quantity",
        "intorstring" => "intstr.IntOrString",
        "raw" => "runtime.RawExtension",
        _ => "",
    }
}

/// A definition's name with its package's alias, or without any where it is `package`'s own.
fn short(name: &str, package: &str) -> String {
    match name.rsplit_once('.') {
        Some((own, rest)) if own == package => rest.into(),
        Some((own, rest)) => format!("{}.{rest}", alias(own)),
        None => name.into(),
    }
}

/// The last two parts of a package's path, or three where `api` says nothing.
fn alias(package: &str) -> &str {
    let tail = |parts: usize| package.rmatch_indices('.').nth(parts - 1).map_or(package, |(at, _)| &package[at + 1..]);
    if tail(2).starts_with("api.") { tail(3) } else { tail(2) }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.into() } else { format!("{group}/{version}") }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_shortened() {
        const CORE: &str = "io.k8s.api.core.v1";
        for (facts, want) in [
            ("string", "string"),
            ("*string~v1.PullPolicy", "*string~v1.PullPolicy"),
            ("*time~v1.Time", "*time"),
            ("[io.k8s.api.core.v1.Container]", "[Container]"),
            ("*io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", "*meta.v1.LabelSelector"),
            ("{quantity~resource.Quantity}~v1.ResourceList", "{quantity}~v1.ResourceList"),
            ("{string}~map[v1.Name]string", "{string}~map[v1.Name]string"),
            ("{![string]~v1.ExtraValue}", "{![string]~v1.ExtraValue}"),
            ("[[string]]", "[[string]]"),
            ("*orlist:io.k8s.api.core.v1.X~v1.Y", "*orlist:X~v1.Y"),
            ("*any~v1.FieldsV1", "*fields~v1.FieldsV1"),
        ] {
            assert_eq!(shape(facts, CORE), want);
        }
    }

    #[test]
    fn packages_have_short_names() {
        assert_eq!(alias("io.k8s.api.core.v1"), "core.v1");
        assert_eq!(alias("io.k8s.pod-security-admission.admission.api.v1"), "admission.api.v1");
    }
}
