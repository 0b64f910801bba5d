//! Eviction objects, which are posted to a pod and never stored. What becomes of the pod is decided in
//! [`core::pod::eviction`](crate::core::pod::eviction).

use object::{Errors, GroupKind, Meta, Path, Status, Value};

const IGNORE_READ_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// Checks an Eviction of the pod `name`, and gives the DeleteOptions to delete the pod with. `dry_run` is what the
/// request's own options say.
pub fn delete_options(eviction: &Value, name: &str, dry_run: &[String]) -> Result<Value, Status> {
    if eviction.name() != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.field("deleteOptions");
    if options.field(IGNORE_READ_ERRORS).as_bool() == Some(true) {
        let mut errors = Errors::new();
        let detail = "can not be set for pod eviction, try after removing the option";
        errors.invalid(&Path::of("deleteOptions").field(IGNORE_READ_ERRORS), true, detail);
        return Err(Status::invalid(&GroupKind::new("policy", "Eviction"), name, &errors));
    }
    let mut options = if options.is_null() { Value::map() } else { options.clone() };
    let given: Vec<&str> = options.list_at(&["dryRun"]).iter().filter_map(Value::as_str).collect();
    if given.is_empty() {
        if !dry_run.is_empty() {
            options.set(&["dryRun"], dry_run.to_vec());
        }
    } else if !dry_run.is_empty() && given != dry_run {
        // Upstream's error is no Status, so it ends as an internal one.
        return Err(Status::internal(format!(
            "Non-matching dry-run options in request and content: [{}] and [{}]",
            dry_run.join(" "),
            given.join(" ")
        )));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::yaml;

    #[test]
    fn options_come_from_the_eviction_and_the_request() {
        let all = ["All".to_string()];
        let plain = "{metadata: {name: p}, deleteOptions: {gracePeriodSeconds: 1}}";
        let own = "{metadata: {name: p}, deleteOptions: {dryRun: [All]}}";
        let breaking = "{metadata: {name: p}, deleteOptions: {ignoreStoreReadErrorWithClusterBreakingPotential: true}}";
        let cases: [(&str, &[String], Result<&str, u16>); 6] = [
            ("{metadata: {name: p}}", &[], Ok("{}")),
            (plain, &[], Ok("{gracePeriodSeconds: 1}")),
            (plain, &all, Ok("{gracePeriodSeconds: 1, dryRun: [All]}")),
            (own, &all, Ok("{dryRun: [All]}")),
            ("{metadata: {name: q}}", &[], Err(400)),
            (breaking, &[], Err(422)),
        ];
        for (eviction, dry_run, want) in cases {
            let got = delete_options(&yaml(eviction), "p", dry_run).map_err(|status| status.code);
            assert_eq!(got, want.map(yaml), "{eviction}");
        }
    }
}
