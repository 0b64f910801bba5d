//! Red Hat's packages, written by the crate `rpm`.

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use super::contents::Contents;
use super::platform::Platform;
use super::{Release, VERSION, packaging};

/// What rpm's database says about the package.
const SUMMARY: &str = "The Kubernetes API server, in one small binary";

pub fn name(platform: &Platform) -> Option<String> {
    Some(format!("ferrokube-{VERSION}-1.{}.rpm", platform.rpm?))
}

pub fn write(release: &Release, platform: &Platform, contents: &Contents<'_>) -> Result<(), String> {
    let Some((name, architecture)) = name(platform).zip(platform.rpm) else { return Ok(()) };
    release.write(&name, &package(VERSION, release.seconds, architecture, contents)?).map(drop)
}

/// The bytes of a package.
pub fn package(version: &str, seconds: u64, architecture: &str, contents: &Contents<'_>) -> Result<Vec<u8>, String> {
    let wrong = |error: ::rpm::Error| format!("rpm: {error}");
    let seconds = u32::try_from(seconds).map_err(|error| error.to_string())?;
    let config = BuildConfig::default().source_date(seconds).compression(CompressionWithLevel::Gzip(9));
    let mut builder = PackageBuilder::new("ferrokube", version, "Apache-2.0", architecture, SUMMARY);
    builder.using_config(config).release("1").build_host("reproducible").description(SUMMARY);
    builder.requires(Dependency::any("shadow-utils"));
    for file in contents.installed("usr/share/zsh/site-functions")? {
        let permissions = u16::try_from(file.mode).map_err(|error| error.to_string())?;
        let options = FileOptions::new(format!("/{}", file.path)).permissions(permissions);
        let options = if file.is_settings { options.config().noreplace() } else { options };
        builder.with_file_contents(file.bytes, options).map_err(wrong)?;
    }
    builder.post_install_script(packaging("rpm/post")?);
    builder.pre_uninstall_script(packaging("rpm/preun")?);
    builder.post_uninstall_script(packaging("rpm/postun")?);
    let mut bytes = Vec::new();
    builder.build().map_err(wrong)?.write(&mut bytes).map_err(wrong)?;
    Ok(bytes)
}
