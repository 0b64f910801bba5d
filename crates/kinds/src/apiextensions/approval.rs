//! The annotation that groups of the Kubernetes community need.

use object::{Cursor, Errors, Meta, Path, Value, quote};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// What the annotation of a definition means; the names are the reasons of the condition that tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    MissingAnnotation,
    InvalidAnnotation,
    /// It says why there is no approval.
    UnapprovedAnnotation(String),
    /// It is the URL of the approval.
    ApprovedAnnotation(String),
}

impl Approval {
    /// None for groups that need no approval.
    pub fn of(definition: &Value) -> Option<Approval> {
        let group = definition.str_at(&["spec", "group"]);
        let is_below = |domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        if !is_below("k8s.io") && !is_below("kubernetes.io") {
            return None;
        }
        Some(match definition.annotation(ANNOTATION).unwrap_or("") {
            "" => Approval::MissingAnnotation,
            text if text.starts_with("unapproved") => Approval::UnapprovedAnnotation(text.to_string()),
            text if is_url(text) => Approval::ApprovedAnnotation(text.to_string()),
            _ => Approval::InvalidAnnotation,
        })
    }

    /// What the condition says.
    pub fn message(&self) -> String {
        match self {
            Approval::MissingAnnotation => {
                format!("protected groups must have approval annotation {ANNOTATION:?}, {SEE}")
            }
            Approval::InvalidAnnotation => format!(
                "protected groups must have approval annotation {ANNOTATION:?} with either a URL or a reason starting with \
                 \"unapproved\", {SEE}"
            ),
            Approval::UnapprovedAnnotation(text) => format!("not approved: {}", quote(text)),
            Approval::ApprovedAnnotation(url) => format!("approved in {url}"),
        }
    }

    fn is_same_state(&self, other: &Approval) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

fn is_url(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/'))
}

/// Checks the annotation, unless an update leaves it in the state it was in.
pub fn validate(object: &Cursor, old: Option<&Cursor>, errors: &mut Errors) {
    let Some(approval) = Approval::of(object.value()) else { return };
    if let Some(before) = old.and_then(|old| Approval::of(old.value()))
        && before.is_same_state(&approval)
    {
        return;
    }
    let path = Path::of("metadata.annotations").key(ANNOTATION);
    match approval {
        Approval::MissingAnnotation => errors.required(&path, approval.message()),
        Approval::InvalidAnnotation => {
            errors.invalid(&path, object.value().annotation(ANNOTATION).unwrap_or(""), approval.message());
        }
        Approval::UnapprovedAnnotation(_) | Approval::ApprovedAnnotation(_) => {}
    }
}
