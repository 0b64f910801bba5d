//! OpenAPI documents without their prose.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The schemas and the paths of all documents of the third version. What is in several documents is that of the last one.
pub fn third(documents: &BTreeMap<String, Value>) -> (Map<String, Value>, Map<String, Value>) {
    let (mut schemas, mut paths) = (Map::new(), Map::new());
    for document in documents.values() {
        let found = document["components"]["schemas"].as_object().into_iter().flatten();
        schemas.extend(found.map(|(name, schema)| (name.clone(), bare(schema))));
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            let mut item = bare(item);
            for operation in item.as_object_mut().into_iter().flatten().filter_map(|(_, value)| value.as_object_mut()) {
                operation.retain(|key, _| !matches!(key.as_str(), "requestBody" | "responses"));
            }
            paths.insert(path.clone(), item);
        }
    }
    (schemas, paths)
}

/// A document without descriptions. A property that is called `description` has a schema, and stays.
pub fn bare(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| *key != "description" || !value.is_string());
            Value::Object(kept.map(|(key, value)| (key.clone(), bare(value))).collect())
        }
        Value::Array(items) => items.iter().map(bare).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prose_goes_and_properties_stay() {
        let schema = json!({"description": "A thing.", "properties": {"description": {"type": "string", "description": "Its text."}}});
        assert_eq!(bare(&schema), json!({"properties": {"description": {"type": "string"}}}));
        let path = json!({"get": {"description": "read", "operationId": "a", "responses": {}}, "parameters": [{"description": "p", "name": "x"}]});
        let documents = BTreeMap::from([("api/v1".to_string(), json!({"paths": {"/a": path}}))]);
        let (_, paths) = third(&documents);
        assert_eq!(paths["/a"], json!({"get": {"operationId": "a"}, "parameters": [{"name": "x"}]}));
    }
}
