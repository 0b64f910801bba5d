use proptest::prelude::*;

use super::*;

/// Values that pass and values that do not, for each rule that has only one thing to say.
#[test]
fn rules_tell_right_from_wrong() {
    let (long63, long64) = ("a".repeat(63), "a".repeat(64));
    let subdomain253 = format!("{}a", "a.".repeat(126));
    let subdomain254 = format!("{}ab", "a.".repeat(126));
    type Rule = fn(&str) -> Vec<String>;
    let cases: [(&str, Rule, &[&str], &[&str]); 18] = [
        (
            "dns1123_label",
            dns1123_label,
            &["a", "0", "a-b", "1--2", &long63],
            &["", "-", "a-", "-a", "A", "a_b", "a.b", &long64],
        ),
        ("short_name", short_name, &["a", &long63], &["", "a.b", &long64]),
        (
            "dns1123_subdomain",
            dns1123_subdomain,
            &["a", "a.b", "0.1", &subdomain253],
            &["", ".", "a.", ".a", "a..b", "a.-b", "A", &subdomain254],
        ),
        ("long_name", long_name, &["a.b"], &["", "A", &subdomain254]),
        ("long_name_caseless", long_name_caseless, &["A.b", "a", "\u{212a}"], &["", "a_b", &subdomain254]),
        ("underscore", dns1123_subdomain_with_underscore, &["_a", "_a_b._c", "a"], &["", "_", "__a", "a_", "A"]),
        ("dns1035_label", dns1035_label, &["a", "a1", "a-1", &long63], &["", "1", "1a", "a-", "A", &long64]),
        ("wildcard", wildcard_dns1123_subdomain, &["*.a", "*.a.b"], &["", "*", "*.", "a.b", "*.*.a", "*a.b"]),
        (
            "label_key",
            label_key,
            &["a", "A_b.c", "a.b/C", &long63],
            &["", "/a", "a/", "a/b/c", "A.b/c", "a/b c", "-a", &long64],
        ),
        ("label_value", label_value, &["", "a", "A_b.c", &long63], &["-a", "a-", "a b", "é", &long64]),
        ("prefixed_label_key", prefixed_label_key, &["a/b"], &["a", "/a", "a/b/c"]),
        ("c_identifier", c_identifier, &["a", "_", "A1"], &["", "1", "a-b", "é"]),
        ("env_var_name", env_var_name, &["a", "-", "a.b", ".a"], &["", "1a", "a=b", ".", "..", "..a", "a b"]),
        ("relaxed_env_var_name", relaxed_env_var_name, &["1a", " ", "..", "~"], &["", "a=b", "é", "a\u{7f}", "a\t"]),
        (
            "config_map_key",
            config_map_key,
            &["a", "1.a", ".a", &subdomain253],
            &["", ".", "..", "..a", "a/b", &subdomain254],
        ),
        (
            "port_name",
            port_name,
            &["a", "a-1", "abcdefghijklmno"],
            &["", "1", "A", "a--b", "-a", "a-", "abcdefghijklmnop"],
        ),
        ("percent", percent, &["0%", "100%"], &["", "%", "1", "-1%", "1%%", "1.5%"]),
        ("http_header_name", http_header_name, &["X-A", "-"], &["", "a b", "a_b"]),
    ];
    for (name, rule, right, wrong) in cases {
        for value in right {
            assert_eq!(rule(value), Vec::<String>::new(), "{name}: {value}");
        }
        for value in wrong {
            assert_ne!(rule(value), Vec::<String>::new(), "{name}: {value}");
        }
    }
}

