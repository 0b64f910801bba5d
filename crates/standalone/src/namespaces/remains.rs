//! What keeps a namespace from going away, told by the conditions that a controller manager writes.

use std::collections::BTreeMap;

use object::{GroupResource, Meta, Value, value};

/// The objects that could not be deleted, or not yet.
#[derive(Default)]
pub struct Remains {
    /// A sentence for each resource with objects left.
    resources: Vec<String>,
    /// How many objects wait for each finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Why deletions failed.
    pub failed: Vec<String>,
    /// Group-versions of other API servers that do not tell what they serve.
    pub undiscovered: Vec<String>,
}

impl Remains {
    pub fn is_nothing(&self) -> bool {
        self.resources.is_empty() && self.failed.is_empty() && self.undiscovered.is_empty()
    }

    pub fn add(&mut self, resource: &GroupResource, left: &[Value]) {
        if left.is_empty() {
            return;
        }
        self.resources.push(format!("{}.{} has {} resource instances", resource.resource, resource.group, left.len()));
        for finalizer in left.iter().flat_map(Meta::finalizers) {
            *self.finalizers.entry(finalizer.to_string()).or_default() += 1;
        }
    }

    /// Adds what was found elsewhere.
    pub fn merge(&mut self, other: Remains) {
        self.resources.extend(other.resources);
        self.failed.extend(other.failed);
        self.undiscovered.extend(other.undiscovered);
        for (finalizer, count) in other.finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
        }
    }

    /// All five, whether there is something to say or not.
    pub fn conditions(&self) -> [Value; 5] {
        let finalizers: Vec<String> =
            self.finalizers.iter().map(|(name, n)| format!("{name} in {n} resource instances")).collect();
        let fine = |kind, reason, message| condition(kind, "False", reason, message);
        let trouble = |kind, reason, intro: &str, items: &[String]| {
            (!items.is_empty()).then(|| condition(kind, "True", reason, &format!("{intro}{}", items.join(", "))))
        };
        let content = "NamespaceDeletionContentFailure";
        let remaining = "NamespaceContentRemaining";
        let waiting = "NamespaceFinalizersRemaining";
        let discovery = "NamespaceDeletionDiscoveryFailure";
        let undiscovered = format!(
            "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: ",
            self.undiscovered.len()
        );
        [
            trouble(discovery, "DiscoveryFailed", &undiscovered, &self.undiscovered)
                .unwrap_or_else(|| fine(discovery, "ResourcesDiscovered", "All resources successfully discovered")),
            fine(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            trouble(content, "ContentDeletionFailed", "Failed to delete all resource types, ", &self.failed)
                .unwrap_or_else(|| {
                    fine(content, "ContentDeleted", "All content successfully deleted, may be waiting on finalization")
                }),
            trouble(remaining, "SomeResourcesRemain", "Some resources are remaining: ", &self.resources)
                .unwrap_or_else(|| fine(remaining, "ContentRemoved", "All content successfully removed")),
            trouble(
                waiting,
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: ",
                &finalizers,
            )
            .unwrap_or_else(|| fine(waiting, "ContentHasNoFinalizers", "All content-preserving finalizers finished")),
        ]
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    value!({"type": kind, "status": status, "reason": reason, "message": message})
}
