//! Resource names and amounts: `cpu`, `hugepages-2Mi`, `example.com/gpu`.

use object::quantity::Quantity;
use object::{Cursor, Errors, Path, names};

use super::checks::{Checks, IS_NEGATIVE, NOT_POSITIVE, report};

const HUGE_PAGES_PREFIX: &str = "hugepages-";
const QUOTA_HUGE_PAGES_PREFIX: &str = "requests.hugepages-";
const QUOTA_PREFIX: &str = "requests.";
const NATIVE_DOMAIN: &str = "kubernetes.io/";

const CONTAINER_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources that are counted in whole numbers.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources that a quota can limit, besides huge pages and those counted.
const QUOTA_RESOURCES: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

pub fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name) || name.starts_with(QUOTA_HUGE_PAGES_PREFIX)
}

/// Whether the resource is Kubernetes' own: without a domain, or in its domain.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(NATIVE_DOMAIN)
}

/// Whether the resource is a vendor's, and a quota could be written for it.
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(QUOTA_PREFIX) && names::label_key(&format!("{QUOTA_PREFIX}{name}")).is_empty()
}

/// Whether containers may be promised more of the resource than there is.
pub fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Whether the resource comes in whole numbers.
pub fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

pub fn is_standard_container_resource(name: &str) -> bool {
    CONTAINER_RESOURCES.contains(&name) || is_huge_page(name)
}

pub fn is_standard_quota_resource(name: &str) -> bool {
    QUOTA_RESOURCES.contains(&name) || COUNTED.contains(&name) || is_quota_huge_page(name)
}

/// Whether the resource, which has no domain, is one that the system knows.
pub fn is_standard_resource(name: &str) -> bool {
    is_standard_quota_resource(name) || name == "storage"
}

/// Whether a pod may ask for the resource as a whole.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// Whether an amount of huge pages is a whole number of pages.
pub fn is_whole_pages(name: &str, amount: &Quantity) -> bool {
    let Some(size) = name.strip_prefix(HUGE_PAGES_PREFIX).and_then(|size| Quantity::parse(size).ok()) else {
        return false;
    };
    if size.signum() <= 0 || size.milli_value() % 1000 != 0 {
        return false;
    }
    amount.value().checked_rem(size.value()) == Some(0)
}

/// A check of a resource's name, as [`requirements`](super::pod_spec::resources) takes it.
pub type ResourceNameRule = fn(&str, &Path, &mut Errors);

/// Checks the name of any resource; errors are reported at `path`.
pub fn name(name: &str, path: &Path, errors: &mut Errors) {
    let messages = names::label_key(name);
    if !messages.is_empty() {
        report(errors, path, name, messages);
    } else if !name.contains('/') && !is_standard_resource(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

/// Checks the name of a resource that a container may use.
pub fn container_resource_name(resource: &str, path: &Path, errors: &mut Errors) {
    name(resource, path, errors);
    if !resource.contains('/') {
        if !is_standard_container_resource(resource) {
            errors.invalid(path, resource, "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        errors.invalid(path, resource, "doesn't follow extended resource name standard");
    }
}

/// Checks the name of a resource that a pod as a whole may use.
pub fn pod_resource_name(resource: &str, path: &Path, errors: &mut Errors) {
    let before = errors.len();
    name(resource, path, errors);
    if errors.len() == before && !is_pod_level(resource) {
        errors.not_supported(path, resource, &["cpu", "hugepages-", "memory"]);
    }
}

/// Checks the name of a resource that a quota may limit.
pub fn quota_resource_name(resource: &str, path: &Path, errors: &mut Errors) {
    name(resource, path, errors);
    if !resource.contains('/') && !is_standard_quota_resource(resource) {
        errors.invalid(path, resource, "must be a standard resource for quota");
    }
}

/// Checks an amount of a resource: not negative, and whole where the resource is counted.
pub fn amount(resource: &str, amount: &Cursor, errors: &mut Errors) {
    let quantity = amount.quantity();
    non_negative(amount, errors);
    if is_counted(resource) && quantity.milli_value() % 1000 != 0 {
        errors.invalid(amount.path(), quantity.to_string(), "must be an integer");
    }
}

pub fn non_negative(amount: &Cursor, errors: &mut Errors) {
    let quantity = amount.quantity();
    if quantity.signum() < 0 {
        errors.invalid(amount.path(), quantity.to_string(), IS_NEGATIVE);
    }
}

pub fn positive(amount: &Cursor, errors: &mut Errors) {
    let quantity = amount.quantity();
    if quantity.signum() <= 0 {
        errors.invalid(amount.path(), quantity.to_string(), NOT_POSITIVE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_places() {
        let check = |resource: &str, rule: ResourceNameRule, want: &[&str]| {
            let mut errors = Errors::new();
            rule(resource, &Path::of("x"), &mut errors);
            let got: Vec<String> = errors.iter().map(|error| error.detail.clone()).collect();
            assert_eq!(got, want, "{resource}");
        };
        check("cpu", container_resource_name, &[]);
        check("hugepages-2Mi", container_resource_name, &[]);
        check("example.com/gpu", container_resource_name, &[]);
        check("kubernetes.io/thing", container_resource_name, &[]);
        check("pods", container_resource_name, &["must be a standard resource for containers"]);
        check(
            "disk",
            container_resource_name,
            &["must be a standard resource type or fully qualified", "must be a standard resource for containers"],
        );
        check("requests.x.com/a", container_resource_name, &["doesn't follow extended resource name standard"]);
        check(
            "disk",
            quota_resource_name,
            &["must be a standard resource type or fully qualified", "must be a standard resource for quota"],
        );
        check("ephemeral-storage", pod_resource_name, &[r#"supported values: "cpu", "hugepages-", "memory""#]);
    }

    #[test]
    fn huge_pages_come_whole() {
        let whole = |name, amount| is_whole_pages(name, &Quantity::parse(amount).unwrap());
        assert!(whole("hugepages-2Mi", "4Mi"));
        assert!(!whole("hugepages-2Mi", "3Mi"));
        assert!(!whole("hugepages-0", "3Mi"));
        assert!(!whole("hugepages-x", "3Mi"));
        assert!(!whole("hugepages-100m", "3Mi"));
    }
}
