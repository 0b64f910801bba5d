//! kube-apiserver's flags, one a line: `name type default`, `-` for no default, `!` in front of a deprecated name.

use serde_json::Value;

/// `recorded` has each flag by its name.
pub fn table(recorded: &Value) -> Result<String, String> {
    let flags = recorded.as_object().ok_or("flags.json is no object")?;
    let mut out =
        String::from("# Written by `cargo xtask generate`; do not edit. `name type default`, `!` is deprecated.\n");
    for (name, flag) in flags {
        let deprecated = if flag["deprecated"].as_bool() == Some(true) { "!" } else { "" };
        let kind = flag["type"].as_str().unwrap_or("string");
        let default = flag["default"].as_str().unwrap_or("-");
        out.push_str(&format!("{deprecated}{name} {kind} {default}\n"));
    }
    Ok(out)
}
