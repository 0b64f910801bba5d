use proptest::prelude::*;

use super::*;

const LABELS: [(&str, &str); 4] = [("app", "web"), ("tier", "a"), ("n", "5"), ("empty", "")];

fn parse(text: &str) -> Selector {
    Selector::parse(text, None).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn selectors_parse_match_and_print() {
    let cases = [
        ("", true, ""),
        ("app=web", true, "app=web"),
        ("app == web", true, "app==web"),
        ("app!=web", false, "app!=web"),
        ("other!=web", true, "other!=web"),
        ("tier in (b,a,b)", true, "tier in (a,b)"),
        ("tier notin (b)", true, "tier notin (b)"),
        ("other notin (b)", true, "other notin (b)"),
        ("other in (b)", false, "other in (b)"),
        ("empty in (,x)", true, "empty in (,x)"),
        ("empty in ()", true, "empty in ()"),
        ("empty in (x,,y)", true, "empty in (,x,y)"),
        ("empty=", true, "empty="),
        ("app=,tier", false, "app=,tier"),
        ("!app", false, "!app"),
        ("!other , app", true, "app,!other"),
        ("n>4,n<6", true, "n>4,n<6"),
        ("n>5", false, "n>5"),
        ("app>1", false, "app>1"),
        ("other<1", false, "other<1"),
        ("in in (in,notin)", false, "in in (in,notin)"),
        ("tier=a,app=web,a.b/c!=d", true, "a.b/c!=d,app=web,tier=a"),
        ("app\t=\nweb\0", true, "app=web"),
    ];
    for (text, matches, printed) in cases {
        let selector = parse(text);
        assert_eq!(selector.matches(LABELS), matches, "{text}");
        assert_eq!(selector.to_string(), printed, "{text}");
        assert_eq!(parse(printed), selector, "{text}");
    }
}

#[test]
fn parse_errors_are_upstreams() {
    let name_rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let value_rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                      must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                      regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let binary = "expected: in, notin, =, ==, !=, gt, lt";
    let requirement = "unable to parse requirement";
    let cases = [
        ("a b", format!("{requirement}: found 'b', {binary}")),
        ("a!", format!("{requirement}: found '!', {binary}")),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".into()),
        ("a,", "found '', expected: identifier after ','".into()),
        (",a", "found ',', expected: !, identifier, or 'end of string'".into()),
        ("=a", "found '=', expected: !, identifier, or 'end of string'".into()),
        ("!", format!("{requirement}: found '', expected: identifier")),
        ("!a=b", "found '=', expected: ',' or 'end of string'".into()),
        ("a in b", format!("{requirement}: found 'b' expected: '('")),
        ("a in (b", format!("{requirement}: found '', expected: ',' or ')'")),
        ("a in (b,", format!("{requirement}: found '', expected: ',', or identifier")),
        ("a in (b c)", format!("{requirement}: found 'c', expected: ',' or ')'")),
        ("a in (=)", format!("{requirement}: found '=', expected: ',', ')' or identifier")),
        ("a in (b,=)", format!("{requirement}: found '=', expected: ',', or identifier")),
        ("a==(", format!("{requirement}: found '(', expected: identifier")),
        ("-a=b", format!("{requirement}: <nil>: Invalid value: \"-a\": name part {name_rule}")),
        ("k=a$b", format!("{requirement}: values[0][k]: Invalid value: \"a$b\": {value_rule}")),
        (
            "k in (a$,b$)",
            format!(
                "{requirement}: [values[0][k]: Invalid value: \"a$\": {value_rule}, values[1][k]: Invalid value: \"b$\": \
                 {value_rule}]"
            ),
        ),
        (
            "k>x",
            format!(
                "{requirement}: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
            ),
        ),
    ];
    for (text, want) in cases {
        assert_eq!(Selector::parse(text, None).map_err(|e| e.to_string()), Err(want), "{text}");
    }
    let within = Selector::parse("k=a$b", Some("spec.selector")).unwrap_err().to_string();
    assert!(within.starts_with("unable to parse requirement: spec.selector.values[0][k]: Invalid value"), "{within}");
    let within = Selector::parse("-a", Some("spec.selector")).unwrap_err().to_string();
    assert!(within.starts_with("unable to parse requirement: spec.selector: Invalid value"), "{within}");
}

#[test]
fn label_selectors_become_selectors() {
    let expression = |key, operator, values: &[&'static str]| Expression { key, operator, values: values.to_vec() };
    let cases = [
        (vec![], vec![], Ok("")),
        (vec![("b", "2"), ("a", "1")], vec![], Ok("a=1,b=2")),
        (vec![("app", "web")], vec![expression("tier", "In", &["b", "a"])], Ok("app=web,tier in (a,b)")),
        (vec![], vec![expression("x", "Exists", &[]), expression("y", "DoesNotExist", &[])], Ok("x,!y")),
        (vec![], vec![expression("x", "Gt", &["1"])], Err("\"Gt\" is not a valid label selector operator")),
        (
            vec![],
            vec![expression("x", "In", &[])],
            Err("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        ),
        (
            vec![],
            vec![expression("x", "Exists", &["a", "b"])],
            Err("values: Invalid value: [\"a\",\"b\"]: values set must be empty for exists and does not exist"),
        ),
    ];
    for (labels, expressions, want) in cases {
        let got = Selector::from_parts(labels, expressions);
        assert_eq!(
            got.map(|s| s.to_string()).map_err(|e| e.to_string()),
            want.map(str::to_string).map_err(str::to_string)
        );
    }
}

#[test]
fn selectors_know_what_they_ask_for() {
    let selector = parse("a=1,b in (2),c in (3,4),d!=5");
    let exact: Vec<_> = ["a", "b", "c", "d", "e"].into_iter().map(|key| selector.requires_exact_match(key)).collect();
    assert_eq!(exact, [Some("1"), Some("2"), None, None, None]);
    assert!(Selector::everything().is_empty() && Selector::everything().matches(LABELS));
    assert!(
        !Selector::nothing().is_empty() && Selector::nothing().is_nothing() && !Selector::nothing().matches(LABELS)
    );
    assert!(!Selector::nothing().and(selector.requirements().to_vec()).matches(LABELS));
    assert_eq!(Selector::everything().and(selector.requirements().to_vec()), selector);
    assert_eq!(Selector::from_set([("z", "a b"), ("a", "")]).to_string(), "a=,z=a b");
    assert_eq!((cell(""), cell(format_labels([("b", "2"), ("a", "1")]))), ("<none>".into(), "a=1,b=2".into()));
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let operators = prop::sample::select(vec![
        Operator::Equals,
        Operator::DoubleEquals,
        Operator::NotEquals,
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::GreaterThan,
        Operator::LessThan,
    ]);
    let values = proptest::collection::btree_set("[a-z0-9]{0,3}", 1..4);
    ("([a-z]{1,3}/)?[a-zA-Z0-9]{1,3}", operators, values, any::<u32>()).prop_map(|(key, operator, values, number)| {
        let values: Vec<String> = match operator {
            Operator::In | Operator::NotIn => values.into_iter().collect(),
            Operator::Exists | Operator::DoesNotExist => Vec::new(),
            Operator::GreaterThan | Operator::LessThan => vec![number.to_string()],
            _ => values.into_iter().take(1).collect(),
        };
        Requirement::new(&key, operator, values, None).unwrap()
    })
}

/// As upstream does it: one requirement after the other.
fn passes(requirement: &Requirement, value: Option<&str>) -> bool {
    let has = |value| requirement.values().iter().any(|candidate| candidate == value);
    let compared = |holds: fn(&i64, &i64) -> bool| match (value.map(str::parse), requirement.values()[0].parse()) {
        (Some(Ok(label)), Ok(limit)) => holds(&label, &limit),
        _ => false,
    };
    match requirement.operator() {
        Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(has),
        Operator::NotEquals | Operator::NotIn => !value.is_some_and(has),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::GreaterThan => compared(i64::gt),
        Operator::LessThan => compared(i64::lt),
    }
}

/// Forty thousand objects are looked at in less time than one by one the terms would take for a few hundred.
#[test]
fn an_object_costs_by_its_labels_and_not_by_the_terms() {
    let terms = |term: fn(usize) -> String| (0..8_500).map(term).collect::<Vec<_>>().join(",");
    let selectors = [
        parse(&terms(|at| format!("k{at}!=v"))),
        parse(&terms(|at| format!("app!=v{at}"))),
        parse(&terms(|at| format!("app notin (v{at},w)"))),
        parse(&format!("app in (web,{})", terms(|at| format!("v{at}")))),
        parse(&terms(|at| format!("n<{}", at + 6))),
    ];
    let began = std::time::Instant::now();
    for _ in 0..40_000 {
        assert!(selectors.iter().all(|selector| selector.matches(LABELS)));
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

proptest! {
    #[test]
    fn terms_are_those_of_the_requirements(
        requirements in proptest::collection::vec(requirement(), 0..6),
        labels in proptest::collection::btree_map("[a-zA-Z0-9]{1,2}|[0-9]{1,12}", "[a-z0-9]{0,2}|[0-9]{1,12}", 0..5),
    ) {
        // Labels that the requirements name, with values that they name.
        let mut labels = labels;
        for (at, requirement) in requirements.iter().enumerate().filter(|(at, _)| at % 3 != 0) {
            let value = requirement.values().get(at % 2).cloned().unwrap_or_default();
            labels.insert(requirement.key().to_string(), value);
        }
        let all = requirements.iter().all(|each| passes(each, labels.get(each.key()).map(String::as_str)));
        let selector = Selector::new(requirements);
        prop_assert_eq!(selector.matches(labels.iter().map(|(key, value)| (key.as_str(), value.as_str()))), all);
    }

    #[test]
    fn printing_and_parsing_agree(requirements in proptest::collection::vec(requirement(), 0..6)) {
        let selector = Selector::new(requirements);
        prop_assert_eq!(Selector::parse(&selector.to_string(), None), Ok(selector));
    }

    #[test]
    fn any_text_is_answered(text in "([a-c]|in|notin|[=!(),<> \\x00é]){0,12}") {
        let _ = Selector::parse(&text, None);
    }
}
