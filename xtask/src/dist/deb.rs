//! Debian packages: an `ar` archive of two tar archives, which is little enough to be written here (decision 023).

use super::archive::{Archive, gzip};
use super::contents::Contents;
use super::platform::Platform;
use super::{Release, VERSION, packaging};

/// What dpkg runs, in the order of a package's life.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

pub fn name(platform: &Platform) -> Option<String> {
    Some(format!("ferrokube_{VERSION}_{}.deb", platform.deb?))
}

pub fn write(release: &Release, platform: &Platform, contents: &Contents<'_>) -> Result<(), String> {
    let Some((name, architecture)) = name(platform).zip(platform.deb) else { return Ok(()) };
    release.write(&name, &package(VERSION, release.seconds, architecture, contents)?).map(drop)
}

/// The bytes of a package.
pub fn package(version: &str, seconds: u64, architecture: &str, contents: &Contents<'_>) -> Result<Vec<u8>, String> {
    let files = contents.installed("usr/share/zsh/vendor-completions")?;
    let mut data = Archive::new(seconds);
    let paths: Vec<String> = files.iter().map(|file| format!("./{}", file.path)).collect();
    data.folder(".", 0o755)?;
    data.folders_above(paths.iter().map(String::as_str))?;
    for (path, file) in paths.iter().zip(&files) {
        data.file(path, file.mode, &file.bytes)?;
    }
    let size: usize = files.iter().map(|file| file.bytes.len()).sum();
    let control = packaging("deb/control")?;
    let control = control.replace("{version}", version).replace("{architecture}", architecture);
    let control = control.replace("{installed-size}", &size.div_ceil(1024).to_string());
    let settings: String =
        files.iter().filter(|file| file.is_settings).map(|file| format!("/{}\n", file.path)).collect();
    let mut about = Archive::new(seconds);
    about.folder(".", 0o755)?;
    about.file("./control", 0o644, control.as_bytes())?;
    about.file("./conffiles", 0o644, settings.as_bytes())?;
    for script in SCRIPTS {
        about.file(&format!("./{script}"), 0o755, packaging(&format!("deb/{script}"))?.as_bytes())?;
    }
    let mut package = b"!<arch>\n".to_vec();
    for (name, bytes) in [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&about.finish()?)?),
        ("data.tar.gz", gzip(&data.finish()?)?),
    ] {
        let size = bytes.len();
        package.extend(format!("{name:<16}{seconds:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, "100644").bytes());
        package.extend(bytes);
        if size % 2 == 1 {
            package.push(b'\n');
        }
    }
    Ok(package)
}
