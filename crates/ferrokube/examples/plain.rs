//! A server, and the client of the crate itself: as little to compile as can be.

use ferrokube::{Api, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().api(Api::minimal()).start().await?;
    let namespaces: serde_json::Value = server.local().get("/api/v1/namespaces").await?.json()?;
    let names = namespaces["items"].as_array().into_iter().flatten().filter_map(|one| one["metadata"]["name"].as_str());
    eprintln!("{}", names.collect::<Vec<_>>().join(", "));
    server.stop().await;
    Ok(())
}
