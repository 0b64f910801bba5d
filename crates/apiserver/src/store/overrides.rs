//! `--etcd-servers-overrides`: resources whose objects are in an etcd of their own, events above all.

/// One override: `group/resource#server;server`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    pub group: String,
    pub resource: String,
    pub servers: Vec<String>,
}

impl Override {
    pub fn parse(text: &str) -> Result<Override, String> {
        let wrong = || {
            "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated"
                .to_string()
        };
        let exactly_two = |text: &str, separator| -> Option<(String, String)> {
            let (one, two) = text.split_once(separator)?;
            (!two.contains(separator)).then(|| (one.to_string(), two.to_string()))
        };
        let (name, servers) = exactly_two(text, '#').ok_or_else(wrong)?;
        let (group, resource) = exactly_two(&name, '/').ok_or_else(wrong)?;
        let servers: Vec<String> = servers.split(';').map(str::to_string).collect();
        if servers.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Override { group, resource, servers })
    }

    /// The same for overrides that name the same servers, in whatever order.
    pub fn cluster(&self) -> Vec<String> {
        let mut servers = self.servers.clone();
        servers.sort();
        servers
    }

    /// The beginning of the resource's keys. None for a resource that is not built in: those cannot be overridden.
    pub fn key_prefix(&self, prefix: &str) -> Option<String> {
        let named =
            |(_, group, resource): &(String, String, String)| *group == self.group && *resource == self.resource;
        let (path, _, _) = registry::key_paths().find(named)?;
        Some(format!("{prefix}/{path}/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read_as_upstream_reads_them() {
        for (text, expected) in [
            ("/events#http://a:1;http://b:2", Some(("", "events", vec!["http://a:1", "http://b:2"]))),
            ("apps/deployments#http://a:1", Some(("apps", "deployments", vec!["http://a:1"]))),
            ("events#http://a:1", None),
            ("/events", None),
            ("/events#", None),
            ("/events#http://a:1;", None),
            ("/events#http://a:1#http://b:2", None),
            ("a/b/c#http://a:1", None),
            ("", None),
        ] {
            let parsed = Override::parse(text).ok();
            let seen = parsed.as_ref().map(|parsed| {
                let servers: Vec<&str> = parsed.servers.iter().map(String::as_str).collect();
                (parsed.group.as_str(), parsed.resource.as_str(), servers)
            });
            assert_eq!(seen, expected, "{text}");
        }
    }

    #[test]
    fn keys_of_overridden_resources() {
        for (text, expected) in [
            ("/events#x", Some("/registry/events/")),
            ("/services#x", Some("/registry/services/specs/")),
            ("apps/deployments#x", Some("/registry/deployments/")),
            ("example.com/widgets#x", None),
        ] {
            assert_eq!(Override::parse(text).unwrap().key_prefix("/registry").as_deref(), expected, "{text}");
        }
    }
}
