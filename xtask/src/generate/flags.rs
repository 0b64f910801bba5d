//! kube-apiserver's flags, one a line: `name type default`, `-` for no default, `!` in front of a deprecated name.

use serde_json::Value;

/// `recorded` is the text of flags.json.
pub fn table(recorded: &str) -> Result<String, String> {
    let flags: serde_json::Map<String, Value> = serde_json::from_str(recorded).map_err(|error| error.to_string())?;
    let mut out =
        String::from("# Written by `cargo xtask generate`; do not edit. `name type default`, `!` is deprecated.\n");
    for (name, flag) in &flags {
        let deprecated = if flag["deprecated"].as_bool() == Some(true) { "!" } else { "" };
        let kind = flag["type"].as_str().unwrap_or("string");
        let default = flag["default"].as_str().unwrap_or("-");
        out.push_str(&format!("{deprecated}{name} {kind} {default}\n"));
    }
    Ok(out)
}
