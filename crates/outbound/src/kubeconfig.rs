//! [`Kubeconfig`]: the file that says where a webhook is and how the server proves who it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codec::Notes;
use object::{Value, quote};

use crate::{Certificate, ClientOptions, Credentials, Roots, Token};

/// A kubeconfig file. Credentials from a program (`exec`) are refused.
#[derive(Clone, Debug, Default)]
pub struct Kubeconfig {
    clusters: BTreeMap<String, Value>,
    users: BTreeMap<String, Value>,
    contexts: BTreeMap<String, Value>,
    current: String,
    /// The folder that paths in the file are relative to.
    folder: PathBuf,
}

impl Kubeconfig {
    pub fn read(path: &Path) -> Result<Kubeconfig, String> {
        let text = std::fs::read(path).map_err(|error| crate::roots::in_gos_words(path, &error))?;
        let folder = path.parent().map(PathBuf::from).unwrap_or_default();
        Kubeconfig::parse(&text, folder)
            .map_err(|error| format!("error loading config file {}: {error}", quote(&path.display().to_string())))
    }

    pub fn parse(text: &[u8], folder: PathBuf) -> Result<Kubeconfig, String> {
        let value = codec::yaml::decode(text, None, &mut Notes::ignore()).map_err(|error| error.to_string())?;
        let named = |list: &str, field: &str| -> BTreeMap<String, Value> {
            let entries = value.list_at(&[list]).iter().rev();
            entries.map(|entry| (entry.str_at(&["name"]).to_string(), entry.field(field).clone())).collect()
        };
        Ok(Kubeconfig {
            clusters: named("clusters", "cluster"),
            users: named("users", "user"),
            contexts: named("contexts", "context"),
            current: value.str_at(&["current-context"]).to_string(),
            folder,
        })
    }

    /// The server of the current context, and how to reach it as its user.
    pub fn current(&self) -> Result<(String, ClientOptions), String> {
        let missing = "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable";
        let context = match self.contexts.get(&self.current) {
            Some(context) => context,
            None if self.current.is_empty() => return Err(missing.into()),
            None => return Err(format!("context {} does not exist", quote(&self.current))),
        };
        let name = context.str_at(&["cluster"]);
        let cluster = self.clusters.get(name).ok_or_else(|| format!("cluster {} does not exist", quote(name)))?;
        let server = cluster.str_at(&["server"]);
        if server.is_empty() {
            return Err(missing.into());
        }
        let user = context.str_at(&["user"]);
        let credentials = match self.users.get(user) {
            Some(user) => self.credentials(user)?,
            None if user.is_empty() => Credentials::default(),
            None => return Err(format!("auth info {} does not exist", quote(user))),
        };
        let server_name = Some(cluster.str_at(&["tls-server-name"]).to_string()).filter(|name| !name.is_empty());
        let options =
            ClientOptions { roots: self.roots(cluster)?, server_name, credentials, ..ClientOptions::default() };
        Ok((server.to_string(), options))
    }

    /// The credentials for a target such as `svc.ns.svc:443`: its own entry, one with a `*` for its first labels, the entry
    /// `*`, or the user of the current context. Without any of them the server is anonymous.
    pub fn credentials_for(&self, target: &str) -> Result<Credentials, String> {
        let without_port = target.rsplit_once(':').filter(|(_, port)| *port == "443").map(|(host, _)| host);
        let found = [Some(target), without_port].into_iter().flatten().find_map(|target| self.user_of(target));
        let current = || {
            let context = self.contexts.get(&self.current).filter(|_| !self.current.is_empty())?;
            self.users.get(context.str_at(&["user"]))
        };
        match found.or_else(|| self.users.get("*")).or_else(current) {
            Some(user) => self.credentials(user),
            None => Ok(Credentials::default()),
        }
    }

    fn user_of(&self, target: &str) -> Option<&Value> {
        let shorter = target.match_indices('.').map(|(at, _)| format!("*{}", target.get(at..).unwrap_or("")));
        self.users.get(target).or_else(|| shorter.into_iter().find_map(|name| self.users.get(&name)))
    }

    fn roots(&self, cluster: &Value) -> Result<Roots, String> {
        if cluster.field("insecure-skip-tls-verify").as_bool() == Some(true) {
            return Ok(Roots::Insecure);
        }
        let data = decoded(cluster, "certificate-authority-data")?;
        let file = cluster.str_at(&["certificate-authority"]);
        Ok(match (data, file) {
            (Some(pem), _) => Roots::Pem(pem),
            (None, "") => Roots::System,
            (None, file) => Roots::File(self.folder.join(file)),
        })
    }

