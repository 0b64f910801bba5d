//! `cargo xtask dist`: what a release consists of, in `target/dist/<version>`.
//!
//! `target/dist/<version>/bin/<target triple>/ferrokube` are the programs; everything else is made of them.

mod archive;
mod build;
mod check;
mod contents;
mod deb;
mod formula;
mod languages;
mod oci;
mod options;
mod platform;
mod provenance;
mod rpm;
mod sbom;
mod seal;
mod tools;
mod zip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;

use crate::conformance::target_folder;
use options::{Options, Task};
use platform::{NOT_BUILT, Platform};

/// The one place that says it is the workspace's manifest.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a release is made of and where it goes.
pub struct Release {
    pub folder: PathBuf,
    pub commit: String,
    /// When the commit was made, in seconds since the epoch: the time of every file in every archive.
    pub seconds: u64,
    /// Where the files will be downloaded from; empty if that is not known.
    pub url: String,
    /// How hard packages for test programs are packed.
    pub level: Compression,
}

pub fn run(arguments: &[String]) -> Result<String, String> {
    let options = Options::parse(arguments)?;
    let release = Release::here(&options.url)?;
    match &options.task {
        Task::Make => make(&release, &options),
        Task::Seal => seal::run(&release, options.key.as_deref()).map(|()| release.listing()),
        Task::NewKey(path) => seal::new_key(path),
        Task::Check(names) => check::run(&release, names),
    }
}

/// Builds what can be built here and packs it.
fn make(release: &Release, options: &Options) -> Result<String, String> {
    fs::create_dir_all(&release.folder).map_err(|error| format!("{}: {error}", release.folder.display()))?;
    let mut without: Vec<String> = NOT_BUILT.iter().map(|(what, why)| format!("{what}: {why}")).collect();
    let mut built = Vec::new();
    for platform in &options.platforms {
        match build::program(release, platform, options) {
            Ok(said) => built.push((platform, said)),
            Err(why) if options.are_chosen => return Err(format!("{}: {why}", platform.triple)),
            Err(why) => without.push(format!("{}: {why}", platform.triple)),
        }
    }
    let pages = contents::Pages::of(release)?;
    for (platform, _) in &built {
        let program = release.program(platform);
        let bytes = fs::read(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        let contents = contents::Contents { program: bytes, pages: &pages };
        contents.write_archive(release, platform)?;
        if platform.deb.is_some() {
            deb::write(release, platform, &contents)?;
            rpm::write(release, platform, &contents)?;
        }
        sbom::write(release, platform)?;
        languages::write(release, platform)?;
    }
    without.extend(languages::write_common(release)?);
    seal::run(release, options.key.as_deref())?;
    let built = built.iter().map(|(platform, said)| format!("{}: {said}", platform.triple));
    let built = built.collect::<Vec<_>>().join("\n");
    Ok(format!("{built}\n\n{}\n\nnot made:\n{}", release.listing(), without.join("\n")))
}

/// `cargo xtask suites [name…]`: the packages for test programs, made of the program that is there, and the example of each
/// language in an empty project.
pub fn suites(program: &Path, names: &[String]) -> Result<String, String> {
    check::languages::of_program(program, names)
}

impl Release {
    #[cfg(test)]
    fn of_nothing() -> Release {
        Release {
            folder: PathBuf::new(),
            commit: String::new(),
            seconds: 0,
            url: String::new(),
            level: Compression::fast(),
        }
    }

    fn here(url: &str) -> Result<Release, String> {
        let seconds = git(&["log", "-1", "--format=%ct"])?;
        Ok(Release {
            folder: target_folder().join("dist").join(VERSION),
            commit: git(&["rev-parse", "HEAD"])?,
            seconds: seconds.parse().map_err(|_| format!("{seconds} is no time"))?,
            url: url.trim_end_matches('/').to_string(),
            level: Compression::best(),
        })
    }

    /// Where the program of a platform is.
    pub fn program(&self, platform: &Platform) -> PathBuf {
        self.folder.join("bin").join(platform.triple).join("ferrokube")
    }

    /// The platforms whose programs have been made.
    pub fn platforms(&self) -> Vec<&'static Platform> {
        platform::PLATFORMS.iter().filter(|platform| self.program(platform).is_file()).collect()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }

    /// The files that are published, by name; the programs themselves are inside of the archives.
    pub fn files(&self) -> Result<Vec<String>, String> {
        let entries = fs::read_dir(&self.folder).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let files = entries.flatten().filter(|entry| entry.path().is_file());
        let mut names: Vec<String> = files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    fn listing(&self) -> String {
        let size = |name: &String| fs::metadata(self.folder.join(name)).map_or(0, |data| data.len());
        let lines = self.files().unwrap_or_default();
        let lines = lines.iter().map(|name| format!("{:>12}  {name}", size(name)));
        format!("{}:\n{}", self.folder.display(), lines.collect::<Vec<_>>().join("\n"))
    }
}

/// Cargo, about to build for this machine as releases are built, and where the results will be.
pub fn builder(target: &Path) -> Result<(Command, PathBuf), String> {
    let here = platform::PLATFORMS.iter().find(|platform| platform.runs_here());
    let here = here.ok_or("no releases are made for this machine")?;
    Ok((build::command(here, workspace(), target)?, target.join(here.triple)))
}

/// The checkout's folder.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// A file of `packaging/`.
pub fn packaging(name: &str) -> Result<String, String> {
    let path = workspace().join("packaging").join(name);
    fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").arg("-C").arg(workspace()).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

#[cfg(test)]
mod tests;
