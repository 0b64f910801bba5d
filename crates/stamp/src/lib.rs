//! [`stamp!`]: which commit a program is built from.
//!
//! A build script would do, but Cargo compiles everything in a package again when its build script says something new. This macro is
//! expanded in the program's `main.rs` alone, so that a commit compiles that file and nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro::TokenStream;

/// Expands to `(commit, state, seconds)` of the type `(&str, &str, Option<&str>)`: the commit, whether the tree was `clean` or `dirty`, and when
/// it was made, in seconds since the epoch. `SOURCE_DATE_EPOCH` replaces the seconds. Without git, or outside of the project's own repository,
/// the commit is empty and the state is `archive`. The same commit gives the same answer wherever and whenever it is built.
#[proc_macro]
pub fn stamp(_: TokenStream) -> TokenStream {
    let Commit { id, state, seconds, watched } = commit().unwrap_or_default();
    let seconds = if seconds.is_empty() { "None".to_string() } else { format!("Some({seconds:?})") };
    // A file that a constant includes is one that Cargo looks at; nothing of it gets into the program.
    let watched: String = watched.iter().map(|path| format!("const _: &[u8] = include_bytes!({path:?});")).collect();
    let text = format!(
        "{{ {watched} ({id:?}, {state:?}, match option_env!(\"SOURCE_DATE_EPOCH\") {{ Some(seconds) => Some(seconds), None => {seconds} }}) }}"
    );
    text.parse().unwrap_or_default()
}

struct Commit {
    id: String,
    state: &'static str,
    seconds: String,
    /// Files that change with the commit.
    watched: Vec<PathBuf>,
}

impl Default for Commit {
    fn default() -> Commit {
        Commit { id: String::new(), state: "archive", seconds: String::new(), watched: Vec::new() }
    }
}

/// None without git, and where the sources are not in git: they may be below somebody else's repository.
fn commit() -> Option<Commit> {
    git(&["ls-files", "--error-unmatch", "src/lib.rs"])?;
    let state = if git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() { "clean" } else { "dirty" };
    let watched = ["HEAD", "logs/HEAD"].iter().filter_map(|name| git(&["rev-parse", "--git-path", name]));
    let watched = watched.map(|path| folder().join(path)).filter(|path| path.is_file()).collect();
    Some(Commit { id: git(&["rev-parse", "HEAD"])?, state, seconds: git(&["log", "-1", "--format=%ct"])?, watched })
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a git command prints; None if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder()).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
