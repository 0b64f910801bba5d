//! `--requestheader-*`: a front proxy has authenticated the user and says who it is in headers.

use http::HeaderMap;
use request::User;

use crate::headers::{extra_key, texts};
use crate::{CertificateAuthority, Credentials, Identity, Method, Refused};

/// Headers that name a user. All names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserHeaders {
    pub names: Vec<String>,
    pub uids: Vec<String>,
    pub groups: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

impl UserHeaders {
    /// The headers that the aggregator sends.
    pub fn standard() -> UserHeaders {
        let one = |name: &str| vec![name.to_string()];
        UserHeaders {
            names: one("x-remote-user"),
            uids: one("x-remote-uid"),
            groups: one("x-remote-group"),
            extra_prefixes: one("x-remote-extra-"),
        }
    }

    /// Removes these headers, so that servers behind this one do not take them as ours.
    pub fn strip(&self, headers: &mut HeaderMap) {
        for name in [&self.names, &self.uids, &self.groups].into_iter().flatten() {
            headers.remove(name.as_str());
        }
        let is_extra = |name: &str| self.extra_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()));
        let extra: Vec<_> = headers.keys().filter(|name| is_extra(name.as_str())).cloned().collect();
        extra.into_iter().for_each(|name| drop(headers.remove(name)));
    }

    /// The user that the headers name; None if they name none.
    fn user(&self, headers: &HeaderMap) -> Result<Option<User>, Refused> {
        let unreadable = |error: crate::headers::Unreadable| Refused::because(error.to_string());
        let first = |names: &[String]| {
            for name in names {
                let values = texts(headers, name).map_err(unreadable)?;
                if let Some(value) = values.first().filter(|value| !value.is_empty()) {
                    return Ok(value.to_string());
                }
            }
            Ok(String::new())
        };
        let name = first(&self.names)?;
        if name.is_empty() {
            return Ok(None);
        }
        let mut groups = Vec::new();
        for header in &self.groups {
            let values = texts(headers, header).map_err(unreadable)?;
            groups.extend(values.into_iter().filter(|group| !group.is_empty()).map(str::to_string));
        }
        let mut extra: Vec<(String, Vec<String>)> = Vec::new();
        for prefix in &self.extra_prefixes {
            for header in headers.keys().filter(|header| header.as_str().starts_with(prefix.as_str())) {
                let key = extra_key(header.as_str(), prefix).map_err(unreadable)?;
                let values = texts(headers, header.as_str()).map_err(unreadable)?;
                let values = values.into_iter().map(str::to_string);
                match extra.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => known.extend(values),
                    None => extra.push((key, values.collect())),
                }
            }
        }
        extra.sort();
        Ok(Some(User { name, uid: first(&self.uids)?, groups, extra }))
    }
}

/// Believes the headers of proxies that show a certificate of the right authority.
pub struct RequestHeader {
    pub proxies: std::sync::Arc<CertificateAuthority>,
    /// `--requestheader-allowed-names`: common names of proxies; empty for all.
    pub allowed_names: Vec<String>,
    pub headers: UserHeaders,
}

#[async_trait::async_trait]
impl Method for RequestHeader {
    async fn identify(&self, credentials: &Credentials<'_>) -> Result<Option<Identity>, Refused> {
        let named = self.headers.names.iter().any(|name| credentials.headers.contains_key(name.as_str()));
        if !named || credentials.certificates.is_empty() {
            return Ok(None);
        }
        let name = self.proxies.common_name(credentials)?;
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&name) {
            return Err(Refused::because(format!("x509: subject with cn={name} is not in the allowed list")));
        }
        Ok(self.headers.user(credentials.headers)?.map(|user| Identity { user, ..Identity::default() }))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(list: &[(&str, &[u8])]) -> HeaderMap {
        let pair = |(name, value): &(&str, &[u8])| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in list.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn headers_name_a_user() {
        let sent = headers(&[
            ("X-Remote-User", b"ann"),
            ("X-Remote-Uid", b"u-1"),
            ("X-Remote-Group", b"devs"),
            ("X-Remote-Group", b""),
            ("X-Remote-Group", b"ops"),
            ("X-Remote-Extra-acme.io%2Fproject", b"p"),
            ("X-Remote-Extra-acme.io%2Fproject", b"q"),
            ("Accept", b"*/*"),
        ]);
        let standard = UserHeaders::standard();
        let user = standard.user(&sent).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("ann", "u-1"));
        assert_eq!(user.groups, ["devs", "ops"]);
        assert_eq!(user.extra, [("acme.io/project".to_string(), vec!["p".to_string(), "q".to_string()])]);
        let mut stripped = sent.clone();
        standard.strip(&mut stripped);
        assert_eq!(stripped.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
        assert_eq!(standard.user(&stripped).unwrap(), None);
        assert_eq!(standard.user(&headers(&[("X-Remote-User", b"")])).unwrap(), None);
        assert!(standard.user(&headers(&[("X-Remote-User", b"j\xfcrgen")])).is_err());
    }
}
