//! The status of a definition: which names it gets, and the conditions that tell.

use hashbrown::HashSet;
use object::timestamp::Time;
use object::{Meta, Str, Timestamp, Value, quote};

use crate::definition::Names;

/// Names that other definitions of the same group have.
#[derive(Default)]
pub struct Taken {
    /// Plural, singular and short names.
    resources: HashSet<Str>,
    kinds: HashSet<Str>,
}

impl Taken {
    pub fn add(&mut self, accepted: &Names) {
        let resources = [&accepted.plural, &accepted.singular].into_iter().chain(&accepted.short_names);
        self.resources.extend(resources.filter(|name| !name.is_empty()).cloned());
        let kinds = [&accepted.kind, &accepted.list_kind].into_iter();
        self.kinds.extend(kinds.filter(|name| !name.is_empty()).cloned());
    }
}

/// A condition to set.
pub struct Condition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    pub fn new(kind: &'static str, status: bool, reason: &'static str, message: impl Into<String>) -> Condition {
        Condition { kind, status: if status { "True" } else { "False" }, reason, message: message.into() }
    }
}

/// Decides about the names of a definition: those it has from now on, and the NamesAccepted condition. Of several
/// conflicts the last one is told.
pub fn accept_names(requested: &Names, accepted: &Names, taken: &Taken) -> (Names, Condition) {
    let mut names = accepted.clone();
    let mut conflict: Option<(&'static str, String)> = None;
    let fresh = |wanted: &Str, has: &Str, used: &HashSet<Str>| {
        if wanted == has || !used.contains(wanted) { Ok(()) } else { Err(in_use(wanted)) }
    };
    match fresh(&requested.plural, &accepted.plural, &taken.resources) {
        Ok(()) => names.plural = requested.plural.clone(),
        Err(why) => conflict = Some(("PluralConflict", why)),
    }
    match fresh(&requested.singular, &accepted.singular, &taken.resources) {
        Ok(()) => names.singular = requested.singular.clone(),
        Err(why) => conflict = Some(("SingularConflict", why)),
    }
    if requested.short_names != accepted.short_names {
        let new = requested.short_names.iter().filter(|name| !accepted.short_names.contains(name));
        let mut errors: Vec<String> = new.filter(|name| taken.resources.contains(*name)).map(in_use).collect();
        let mut seen = HashSet::new();
        errors.retain(|error| seen.insert(error.clone()));
        match errors.len() {
            0 => names.short_names = requested.short_names.clone(),
            1 => conflict = Some(("ShortNamesConflict", errors.remove(0))),
            _ => conflict = Some(("ShortNamesConflict", format!("[{}]", errors.join(", ")))),
        }
    }
    match fresh(&requested.kind, &accepted.kind, &taken.kinds) {
        Ok(()) => names.kind = requested.kind.clone(),
        Err(why) => conflict = Some(("KindConflict", why)),
    }
    match fresh(&requested.list_kind, &accepted.list_kind, &taken.kinds) {
        Ok(()) => names.list_kind = requested.list_kind.clone(),
        Err(why) => conflict = Some(("ListKindConflict", why)),
    }
    names.categories = requested.categories.clone();
    let condition = match conflict {
        Some((reason, message)) => Condition::new("NamesAccepted", false, reason, message),
        None => Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found"),
    };
    (names, condition)
}

fn in_use(name: &Str) -> String {
    format!("{} is already in use", quote(name))
}

/// The next step towards names and Established: first the names are accepted, then the definition is established, each in
/// a write of its own as upstream does. A definition that was established once stays so, whatever becomes of its names.
pub fn with_names(object: &Value, taken: &Taken, now: Timestamp) -> Value {
    let requested = Names::read(object.at(&["spec", "names"]));
    let accepted = Names::read(object.at(&["status", "acceptedNames"]));
    let established = is_true(object, "Established");
    let mut object = object.clone();
    if requested == accepted {
        if is_true(&object, "NamesAccepted") && !established {
            let message = "the initial names have been accepted";
            set(&mut object, &Condition::new("Established", true, "InitialNamesAccepted", message), now);
        }
        return object;
    }
    let (names, condition) = accept_names(&requested, &accepted, taken);
    object.set(&["status", "acceptedNames"], names.write());
    let is_accepted = condition.status == "True";
    set(&mut object, &condition, now);
    let is_there = |object: &Value| {
        object.list_at(&["status", "conditions"]).iter().any(|condition| condition.str_at(&["type"]) == "Established")
    };
    if !established && is_accepted {
        let message = "the initial names have been accepted";
        set(&mut object, &Condition::new("Established", false, "Installing", message), now);
    } else if !is_there(&object) {
        let condition = Condition::new("Established", false, "NotAccepted", "not all names are accepted");
        set(&mut object, &condition, now);
    }
    object
}

const APPROVAL: &str = "api-approved.kubernetes.io";

/// The status with what the API approval annotation means, for groups of the Kubernetes community.
pub fn with_approval(mut object: Value, now: Timestamp) -> Value {
    let group = object.str_at(&["spec", "group"]);
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if !is_protected {
        return object;
    }
    let annotation = object.annotation(APPROVAL).unwrap_or("").to_string();
    let condition = |status: bool, reason: &'static str, message: String| {
        Condition::new("KubernetesAPIApprovalPolicyConformant", status, reason, message)
    };
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let wanted = match annotation.as_str() {
        "" => {
            let message = format!("protected groups must have approval annotation {APPROVAL:?}, {see}");
            condition(false, "MissingAnnotation", message)
        }
        text if text.starts_with("unapproved") => {
            condition(false, "UnapprovedAnnotation", format!("not approved: {}", quote(text)))
        }
        text if is_url(text) => condition(true, "ApprovedAnnotation", format!("approved in {text}")),
        _ => {
            let message = format!(
                "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \
                 \"unapproved\", {see}"
            );
            condition(false, "InvalidAnnotation", message)
        }
    };
    set(&mut object, &wanted, now);
    object
}

