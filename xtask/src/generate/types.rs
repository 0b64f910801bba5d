//! What `go-fields.txt` and `defaults.txt` say, as read.
//!
//! `go-fields.txt` has three kinds of blocks: `kind group version Kind struct`, `struct name goName` with a line per field
//! (`json-name protobuf-tag json-flags type`), and `schema name` with what the OpenAPI definitions say of structs that the
//! recorded server does not serve.

use serde_json::Value as Json;

use super::{Named, Result, all_well};

#[derive(Default)]
pub struct Facts {
    pub kinds: Vec<Kind>,
    pub structs: Named<Struct>,
}

pub struct Kind {
    /// "" for core.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub definition: String,
}

#[derive(Default)]
pub struct Struct {
    pub go_name: String,
    pub items: Vec<Item>,
    pub map_type: Option<String>,
    pub unions: Vec<Union>,
    /// Whether an OpenAPI definition of it has been merged.
    pub described: bool,
}

/// The discriminator ("" for none), and each member field with its discriminator value.
pub type Union = (String, Vec<(String, String)>);

pub enum Item {
    /// An embedded struct: its protobuf tag ("-" where it is not on the wire) and its name.
    Inline {
        tag: String,
        target: String,
    },
    Field(Field),
}

#[derive(Default)]
pub struct Field {
    pub name: String,
    pub tag: String,
    pub flags: String,
    /// The type as the facts spell it: `*` pointer, `[x]` list, `{x}` map, `!` wrapped in protobuf, `~` Go name.
    pub shape: String,
    pub patch_strategy: String,
    pub patch_merge_key: String,
    pub list_type: Option<String>,
    pub list_keys: Vec<String>,
    pub map_type: Option<String>,
    pub enumeration: Vec<String>,
    pub required: bool,
    /// A default that the OpenAPI document states.
    pub default: Option<Json>,
    /// A default that only upstream's code knows.
    pub sets: Option<Json>,
}

impl Facts {
    pub fn parse(text: &str) -> Result<Facts> {
        let mut facts = Facts::default();
        let mut current = String::new();
        let mut in_schema = false;
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["kind", group, version, kind, definition] => facts.kinds.push(Kind {
                    group: if *group == "core" { String::new() } else { (*group).into() },
                    version: (*version).into(),
                    kind: (*kind).into(),
                    definition: (*definition).into(),
                }),
                ["struct", name, go_name] => {
                    current = (*name).into();
                    in_schema = false;
                    let new = Struct { go_name: (*go_name).into(), ..Struct::default() };
                    facts.structs.insert(current.clone(), new);
                }
                ["schema", name] => {
                    current = (*name).into();
                    in_schema = true;
                }
                ["", ..] => {
                    let target = facts.structs.get_mut(&current).ok_or_else(|| format!("no struct {current:?}"))?;
                    let read = if in_schema { target.describe(&line[1..]) } else { target.add(&words[1..]) };
                    read.map_err(|e| format!("{current}: {e}: {line:?}"))?;
                }
                _ => return Err(format!("go-fields.txt: what is {line:?}?")),
            }
        }
        Ok(facts)
    }

    /// Adds `definition.field = json` lines.
    pub fn add_defaults(&mut self, text: &str) -> Result<()> {
        let mut problems = Vec::new();
        for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            if let Err(problem) = self.add_default(line) {
                problems.push(format!("defaults.txt: {problem}: {line:?}"));
            }
        }
        all_well(problems)
    }

    fn add_default(&mut self, line: &str) -> Result<()> {
        let (place, value) = line.split_once(" = ").ok_or("not `definition.field = value`")?;
        let (name, field) = place.rsplit_once('.').ok_or("no field")?;
        let value: Json = serde_json::from_str(value).map_err(|e| e.to_string())?;
        let found = self.structs.get_mut(name).ok_or("no such struct")?.field_mut(field).ok_or("no such field")?;
        match (&found.default, &found.sets) {
            (None, None) => found.sets = Some(value),
            (Some(stated), _) if *stated != value => return Err(format!("the schema says {stated}")),
            (Some(_), _) => return Err("the schema says so already".into()),
            _ => return Err("said twice".into()),
        }
        Ok(())
    }

    /// The JSON fields of a struct, with those of its embedded structs in their place.
    pub fn all_fields<'a>(&'a self, name: &str) -> Vec<&'a Field> {
        let items = self.structs.get(name).map(|s| s.items.as_slice()).unwrap_or_default();
        items
            .iter()
            .flat_map(|item| match item {
                Item::Inline { target, .. } => self.all_fields(target),
                Item::Field(field) => vec![field],
            })
            .collect()
    }
}

