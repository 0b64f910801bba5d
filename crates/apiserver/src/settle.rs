//! What follows from a configuration as a whole. It holds for one that is built in code as for one that is read from flags.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::pki::{Own, Pki};
use crate::{Config, StartError};

impl Config {
    /// Whether the settings go together. The error names one that does not, by its flag.
    pub fn validate(&self) -> Result<(), StartError> {
        let checked = self.clone().settle().and_then(|()| self.features().map(drop)).and_then(|()| self.audit.check());
        checked.and_then(|()| self.check_parsed()).map_err(StartError::Setting)
    }

    /// Settings that are parsed when they are used.
    fn check_parsed(&self) -> Result<(), String> {
        self.serving.cors().map_err(|why| format!("--cors-allowed-origins: {why}"))?;
        self.own_service.ranges().map_err(|why| format!("--service-cluster-ip-range: {why}"))?;
        self.own_service.endpoint_reconciler().map(drop)
    }

    /// Applies what settings say about one another. Doing so again changes nothing.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        if let Ok(absolute) = std::path::absolute(&self.data_dir) {
            self.data_dir = absolute;
        }
        self.check()?;
        self.choose_plugins()?;
        if let Some(unknown) = self.profile.unknown() {
            return Err(format!("the profile names {unknown}, which is no built-in resource"));
        }
        if self.authorization.file.is_none() {
            // The modes whose objects the profile leaves out have nothing to decide by.
            let profile = &self.profile;
            self.authorization.modes.retain(|mode| match mode.as_str() {
                "Node" => profile.has("", "pods") && profile.has("", "persistentvolumes"),
                "RBAC" => profile.has("rbac.authorization.k8s.io", "clusterroles"),
                _ => true,
            });
            if self.authorization.modes.is_empty() {
                self.authorization.modes.push("AlwaysDeny".into());
            }
        }
        // As upstream: a request without credentials must not be allowed everything.
        self.anonymous_auth &= !self.allows_everything();
        Ok(())
    }

    /// Refuses settings that do not go together.
    fn check(&self) -> Result<(), String> {
        self.versions.check()?;
        self.leadership.check()?;
        if self.serving.max_reads + self.serving.max_writes == 0 {
            return Err(
                "invalid configuration: MaxRequestsInFlight=0 and MaxMutatingRequestsInFlight=0; they must add up to \
                 something positive"
                    .into(),
            );
        }
        self.audit.check()
    }

    /// Whether every authenticated user may do everything.
    pub(crate) fn allows_everything(&self) -> bool {
        self.authorization.file.is_none() && self.authorization.modes.iter().any(|mode| mode == "AlwaysAllow")
    }

    /// `--admission-control` names every plugin that is enabled, so all others are disabled.
    fn choose_plugins(&mut self) -> Result<(), String> {
        let Some(names) = self.admission_control.take() else { return Ok(()) };
        if !self.enable_admission_plugins.is_empty() || !self.disable_admission_plugins.is_empty() {
            return Err(
                "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive"
                    .into(),
            );
        }
        if let Some(name) = names.iter().find(|name| !admission::plugins::names().any(|known| known == name.as_str())) {
            return Err(format!("admission-control plugin {} is unknown", object::quote(name)));
        }
        let others = admission::plugins::names().filter(|known| !names.iter().any(|name| name == known));
        self.disable_admission_plugins = others.map(str::to_string).collect();
        self.enable_admission_plugins = names;
        Ok(())
    }

    /// Whether the authority in the data directory vouches for clients. Where no flag says, it does if no other authority was
    /// named, unless the store and the serving certificate were given too: such a server makes nothing of its own. One that
    /// was made there by an earlier start stays in use.
    pub(crate) fn trusts_own_authority(&self) -> bool {
        self.own_authority.unwrap_or_else(|| {
            let is_given = !self.store.etcd_servers.is_empty() && self.has_serving_files();
            self.client_ca_file.is_none() && (!is_given || self.has_earlier_authority())
        })
    }

    /// Whether something has to be kept in the data directory: the store, or a key for service accounts' tokens.
    /// `keeps_store` is false where the store is elsewhere.
    pub(crate) fn needs_data_dir(&self, keeps_store: bool) -> bool {
        let accounts = &self.service_accounts;
        let is_given = accounts.signing_key_file.is_some() || accounts.signing_endpoint.is_some();
        keeps_store || !(is_given || accounts.key_in_memory)
    }

    /// Whether flags say where the serving certificate is.
    pub(crate) fn has_serving_files(&self) -> bool {
        self.cert_dir.is_some() || self.tls_cert_file.is_some() || self.tls_private_key_file.is_some()
    }

    /// Whether an earlier start of this user, or of root, made an authority in the data directory.
    pub(crate) fn has_earlier_authority(&self) -> bool {
        let owner = |path: &Path| path.metadata().ok().map(|file| file.uid());
        let us = rustix::process::geteuid().as_raw();
        owner(&Pki::at(&self.data_dir.join("pki")).ca_key).is_some_and(|uid| uid == us || uid == 0)
    }

    /// The certificates that the server's own authority signs.
    pub(crate) fn own_pki(&self) -> Own {
        if !self.listens {
            return Own::default();
        }
        let clients = self.trusts_own_authority();
        let is_named = self.tls_cert_file.is_some() || self.tls_private_key_file.is_some();
        Own { clients, serving: !is_named && (clients || self.cert_dir.is_none()) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn what_is_given_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let own = |given: &str| {
            let has = |word: &str| given.split(' ').any(|one| one == word).then(|| PathBuf::from("/given"));
            let mut config = Config { data_dir: folder.path().join("data"), ..Config::default() };
            config.client_ca_file = has("clients");
            config.cert_dir = has("folder");
            (config.tls_cert_file, config.tls_private_key_file) = (has("pair"), has("pair"));
            config.store.etcd_servers = has("etcd").map(|_| "http://127.0.0.1:2379".to_string()).into_iter().collect();
            config.own_authority = has("flag").map(|_| true);
            let Own { serving, clients } = config.own_pki();
            (serving, clients)
        };
        for (given, want) in [
            ("", (true, true)),
            ("clients", (true, false)),
            ("clients flag", (true, true)),
            ("clients pair", (false, false)),
            ("clients folder", (false, false)),
            ("pair", (false, true)),
            ("folder", (true, true)),
            ("etcd", (true, true)),
            ("etcd folder", (false, false)),
            ("etcd pair", (false, false)),
            ("etcd pair flag", (false, true)),
            ("etcd clients pair", (false, false)),
        ] {
            assert_eq!(own(given), want, "{given}");
        }
        // What an earlier start made stays in use, but not beside another authority.
        std::fs::create_dir_all(folder.path().join("data/pki")).unwrap();
        std::fs::write(folder.path().join("data/pki/ca.key"), "").unwrap();
        assert_eq!((own("etcd folder"), own("etcd clients pair")), ((true, true), (false, false)));
    }

    #[test]
    fn rules_hold_for_what_is_built_in_code() {
        let mut config = Config::of_kube_apiserver();
        config.admission_control = Some(vec!["NodeRestriction".into()]);
        config.settle().unwrap();
        assert!(!config.anonymous_auth);
        assert_eq!(config.enable_admission_plugins, ["NodeRestriction"]);
        assert!(config.disable_admission_plugins.iter().any(|plugin| plugin == "ServiceAccount"));
        let settled = config.clone();
        config.settle().unwrap();
        assert_eq!(config.disable_admission_plugins, settled.disable_admission_plugins);
        config.admission_control = Some(vec!["Unheard".into()]);
        assert!(config.settle().is_err());
    }
}
