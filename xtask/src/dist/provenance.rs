//! Where the files come from, as an in-toto statement with SLSA's predicate.

use serde_json::{Value, json};

use super::{Release, VERSION, build};

pub const NAME: &str = "provenance.intoto.json";

pub fn write(release: &Release, sums: &[(String, String)]) -> Result<(), String> {
    let statement = statement(release, sums, &build::compiler()?, &Builder::here());
    let text = serde_json::to_string_pretty(&statement).map_err(|error| error.to_string())? + "\n";
    release.write(NAME, text.as_bytes()).map(drop)
}

/// Who made the files.
pub struct Builder {
    id: String,
    run: String,
    source: String,
}

impl Builder {
    /// GitHub's runners say which run and repository they work for; elsewhere it is somebody's own machine.
    #[allow(clippy::disallowed_methods)]
    fn here() -> Builder {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let (server, repository) = (variable("GITHUB_SERVER_URL"), variable("GITHUB_REPOSITORY"));
        if repository.is_empty() {
            return Builder { id: "urn:ferrokube:local".into(), run: String::new(), source: String::new() };
        }
        let source = [server.as_str(), &repository].join("/");
        Builder {
            id: [source.as_str(), ".github/workflows/release.yml"].join("/"),
            run: [source.as_str(), "actions/runs", &variable("GITHUB_RUN_ID")].join("/"),
            source,
        }
    }
}

fn statement(release: &Release, sums: &[(String, String)], compiler: &str, builder: &Builder) -> Value {
    let subjects: Vec<Value> =
        sums.iter().map(|(name, sum)| json!({"name": name, "digest": {"sha256": sum}})).collect();
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:ferrokube:cargo-xtask-dist",
                "externalParameters": {"version": VERSION, "url": release.url},
                "internalParameters": {"compiler": compiler},
                "resolvedDependencies": [{
                    "uri": format!("git+{}", if builder.source.is_empty() { "ferrokube" } else { &builder.source }),
                    "digest": {"gitCommit": release.commit},
                }],
            },
            "runDetails": {
                "builder": {"id": builder.id},
                "metadata": {"invocationId": builder.run, "finishedOn": super::oci::rfc3339(release.seconds)},
            },
        },
    })
}
