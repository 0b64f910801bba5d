//! Chains from a certificate to one that is trusted, by the rules of Go's `Certificate.Verify`.

use std::cell::Cell;

use crate::certificate::Certificate;
use crate::extensions::ExtendedUsage;
use crate::pool::Pool;
use crate::times::Time;
use crate::{constraints, host, policies};

/// How many signatures one verification looks at.
const SIGNATURE_CHECKS_MAX: u32 = 100;
/// The bit of keyUsage that lets a key sign certificates.
const CERT_SIGN: u16 = 1 << 5;

/// What a certificate is verified for.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub roots: &'a Pool,
    /// Certificates that are not trusted and may lead to one that is.
    pub intermediates: &'a Pool,
    /// Seconds since the epoch.
    pub now: i64,
    pub usage: ExtendedUsage,
    /// Whom the certificate must be for, if that matters.
    pub host: Option<&'a str>,
}

/// Certificates that vouch for each other: the verified one first, a trusted one last.
pub type Chain<'a> = Vec<&'a Certificate>;

/// Why a certificate is not believed. The texts are Go's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyError {
    UnhandledCriticalExtension,
    NotAuthorizedToSign,
    Expired(String),
    NotAuthorizedForName(String),
    TooManyIntermediates,
    IncompatibleUsage,
    NameMismatch,
    NoValidChains(String),
    Host(String),
    /// What was wrong with an authority that came into question, and its name.
    UnknownAuthority(Option<(String, String)>),
    SignatureLimit,
}

impl std::error::Error for VerifyError {}

impl std::fmt::Display for VerifyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use VerifyError as E;
        match self {
            E::UnhandledCriticalExtension => f.write_str("x509: unhandled critical extension"),
            E::NotAuthorizedToSign => f.write_str("x509: certificate is not authorized to sign other certificates"),
            E::Expired(when) => write!(f, "x509: certificate has expired or is not yet valid: {when}"),
            E::NotAuthorizedForName(why) => {
                write!(f, "x509: a root or intermediate certificate is not authorized to sign for this name: {why}")
            }
            E::TooManyIntermediates => f.write_str("x509: too many intermediates for path length constraint"),
            E::IncompatibleUsage => f.write_str("x509: certificate specifies an incompatible key usage"),
            E::NameMismatch => f.write_str("x509: issuer name does not match subject from issuing certificate"),
            E::NoValidChains(details) => write!(f, "x509: no valid chains built: {details}"),
            E::Host(why) => f.write_str(why),
            E::UnknownAuthority(None) => f.write_str("x509: certificate signed by unknown authority"),
            E::UnknownAuthority(Some((why, name))) => write!(
                f,
                "x509: certificate signed by unknown authority (possibly because of {} while trying to verify candidate \
                 authority certificate {})",
                object::quote(why),
                object::quote(name)
            ),
            E::SignatureLimit => {
                f.write_str("x509: signature check attempts limit reached while verifying certificate chain")
            }
        }
    }
}

impl Certificate {
    /// All chains to a trusted certificate; Err if there is none that may be used for this.
    pub fn verify<'a>(&'a self, options: &Options<'a>) -> Result<Vec<Chain<'a>>, VerifyError> {
        self.check_validity(ChainPlace::Leaf, &[], options.now)?;
        if let Some(name) = options.host.filter(|name| !name.is_empty()) {
            self.verify_host(name)?;
        }
        let candidates = if options.roots.contains(self) {
            vec![vec![self]]
        } else {
            Builder { options, checks: Cell::new(0) }.chains(self, &[self])?
        };
        usable(candidates, options.usage)
    }

    /// Whether it is for this host.
    pub fn verify_host(&self, host: &str) -> Result<(), VerifyError> {
        host::verify(self, host).map_err(VerifyError::Host)
    }

    /// Whether it may stand at this place of a chain, after those in `chain`.
    fn check_validity(&self, place: ChainPlace, chain: &[&Certificate], now: i64) -> Result<(), VerifyError> {
        if self.extensions.has_unhandled_critical {
            return Err(VerifyError::UnhandledCriticalExtension);
        }
        if chain.last().is_some_and(|child| child.raw_issuer != self.raw_subject) {
            return Err(VerifyError::NameMismatch);
        }
        let current = Time::at(now);
        if now < self.not_before.seconds {
            return Err(VerifyError::Expired(format!("current time {current} is before {}", self.not_before)));
        }
        if now > self.not_after.seconds {
            return Err(VerifyError::Expired(format!("current time {current} is after {}", self.not_after)));
        }
        if place == ChainPlace::Intermediate && !self.is_ca() {
            return Err(VerifyError::NotAuthorizedToSign);
        }
        let limit = self.extensions.basic_constraints.and_then(|constraints| constraints.max_path_len);
        let below = i64::try_from(chain.len()).unwrap_or(i64::MAX) - 1;
        if limit.is_some_and(|limit| below > limit) {
            return Err(VerifyError::TooManyIntermediates);
        }
        Ok(())
    }