impl Struct {
    pub fn field_mut(&mut self, name: &str) -> Option<&mut Field> {
        self.items.iter_mut().find_map(|item| match item {
            Item::Field(field) if field.name == name => Some(field),
            _ => None,
        })
    }

    fn add(&mut self, words: &[&str]) -> Result<()> {
        let [name, tag, flags, shape, attributes @ ..] = words else { return Err("too short".into()) };
        if *name == ">" {
            self.items.push(Item::Inline { tag: (*tag).into(), target: (*shape).into() });
            return Ok(());
        }
        let mut field = Field {
            name: (*name).into(),
            tag: (*tag).into(),
            flags: flags.trim_matches('-').into(),
            shape: (*shape).into(),
            ..Field::default()
        };
        for attribute in attributes {
            match attribute.split_once('=') {
                Some(("strategy", value)) => field.patch_strategy = value.into(),
                Some(("mergekey", value)) => field.patch_merge_key = value.into(),
                _ => return Err(format!("what is {attribute:?}?")),
            }
        }
        self.items.push(Item::Field(field));
        Ok(())
    }

    /// One line of a `schema` block.
    fn describe(&mut self, line: &str) -> Result<()> {
        self.described = true;
        let (name, rest) = line.split_once(' ').ok_or("too short")?;
        match name {
            "required" => {
                for field in rest.split(',') {
                    // A required field of an embedded struct is said at the embedded struct as well.
                    if let Some(field) = self.field_mut(field) {
                        field.required = true;
                    }
                }
                return Ok(());
            }
            "unions" => {
                let unions = serde_json::from_str(rest).map_err(|e| e.to_string())?;
                self.unions = super::openapi::unions(&unions)?;
                return Ok(());
            }
            "-" => {
                self.map_type = rest.strip_prefix("map=").map(Into::into);
                return Ok(());
            }
            _ => {}
        }
        // Enum values may hold spaces, so they come last.
        let Some(field) = self.field_mut(name) else { return Ok(()) };
        let (rest, enumeration) = rest.split_once("enum=").map_or((rest, None), |(rest, list)| (rest, Some(list)));
        field.enumeration = enumeration.iter().flat_map(|list| list.split(',')).map(Into::into).collect();
        for word in rest.split_whitespace() {
            match word.split_once('=') {
                Some(("list", value)) => field.list_type = Some(value.into()),
                Some(("keys", value)) => field.list_keys = value.split(',').map(Into::into).collect(),
                Some(("map", value)) => field.map_type = Some(value.into()),
                Some(("default", value)) => {
                    field.default = Some(serde_json::from_str(value).map_err(|e| e.to_string())?);
                }
                _ => return Err(format!("what is {word:?}?")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: &str = "\
kind core v1 Pod a.Pod
struct a.Meta v1.Meta
 name 1 o string
struct a.Pod v1.Pod
 > - - a.Meta
 items 2 o [string] strategy=merge mergekey=x
 mode 3 - *string
schema a.Pod
 items list=map keys=x,y
 mode enum=,A b
 required items
";

    #[test]
    fn facts_are_read() {
        let facts = Facts::parse(FACTS).unwrap();
        assert_eq!(facts.kinds[0].group, "");
        let fields = facts.all_fields("a.Pod");
        assert_eq!(fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["name", "items", "mode"]);
        assert_eq!((fields[1].list_type.as_deref(), fields[1].list_keys.len()), (Some("map"), 2));
        assert!(fields[1].required && !fields[2].required);
        assert_eq!(fields[2].enumeration, ["", "A b"]);
        assert_eq!(fields[1].patch_merge_key, "x");
    }

    #[test]
    fn defaults_must_name_a_field_and_say_something_new() {
        let problem = |line: &str| Facts::parse(FACTS).unwrap().add_defaults(line).unwrap_err();
        assert!(problem("a.Pod.nope = 1").contains("no such field"));
        assert!(problem("a.Nope.x = 1").contains("no such struct"));
        assert!(problem("a.Pod.mode = x").contains("expected value"));
        assert!(problem("a.Pod.mode = \"A\"\na.Pod.mode = \"A\"").contains("said twice"));
        let mut facts = Facts::parse(FACTS).unwrap();
        facts.add_defaults("# why\n\na.Pod.mode = \"A\"").unwrap();
        assert_eq!(facts.all_fields("a.Pod")[2].sets, Some("A".into()));
    }

    #[test]
    fn what_is_not_a_fact_is_refused() {
        for text in ["nonsense", "struct a.B v1.B\n x", " x 1 o string", "struct a.B v1.B\n x 1 o string what"] {
            assert!(Facts::parse(text).is_err(), "{text:?}");
        }
    }
}
