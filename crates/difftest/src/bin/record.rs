//! Records a running server: `record <address> <folder> defaults | everything | answers`, as the bearer of `admin-token`. The files are named
//! as in the archive of facts.

use std::path::Path;
use std::process::ExitCode;

use difftest::{Client, record};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Result<(), String> {
    let [address, folder, what] = arguments else {
        return Err("usage: record <address> <folder> defaults | everything | answers".into());
    };
    let folder = Path::new(folder);
    let client = Client::new(address.parse().map_err(|error| format!("{address}: {error}"))?, "admin-token")?;
    record::ready(&client).await?;
    let files = match what.as_str() {
        "defaults" => record::defaults(&client).await?,
        "everything" => {
            let read = |name: &str| Some((name.to_string(), std::fs::read(folder.join(name)).ok()?));
            let known = ["table-columns.json", "openapi/v3-schemas.json"].into_iter().filter_map(read).collect();
            record::everything(&client, &known).await?
        }
        "answers" => record::answers(&client).await?,
        other => return Err(format!("{other} cannot be recorded")),
    };
    for (name, bytes) in files {
        let path = folder.join(name);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, bytes)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
