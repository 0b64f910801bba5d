//! The command line of `cargo xtask dist`.

use std::path::PathBuf;

use super::VERSION;
use super::platform::{PLATFORMS, Platform};

const USAGE: &str = "\
usage: cargo xtask dist [--target TRIPLE]… [--binary TRIPLE=FILE]… [--reproduce] [--tag TAG] [--sign KEYFILE] [--url BASE]
       cargo xtask dist --seal [--tag TAG] [--sign KEYFILE] [--url BASE]
       cargo xtask dist --new-key KEYFILE
       cargo xtask dist --check [NAME…]

  --target TRIPLE        make only this platform, and fail if it cannot be made here
  --binary TRIPLE=FILE   take this program instead of building it
  --reproduce            build every program a second time, in another folder, and compare
  --tag TAG              fail if this is not the tag of the version that is made
  --sign KEYFILE         a minisign key without a password, which signs SHA256SUMS
  --url BASE             where the files will be; install.sh and the formula download from there
  --seal                 only what is made of all packages that are there: image, install.sh, formula, sums, signature
  --check                install and try what was made";

#[derive(Debug, Default)]
pub struct Options {
    pub task: Task,
    pub platforms: Vec<&'static Platform>,
    /// Whether platforms were asked for, so that it is an error if one cannot be made.
    pub are_chosen: bool,
    pub binaries: Vec<(&'static Platform, PathBuf)>,
    pub reproduce: bool,
    pub key: Option<PathBuf>,
    pub url: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub enum Task {
    #[default]
    Make,
    Seal,
    NewKey(PathBuf),
    Check(Vec<String>),
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, mut inline) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (argument.as_str(), None),
            };
            let mut value =
                || inline.take().or_else(|| rest.next().cloned()).ok_or(format!("{name} needs a value\n{USAGE}"));
            match name {
                "--target" => options.choose(Platform::named(&value()?)?),
                "--binary" => {
                    let value = value()?;
                    let (triple, file) = value.split_once('=').ok_or(format!("{value} is not TRIPLE=FILE"))?;
                    let platform = Platform::named(triple)?;
                    options.choose(platform);
                    options.binaries.push((platform, file.into()));
                }
                "--reproduce" => options.reproduce = true,
                "--tag" => check_tag(&value()?)?,
                "--sign" => options.key = Some(value()?.into()),
                "--url" => options.url = value()?,
                "--seal" => options.task = Task::Seal,
                "--new-key" => options.task = Task::NewKey(value()?.into()),
                "--check" => options.task = Task::Check(Vec::new()),
                _ => match &mut options.task {
                    Task::Check(names) if !name.starts_with('-') => names.push(argument.clone()),
                    _ => return Err(format!("{argument}?\n{USAGE}")),
                },
            }
        }
        options.are_chosen = !options.platforms.is_empty();
        if !options.are_chosen {
            options.platforms = PLATFORMS.iter().collect();
        }
        Ok(options)
    }

    fn choose(&mut self, platform: &'static Platform) {
        if !self.platforms.contains(&platform) {
            self.platforms.push(platform);
        }
    }
}

fn check_tag(tag: &str) -> Result<(), String> {
    let wanted = format!("v{VERSION}");
    if tag == wanted { Ok(()) } else { Err(format!("the tag is {tag}, and Cargo.toml has the version of {wanted}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let check = |line: &str, want: Result<(Task, usize, bool), &str>| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            let got =
                Options::parse(&arguments).map(|options| (options.task, options.platforms.len(), options.reproduce));
            let got = got.map_err(|why| why.lines().next().unwrap_or("").to_string());
            assert_eq!(got, want.map_err(str::to_string), "{line}");
        };
        check("", Ok((Task::Make, PLATFORMS.len(), false)));
        check("--target=x86_64-unknown-linux-musl --reproduce", Ok((Task::Make, 1, true)));
        check("--binary x86_64-unknown-linux-musl=a/b --target x86_64-unknown-linux-musl", Ok((Task::Make, 1, false)));
        check("--seal --sign k --url https://a/", Ok((Task::Seal, PLATFORMS.len(), false)));
        check("--new-key k", Ok((Task::NewKey("k".into()), PLATFORMS.len(), false)));
        check("--check deb", Ok((Task::Check(vec!["deb".into()]), PLATFORMS.len(), false)));
        check(&format!("--tag v{VERSION}"), Ok((Task::Make, PLATFORMS.len(), false)));
        check("--tag v0.0.9", Err(&format!("the tag is v0.0.9, and Cargo.toml has the version of v{VERSION}")));
        check("--sign", Err("--sign needs a value"));
        check("--binary x86_64-unknown-linux-musl", Err("x86_64-unknown-linux-musl is not TRIPLE=FILE"));
        check("deb", Err("deb?"));
        check("--fast", Err("--fast?"));
    }
}
