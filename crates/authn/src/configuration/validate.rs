//! The rules of an AuthenticationConfiguration, with upstream's messages, and its expressions compiled.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::{Declarations, Environment, Expression, Mode, Program, Type, selects};
use object::names::{self, Problem};
use object::url::Url;
use object::{BadValue, Errors, Path, Value, quote};

use super::{
    AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, ExtraMapping, IssuerConfiguration,
    JwtConfiguration, PrefixedClaimOrExpression, UserValidationRule,
};
use crate::jwt::user_type;

const ISSUERS_MAX: usize = 64;
const EMAIL_NEEDS_VERIFIED: &str = "claims.email_verified must be used in claimMappings.username.expression or \
claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
claimMappings.username.expression";

/// The expressions of one issuer; None where a claim is taken as it is.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    pub username: Option<Rule>,
    pub groups: Option<Rule>,
    pub uid: Option<Rule>,
    /// With the key of each value.
    pub extra: Vec<(String, Rule)>,
    pub claim_validation_rules: Vec<Rule>,
    pub user_validation_rules: Vec<Rule>,
}

/// An expression that compiled, and what to say where it is a rule and is broken.
#[derive(Clone, Debug)]
pub struct Rule {
    pub text: String,
    pub message: String,
    pub program: Arc<Program>,
}

/// What is wrong with a configuration. Tokens of `disallowed` issuers are for other authenticators.
pub fn validate(configuration: &AuthenticationConfiguration, disallowed: &[String], egress: bool) -> Errors {
    let mut errors = Errors::new();
    let root = Path::root().field("jwt");
    if configuration.jwt.len() > ISSUERS_MAX {
        errors.too_many(&root, configuration.jwt.len(), ISSUERS_MAX);
        return errors;
    }
    let (mut issuers, mut discovery_urls) = (BTreeSet::new(), BTreeSet::new());
    for (at, jwt) in configuration.jwt.iter().enumerate() {
        let path = root.index(at);
        let mut validation = ConfigurationValidation { disallowed, egress, errors };
        validation.jwt(jwt, &path);
        errors = validation.errors;
        let issuer = &jwt.issuer;
        if !issuers.insert(&issuer.url) {
            errors.duplicate(&path.field("issuer").field("url"), issuer.url.clone());
        }
        if !issuer.discovery_url.is_empty() && !discovery_urls.insert(&issuer.discovery_url) {
            errors.duplicate(&path.field("issuer").field("discoveryURL"), issuer.discovery_url.clone());
        }
    }
    if let Some(anonymous) = &configuration.anonymous
        && !anonymous.enabled
        && !anonymous.paths.is_empty()
    {
        let shown: Vec<String> = anonymous.paths.iter().map(|path| format!("{{\"Path\":{}}}", quote(path))).collect();
        let shown = BadValue::Raw(format!("[{}]", shown.join(",")));
        let path = Path::of("anonymous").field("conditions");
        errors.invalid(&path, shown, "enabled should be set to true when conditions are defined");
    }
    errors
}

/// Validates one issuer by itself and compiles its expressions.
pub fn compile(jwt: &JwtConfiguration, disallowed: &[String], egress: bool) -> Result<Compiled, Errors> {
    let mut validation = ConfigurationValidation { disallowed, egress, errors: Errors::new() };
    let compiled = validation.jwt(jwt, &Path::root());
    if validation.errors.is_empty() { Ok(compiled) } else { Err(validation.errors) }
}

struct ConfigurationValidation<'a> {
    disallowed: &'a [String],
    /// Whether the gate StructuredAuthenticationConfigurationEgressSelector is on.
    egress: bool,
    errors: Errors,
}

/// Which variable an expression has.
#[derive(Clone, Copy)]
enum Variable {
    Claims,
    User,
}

