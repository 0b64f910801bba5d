//! AlwaysPullImages: images are pulled for every pod, so that only pods with the right credentials run private ones.

use async_trait::async_trait;
use object::{Errors, Path, Status, Value};

use super::{forbidden, plain_failure};
use crate::{Attributes, Plugin};

pub struct AlwaysPullImages;

const ALWAYS: &str = "Always";
const CONTAINERS: &[&str] = &["initContainers", "containers", "ephemeralContainers"];

#[async_trait]
impl Plugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    async fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value, old: Option<&Value>) -> Result<(), Status> {
        if !attributes.is("", "pods") || old.is_some_and(|old| !has_new_image(pod, old)) {
            return Ok(());
        }
        for field in CONTAINERS {
            for container in pod.at_mut(&["spec", field]).and_then(Value::as_list_mut).into_iter().flatten() {
                container.set(&["imagePullPolicy"], ALWAYS);
            }
        }
        for volume in pod.at_mut(&["spec", "volumes"]).and_then(Value::as_list_mut).into_iter().flatten() {
            if !volume.field("image").is_null() {
                volume.set(&["image", "pullPolicy"], ALWAYS);
            }
        }
        Ok(())
    }

    /// Whatever ran after this plugin may not have undone it.
    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| attributes.is("", "pods")) else { return Ok(()) };
        if old.is_some_and(|old| !has_new_image(pod, old)) {
            return Ok(());
        }
        let problems: Vec<String> = errors(pod).iter().map(|error| forbidden(attributes, error).message).collect();
        if problems.is_empty() {
            return Ok(());
        }
        // Upstream answers with a list of errors, which has no status of its own: clients see a 500.
        Err(plain_failure(object::aggregate(problems)))
    }
}

fn errors(pod: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = Path::of("spec");
    for field in CONTAINERS {
        for (i, container) in pod.list_at(&["spec", field]).iter().enumerate() {
            let policy = container.str_at(&["imagePullPolicy"]);
            if policy != ALWAYS {
                errors.not_supported(&spec.field(field).index(i).field("imagePullPolicy"), policy, &[ALWAYS]);
            }
        }
    }
    for (i, volume) in pod.list_at(&["spec", "volumes"]).iter().enumerate() {
        let policy = volume.str_at(&["image", "pullPolicy"]);
        if !volume.field("image").is_null() && policy != ALWAYS {
            let path = spec.field("volumes").index(i).field("image").field("pullPolicy");
            errors.not_supported(&path, policy, &[ALWAYS]);
        }
    }
    errors
}

fn has_new_image(pod: &Value, old: &Value) -> bool {
    let images = |pod: &Value| -> Vec<String> {
        let containers = CONTAINERS.iter().flat_map(|field| pod.list_at(&["spec", field]));
        containers.map(|container| container.str_at(&["image"]).to_string()).collect()
    };
    let before = images(old);
    images(pod).iter().any(|image| !before.contains(image))
}

#[cfg(test)]
mod tests {
    use object::value;

    use super::*;
    use crate::plugins::testing::{World, create};

    #[test]
    fn every_image_is_pulled() {
        let spec = value!({
            "initContainers": [{ "name": "i", "imagePullPolicy": "Never" }],
            "containers": [{ "name": "c", "imagePullPolicy": "IfNotPresent" }],
            "volumes": [{ "name": "v", "image": { "pullPolicy": "Never" } }, { "name": "e", "emptyDir": {} }],
        });
        let pod = value!({ "metadata": { "name": "p" }, "spec": spec });
        assert_eq!(errors(&pod).len(), 3);
        let made = create(&AlwaysPullImages, &World::default(), "pods", pod).expect("nothing undoes it");
        let spec = value!({
            "initContainers": [{ "name": "i", "imagePullPolicy": "Always" }],
            "containers": [{ "name": "c", "imagePullPolicy": "Always" }],
            "volumes": [{ "name": "v", "image": { "pullPolicy": "Always" } }, { "name": "e", "emptyDir": {} }],
        });
        assert_eq!(made.object.field("spec"), &spec);
    }
}
