//! The definitions of custom resources that a test server begins with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codec::Notes;
use futures::future::try_join_all;
use object::{Meta, Value};
use rest::Api;
use rest::client::{Client, Collection};

const KIND: &str = "CustomResourceDefinition";
static DEFINITIONS: Collection = Collection::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
/// Files of a folder that are read.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The definitions in files and in the files of folders. Other objects in them are passed over.
pub fn read<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for path in paths {
        for file in files_of(path)? {
            let text = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            for document in codec::yaml::documents(&String::from_utf8_lossy(&text)) {
                let object = codec::yaml::decode(document.as_bytes(), None, &mut Notes::ignore());
                collect(object.map_err(|error| format!("{}: {error}", file.display()))?, &mut found);
            }
        }
    }
    Ok(found)
}

fn collect(object: Value, found: &mut Vec<Value>) {
    if object.kind() == KIND {
        found.push(object);
    } else if object.kind().ends_with("List") {
        object.list_at(&["items"]).iter().for_each(|item| collect(item.clone(), found));
    }
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let is_wanted = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.is_file() && extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
    };
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(is_wanted).collect();
    files.sort();
    Ok(files)
}

/// Creates them all; when this returns they are served.
pub async fn create(api: &Arc<Api>, definitions: &[Value]) -> Result<(), String> {
    let client = Client::new(api.clone(), "test-server");
    let creations = definitions.iter().map(|definition| async {
        let created = client.create(&DEFINITIONS, definition).await;
        created.map(drop).map_err(|failure| format!("{}: {}", definition.name(), failure.message))
    });
    try_join_all(creations).await.map(drop)
}
