//! What every package installs: the program, its manual pages, completions, the unit and its settings.

use std::fs;
use std::process::Command;

use super::archive::{Archive, gzip};
use super::platform::Platform;
use super::{Release, VERSION, packaging, workspace};
use crate::conformance::{standard_output, target_folder};

/// A shell, and what its completion file is called.
const SHELLS: [(&str, &str); 4] =
    [("bash", "ferrokube.bash"), ("zsh", "_ferrokube"), ("fish", "ferrokube.fish"), ("powershell", "_ferrokube.ps1")];

/// What the program says about itself. It is the same on every platform, so that any program that runs here will do.
#[derive(Debug, Default)]
pub struct Pages {
    /// By name, such as `ferrokube.1`.
    pub manual: Vec<(String, Vec<u8>)>,
    pub completions: Vec<(&'static str, Vec<u8>)>,
}

impl Pages {
    pub fn of(release: &Release) -> Result<Pages, String> {
        let platforms = release.platforms();
        let here = platforms.into_iter().find(|platform| platform.runs_here());
        let program =
            release.program(here.ok_or("manual pages are written by the program, and none was made that runs here")?);
        let mut pages = Pages::default();
        for (shell, name) in SHELLS {
            let said = standard_output("completion", Command::new(&program).args(["completion", shell]))?;
            pages.completions.push((name, said.into_bytes()));
        }
        let folder = target_folder().join("dist").join("man");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        standard_output("man", Command::new(&program).arg("man").arg(&folder))?;
        for entry in fs::read_dir(&folder).map_err(|error| error.to_string())?.flatten() {
            let text = fs::read(entry.path()).map_err(|error| error.to_string())?;
            pages.manual.push((entry.file_name().to_string_lossy().into_owned(), text));
        }
        pages.manual.sort();
        Ok(pages)
    }
}

/// A file of a package for a whole system.
#[derive(Debug)]
pub struct Installed {
    /// Without a slash at the beginning.
    pub path: String,
    pub mode: u32,
    pub bytes: Vec<u8>,
    /// Whether an administrator changes it, and an upgrade must not.
    pub is_settings: bool,
}

#[derive(Debug)]
pub struct Contents<'a> {
    pub program: Vec<u8>,
    pub pages: &'a Pages,
}

impl Contents<'_> {
    /// `ferrokube-<version>-<triple>.tar.gz`, with everything in one folder.
    pub fn write_archive(&self, release: &Release, platform: &Platform) -> Result<(), String> {
        let folder = format!("ferrokube-{VERSION}-{}", platform.triple);
        let mut files = vec![("ferrokube".to_string(), 0o755, self.program.clone())];
        for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
            files.push((name.to_string(), 0o644, document(name)?));
        }
        let completions = self.pages.completions.iter();
        files.extend(completions.map(|(name, text)| (format!("completions/{name}"), 0o644, text.clone())));
        files.extend(self.pages.manual.iter().map(|(name, text)| (format!("man/man1/{name}"), 0o644, text.clone())));
        if platform.os == "linux" {
            for name in ["ferrokube.service", "ferrokube.env"] {
                files.push((format!("systemd/{name}"), 0o644, packaging(name)?.into_bytes()));
            }
        }
        let files: Vec<_> =
            files.into_iter().map(|(path, mode, bytes)| (format!("{folder}/{path}"), mode, bytes)).collect();
        let mut archive = Archive::new(release.seconds);
        archive.folders_above(files.iter().map(|(path, ..)| path.as_str()))?;
        for (path, mode, bytes) in &files {
            archive.file(path, *mode, bytes)?;
        }
        release.write(&format!("{folder}.tar.gz"), &gzip(&archive.finish()?)?).map(drop)
    }

    /// What Debian's and Red Hat's packages install, sorted by path.
    pub fn installed(&self, zsh_folder: &str) -> Result<Vec<Installed>, String> {
        let file = |path: &str, bytes: Vec<u8>| Installed { path: path.into(), mode: 0o644, bytes, is_settings: false };
        let settings = Installed {
            is_settings: true,
            ..file("etc/ferrokube/ferrokube.env", packaging("ferrokube.env")?.into_bytes())
        };
        let mut files = vec![
            Installed { mode: 0o755, ..file("usr/bin/ferrokube", self.program.clone()) },
            settings,
            file("usr/lib/systemd/system/ferrokube.service", packaging("ferrokube.service")?.into_bytes()),
            file("usr/share/doc/ferrokube/copyright", document("LICENSE")?),
            file("usr/share/doc/ferrokube/changelog.gz", gzip(&document("CHANGELOG.md")?)?),
        ];
        let zsh = format!("{zsh_folder}/_ferrokube");
        for (name, text) in &self.pages.completions {
            let path = match *name {
                "ferrokube.bash" => "usr/share/bash-completion/completions/ferrokube",
                "_ferrokube" => &zsh,
                "ferrokube.fish" => "usr/share/fish/vendor_completions.d/ferrokube.fish",
                _ => continue,
            };
            files.push(file(path, text.clone()));
        }
        for (name, text) in &self.pages.manual {
            files.push(file(&format!("usr/share/man/man1/{name}.gz"), gzip(text)?));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }
}

/// A file of the checkout's root.
pub fn document(name: &str) -> Result<Vec<u8>, String> {
    fs::read(workspace().join(name)).map_err(|error| format!("cannot read {name}: {error}"))
}
