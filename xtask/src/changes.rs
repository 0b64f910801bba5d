//! `cargo xtask changes <version> <version>`: what a version of Kubernetes changed, read from the published modules of both, written to
//! `docs/versions/<minor>.md`. It works for versions of which `k8s.io/kubernetes` is not published yet, and builds nothing.

mod published;
mod report;

use std::fs;
use std::path::Path;

use published::{PublishedModules, PublishedVersion};

pub fn run(arguments: &[String]) -> Result<String, String> {
    let [before, after] = arguments else {
        return Err("usage: cargo xtask changes <version, such as 1.37.1> <version, such as 1.38.0-alpha.2>".into());
    };
    let minor = minor(after)?;
    let (old, new) = (PublishedModules::of(before)?, PublishedModules::of(after)?);
    let missing = [old.missing.clone(), new.missing.clone()].concat();
    let (old, new) = (old.without(&missing), new.without(&missing));
    let (old, new) = (PublishedVersion::read(&old)?, PublishedVersion::read(&new)?);
    let text = report::write((before, &old), (after, &new), &minor, &missing);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/versions").join(format!("{minor}.md"));
    let folder = path.parent().ok_or("the report has no folder")?;
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(failed)?;
    Ok(path.display().to_string())
}

/// `1.38` of `1.38.0-alpha.2`.
fn minor(version: &str) -> Result<String, String> {
    let mut parts = version.split(['.', '-']);
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match is_number(major) && is_number(minor) {
        true => Ok(format!("{major}.{minor}")),
        false => Err(format!("{version} is no version of Kubernetes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_named_after_the_minor_version() {
        assert_eq!(minor("1.38.0-alpha.2").as_deref(), Ok("1.38"));
        assert_eq!(minor("1.37.1").as_deref(), Ok("1.37"));
        assert!(minor("v1.37").is_err() && minor("../1.2").is_err() && minor("1").is_err());
    }
}