fn is_url(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/'))
}

/// Whether a condition is there and true.
pub fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object.list_at(&["status", "conditions"]);
    conditions.iter().any(|c| c.str_at(&["type"]) == kind && c.str_at(&["status"]) == "True")
}

/// Sets a condition; its time of transition changes with its status only.
pub fn set(object: &mut Value, condition: &Condition, now: Timestamp) {
    let conditions = object.slot(&["status", "conditions"]).make_list();
    let now = Time(now).to_string();
    let found = conditions.iter_mut().find(|known| known.str_at(&["type"]) == condition.kind);
    let Some(found) = found else {
        conditions.push(object::value!({
            "type": (condition.kind),
            "status": (condition.status),
            "lastTransitionTime": now,
            "reason": (condition.reason),
            "message": (condition.message.as_str()),
        }));
        return;
    };
    if found.str_at(&["status"]) != condition.status || found.str_at(&["lastTransitionTime"]).is_empty() {
        found.set(&["lastTransitionTime"], now);
    }
    found.set(&["status"], condition.status);
    found.set(&["reason"], condition.reason);
    found.set(&["message"], condition.message.as_str());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, kind: &str, short: &[&str]) -> Names {
        Names {
            plural: plural.into(),
            singular: kind.to_lowercase().into(),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            short_names: short.iter().map(|name| Str::from(*name)).collect(),
            categories: Vec::new(),
        }
    }

    /// Asks for names where `others` are taken; returns reason and message of the condition.
    fn check(requested: &Names, accepted: &Names, others: &[Names], want: (&str, &str)) {
        let mut taken = Taken::default();
        others.iter().for_each(|other| taken.add(other));
        let (_, condition) = accept_names(requested, accepted, &taken);
        assert_eq!((condition.reason, condition.message.as_str()), want);
    }

    #[test]
    fn the_last_conflict_is_told() {
        let nothing = Names::default();
        let mine = names("foos", "Foo", &["f", "g"]);
        check(&mine, &nothing, &[], ("NoConflicts", "no conflicts found"));
        check(&mine, &mine, &[names("foos", "Foo", &["f"])], ("NoConflicts", "no conflicts found"));
        let other = names("foos", "Bar", &[]);
        check(&mine, &nothing, &[other], ("PluralConflict", r#""foos" is already in use"#));
        let other = names("foos", "Bar", &["f", "g"]);
        let both = r#"["f" is already in use, "g" is already in use]"#;
        check(&mine, &nothing, &[other], ("ShortNamesConflict", both));
        let other = names("bars", "Foo", &["f"]);
        check(&mine, &nothing, &[other], ("ListKindConflict", r#""FooList" is already in use"#));
    }
}
