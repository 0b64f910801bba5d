use super::*;

#[test]
fn formats() {
    for (format, right, wrong) in [
        (
            "bsonobjectid",
            &["507f1f77bcf86cd799439011"][..],
            &["507f1f77bcf86cd79943901", "zz7f1f77bcf86cd799439011"][..],
        ),
        (
            "uri",
            &["http://a.b/c?d=%zz", "/abs/%20", "mailto:x", "https://[::1]:80/x", "http://u:p@h:1", "*", "http://é.x"],
            &["", "rel/path", "http://a b/", "/bad%zz", ":x", "http://h:port/", "http://[::1", "http://a%41/", "a\tb"],
        ),
        (
            "email",
            &["a@b", "Joe Q. Public <joe@b.c>", "\"a b\"@c.d", "<x@y.z>", "a@[127.0.0.1]", "x(comment)@y.z", "é@b.c"],
            &["", "a", "@b", "a@", "a..b@c", "a@b c", "Joe <a@b", "\"\"@b", "a@b, c@d", "a.@b"],
        ),
        (
            "hostname",
            &["a", "example.com", "1a.b-c.de", "☃.com", "a-b"],
            &["", "-a", "a_b", "a.1", "a..bc", "example.c", &"a".repeat(64)],
        ),
        ("ipv4", &["1.2.3.4", "01.02.003.4", "::ffff:1.2.3.4"], &["1.2.3", "256.1.1.1", "::1", "a.b.c.d", "1.2.3.4.5"]),
        ("ipv6", &["::1", "fe80::1", "::ffff:1.2.3.4"], &["1.2.3.4", "::g", "fe80::1%eth0", ""]),
        (
            "cidr",
            &["10.0.0.0/8", "010.0.0.0/08", "::/0", "fd00::/64"],
            &["10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "1.2.3.4/"],
        ),
        (
            "mac",
            &["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef", "0123456789ab"],
            &["01:23:45:67:89", "01:23-45:67:89:ab", "0123.4567", "g1:23:45:67:89:ab", "0123456789abc"],
        ),
        (
            "uuid",
            &["7d444840-9dc0-11d1-b245-5ffdce74fad2", "7D4448409DC011D1B2455FFDCE74FAD2"],
            &["7d444840-9dc0-11d1-b245-5ffdce74fad", "7d444840--9dc0-11d1-b245-5ffdce74fad2", "é"],
        ),
        ("uuid3", &["7d444840-9dc0-31d1-0245-5ffdce74fad2"], &["7d444840-9dc0-11d1-b245-5ffdce74fad2"]),
        (
            "uuid4",
            &["7d444840-9dc0-41d1-B245-5ffdce74fad2"],
            &["7d444840-9dc0-41d1-0245-5ffdce74fad2", "7d444840-9dc0-51d1-b245-5ffdce74fad2"],
        ),
        ("uuid5", &["7d444840-9dc0-51d1-b245-5ffdce74fad2"], &["7d444840-9dc0-41d1-b245-5ffdce74fad2"]),
        ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "978-0321751042", "x"]),
        ("isbn10", &["0-321-75104-3", "097522980X"], &["X321751043", "978-0321751041"]),
        ("isbn13", &["978 0321751041"], &["0321751043"]),
        (
            "creditcard",
            &["4111-1111-1111-1111", "378282246310005", "3530111333300000"],
            &["4111111111111112", "1234567890123452", ""],
        ),
        ("ssn", &["111-11-1111", "111 11 1111"], &["111111111", "111-11-111", "11a-11-1111"]),
        ("hexcolor", &["#fff", "FFFFFF"], &["#ff", "#gggggg", ""]),
        (
            "rgbcolor",
            &["rgb(1,2,3)", "rgb( 255 , 0 , 10 )"],
            &["rgb(256,0,0)", "rgb(01,0,0)", "rgb(1,2)", "rgb(1,2,+3)"],
        ),
        ("byte", &["aGVsbG8=", "YWI=", "QUJD"], &["", "aGVsbG8", "a===", "a-b_"]),
        ("password", &["", "anything"], &[]),
        ("date", &["2024-02-29", "1999-12-31"], &["2023-02-29", "2024-13-01", "2024-1-1", "2024-01-01T00:00:00Z", ""]),
        (
            "duration",
            &["1h30m", "5 minutes", "2 days", "1.5s", "22 ns", "1 fortnight 2 wk"],
            &["", "fast", "5", "5 parsecs"],
        ),
        (
            "date-time",
            &["2024-01-02T03:04:05Z", "2024-01-02t03:04:05.123+01:00", "2024-01-02T03:04:05,5z"],
            &[
                "2024-01-02",
                "2024-01-02T24:00:00Z",
                "2024-01-02T03:04:05",
                "2024-01-02T03:04:5Z",
                "x",
                "2024-01-02T03:04:05.Z",
            ],
        ),
        ("k8s-short-name", &["a", "a-1"], &["A", "-a", "a.b", "", &"a".repeat(64)]),
        ("k8s-long-name", &["a.b-c.d", &"a".repeat(253)], &["a..b", "A.b", "", &"a".repeat(254)]),
    ] {
        assert!(is_known_format("string", format), "{format}");
        for text in right {
            assert_eq!(check(format, text), Some(true), "{text:?} is a {format}");
        }
        for text in wrong {
            assert_eq!(check(format, text), Some(false), "{text:?} is no {format}");
        }
    }
}

#[test]
fn formats_go_with_types() {
    for (kind, format, want) in [
        ("string", "date-time", true),
        ("", "datetime", true),
        ("string", "int32", false),
        ("integer", "int32", true),
        ("integer", "uint32", false),
        ("number", "double", true),
        ("number", "int32", false),
        ("object", "date", false),
        ("string", "", false),
    ] {
        assert_eq!(is_known_format(kind, format), want, "{kind} {format}");
    }
    assert_eq!(check("int32", "5"), None);
}
