//! What is particular to pods on Windows.

use object::{Cursor, Errors, names};

use super::{PodValidationOptions, visit};
use crate::common::checks::Checks;

const CREDENTIAL_SPEC_MAX_KIB: usize = 64;
/// A domain must be shorter than this, a user not longer than that.
const USER_DOMAIN_LIMIT: usize = 256;
const USER_NAME_MAX: usize = 104;
const NETBIOS_NAME_MAX: usize = 15;
const DNS_LABEL_MAX: usize = 63;

pub fn security_options(options: &Cursor, errors: &mut Errors) {
    let name = options.field("gmsaCredentialSpecName");
    if name.is_set() {
        name.check(errors, names::dns1123_subdomain);
    }
    let credentials = options.field("gmsaCredentialSpec");
    if let Some(text) = credentials.opt_str() {
        if text.is_empty() {
            credentials.invalid(errors, "gmsaCredentialSpec cannot be an empty string");
        } else if text.len() > CREDENTIAL_SPEC_MAX_KIB * 1024 {
            credentials.invalid(errors, format!("gmsaCredentialSpec size must be under {CREDENTIAL_SPEC_MAX_KIB} KiB"));
        }
    }
    let user = options.field("runAsUserName");
    if let Some(text) = user.opt_str() {
        for problem in user_name_problems(text) {
            user.invalid(errors, problem);
        }
    }
}

/// What is wrong with `DOMAIN\user` or `user`.
fn user_name_problems(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_string()];
    }
    if name.bytes().any(|b| b.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_string()];
    }
    let mut parts = name.split('\\');
    let (domain, user) = match (parts.next(), parts.next(), parts.next()) {
        (Some(user), None, _) => (None, user),
        (Some(domain), Some(user), None) => (Some(domain), user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_string()],
    };
    let mut problems = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= USER_DOMAIN_LIMIT) {
        problems.push(format!("runAsUserName's Domain length must be under {USER_DOMAIN_LIMIT} characters"));
    }
    if domain.is_some_and(|domain| !is_netbios_domain(domain) && !is_dns_domain(domain)) {
        problems.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_string());
    }
    if user.is_empty() {
        problems.push("runAsUserName's User cannot be empty".to_string());
    } else if user.len() > USER_NAME_MAX {
        problems.push(format!("runAsUserName's User length must not be longer than {USER_NAME_MAX} characters"));
    }
    if !user.is_empty() && user.bytes().all(|b| matches!(b, b'.' | b' ')) {
        problems.push("runAsUserName's User cannot contain only periods or spaces".to_string());
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let problem = r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#;
        problems.push(problem.to_string());
    }
    problems
}

fn is_netbios_domain(domain: &str) -> bool {
    let forbidden = |c| matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let length = domain.chars().count();
    (1..=NETBIOS_NAME_MAX).contains(&length) && !domain.starts_with('.') && !domain.contains(forbidden)
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let framed = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        label.len() <= DNS_LABEL_MAX
            && framed(label.as_bytes().first())
            && framed(label.as_bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

/// Containers that run as processes of the host: all of them or none, and only on the host's network.
pub fn host_process(spec: &Cursor, options: &PodValidationOptions, errors: &mut Errors) {
    const FLAG: [&str; 3] = ["securityContext", "windowsOptions", "hostProcess"];
    let of_pod = spec.at(&FLAG).opt_bool();
    let (mut count, mut host_processes) = (0, 0);
    for container in visit::containers(spec) {
        count += 1;
        let own = container.at(&FLAG);
        if let (Some(pod), Some(container)) = (of_pod, own.opt_bool())
            && pod != container
        {
            own.invalid(errors, format!("pod hostProcess value must be identical if both are specified, was {pod}"));
        }
        if own.opt_bool().or(of_pod) == Some(true) {
            host_processes += 1;
        }
    }
    if host_processes == 0 {
        return;
    }
    if host_processes != count {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        spec.invalid_as(errors, "", detail);
    }
    let host_network = spec.field("hostNetwork");
    if !host_network.bool() {
        host_network.invalid_as(errors, false, "hostNetwork must be true if pod contains any hostProcess containers");
    }
    if !options.allow_privileged {
        spec.forbidden(errors, "hostProcess containers are disallowed by cluster policy");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_may_have_domains() {
        let check = |name: &str, want: usize| assert_eq!(user_name_problems(name).len(), want, "{name}");
        check("ContainerUser", 0);
        check(r"NT AUTHORITY\SYSTEM", 0);
        check(r"foo.example.com\user", 0);
        check(r".foo\user", 1);
        check(r"foo\", 1);
        check(r"\user", 1);
        check(r"a\b\c", 1);
        check("...", 1);
        check("a@b", 1);
        check("a\tb", 1);
        check("", 1);
    }
}
