//! [`AuthenticationConfiguration`]: the file of `--authentication-config`.

mod validate;

use codec::{ConfigKind, ConfigType as Type, Fields};
use object::Value;

pub use self::validate::{Compiled, Rule, compile, validate};

/// What the file says. Missing texts are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthenticationConfiguration {
    pub jwt: Vec<JwtConfiguration>,
    pub anonymous: Option<Anonymous>,
}

/// Who may be anonymous.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anonymous {
    pub enabled: bool,
    /// If there are any, only requests for these paths may be anonymous.
    pub paths: Vec<String>,
}

/// An issuer of tokens, and the user that its tokens stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JwtConfiguration {
    pub issuer: IssuerConfiguration,
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    pub claim_mappings: ClaimMappings,
    pub user_validation_rules: Vec<UserValidationRule>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct IssuerConfiguration {
    pub url: String,
    /// Where discovery is, if not below `url`.
    pub discovery_url: String,
    /// PEM; the system's authorities if empty.
    pub certificate_authority: String,
    pub audiences: Vec<String>,
    pub audience_match_policy: String,
    /// `controlplane` or `cluster`; empty for a direct connection.
    pub egress_selector_type: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimValidationRule {
    pub claim: String,
    pub required_value: String,
    pub expression: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimMappings {
    pub username: PrefixedClaimOrExpression,
    pub groups: PrefixedClaimOrExpression,
    pub uid: ClaimOrExpression,
    pub extra: Vec<ExtraMapping>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefixedClaimOrExpression {
    pub claim: String,
    pub prefix: Option<String>,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimOrExpression {
    pub claim: String,
    pub expression: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraMapping {
    pub key: String,
    pub value_expression: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserValidationRule {
    pub expression: String,
    pub message: String,
}

const KIND: ConfigKind = ConfigKind {
    kind: "AuthenticationConfiguration",
    versions: &["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"],
    scheme: "pkg/kubeapiserver/options/authentication.go:874",
    fields: &[
        ("jwt", Type::List(&Type::Object(JWT))),
        (
            "anonymous",
            Type::Object(&[
                ("enabled", Type::Bool),
                ("conditions", Type::List(&Type::Object(&[("path", Type::String)]))),
            ]),
        ),
    ],
};

const JWT: Fields = &[
    (
        "issuer",
        Type::Object(&[
            ("url", Type::String),
            ("discoveryURL", Type::String),
            ("certificateAuthority", Type::String),
            ("audiences", Type::List(&Type::String)),
            ("audienceMatchPolicy", Type::String),
            ("egressSelectorType", Type::String),
        ]),
    ),
    (
        "claimValidationRules",
        Type::List(&Type::Object(&[
            ("claim", Type::String),
            ("requiredValue", Type::String),
            ("expression", Type::String),
            ("message", Type::String),
        ])),
    ),
    (
        "claimMappings",
        Type::Object(&[
            ("username", PREFIXED),
            ("groups", PREFIXED),
            ("uid", Type::Object(&[("claim", Type::String), ("expression", Type::String)])),
            ("extra", Type::List(&Type::Object(&[("key", Type::String), ("valueExpression", Type::String)]))),
        ]),
    ),
    ("userValidationRules", Type::List(&Type::Object(&[("expression", Type::String), ("message", Type::String)]))),
];

const PREFIXED: Type = Type::Object(&[("claim", Type::String), ("prefix", Type::String), ("expression", Type::String)]);

impl AuthenticationConfiguration {
    /// Reads a file's contents. Err is upstream's text.
    pub fn read(text: &[u8]) -> Result<AuthenticationConfiguration, String> {
        if text.is_empty() {
            return Err("empty config data".into());
        }
        let file = KIND.read(text)?;
        let anonymous = file.field("anonymous");
        Ok(AuthenticationConfiguration {
            jwt: file.list_at(&["jwt"]).iter().map(jwt).collect(),
            anonymous: (!anonymous.is_null()).then(|| Anonymous {
                enabled: anonymous.field("enabled").as_bool().unwrap_or(false),
                paths: each(anonymous, "conditions", |condition| text_of(condition, "path")),
            }),
        })
    }
}

fn jwt(jwt: &Value) -> JwtConfiguration {
    let (issuer, mappings) = (jwt.field("issuer"), jwt.field("claimMappings"));
    let prefixed = |value: &Value| PrefixedClaimOrExpression {
        claim: text_of(value, "claim"),
        prefix: value.field("prefix").as_str().map(str::to_string),
        expression: text_of(value, "expression"),
    };
    JwtConfiguration {
        issuer: IssuerConfiguration {
            url: text_of(issuer, "url"),
            discovery_url: text_of(issuer, "discoveryURL"),
            certificate_authority: text_of(issuer, "certificateAuthority"),
            audiences: each(issuer, "audiences", |audience| audience.as_str().unwrap_or("").to_string()),
            audience_match_policy: text_of(issuer, "audienceMatchPolicy"),
            egress_selector_type: text_of(issuer, "egressSelectorType"),
        },
        claim_validation_rules: each(jwt, "claimValidationRules", |rule| ClaimValidationRule {
            claim: text_of(rule, "claim"),
            required_value: text_of(rule, "requiredValue"),
            expression: text_of(rule, "expression"),
            message: text_of(rule, "message"),
        }),
        claim_mappings: ClaimMappings {
            username: prefixed(mappings.field("username")),
            groups: prefixed(mappings.field("groups")),
            uid: ClaimOrExpression {
                claim: text_of(mappings.field("uid"), "claim"),
                expression: text_of(mappings.field("uid"), "expression"),
            },
            extra: each(mappings, "extra", |extra| ExtraMapping {
                key: text_of(extra, "key"),
                value_expression: text_of(extra, "valueExpression"),
            }),
        },
        user_validation_rules: each(jwt, "userValidationRules", |rule| UserValidationRule {
            expression: text_of(rule, "expression"),
            message: text_of(rule, "message"),
        }),
    }
}

fn text_of(value: &Value, field: &str) -> String {
    value.str_at(&[field]).to_string()
}

fn each<T>(value: &Value, list: &str, read: impl Fn(&Value) -> T) -> Vec<T> {
    value.list_at(&[list]).iter().map(read).collect()
}
