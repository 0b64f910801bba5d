//! How an apply is refused.

use std::collections::BTreeMap;

use object::{Cause, Status};

use super::managed::Id;
use crate::{PathElement, path_text};

/// A field that the apply would change and another manager owns.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    pub(super) owner: Id,
    pub(super) path: Vec<PathElement>,
}

pub(crate) fn status(conflicts: &[Conflict]) -> Status {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict".to_string(),
        message: format!("conflict with {}", conflict.owner.describe()),
        field: path_text(&conflict.path),
    });
    Status::apply_conflict(causes.collect(), message(conflicts))
}

pub(crate) fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        let (owner, path) = (only.owner.describe(), path_text(&only.path));
        return format!("Apply failed with 1 conflict: conflict with {owner}: {path}");
    }
    let mut by_owner: BTreeMap<&Id, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        by_owner.entry(&conflict.owner).or_default().push(format!("- {}", path_text(&conflict.path)));
    }
    let lines: Vec<String> = by_owner
        .into_iter()
        .flat_map(|(owner, paths)| [format!("conflicts with {}:", owner.describe())].into_iter().chain(paths))
        .collect();
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
