//! The status of a definition: which names it gets, and the conditions that tell.

use hashbrown::HashSet;
use kinds::apiextensions::Approval;
use object::timestamp::Time;
use object::{Str, Timestamp, Value, quote};

use crate::conversion::proof;
use crate::names::{Names, Taken};

/// A condition to set.
pub struct Condition {
    pub r#type: &'static str,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Condition {
    pub fn new(r#type: &'static str, status: bool, reason: &'static str, message: impl Into<String>) -> Condition {
        Condition { r#type, status: if status { "True" } else { "False" }, reason, message: message.into() }
    }
}

/// Decides about the names of a definition: those it has from now on, and the NamesAccepted condition. Of several
/// conflicts the last one is told.
pub fn accept_names(requested: &Names, accepted: &Names, taken: &Taken<'_>) -> (Names, Condition) {
    let mut names = accepted.clone();
    let mut conflict: Option<(&'static str, String)> = None;
    let resource = |wanted: &Str, has: &Str| match wanted == has || !taken.resource(wanted) {
        true => Ok(()),
        false => Err(in_use(wanted)),
    };
    let kind = |wanted: &Str, has: &Str| match wanted == has || !taken.kind(wanted) {
        true => Ok(()),
        false => Err(in_use(wanted)),
    };
    match resource(&requested.plural, &accepted.plural) {
        Ok(()) => names.plural = requested.plural.clone(),
        Err(why) => conflict = Some(("PluralConflict", why)),
    }
    match resource(&requested.singular, &accepted.singular) {
        Ok(()) => names.singular = requested.singular.clone(),
        Err(why) => conflict = Some(("SingularConflict", why)),
    }
    if requested.short_names != accepted.short_names {
        let new = requested.short_names.iter().filter(|name| !accepted.short_names.contains(name));
        let mut errors: Vec<String> = new.filter(|name| taken.resource(name)).map(in_use).collect();
        let mut seen = HashSet::new();
        errors.retain(|error| seen.insert(error.clone()));
        match errors.len() {
            0 => names.short_names = requested.short_names.clone(),
            _ => conflict = Some(("ShortNamesConflict", object::aggregate(errors))),
        }
    }
    match kind(&requested.kind, &accepted.kind) {
        Ok(()) => names.kind = requested.kind.clone(),
        Err(why) => conflict = Some(("KindConflict", why)),
    }
    match kind(&requested.list_kind, &accepted.list_kind) {
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
pub fn with_names(mut object: Value, taken: &Taken<'_>, now: Timestamp) -> Value {
    let requested = Names::read(object.at(&["spec", "names"]));
    let accepted = Names::read(object.at(&["status", "acceptedNames"]));
    let established = is_true(&object, "Established");
    if requested == accepted {
        if is_true(&object, "NamesAccepted") && !established {
            let (is_valid, reason, message) = match kinds::apiextensions::is_ca_bundle_valid(&object) {
                true => (true, "InitialNamesAccepted", "the initial names have been accepted"),
                false => (false, "InvalidCABundle", "The conversion webhook CABundle is invalid"),
            };
            set(&mut object, &Condition::new("Established", is_valid, reason, message), now);
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

/// What the API approval annotation means; None for groups that need no approval.
fn approval(object: &Value) -> Option<Condition> {
    let approval = Approval::of(object)?;
    let (status, reason) = match &approval {
        Approval::MissingAnnotation => (false, "MissingAnnotation"),
        Approval::InvalidAnnotation => (false, "InvalidAnnotation"),
        Approval::UnapprovedAnnotation(_) => (false, "UnapprovedAnnotation"),
        Approval::ApprovedAnnotation(_) => (true, "ApprovedAnnotation"),
    };
    let kind = "KubernetesAPIApprovalPolicyConformant";
    Some(Condition::new(kind, status, reason, approval.message()))
}

const NON_STRUCTURAL: &str = "NonStructuralSchema";

/// What is not structural about the schemas; None if they are.
fn structure(object: &Value) -> Option<Condition> {
    match kinds::apiextensions::structural_problems(object) {
        Ok(errors) if errors.is_empty() => None,
        Ok(errors) => Some(Condition::new(NON_STRUCTURAL, true, "Violations", errors.aggregate())),
        Err(message) => {
            Some(Condition { r#type: NON_STRUCTURAL, status: "Unknown", reason: "StructuralError", message })
        }
    }
}

/// Whether the schemas may not be structural: validation lets such schemas through where unknown fields are preserved, and
/// an update may keep what the definition had before. Every other definition was refused unless it was structural.
pub fn may_lack_structure(object: &Value) -> bool {
    object.at(&["spec", "preserveUnknownFields"]).as_bool() == Some(true) || find(object, NON_STRUCTURAL).is_some()
}

/// The status with what the annotation and, if they are checked, the schemas mean; a condition of schemas that have been
/// mended is removed.
pub fn with_findings(mut object: Value, checks_structure: bool, now: Timestamp) -> Value {
    if let Some(condition) = approval(&object) {
        set(&mut object, &condition, now);
    }
    if !checks_structure {
        return object;
    }
    match structure(&object) {
        Some(condition) => set(&mut object, &condition, now),
        None if find(&object, NON_STRUCTURAL).is_some() => {
            let conditions = object.slot(&["status", "conditions"]).make_list();
            conditions.retain(|condition| condition.str_at(&["type"]) != NON_STRUCTURAL);
        }
        None => {}
    }
    object
}

/// Whether the status tells about the conversion rules as they are, or about none if there are none.
pub fn tells_of_rules(object: &Value) -> bool {
    let told = find(object, proof::CONDITION).map(|condition| condition.str_at(&["message"]));
    match (proof::state_of(object), told) {
        (None, None) => true,
        (Some(state), Some(message)) => message.ends_with(&state),
        _ => false,
    }
}

/// The status with how the conversion rules were found to be; without rules it has no such condition.
pub fn with_rules(mut object: Value, proven: Option<Condition>, now: Timestamp) -> Value {
    if let Some(condition) = proven {
        set(&mut object, &condition, now);
    } else if find(&object, proof::CONDITION).is_some() && proof::state_of(&object).is_none() {
        let conditions = object.slot(&["status", "conditions"]).make_list();
        conditions.retain(|condition| condition.str_at(&["type"]) != proof::CONDITION);
    }
    object
}

/// Whether a definition has all the names it asks for, is established, and its conditions are as they should be.
pub fn is_settled(object: &Value) -> bool {
    let says = |condition: Option<Condition>, kind: &str| match (condition, find(object, kind)) {
        (None, None) => true,
        (Some(wanted), Some(found)) => {
            let same = |field: &str, text: &str| found.str_at(&[field]) == text;
            same("status", wanted.status) && same("reason", wanted.reason) && same("message", &wanted.message)
        }
        _ => false,
    };
    Names::read(object.at(&["spec", "names"])) == Names::read(object.at(&["status", "acceptedNames"]))
        && is_true(object, "NamesAccepted")
        && is_true(object, "Established")
        && (Approval::of(object).is_none() || says(approval(object), "KubernetesAPIApprovalPolicyConformant"))
        && (!may_lack_structure(object) || says(structure(object), NON_STRUCTURAL))
        && tells_of_rules(object)
}

fn find<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    let conditions = object.list_at(&["status", "conditions"]);
    conditions.iter().find(|condition| condition.str_at(&["type"]) == kind)
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
    let found = conditions.iter_mut().find(|known| known.str_at(&["type"]) == condition.r#type);
    let Some(found) = found else {
        conditions.push(object::value!({
            "type": (condition.r#type),
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
    use crate::definition::Definition;
    use crate::names::Groups;

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
        let mut groups = Groups::default();
        for other in others {
            groups.add(&Definition { name: "other".into(), accepted: other.clone(), ..Definition::default() });
        }
        let (_, condition) = accept_names(requested, accepted, &groups.taken(&Definition::default()));
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
