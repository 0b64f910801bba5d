//! Which container of a pod a request is about, and what it may ask of its log.

use object::{Cursor, Errors, Meta, Path, Status, Value};
use registry::Features;

use crate::common::checks::{Checks, IS_NEGATIVE};
use crate::common::pod_spec::visit::container_values;

/// The container that logs, exec and attach mean: the one that is named, or the only one there is.
pub fn container_for<'a>(pod: &'a Value, asked: &'a str) -> Result<&'a str, Status> {
    let (spec, name) = (pod.field("spec"), pod.name());
    let names = || container_values(spec).map(|container| container.str_at(&["name"]));
    if !asked.is_empty() {
        return match names().any(|name| name == asked) {
            true => Ok(asked),
            false => Err(Status::bad_request(format!("container {asked} is not valid for pod {name}"))),
        };
    }
    match spec.list_at(&["containers"]) {
        [only] => Ok(only.str_at(&["name"])),
        [] => Err(Status::bad_request(format!("a container name must be specified for pod {name}"))),
        _ => {
            let choices = names().collect::<Vec<_>>().join(" ");
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{choices}]"
            )))
        }
    }
}

/// Checks PodLogOptions, given as a value with the options as fields.
pub fn log_options(features: &Features, options: &Value, errors: &mut Errors) {
    let options = Cursor::root(options);
    let [tail, limit, since, stream] =
        ["tailLines", "limitBytes", "sinceSeconds", "stream"].map(|field| options.field(field));
    let whole = Path::root().key("");
    if tail.int() < 0 {
        tail.invalid(errors, IS_NEGATIVE);
    }
    if limit.opt_int().is_some_and(|bytes| bytes < 1) {
        limit.invalid(errors, "must be greater than 0");
    }
    if since.is_set() && options.field("sinceTime").is_set() {
        errors.forbidden(&whole, "at most one of `sinceTime` or `sinceSeconds` may be specified");
    } else if since.opt_int().is_some_and(|seconds| seconds < 1) {
        since.invalid(errors, "must be greater than 0");
    }
    if !features.enabled("PodLogsQuerySplitStreams") {
        if stream.is_set() {
            stream.forbidden(errors, "may not be specified");
        }
        return;
    }
    if !stream.is_set() {
        return stream.required(errors, "must be specified");
    }
    stream.optional_one_of(errors, &["All", "Stderr", "Stdout"]);
    if stream.str() != "All" && tail.is_set() {
        errors.forbidden(&whole, "`tailLines` and specific `stream` are mutually exclusive for now");
    }
}
