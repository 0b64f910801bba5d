//! `interop <kube-apiserver's address> <ferrokube's address> <token>`: compares two servers on one etcd, as soon as both are
//! ready. `interop key <file>` makes a key that kube-apiserver can sign service account tokens with, and `<file>.pub`.

use std::io::Write;
use std::process::ExitCode;

use difftest::{Client, Interop};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stderr();
    if let [command, path] = arguments.as_slice()
        && command == "key"
    {
        return match make_key(path) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                let _ = writeln!(out, "{why}");
                ExitCode::FAILURE
            }
        };
    }
    match run(&arguments).await {
        Ok(interop) => {
            for complaint in &interop.complaints {
                let _ = writeln!(out, "--- {complaint}");
            }
            let _ =
                writeln!(out, "{} objects went both ways, {} complaints", interop.objects, interop.complaints.len());
            if interop.complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            let _ = writeln!(out, "{why}");
            ExitCode::FAILURE
        }
    }
}

fn make_key(path: &str) -> Result<(), String> {
    let key = rcgen::KeyPair::generate().map_err(|error| error.to_string())?;
    let write = |path: &str, text: String| std::fs::write(path, text).map_err(|error| format!("{path}: {error}"));
    write(path, key.serialize_pem())?;
    write(&format!("{path}.pub"), key.public_key_pem())
}

async fn run(arguments: &[String]) -> Result<Interop, String> {
    let [reference, ours, token] = arguments else {
        return Err("usage: interop <kube-apiserver's address> <ferrokube's address> <token>".into());
    };
    let client = |address: &String| Client::new(address.parse().map_err(|error| format!("{address}: {error}"))?, token);
    let mut interop = Interop::new(client(reference)?, client(ours)?);
    interop.wait_until_ready().await?;
    interop.run().await?;
    Ok(interop)
}
