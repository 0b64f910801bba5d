//! The `ferrokube` command.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use apiserver::{Config, start};
use clap::Parser;

#[derive(Parser, Debug)]
#[command(name = "ferrokube", version, about = "The Kubernetes API server, in one small binary")]
struct Flags {
    /// Where data, keys and certificates are kept.
    #[arg(long, default_value = ".ferrokube")]
    data_dir: PathBuf,
    /// The port to serve HTTPS on; 0 picks a free one.
    #[arg(long, default_value_t = 6443)]
    secure_port: u16,
    /// The address to serve on.
    #[arg(long, default_value = "127.0.0.1")]
    bind_address: std::net::IpAddr,
    /// A CSV file of tokens: token,user,uid,"groups".
    #[arg(long)]
    token_auth_file: Option<PathBuf>,
    /// Modes in order.
    #[arg(long, value_delimiter = ',', default_value = "Node,RBAC")]
    authorization_mode: Vec<String>,
    /// Admission plugins to turn off.
    #[arg(long, value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// The range service addresses come from.
    #[arg(long, default_value = "10.0.0.0/24")]
    service_cluster_ip_range: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let config = Config {
        data_dir: flags.data_dir,
        bind_address: flags.bind_address,
        port: flags.secure_port,
        token_auth_file: flags.token_auth_file,
        authorization_mode: flags.authorization_mode,
        disable_admission_plugins: flags.disable_admission_plugins,
        service_cluster_ip_range: flags.service_cluster_ip_range,
        ..Config::default()
    };
    let running = match start(config).await {
        Ok(running) => running,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "ferrokube: {error}");
            return ExitCode::FAILURE;
        }
    };
    let _ = writeln!(std::io::stdout(), "ferrokube serves on https://{}", running.address);
    let _ = tokio::signal::ctrl_c().await;
    running.stop(std::time::Duration::ZERO).await;
    ExitCode::SUCCESS
}
