//! FlowSchemas and PriorityLevelConfigurations as the engine uses them, read from their API objects.

use object::{Str, Value};

/// The priority level of requests that are never refused, and its flow schema.
pub const EXEMPT: &str = "exempt";
pub const CATCH_ALL: &str = "catch-all";

/// A FlowSchema: which requests it matches and where they go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowSchema {
    pub name: Str,
    pub uid: Str,
    pub precedence: i64,
    pub level: Str,
    pub distinguisher: Distinguisher,
    pub rules: Vec<Rule>,
}

/// The distinguisher of the flows of one schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distinguisher {
    #[default]
    None,
    ByUser,
    ByNamespace,
}

/// One entry of `spec.rules`: a request matches if its user is a subject and one of the rules fits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub subjects: Vec<Subject>,
    pub resources: Vec<ResourceRule>,
    pub paths: Vec<PathRule>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    User(Str),
    Group(Str),
    ServiceAccount { namespace: Str, name: Str },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceRule {
    pub verbs: Vec<Str>,
    pub groups: Vec<Str>,
    pub resources: Vec<Str>,
    pub cluster_scope: bool,
    pub namespaces: Vec<Str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathRule {
    pub verbs: Vec<Str>,
    pub paths: Vec<Str>,
}

impl FlowSchema {
    pub fn read(object: &Value) -> FlowSchema {
        let distinguisher = match object.str_at(&["spec", "distinguisherMethod", "type"]) {
            "ByUser" => Distinguisher::ByUser,
            "ByNamespace" => Distinguisher::ByNamespace,
            _ => Distinguisher::None,
        };
        FlowSchema {
            name: object.str_at(&["metadata", "name"]).into(),
            uid: object.str_at(&["metadata", "uid"]).into(),
            precedence: object.at(&["spec", "matchingPrecedence"]).as_int().unwrap_or(0),
            level: object.str_at(&["spec", "priorityLevelConfiguration", "name"]).into(),
            distinguisher,
            rules: object.list_at(&["spec", "rules"]).iter().map(Rule::read).collect(),
        }
    }

    /// The schema `exempt` as it is when its object is missing.
    pub fn mandatory_exempt() -> FlowSchema {
        let rule = Rule { subjects: vec![Subject::Group("system:masters".into())], ..Rule::everything() };
        FlowSchema {
            name: EXEMPT.into(),
            precedence: 1,
            level: EXEMPT.into(),
            rules: vec![rule],
            ..FlowSchema::default()
        }
    }

    /// The schema `catch-all` as it is when its object is missing.
    pub fn mandatory_catch_all() -> FlowSchema {
        let groups = ["system:unauthenticated", "system:authenticated"];
        let subjects = groups.map(|group| Subject::Group(group.into())).to_vec();
        FlowSchema {
            name: CATCH_ALL.into(),
            precedence: 10_000,
            level: CATCH_ALL.into(),
            distinguisher: Distinguisher::ByUser,
            rules: vec![Rule { subjects, ..Rule::everything() }],
            ..FlowSchema::default()
        }
    }
}

impl Rule {
    fn read(rule: &Value) -> Rule {
        Rule {
            subjects: rule.list_at(&["subjects"]).iter().filter_map(Subject::read).collect(),
            resources: rule.list_at(&["resourceRules"]).iter().map(ResourceRule::read).collect(),
            paths: rule.list_at(&["nonResourceRules"]).iter().map(PathRule::read).collect(),
        }
    }

    fn everything() -> Rule {
        let all = || vec!["*".into()];
        let (verbs, groups, resources, namespaces) = (all(), all(), all(), all());
        let resource = ResourceRule { verbs, groups, resources, cluster_scope: true, namespaces };
        Rule { subjects: Vec::new(), resources: vec![resource], paths: vec![PathRule { verbs: all(), paths: all() }] }
    }
}

impl Subject {
    /// None if the kind is unknown or the part that belongs to the kind is missing; such a subject matches no user.
    fn read(subject: &Value) -> Option<Subject> {
        let name = |part: &str| subject.at(&[part, "name"]).as_str().map(Str::from);
        match subject.str_at(&["kind"]) {
            "User" => Some(Subject::User(name("user")?)),
            "Group" => Some(Subject::Group(name("group")?)),
            "ServiceAccount" => {
                let namespace = subject.str_at(&["serviceAccount", "namespace"]).into();
                Some(Subject::ServiceAccount { namespace, name: name("serviceAccount")? })
            }
            _ => None,
        }
    }
}

impl ResourceRule {
    fn read(rule: &Value) -> ResourceRule {
        ResourceRule {
            verbs: strings(rule, "verbs"),
            groups: strings(rule, "apiGroups"),
            resources: strings(rule, "resources"),
            cluster_scope: rule.field("clusterScope").as_bool().unwrap_or(false),
            namespaces: strings(rule, "namespaces"),
        }
    }
}

impl PathRule {
    fn read(rule: &Value) -> PathRule {
        PathRule { verbs: strings(rule, "verbs"), paths: strings(rule, "nonResourceURLs") }
    }
}

/// A PriorityLevelConfiguration.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityLevel {
    pub name: Str,
    pub uid: Str,
    pub shares: f64,
    pub lendable_percent: f64,
    /// None: the level may borrow as much as there is.
    pub borrowing_percent: Option<f64>,
    pub response: Response,
}