#[test]
fn messages_are_upstreams() {
    let long = "a".repeat(64);
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                 end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let name_rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let cases: Vec<(Vec<String>, Vec<String>)> = vec![
        (dns1123_label("A"), vec![label.into()]),
        (dns1123_label("a.b"), vec!["must not contain dots".into()]),
        (dns1123_label(&long), vec!["must be no more than 63 characters".into()]),
        (short_name(&long), vec!["must be no more than 63 bytes".into()]),
        (dns1123_subdomain("A"), vec![subdomain.into()]),
        (label_key(""), vec!["name part must be non-empty".into(), format!("name part {name_rule}")]),
        (label_key("/a"), vec!["prefix part must be non-empty".into()]),
        (label_key("A/a"), vec![format!("prefix part {subdomain}")]),
        (label_key(&long), vec!["name part must be no more than 63 bytes".into()]),
        (
            label_key("a/b/c"),
            vec![format!(
                "a valid label key {name_rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )],
        ),
        (prefixed_label_key("a"), vec!["must include a prefix (e.g. 'example.com/key')".into()]),
        (relaxed_env_var_name(""), vec!["environment variable name must be non-empty".into()]),
        (port_number(0), vec!["must be between 1 and 65535, inclusive".into()]),
        (port_number(65535), vec![]),
        (user_id(-1), vec!["must be between 0 and 2147483647, inclusive".into()]),
        (group_id(i64::from(i32::MAX)), vec![]),
        (
            port_name("-"),
            vec!["must contain at least one letter (a-z)".into(), "must not begin or end with a hyphen".into()],
        ),
        (path_segment_name(".."), vec!["may not be '..'".into()]),
        (path_segment_prefix(".."), vec![]),
        (path_segment_name("a%/"), vec!["may not contain '/'".into(), "may not contain '%'".into()]),
        (decimal_integer(""), vec!["must be non-empty".into()]),
        (decimal_integer("-0"), vec!["must be a valid decimal integer in canonical form".into()]),
        (decimal_integer("-10"), vec![]),
        (uuid("0123ABCD-0123-abcd-0123-0123456789ab"), vec!["must be a lowercase UUID in 8-4-4-4-12 format".into()]),
        (uuid("0123abcd-0123-abcd-0123-0123456789ab"), vec![]),
    ];
    for (got, want) in cases {
        assert_eq!(got, want);
    }
}

#[test]
fn generated_names_may_end_in_a_dash() {
    assert_eq!(name_is_dns_subdomain("web-", true), Vec::<String>::new());
    assert_eq!(name_is_dns_label("web--", true), Vec::<String>::new());
    assert_eq!(name_is_dns1035_label("a-", true), Vec::<String>::new());
    assert_eq!(name_is_path_segment("..", true), Vec::<String>::new());
    assert_ne!(name_is_dns_subdomain("web-", false), Vec::<String>::new());
    assert_ne!(name_is_dns_subdomain("-", true), Vec::<String>::new());
    assert_ne!(name_is_dns_subdomain("A-b-", true), Vec::<String>::new());
    // The character in front of the dash is hidden with it, even one that could not stand there.
    assert_eq!(name_is_dns_label("webé-", true).len(), 1);
    assert_eq!(name_is_dns_label("webX-", true), Vec::<String>::new());
}

#[test]
fn addresses_are_judged_by_how_strict_the_field_is() {
    let not_ip = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let zeros = "must not have leading 0s";
    let mapped = "must not be an IPv4-mapped IPv6 address";
    // Value, any form, strict, canonical.
    let cases = [
        ("1.2.3.4", "", "", ""),
        ("2001:db8::1", "", "", ""),
        ("2001:DB8::1", "", "", r#"must be in canonical form ("2001:db8::1")"#),
        ("1:2:0:0:0:0:0:3", "", "", r#"must be in canonical form ("1:2::3")"#),
        ("01.2.3.4", "", zeros, zeros),
        ("2001:00db8::1", "", zeros, zeros),
        ("::ffff:1.2.3.4", "", mapped, mapped),
        ("::ffff:1.2.3.04", "", zeros, zeros),
        ("", not_ip, not_ip, not_ip),
        ("1.2.3", not_ip, not_ip, not_ip),
        ("1.2.3.256", not_ip, not_ip, not_ip),
        ("fe80::1%eth0", not_ip, not_ip, not_ip),
        ("1::2::3", not_ip, not_ip, not_ip),
        ("1:2:3:4:5:6:7:8:9", not_ip, not_ip, not_ip),
        ("1:2:3:4:5:6:7::8", not_ip, not_ip, not_ip),
        (":1::2", not_ip, not_ip, not_ip),
    ];
    for (value, legacy, strict, canonical) in cases {
        let got = [ip_for_legacy_field(value, false), ip_for_legacy_field(value, true), ip(value)].map(|m| m.concat());
        assert_eq!(got, [legacy, strict, canonical], "{value}");
    }
}

#[test]
fn networks_are_judged_by_how_strict_the_field_is() {
    let not_cidr = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    let zeros = "must not have leading 0s in IP or prefix length";
    let bits = "must not have bits set beyond the prefix length";
    let mapped = "must not have an IPv4-mapped IPv6 address";
    let not_address = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
    // Value, any form, strict, canonical, as an interface's address.
    let cases = [
        ("1.2.3.0/24", "", "", "", ""),
        ("0.0.0.0/0", "", "", "", ""),
        ("2001:db8::/64", "", "", "", ""),
        (
            "2001:db8:0::/64",
            "",
            "",
            r#"must be in canonical form ("2001:db8::/64")"#,
            r#"must be in canonical form ("2001:db8::/64")"#,
        ),
        ("1.2.3.4/24", "", bits, bits, ""),
        ("1.2.3.0/024", "", zeros, zeros, r#"must be in canonical form ("1.2.3.0/24")"#),
        ("::ffff:1.2.3.0/120", "", mapped, mapped, r#"must be in canonical form ("1.2.3.0/24")"#),
        ("1.2.3.4", not_cidr, not_cidr, not_cidr, not_address),
        ("1.2.3.0/33", not_cidr, not_cidr, not_cidr, not_address),
        ("1.2.3.0/", not_cidr, not_cidr, not_cidr, not_address),
        ("::/129", not_cidr, not_cidr, not_cidr, not_address),
    ];
    for (value, legacy, strict, canonical, interface) in cases {
        let got = [
            cidr_for_legacy_field(value, false),
            cidr_for_legacy_field(value, true),
            cidr(value),
            interface_address(value),
        ];
        assert_eq!(got.map(|messages| messages.concat()), [legacy, strict, canonical, interface], "{value}");
    }
}

#[test]
fn odd_addresses_are_warned_of() {
    let cases = [
        ("1.2.3.4", None),
        ("::1", None),
        ("junk", None),
        ("1.2.3.04", Some(r#"spec.ip: non-standard IP address "1.2.3.04" is invalid: use "1.2.3.4""#)),
        ("::ffff:1.2.3.4", Some(r#"spec.ip: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4""#)),
        ("0::1", Some(r#"spec.ip: IPv6 address "0::1" should be in RFC 5952 canonical format ("::1")"#)),
    ];
    for (value, want) in cases {
        assert_eq!(ip_warnings("spec.ip", value).as_deref(), want);
    }
    let ambiguous =
        r#"f: CIDR value "1.2.3.4/24" is ambiguous in this context (should be "1.2.3.0/24" or "1.2.3.4/32"?)"#;
    let odd = r#"f: non-standard CIDR value "01.2.3.0/24" is invalid: use "1.2.3.0/24""#;
    let long = r#"f: IPv6 CIDR value "0::/64" should be in RFC 5952 canonical format ("::/64")"#;
    let cases =
        [("1.2.3.0/24", vec![]), ("1.2.3.4/24", vec![ambiguous]), ("01.2.3.0/24", vec![odd]), ("0::/64", vec![long])];
    for (value, want) in cases {
        assert_eq!(cidr_warnings("f", value), want, "{value}");
    }
}

#[test]
fn rules_with_several_kinds_of_problem() {
    let invalid = |value: &str, detail: &str| vec![Problem::invalid(value, detail)];
    let cases = [
        (fully_qualified_name(""), vec![Problem::Required]),
        (fully_qualified_name("a.b.c"), vec![]),
        (
            fully_qualified_name("a.b"),
            invalid("a.b", "should be a domain with at least three segments separated by dots"),
        ),
        (fully_qualified_domain_name("a.b."), vec![]),
        (
            fully_qualified_domain_name("a"),
            invalid("a", "should be a domain with at least two segments separated by dots"),
        ),
        (
            domain_prefixed_path("a.b/c/d?"),
            invalid("c/d?", r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"),
        ),
        (domain_prefixed_path("a.b/"), invalid("a.b/", r#"must be a domain-prefixed path (such as "acme.io/foo")"#)),
        (domain_prefixed_path("a.b/c/d"), vec![]),
        (domain_prefixed_key("a"), invalid("a", r#"must be a domain-prefixed key (such as "acme.io/foo")"#)),
        (domain_prefixed_key("a/b"), vec![]),
        (resource_pool_name("a/b.c"), vec![]),
        (resource_pool_name("a//b"), invalid("a//b", "segment 1: must not be empty")),
        (extended_resource_name("a.b/c"), vec![]),
        (
            extended_resource_name("x.kubernetes.io/c"),
            invalid("x.kubernetes.io/c", r#"must not have "kubernetes.io/" domain"#),
        ),
        (extended_resource_name("requests.a/b"), invalid("requests.a/b", r#"must not have "requests." prefix"#)),
        (resource_fully_qualified_name("a.b/c"), vec![]),
        (resource_fully_qualified_name("/c"), invalid("", "prefix must not be empty")),
        (resource_fully_qualified_name(&format!("a/{}", "b".repeat(33))), vec![Problem::TooLong { max_bytes: 32 }]),
        (
            resource_fully_qualified_name("c"),
            invalid("c", "a fully qualified name must be a domain and a name separated by a slash"),
        ),
    ];
    for (got, want) in cases {
        assert_eq!(got, want);
    }
}

proptest! {
    #[test]
    fn canonical_addresses_pass(bits: u128, v4: u32) {
        let v6 = std::net::Ipv6Addr::from_bits(bits);
        prop_assume!(v6.to_ipv4_mapped().is_none());
        prop_assert!(ip(&v6.to_string()).is_empty());
        prop_assert!(ip(&std::net::Ipv4Addr::from_bits(v4).to_string()).is_empty());
    }

    #[test]
    fn any_address_is_answered(text in "[0-9a-f:./]{0,40}") {
        let _ = (ip(&text), cidr(&text), interface_address(&text), ip_warnings("f", &text), cidr_warnings("f", &text));
    }

    #[test]
    fn any_name_is_answered(text in ".{0,10}-?") {
        let _ = (label_key(&text), name_is_dns_subdomain(&text, true), env_var_name(&text), resource_pool_name(&text));
    }
}
