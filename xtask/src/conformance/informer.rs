//! client-go's informers follow the server without a gap, by protobuf and watch-list, while connections are cut.

use std::process::Command;

use super::lab::{Lab, succeed};
use crate::components;

pub fn run() -> Result<String, String> {
    let tools = components::ensure(&["informer"])?;
    let mut lab = Lab::new("informer")?;
    let server = lab.ferrokube(&[])?;
    let mut informer = Command::new(&tools["informer"]);
    informer.env("KUBECONFIG", &server.kubeconfig).args(["-objects", "500", "-rounds", "10"]);
    succeed("informer", &mut informer)?;
    Ok("every informer told the truth about 500 objects of each kind".into())
}