/// What a level does with a request for which it has no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Requests run at once, whatever the limit.
    Exempt,
    Reject,
    Queue {
        queues: usize,
        hand_size: usize,
        length_limit: usize,
    },
}

impl PriorityLevel {
    /// Reads the object; None if its parts contradict each other, in which case it is treated as missing.
    pub fn read(object: &Value) -> Option<PriorityLevel> {
        let name: Str = object.str_at(&["metadata", "name"]).into();
        let spec = object.field("spec");
        let (limited, exempt) = (spec.field("limited"), spec.field("exempt"));
        let is_exempt = spec.str_at(&["type"]) == "Exempt";
        let is_consistent =
            is_exempt != exempt.is_null() && is_exempt == limited.is_null() && is_exempt == (name == EXEMPT);
        if !is_consistent {
            return None;
        }
        let part = if is_exempt { exempt } else { limited };
        let number = |field: &str| part.field(field).as_float();
        let response = if is_exempt { Response::Exempt } else { Response::read(limited.field("limitResponse"))? };
        Some(PriorityLevel {
            name,
            uid: object.str_at(&["metadata", "uid"]).into(),
            shares: number("nominalConcurrencyShares").unwrap_or(0.0),
            lendable_percent: number("lendablePercent").unwrap_or(0.0),
            borrowing_percent: if is_exempt { None } else { number("borrowingLimitPercent") },
            response,
        })
    }

    /// The level `exempt` as it is when its object is missing.
    pub fn mandatory_exempt() -> PriorityLevel {
        PriorityLevel::mandatory(EXEMPT, 0.0, Response::Exempt)
    }

    /// The level `catch-all` as it is when its object is missing.
    pub fn mandatory_catch_all() -> PriorityLevel {
        PriorityLevel::mandatory(CATCH_ALL, 5.0, Response::Reject)
    }

    fn mandatory(name: &str, shares: f64, response: Response) -> PriorityLevel {
        let (name, uid) = (name.into(), Str::default());
        PriorityLevel { name, uid, shares, lendable_percent: 0.0, borrowing_percent: None, response }
    }
}

impl Response {
    fn read(response: &Value) -> Option<Response> {
        let queuing = response.field("queuing");
        if (response.str_at(&["type"]) == "Reject") != queuing.is_null() {
            return None;
        }
        if queuing.is_null() {
            return Some(Response::Reject);
        }
        let number = |field: &str| queuing.field(field).as_int().and_then(|n| usize::try_from(n).ok());
        let (queues, hand_size) = (number("queues")?, number("handSize")?);
        crate::shuffle::Dealer::new(queues, hand_size)?;
        Some(Response::Queue { queues, hand_size, length_limit: number("queueLengthLimit")? })
    }
}

fn strings(value: &Value, field: &str) -> Vec<Str> {
    value.list_at(&[field]).iter().filter_map(|item| item.as_str().map(Str::from)).collect()
}
