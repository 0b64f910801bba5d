//! A large cluster: what its objects take in memory, how long a start takes with them, how fast all of them are listed.

use crate::Arguments;
use crate::load::{self, Extent};
use crate::report::{Figure, Line};
use crate::scenarios::{
    AT_ONCE, JSON, LISTS_AT_ONCE, PROTOBUF, SETTLED, collection, create_config_maps, create_namespace, create_pods,
    list, read,
};
use crate::target::{Kind, Memory, Target};

pub async fn run(arguments: &Arguments, kind: Kind) -> Result<Vec<Line>, String> {
    let mut target = Target::start(arguments, kind).await?;
    let client = create_namespace(&target).await?;
    let (pods, maps) = (arguments.scale_pods, arguments.scale_config_maps);
    let what = format!("with {pods} pods and {maps} config maps");
    let fill = |at_most| Extent { at_once: AT_ONCE, seconds: u64::from(u16::MAX), at_most };
    load::run(&target, "fill", fill(pods), create_pods()).await?;
    load::run(&target, "fill", fill(maps), create_config_maps("map")).await?;
    tokio::time::sleep(SETTLED).await;
    let filled = target.memory();
    // As protobuf, a list is what is stored and a few bytes for each object.
    let mut encoded = 0;
    for resource in ["pods", "configmaps"] {
        encoded += read(client.clone(), collection(resource), PROTOBUF).await?;
    }
    target.restart(arguments).await?;
    let ready = target.ready;
    tokio::time::sleep(SETTLED).await;
    let restarted = target.memory();
    let lists = Extent { at_once: LISTS_AT_ONCE, seconds: arguments.seconds, at_most: u64::MAX };
    let listed = load::run(&target, "list all", lists, list("", JSON)).await?;
    target.stop().await;
    let per_byte = |memory: Memory| Figure::Times((memory.server + memory.store) as f64 / encoded.max(1) as f64);
    let name = format!("list {pods} pods as JSON");
    let mut lines = vec![
        Line::new(format!("{what}: memory after filling"), Figure::Memory(filled)),
        Line::new(format!("{what}: memory after a restart"), Figure::Memory(restarted)),
        Line::new(format!("{what}: bytes in memory for each encoded one, filled"), per_byte(filled)),
        Line::new(format!("{what}: the same after a restart"), per_byte(restarted)),
        Line::new(format!("{what}: start to ready"), Figure::Took(ready)),
    ];
    lines.extend(listed.lines_by_bytes(&name));
    Ok(lines)
}
