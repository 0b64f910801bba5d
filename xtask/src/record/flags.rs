//! The flags of a server, from what `--help` prints.

use serde_json::{Map, Value, json};

/// Every flag with its type and default, as they are printed: `--name type   text (default value)`. Those that have a letter too are about
/// the program itself and are left out.
pub fn read(help: &str) -> Map<String, Value> {
    let mut flags = Map::new();
    let mut name = String::new();
    for line in help.lines() {
        if let Some(rest) = line.strip_prefix("      --") {
            let (words, text) = rest.split_once("   ").unwrap_or((rest, ""));
            let (flag, kind) = words.split_once(' ').unwrap_or((words, "bool"));
            name = flag.to_string();
            flags.insert(flag.to_string(), json!({"default": default(text), "deprecated": false, "type": kind}));
        } else if line.starts_with("         ") {
            // The text goes on.
            if let (Some(value), Some(flag)) = (default(line), flags.get_mut(&name)) {
                flag["default"] = value.into();
            }
        } else {
            name.clear();
        }
    }
    flags
}

fn default(text: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once("(default ")?;
    rest.split_once(')').map(|(value, _)| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "\nGeneric flags:\n\n      --advertise-address ip            The address. (default \"::\")\n      \
        --feature-gates mapStringString   Pairs. Options are:\n                                        A=true|false (ALPHA - default=false)\n      \
        --profiling                       Enable profiling (default true)\n      --port int   No default.\n  -v, --v Level   Level\n      \
        --version version[=true]   Print it\n  -h, --help   help\n";

    #[test]
    fn flags_are_read_with_their_types_and_defaults() {
        let flags = read(HELP);
        let of = |name: &str| (flags[name]["type"].as_str().unwrap(), flags[name]["default"].as_str());
        assert_eq!(flags.len(), 5);
        assert_eq!(of("advertise-address"), ("ip", Some("\"::\"")));
        assert_eq!(of("feature-gates"), ("mapStringString", None));
        assert_eq!(of("profiling"), ("bool", Some("true")));
        assert_eq!(of("port"), ("int", None));
        assert_eq!(of("version"), ("version[=true]", None));
    }
}