    fn credentials(&self, user: &Value) -> Result<Credentials, String> {
        if !user.field("exec").is_null() || !user.field("auth-provider").is_null() {
            return Err("credentials from a program or an auth provider are not supported".into());
        }
        let text = |field: &str| Some(user.str_at(&[field]).to_string()).filter(|text| !text.is_empty());
        let token_file = text("tokenFile").map(|file| Token::File(self.folder.join(file)));
        let basic = match (text("username"), text("password")) {
            (None, None) => None,
            (name, password) => Some((name.unwrap_or_default(), password.unwrap_or_default())),
        };
        Ok(Credentials {
            certificate: self.certificate(user)?,
            token: text("token").map(Token::Text).or(token_file),
            basic,
            impersonation: impersonation(user),
        })
    }

    fn certificate(&self, user: &Value) -> Result<Option<Certificate>, String> {
        let certificate = decoded(user, "client-certificate-data")?;
        let key = decoded(user, "client-key-data")?;
        let (certificate_file, key_file) = (user.str_at(&["client-certificate"]), user.str_at(&["client-key"]));
        let file = |name: &str| self.folder.join(name);
        let read =
            |name: &str| std::fs::read(file(name)).map_err(|error| crate::roots::in_gos_words(&file(name), &error));
        Ok(match (certificate, key) {
            (None, None) if certificate_file.is_empty() => None,
            (None, None) => Some(Certificate::Files { certificate: file(certificate_file), key: file(key_file) }),
            (certificate, key) => {
                let certificate = certificate.map_or_else(|| read(certificate_file), Ok)?;
                Some(Certificate::Pem { certificate, key: key.map_or_else(|| read(key_file), Ok)? })
            }
        })
    }
}

fn impersonation(user: &Value) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    let name = user.str_at(&["as"]);
    if name.is_empty() {
        return headers;
    }
    headers.push(("impersonate-user".to_string(), name.to_string()));
    let uid = user.str_at(&["as-uid"]);
    if !uid.is_empty() {
        headers.push(("impersonate-uid".to_string(), uid.to_string()));
    }
    for group in user.list_at(&["as-groups"]).iter().filter_map(Value::as_str) {
        headers.push(("impersonate-group".to_string(), group.to_string()));
    }
    if let Some(extra) = user.field("as-user-extra").as_map() {
        for (key, values) in extra.iter() {
            for value in values.as_list().unwrap_or(&[]).iter().filter_map(Value::as_str) {
                headers.push((format!("impersonate-extra-{key}"), value.to_string()));
            }
        }
    }
    headers
}

fn decoded(entry: &Value, field: &str) -> Result<Option<Vec<u8>>, String> {
    match entry.str_at(&[field]) {
        "" => Ok(None),
        text => STANDARD.decode(text.trim()).map(Some).map_err(|error| format!("{field}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = b"
clusters:
- name: c
  cluster: {server: 'https://hook.example:8443/authz', certificate-authority: ca.pem, tls-server-name: other}
users:
- name: hook.example
  user: {token: exact}
- name: '*.default.svc'
  user: {username: u, password: p}
- name: '*'
  user: {client-certificate: me.crt, client-key: me.key}
- name: me
  user: {tokenFile: token, as: someone, as-groups: [a, b]}
contexts:
- name: x
  context: {cluster: c, user: me}
current-context: x
";

    #[test]
    fn the_current_context_says_where_and_how() {
        let config = Kubeconfig::parse(FILE, PathBuf::from("/etc/hooks")).unwrap();
        let (server, options) = config.current().unwrap();
        assert_eq!(server, "https://hook.example:8443/authz");
        assert_eq!(options.roots, Roots::File("/etc/hooks/ca.pem".into()));
        assert_eq!(options.server_name.as_deref(), Some("other"));
        assert_eq!(options.credentials.token, Some(Token::File("/etc/hooks/token".into())));
        assert_eq!(options.credentials.impersonation.len(), 3);
    }

    #[test]
    fn credentials_are_found_by_the_targets_name() {
        let config = Kubeconfig::parse(FILE, PathBuf::new()).unwrap();
        let token = |target: &str| config.credentials_for(target).unwrap().token;
        assert_eq!(token("hook.example:443"), Some(Token::Text("exact".into())));
        assert_eq!(token("hook.example:444"), None);
        assert!(config.credentials_for("hook.example:444").unwrap().certificate.is_some());
        assert_eq!(config.credentials_for("svc.default.svc:443").unwrap().basic, Some(("u".into(), "p".into())));
        let none = Kubeconfig::default();
        assert_eq!(none.credentials_for("a:443").unwrap(), Credentials::default());
        assert!(none.current().is_err());
    }
}