    /// Checks that the parent signed this certificate, and was allowed to.
    fn check_signature_from(&self, parent: &Certificate) -> Result<(), String> {
        let says_so = match parent.extensions.basic_constraints {
            Some(constraints) => constraints.is_ca,
            // Certificates of earlier versions cannot say whether they are an authority's.
            None => parent.version != 3,
        };
        let usage = parent.extensions.key_usage;
        if !says_so || (usage != 0 && usage & CERT_SIGN == 0) {
            return Err("x509: invalid signature: parent certificate cannot sign this kind of certificate".into());
        }
        let key = parent.key.as_ref().ok_or("x509: cannot verify signature: algorithm unimplemented")?;
        self.signature_algorithm.check(key, &self.signed, &self.signature, false)
    }

    /// Whether a chain has this name and key already, which ends circles of authorities that vouch for each other.
    fn is_in(&self, chain: &[&Certificate]) -> bool {
        let names = self.extensions.alternative_names();
        for known in chain {
            if self.raw_subject != known.raw_subject || self.raw_key != known.raw_key {
                continue;
            }
            match (names, known.extensions.alternative_names()) {
                (None, None) => return true,
                (Some(names), Some(known)) if names == known => return true,
                (Some(_), Some(_)) => {}
                _ => return false,
            }
        }
        false
    }

    /// What errors call it.
    fn shown_name(&self) -> String {
        match (self.subject.common_name.as_str(), self.subject.organizations.first()) {
            ("", Some(organization)) => organization.clone(),
            ("", None) => format!("serial:{}", self.serial()),
            (name, _) => name.to_string(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainPlace {
    Leaf,
    Intermediate,
    Root,
}

struct Builder<'o, 'a> {
    options: &'o Options<'a>,
    /// Signatures that were looked at.
    checks: Cell<u32>,
}

impl<'a> Builder<'_, 'a> {
    /// All ways from the last certificate of a chain to a trusted one.
    fn chains(&self, last: &'a Certificate, chain: &[&'a Certificate]) -> Result<Vec<Chain<'a>>, VerifyError> {
        let (mut chains, mut error, mut hint) = (Vec::new(), None, None);
        let places = [(ChainPlace::Root, self.options.roots), (ChainPlace::Intermediate, self.options.intermediates)];
        for (place, pool) in places {
            for parent in pool.potential_parents(last) {
                self.checks.set(self.checks.get() + 1);
                if self.checks.get() > SIGNATURE_CHECKS_MAX {
                    return finish(chains, Some(VerifyError::SignatureLimit), hint);
                }
                if parent.key.is_none() || parent.is_in(chain) {
                    continue;
                }
                if let Err(why) = last.check_signature_from(parent) {
                    hint.get_or_insert_with(|| (why, parent.shown_name()));
                    continue;
                }
                error = parent.check_validity(place, chain, self.options.now).err();
                if let Some(why) = &error {
                    hint.get_or_insert_with(|| (why.to_string(), parent.shown_name()));
                    continue;
                }
                let longer = [chain, &[parent.as_ref()]].concat();
                if place == ChainPlace::Root {
                    chains.push(longer);
                    continue;
                }
                match self.chains(parent, &longer) {
                    Ok(found) => chains.extend(found),
                    Err(VerifyError::SignatureLimit) => {
                        return finish(chains, Some(VerifyError::SignatureLimit), hint);
                    }
                    Err(why) => error = Some(why),
                }
            }
        }
        finish(chains, error, hint)
    }
}

/// What was found, or what was wrong last: the first authority that came into question is only told where nothing else was.
fn finish<'a>(
    chains: Vec<Chain<'a>>,
    error: Option<VerifyError>,
    hint: Option<(String, String)>,
) -> Result<Vec<Chain<'a>>, VerifyError> {
    match error {
        _ if !chains.is_empty() => Ok(chains),
        Some(error) => Err(error),
        None => Err(VerifyError::UnknownAuthority(hint)),
    }
}

/// The chains that may be used for this, by their policies, usages and constraints on names.
fn usable(candidates: Vec<Chain<'_>>, usage: ExtendedUsage) -> Result<Vec<Chain<'_>>, VerifyError> {
    let (mut bad_policies, mut bad_usages, mut bad_name) = (0, 0, None);
    let mut good = Vec::new();
    for chain in candidates {
        if !policies::are_valid(&chain) {
            bad_policies += 1;
        } else if !allows(&chain, usage) {
            bad_usages += 1;
        } else if let Err(why) = constraints::check(&chain) {
            bad_name.get_or_insert(why);
        } else {
            good.push(chain);
        }
    }
    if !good.is_empty() {
        return Ok(good);
    }
    if let Some(why) = bad_name {
        return Err(VerifyError::NotAuthorizedForName(why));
    }
    if bad_policies == 0 {
        return Err(VerifyError::IncompatibleUsage);
    }
    let mut details = Vec::new();
    if bad_usages > 0 {
        details.push(format!("{bad_usages} candidate chains with incompatible key usage"));
    }
    details.push(format!("{bad_policies} candidate chains with invalid policies"));
    Err(VerifyError::NoValidChains(details.join(", ")))
}

/// Whether every certificate of a chain that names its uses names this one.
fn allows(chain: &[&Certificate], usage: ExtendedUsage) -> bool {
    chain.iter().all(|certificate| {
        let named = &certificate.extensions.extended_usages;
        usage == ExtendedUsage::Any || named.is_empty() || named.contains(&ExtendedUsage::Any) || named.contains(&usage)
    })
}
