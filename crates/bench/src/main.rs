//! Starts API servers one after the other, puts the same load on each over HTTP/2 and TLS, and writes down what it cost:
//! requests per second, latencies, CPU time of the server's processes per request, and memory.

mod admission;
mod client;
mod custom;
mod definitions;
mod fairness;
mod greedy;
mod lists;
mod load;
mod objects;
mod report;
mod scale;
mod scenarios;
mod streams;
mod tail;
mod target;
mod tls;
mod watchers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use report::Line;
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
    #[arg(long)]
    pub kine: Option<PathBuf>,
    /// Seconds for each load.
    #[arg(long, default_value_t = 3)]
    pub seconds: u64,
    /// How many pods of about 4 KB are listed.
    #[arg(long, default_value_t = 5000)]
    pub pods: usize,
    /// How many config maps are created: the same for every server, so that memory can be compared afterwards.
    #[arg(long, default_value_t = 20_000)]
    pub config_maps: u64,
    /// How many pods and config maps a large cluster has.
    #[arg(long, default_value_t = 80_000)]
    pub scale_pods: u64,
    #[arg(long, default_value_t = 60_000)]
    pub scale_config_maps: u64,
    /// How many small pods are counted, sorted and searched.
    #[arg(long, default_value_t = 100_000)]
    pub listed_pods: u64,
    /// How many custom resource definitions are installed.
    #[arg(long, default_value_t = 2000)]
    pub definitions: u64,
    /// For how long the tail is looked at.
    #[arg(long, default_value_t = 20)]
    pub tail_seconds: u64,
    /// A tenth of everything, to see that it works.
    #[arg(long)]
    pub quick: bool,
    /// Only these targets: kube-apiserver, kube-apiserver-kine, ferrokube, ferrokube-etcd.
    #[arg(long)]
    pub only: Vec<String>,
    /// Only how one user's load affects another user.
    #[arg(long)]
    pub fairness: bool,
    /// Only greedy clients, of the server at this port, until the standard input is closed.
    #[arg(long)]
    pub greedy: Option<u16>,
    /// What greedy clients do when they are refused.
    #[arg(long, value_enum, default_value = "wait")]
    pub refused: greedy::Manners,
    /// Only these parts.
    #[arg(long, value_enum, default_values_t = [Part::Loads, Part::Custom, Part::Definitions, Part::Tail, Part::Scale, Part::Streams, Part::Lists])]
    pub parts: Vec<Part>,
    /// Only the loads whose name contains one of these texts. Pods are always created.
    #[arg(long)]
    pub loads: Vec<String>,
    /// Where the report goes.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// How the components were built, for the report.
    #[arg(long, default_value = "")]
    pub versions: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// One kind of request at a time.
    Loads,
    /// Custom resources beside config maps.
    Custom,
    /// Thousands of custom resource definitions.
    Definitions,
    /// Latencies at a steady rate, over time.
    Tail,
    /// A large cluster.
    Scale,
    /// What is spoken after an upgrade.
    Streams,
    /// Parameters of lists.
    Lists,
}

impl Arguments {
    /// Whether a load was asked for.
    pub fn wants(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|text| load.contains(text.as_str()))
    }

    fn shortened(mut self) -> Arguments {
        if self.quick {
            self.seconds = 1;
            self.pods /= 10;
            self.config_maps /= 10;
            self.definitions /= 10;
            self.listed_pods /= 10;
            self.scale_pods /= 10;
            self.scale_config_maps /= 10;
            self.tail_seconds = 10;
        }
        self
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse().shortened();
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
    if let Some(port) = arguments.greedy {
        return greedy::run(port, arguments.refused).await.map(|()| String::new());
    }
    if arguments.fairness {
        return fairness::run(arguments).await;
    }
    if arguments.earlier.is_some() {
        return compare(arguments).await;
    }
    let mut results = Vec::new();
    for kind in [Kind::KubeApiserver, Kind::KubeApiserverOnKine, Kind::Ferrokube, Kind::FerrokubeOnEtcd] {
        let wanted = arguments.only.is_empty() || arguments.only.iter().any(|name| name == kind.name());
        if wanted && kind.is_possible(arguments) {
            results.push((kind, measure(arguments, kind).await?));
            // What is known so far is not lost if a later server fails.
            write_report(arguments, &results)?;
        }
    }
    write_report(arguments, &results)
}

fn write_report(arguments: &Arguments, results: &[(Kind, Vec<Line>)]) -> Result<String, String> {
    let text = report::table(arguments, results);
    if let Some(path) = &arguments.out {
        std::fs::write(path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(text)
}

/// All parts that were asked for. A part that another server than ours does not survive is left out of its column.
async fn measure(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    eprintln!("== {}", kind.name());
    let mut lines = Vec::new();
    for part in arguments.parts.iter().filter(|part| part.is_for(kind)) {
        match part.run(arguments, kind).await {
            Ok(measured) => lines.extend(measured),
            Err(why) if !kind.is_ferrokube() => eprintln!("{} ended early: {why}", kind.name()),
            Err(why) => return Err(why),
        }
    }
    Ok(lines)
}

impl Part {
    fn is_for(self, kind: Kind) -> bool {
        match self {
            Part::Loads => true,
            Part::Custom | Part::Definitions | Part::Tail | Part::Streams => kind != Kind::KubeApiserverOnKine,
            // Filling SQLite takes longer than everything else together; what etcd adds is the same under both servers.
            Part::Scale | Part::Lists => !matches!(kind, Kind::KubeApiserverOnKine | Kind::FerrokubeOnEtcd),
        }
    }

    async fn run(self, arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
        match self {
            Part::Loads => scenarios::all(arguments, kind).await,
            Part::Custom => custom::run(arguments, kind).await,
            Part::Definitions => definitions::run(arguments, kind).await,
            Part::Tail => tail::run(arguments, kind).await,
            Part::Scale => scale::run(arguments, kind).await,
            Part::Streams => streams::run(arguments, kind).await,
            Part::Lists => lists::run(arguments, kind).await,
        }
    }
}

/// Both builds in turn, several times: the best of each line counts, which other processes disturbed least.
async fn compare(arguments: &Arguments) -> Result<String, String> {
    let (mut earlier, mut now) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        keep_best(&mut earlier, measure(arguments, Kind::Earlier).await?);
        keep_best(&mut now, measure(arguments, Kind::Ferrokube).await?);
    }
    Ok(report::comparison(arguments, &earlier, &now))
}

fn keep_best(best: &mut Vec<Line>, lines: Vec<Line>) {
    if best.is_empty() {
        *best = lines;
        return;
    }
    for (mine, other) in best.iter_mut().zip(lines) {
        if other.figure.cost() < mine.figure.cost() {
            *mine = other;
        }
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("bench: {why}");
    ExitCode::FAILURE
}
