//! `interop <kube-apiserver's address> <ferrokube's address> <token>`: compares two servers on one etcd, as soon as both are
//! ready.

use std::io::Write;
use std::process::ExitCode;

use difftest::{Client, Interop};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stderr();
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
