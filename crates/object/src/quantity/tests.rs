use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn quantities_print_as_upstream_prints_them() {
    let cases = [
        // The largest unit without a fraction.
        ("0.1", "100m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("1500", "1500"),
        ("1000000", "1M"),
        ("123456789000", "123456789k"),
        ("0.000001", "1u"),
        ("1000Ki", "1000Ki"),
        ("1E", "1E"),
        ("1000E", "1"),
        ("12.34e3", "12340"),
        ("100e1", "1e3"),
        ("1000e3", "1e6"),
        ("1e-2", "10e-3"),
        ("-0.1", "-100m"),
        // Zero has one form.
        ("0", "0"),
        ("-0", "0"),
        ("0Ki", "0"),
        ("0.000", "0"),
        ("0e5", "0"),
        // Binary units below 1024, or with a fraction left, are decimal.
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1.1Ki", "1126400m"),
        ("0.5Mi", "512Ki"),
        ("1.5Ki", "1536"),
        // Below a billionth is rounded away from zero.
        ("0.0000000001", "1n"),
        ("1e-20", "1e-9"),
        ("1e-2000000000", "1e-9"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("1.00000000000000000001Ki", "1024000000001n"),
        // Binary numbers end at the largest i64; decimal ones do not end.
        ("9Ei", "9223372036854775807"),
        ("-16Ei", "-9223372036854775807"),
        ("9999999999999999999", "9999999999999999999"),
        ("123456789012345678901234567890e3", "123456789012345678901234567890e3"),
        ("10e2000000000", "1e2000000001"),
        // Beyond E there is no unit to print.
        ("1000000000000000000000", "1"),
        // Text that upstream takes for canonical comes back as it was.
        ("1.500", "1.500"),
        ("+1", "+1"),
        ("01", "01"),
        ("1E3", "1E3"),
        ("1.001k", "1.001k"),
        // A number may be missing.
        ("-", "0"),
        (".", "0"),
        ("Ki", "0"),
        ("e3", "0"),
        ("1.", "1."),
        (".5", "500m"),
    ];
    for (text, printed) in cases {
        assert_eq!(parse(text).to_string(), printed, "{text}");
    }
}

#[test]
fn errors_are_upstreams() {
    let format = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let (numeric, suffix) = ("unable to parse numeric part of quantity", "unable to parse quantity's suffix");
    let many_digits = "1".repeat(20_000);
    let cases = [
        ("", format),
        ("x", format),
        ("1 ", format),
        ("1..2", format),
        ("--1", suffix),
        ("1é", format),
        ("1k5 ", format),
        ("1i", suffix),
        ("1e", suffix),
        ("1mi", suffix),
        ("1k5", suffix),
        ("1ee5", suffix),
        ("1e9223372036854775808", suffix),
        (".e-20", numeric),
        ("e-20", numeric),
        (&many_digits, numeric),
    ];
    for (text, want) in cases {
        assert_eq!(Quantity::parse(text).map_err(|e| e.to_string()), Err(want.to_string()), "{text:.20}");
    }
    assert!(Quantity::parse_json(" 1 ").is_ok());
}

#[test]
fn numbers_come_out_rounded_up() {
    // Text, units, thousandths, as an integer.
    let cases = [
        ("1", 1, 1000, Some(1)),
        ("1.5", 2, 1500, None),
        ("-1.5", -2, -1500, None),
        ("1m", 1, 1, None),
        ("1n", 1, 1, None),
        ("2k", 2000, 2_000_000, Some(2000)),
        ("1Ki", 1024, 1_024_000, Some(1024)),
        ("1.0", 1, 1000, None),
        ("1.5Ki", 1536, 1_536_000, None),
        ("9223372036854775807", i64::MAX, -1000, None),
        ("1e30", 0, 0, None),
        ("9000P", 9_000_000_000_000_000_000, 0, Some(9_000_000_000_000_000_000)),
    ];
    for (text, value, milli, integer) in cases {
        let quantity = parse(text);
        assert_eq!((quantity.value(), quantity.milli_value(), quantity.as_i64()), (value, milli, integer), "{text}");
    }
    assert_eq!(Quantity::from_milli(1500, Format::DecimalSi).to_string(), "1500m");
    assert_eq!(Quantity::new(1 << 30, Format::BinarySi).to_string(), "1Gi");
    assert_eq!(parse("1500Mi").scaled_value(scale::MEGA), 1573);
}

#[test]
fn arithmetic_keeps_the_format_of_a_number_that_is_not_zero() {
    let cases = [
        ("1", "500m", "1500m", "500m"),
        ("1Gi", "1", "1073741825", "1073741823"),
        ("1Gi", "1k", "1073742824", "1073740824"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("1Gi", "1Gi", "2Gi", "0"),
        ("1.5Gi", "0.5Gi", "2Gi", "1Gi"),
        ("9223372036854775807", "1", "9223372036854775808", "9223372036854775806"),
        ("9E", "9E", "18E", "0"),
        ("1e3", "1", "1001", "999"),
        ("1n", "1E", "1000000000000000000000000001n", "-999999999999999999999999999n"),
    ];
    for (a, b, sum, difference) in cases {
        let (mut added, mut subtracted) = (parse(a), parse(a));
        added.add(&parse(b));
        subtracted.sub(&parse(b));
        assert_eq!(
            (added.to_string(), subtracted.to_string()),
            (sum.to_string(), difference.to_string()),
            "{a} and {b}"
        );
    }
    let mut quantity = parse("1.500");
    quantity.negate();
    assert_eq!(quantity.to_string(), "-1500m");
}

#[test]
fn quantities_compare_by_number() {
    let cases = [
        ("1", "1000m", Ordering::Equal),
        ("1Ki", "1.024k", Ordering::Equal),
        ("1.50Gi", "1536Mi", Ordering::Equal),
        ("0", "-0Ki", Ordering::Equal),
        ("1", "1001m", Ordering::Less),
        ("-1", "-1001m", Ordering::Greater),
        ("-1", "1n", Ordering::Less),
        ("12345678901234567890", "12345678901234567891", Ordering::Less),
        ("1e2000000000", "9E", Ordering::Greater),
        ("-1e2000000000", "-9E", Ordering::Less),
        ("1e2000000000", "12345678901234567890e1999999990", Ordering::Less),
    ];
    for (a, b, want) in cases {
        assert_eq!(parse(a).cmp(&parse(b)), want, "{a} and {b}");
        assert_eq!(parse(b).cmp(&parse(a)), want.reverse(), "{b} and {a}");
    }
}

#[test]
fn enormous_numbers_cost_little() {
    let mut sum = parse("1e2147483647");
    sum.add(&parse("1"));
    assert_eq!(sum.to_string(), "10e2147483646");
    sum.sub(&parse("12345678901234567890e1000000000"));
    assert_eq!(sum.to_string(), "10e2147483646");
    assert_eq!((sum.value(), sum.signum()), (0, 1));
    assert_eq!(sum.as_approximate_f64(), f64::INFINITY);
    let mut binary = parse("1Ki");
    binary.add(&sum);
    assert_eq!(binary.to_string(), "10");
    let zeros = format!("1{}", "0".repeat(1_000_000));
    assert_eq!(parse(&zeros).to_string(), "10");
    assert_eq!(parse(&format!("0.{}1", "0".repeat(1_000_000))).to_string(), "1n");
}

proptest! {
    #[test]
    fn canonical_text_stays(mantissa in -1_000_000_000_000i64..1_000_000_000_000, suffix in "[numkMGT]?|[KMGT]i|e-?[0-8]") {
        let quantity = parse(&format!("{mantissa}{suffix}"));
        let mut canonical = quantity.clone();
        canonical.add(&Quantity::zero());
        let again = parse(&canonical.to_string());
        prop_assert_eq!(&again, &quantity);
        prop_assert_eq!(again.to_string(), canonical.to_string());
    }

    #[test]
    fn sums_undo(a in "-?[0-9]{1,25}(\\.[0-9]{1,9})?(m|k|Ki|Mi|e3)?", b in "-?[0-9]{1,25}(\\.[0-9]{1,9})?(m|k|Ki|Mi|e3)?") {
        let (a, b) = (parse(&a), parse(&b));
        let mut quantity = a.clone();
        quantity.add(&b);
        prop_assert_eq!(quantity.cmp(&a) as i32, b.signum());
        quantity.sub(&b);
        prop_assert_eq!(quantity, a);
    }

    #[test]
    fn any_text_is_answered(text in "[-+]?[0-9.]{0,30}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,12}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            let _ = (quantity.to_string(), quantity.milli_value(), quantity.as_approximate_f64());
        }
    }
}

#[test]
fn fractions_are_rounded_up_to_thousandths() {
    for (text, rounded) in [
        ("1", None),
        ("1.5", None),
        ("1m", None),
        ("1u", Some("1m")),
        ("1001u", Some("2m")),
        ("-1n", Some("-1m")),
        ("1.0005", Some("1001m")),
        ("-9223372036854775809", None),
        ("9223372036854775809.0001", Some("9223372036854775809001m")),
        ("0", None),
    ] {
        let got = Quantity::parse(text).unwrap().rounded_to_milli().map(|quantity| quantity.to_string());
        assert_eq!(got.as_deref(), rounded, "{text}");
    }
}