impl ConfigurationValidation<'_> {
    fn jwt(&mut self, jwt: &JwtConfiguration, path: &Path) -> Compiled {
        self.issuer(&jwt.issuer, &path.field("issuer"));
        let claim_validation_rules = self.claim_rules(&jwt.claim_validation_rules, &path.field("claimValidationRules"));
        let verified = claim_validation_rules.iter().any(|rule| uses_claim(&rule.text, "email_verified"));
        let mut compiled = self.mappings(&jwt.claim_mappings, verified, &path.field("claimMappings"));
        compiled.claim_validation_rules = claim_validation_rules;
        compiled.user_validation_rules =
            self.user_rules(&jwt.user_validation_rules, &path.field("userValidationRules"));
        compiled
    }

    fn issuer(&mut self, issuer: &IssuerConfiguration, path: &Path) {
        if issuer.url.is_empty() {
            self.errors.required(&path.field("url"), "");
        } else {
            self.url(&issuer.url, self.disallowed, &path.field("url"));
        }
        let discovery = path.field("discoveryURL");
        if !issuer.discovery_url.is_empty() {
            let same = issuer.url.trim_end_matches('/') == issuer.discovery_url.trim_end_matches('/');
            if !issuer.url.is_empty() && same {
                let why = "discoveryURL must be different from URL";
                self.errors.invalid(&discovery, issuer.discovery_url.clone(), why);
            }
            self.url(&issuer.discovery_url, &[], &discovery);
        }
        self.audiences(issuer, path);
        if !issuer.certificate_authority.is_empty()
            && let Some(why) = bad_certificates(&issuer.certificate_authority)
        {
            self.errors.invalid(&path.field("certificateAuthority"), "<omitted>", why);
        }
        let egress = path.field("egressSelectorType");
        let shown = || BadValue::Value(Value::from(issuer.egress_selector_type.clone()));
        match issuer.egress_selector_type.as_str() {
            "" => return,
            _ if !self.egress => {
                let why = "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector \
                           feature gate is disabled";
                self.errors.invalid(&egress, shown(), why);
            }
            _ => {}
        }
        if !matches!(issuer.egress_selector_type.as_str(), "controlplane" | "cluster") {
            self.errors.invalid(&egress, shown(), "egress selector must be either controlplane or cluster");
        }
    }

    fn url(&mut self, text: &str, disallowed: &[String], path: &Path) {
        if disallowed.iter().any(|issuer| issuer == text) {
            let mut sorted: Vec<&str> = disallowed.iter().map(String::as_str).collect();
            sorted.sort_unstable();
            sorted.dedup();
            let why = format!("URL must not overlap with disallowed issuers: [{}]", sorted.join(" "));
            self.errors.invalid(path, text, why);
        }
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(why) => return self.errors.invalid(path, text, why),
        };
        for (wrong, why) in [
            (url.scheme != "https", "URL scheme must be https"),
            (url.has_user(), "URL must not contain a username or password"),
            (url.has_query(), "URL must not contain a query"),
            (url.has_fragment(), "URL must not contain a fragment"),
        ] {
            if wrong {
                self.errors.invalid(path, text, why);
            }
        }
    }

    fn audiences(&mut self, issuer: &IssuerConfiguration, path: &Path) {
        let audiences = path.field("audiences");
        if issuer.audiences.is_empty() {
            return self.errors.required(&audiences, format!("at least one {audiences} is required"));
        }
        let mut seen = BTreeSet::new();
        for (at, audience) in issuer.audiences.iter().enumerate() {
            if audience.is_empty() {
                self.errors.required(&audiences.index(at), "");
            }
            if !seen.insert(audience) {
                self.errors.duplicate(&audiences.index(at), audience.clone());
            }
        }
        let policy = issuer.audience_match_policy.as_str();
        let why = match issuer.audiences.len() {
            1 if policy.is_empty() => return,
            1 => "audienceMatchPolicy must be empty or MatchAny for single audience",
            _ => "audienceMatchPolicy must be MatchAny for multiple audiences",
        };
        if policy != "MatchAny" {
            self.errors.invalid(&path.field("audienceMatchPolicy"), policy, why);
        }
    }

    fn claim_rules(&mut self, rules: &[ClaimValidationRule], path: &Path) -> Vec<Rule> {
        let (mut claims, mut expressions, mut compiled) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for (at, rule) in rules.iter().enumerate() {
            let path = path.index(at);
            match (rule.claim.is_empty(), rule.expression.is_empty()) {
                (false, false) => {
                    self.errors.invalid(&path, rule.claim.clone(), "claim and expression can't both be set");
                }
                (true, true) => self.errors.required(&path, "claim or expression is required"),
                (false, true) => {
                    if !rule.message.is_empty() {
                        let why = "may not be specified when claim is set";
                        self.errors.invalid(&path.field("message"), rule.message.clone(), why);
                    }
                    if !claims.insert(&rule.claim) {
                        self.errors.duplicate(&path.field("claim"), rule.claim.clone());
                    }
                }
                (true, false) => {
                    if !rule.required_value.is_empty() {
                        let why = "may not be specified when expression is set";
                        self.errors.invalid(&path.field("requiredValue"), rule.required_value.clone(), why);
                    }
                    if !expressions.insert(&rule.expression) {
                        self.errors.duplicate(&path.field("expression"), rule.expression.clone());
                        continue;
                    }
                    let found = self.expression(&rule.expression, Variable::Claims, true, &path.field("expression"));
                    compiled.extend(found.map(|found| Rule { message: rule.message.clone(), ..found }));
                }
            }
        }
        compiled
    }

    fn mappings(&mut self, mappings: &ClaimMappings, verified: bool, path: &Path) -> Compiled {
        let username = self.prefixed(&mappings.username, true, &path.field("username"));
        let groups = self.prefixed(&mappings.groups, false, &path.field("groups"));
        let uid_path = path.field("uid");
        let uid = match (mappings.uid.claim.as_str(), mappings.uid.expression.as_str()) {
            (_, "") => None,
            ("", text) => self.expression(text, Variable::Claims, false, &uid_path.field("expression")),
            _ => {
                self.errors.invalid(&uid_path, "", "claim and expression can't both be set");
                None
            }
        };
        let extra = self.extra(&mappings.extra, &path.field("extra"));
        let uses = |rule: &Rule, claim: &str| uses_claim(&rule.text, claim);
        let verified = verified
            || username.iter().chain(extra.iter().map(|(_, rule)| rule)).any(|rule| uses(rule, "email_verified"));
        if username.as_ref().is_some_and(|rule| uses(rule, "email")) && !verified {
            let expression = mappings.username.expression.clone();
            self.errors.invalid(&path.field("username").field("expression"), expression, EMAIL_NEEDS_VERIFIED);
        }
        Compiled { username, groups, uid, extra, ..Compiled::default() }
    }

    fn prefixed(&mut self, mapping: &PrefixedClaimOrExpression, required: bool, path: &Path) -> Option<Rule> {
        match (mapping.claim.is_empty(), mapping.expression.is_empty()) {
            (false, false) => self.errors.invalid(path, "", "claim and expression can't both be set"),
            (true, true) if required => self.errors.required(path, "claim or expression is required"),
            (true, true) => {}
            (true, false) => {
                if let Some(prefix) = &mapping.prefix {
                    let why = "may not be specified when expression is set";
                    self.errors.invalid(&path.field("prefix"), prefix.clone(), why);
                }
                return self.expression(&mapping.expression, Variable::Claims, false, &path.field("expression"));
            }
            (false, true) => {
                if mapping.prefix.is_none() {
                    let why =
                        "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                    self.errors.required(&path.field("prefix"), why);
                }
            }
        }
        None
    }

    fn extra(&mut self, extra: &[ExtraMapping], path: &Path) -> Vec<(String, Rule)> {
        let (mut seen, mut compiled) = (BTreeSet::new(), Vec::new());
        for (at, mapping) in extra.iter().enumerate() {
            let (path, text) = (path.index(at), mapping.key.as_str());
            let key = path.field("key");
            for problem in names::domain_prefixed_path(text) {
                match problem {
                    Problem::Required => self.errors.required(&key, ""),
                    Problem::Invalid { value, detail } => self.errors.invalid(&key, value, detail),
                    Problem::TooLong { max_bytes } => self.errors.too_long(&key, max_bytes),
                }
            }
            if text != text.to_lowercase() {
                self.errors.invalid(&key, text, "must be lowercase");
            }
            let domain = text.split_once('/').map_or("", |(domain, _)| domain);
            let is_below = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
            if is_below("kubernetes.io") || is_below("k8s.io") {
                let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
                self.errors.invalid(&key, text, why);
            }
            if !seen.insert(text) {
                self.errors.duplicate(&key, text);
                continue;
            }
            let path = path.field("valueExpression");
            if mapping.value_expression.is_empty() {
                self.errors.required(&path, "");
                continue;
            }
            let found = self.expression(&mapping.value_expression, Variable::Claims, false, &path);
            compiled.extend(found.map(|rule| (mapping.key.clone(), rule)));
        }
        compiled
    }

    fn user_rules(&mut self, rules: &[UserValidationRule], path: &Path) -> Vec<Rule> {
        let (mut seen, mut compiled) = (BTreeSet::new(), Vec::new());
        for (at, rule) in rules.iter().enumerate() {
            let path = path.index(at).field("expression");
            if rule.expression.is_empty() {
                self.errors.required(&path, "");
            } else if !seen.insert(&rule.expression) {
                self.errors.duplicate(&path, rule.expression.clone());
            } else {
                let found = self.expression(&rule.expression, Variable::User, true, &path);
                compiled.extend(found.map(|found| Rule { message: rule.message.clone(), ..found }));
            }
        }
        compiled
    }

    /// Compiles an expression, which must be a condition if `wants_bool`.
    fn expression(&mut self, text: &str, variable: Variable, wants_bool: bool, path: &Path) -> Option<Rule> {
        let declarations = match variable {
            Variable::Claims => Declarations::new().variable_of("claims", Type::map(Type::String, Type::Any)),
            Variable::User => Declarations::new().variable_of("user", Type::Object(user_type())),
        };
        let expression = match Expression::compile(text, &Environment::base(Mode::Stored), &declarations) {
            Ok(expression) => expression,
            Err(why) => {
                self.errors.invalid(path, text, format!("compilation failed: {why}"));
                return None;
            }
        };
        if wants_bool && !matches!(expression.ty, Type::Bool) {
            self.errors.invalid(path, text, "must evaluate to bool");
            return None;
        }
        match expression.program {
            Ok(program) => Some(Rule { text: text.to_string(), message: String::new(), program }),
            Err(why) => {
                self.errors.internal(path, format!("program instantiation failed: {why}"));
                None
            }
        }
    }
}

fn uses_claim(text: &str, claim: &str) -> bool {
    selects(text, &Environment::base(Mode::Stored), "claims", claim)
}

/// What Go says about a bundle without usable certificates.
fn bad_certificates(pem: &str) -> Option<String> {
    gox509::parse_bundle(pem.as_bytes()).err()
}
