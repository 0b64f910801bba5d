//! Starts API servers one after the other, puts the same load on each over HTTP/2 and TLS, and writes down what it cost:
//! requests per second, latencies, CPU time of the server's processes per request, and memory.

mod admission;
mod client;
mod fairness;
mod load;
mod objects;
mod report;
mod scenarios;
mod streams;
mod target;
mod watchers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use target::Kind;

/// How often two builds of ferrokube are measured in turn.
const ROUNDS: usize = 3;

/// What to compare, and for how long.
#[derive(Parser, Clone)]
pub struct Arguments {
    #[arg(long)]
    pub ferrokube: PathBuf,
    /// An earlier build of ferrokube: both are measured in turn, and nothing else.
    #[arg(long)]
    pub earlier: Option<PathBuf>,
    #[arg(long)]
    pub kube_apiserver: Option<PathBuf>,
    #[arg(long)]
    pub etcd: Option<PathBuf>,
    /// Seconds for each load.
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// How many pods of about 4 KB are listed.
    #[arg(long, default_value_t = 5000)]
    pub pods: usize,
    /// Only these targets: ferrokube, ferrokube-etcd, kube-apiserver.
    #[arg(long)]
    pub only: Vec<String>,
    /// Only how one user's load affects another user.
    #[arg(long)]
    pub fairness: bool,
    /// Only streams.
    #[arg(long)]
    pub streams: bool,
    /// Where the report goes.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// How the components were built, for the report.
    #[arg(long, default_value = "")]
    pub versions: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    match runtime.block_on(run(&arguments)) {
        Ok(text) => {
            eprintln!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => fail(&why),
    }
}

async fn run(arguments: &Arguments) -> Result<String, String> {
    if arguments.fairness {
        return fairness::run(arguments).await;
    }
    if arguments.earlier.is_some() {
        return compare(arguments).await;
    }
    let mut results = Vec::new();
    for kind in [Kind::KubeApiserver, Kind::Ferrokube, Kind::FerrokubeOnEtcd] {
        let wanted = arguments.only.is_empty() || arguments.only.iter().any(|name| name == kind.name());
        if !wanted || !kind.is_possible(arguments) {
            continue;
        }
        eprintln!("== {}", kind.name());
        results.push((kind, scenarios::all(arguments, kind).await?));
    }
    let text = report::table(arguments, &results);
    if let Some(path) = &arguments.out {
        std::fs::write(path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(text)
}

/// Both builds in turn, several times: of each line the run with the least CPU counts, which other processes disturbed least.
async fn compare(arguments: &Arguments) -> Result<String, String> {
    let mut best: Vec<(Kind, scenarios::Measured)> = Vec::new();
    for round in 1..=ROUNDS {
        for kind in [Kind::Earlier, Kind::Ferrokube] {
            eprintln!("== {}, round {round} of {ROUNDS}", kind.name());
            let measured = scenarios::all(arguments, kind).await?;
            match best.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, known)) => known.keep_best(measured),
                None => best.push((kind, measured)),
            }
        }
    }
    Ok(report::comparison(arguments, &best))
}

fn fail(why: &str) -> ExitCode {
    eprintln!("bench: {why}");
    ExitCode::FAILURE
}
