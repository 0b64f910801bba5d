use proptest::prelude::*;

use super::*;

const MOMENT: Timestamp = Timestamp { secs: 1_136_214_245, nanos: 123_456_789 };

#[test]
fn both_forms_print() {
    let cases = [
        (MOMENT, "2006-01-02T15:04:05Z", "2006-01-02T15:04:05.123456Z"),
        (Timestamp::new(0, 0), "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (Timestamp::new(-1, 999_999_999), "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999999Z"),
        (Timestamp::new(951_782_400, 0), "2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000000Z"),
        (Timestamp::ZERO, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        (Timestamp::new(253_402_300_799, 0), "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000000Z"),
        (Timestamp::new(253_402_300_800, 0), "10000-01-01T00:00:00Z", "10000-01-01T00:00:00.000000Z"),
        (Timestamp::new(-62_167_219_201, 0), "-0001-12-31T23:59:59Z", "-0001-12-31T23:59:59.000000Z"),
    ];
    for (instant, time, micro) in cases {
        assert_eq!(Time(instant).to_string(), time);
        assert_eq!(MicroTime(instant).to_string(), micro);
    }
}

#[test]
fn time_reads_what_go_reads() {
    let cases = [
        ("2006-01-02T15:04:05Z", 1_136_214_245, 0),
        ("2006-01-02T15:04:05.123456789123Z", 1_136_214_245, 123_456_789),
        ("2006-01-02T15:04:05,5Z", 1_136_214_245, 500_000_000),
        ("2006-01-02T15:04:05-07:00", 1_136_239_445, 0),
        ("2006-01-02T5:04:05Z", 1_136_178_245, 0),
        ("2006-01-02T15:04:05+24:60", 1_136_124_245, 0),
        ("2000-02-29T00:00:00Z", 951_782_400, 0),
        ("0000-01-01T00:00:00Z", -62_167_219_200, 0),
    ];
    for (text, secs, nanos) in cases {
        assert_eq!(Time::parse(text), Ok(Time(Timestamp::new(secs, nanos))), "{text}");
    }
}

#[test]
fn time_errors_are_gos() {
    let layout = r#""2006-01-02T15:04:05Z07:00""#;
    let cases = [
        ("x", format!(r#"parsing time "x" as {layout}: cannot parse "x" as "2006""#)),
        ("", format!(r#"parsing time "" as {layout}: cannot parse "" as "2006""#)),
        ("2006", format!(r#"parsing time "2006" as {layout}: cannot parse "" as "-""#)),
        ("2006-1-02", format!(r#"parsing time "2006-1-02" as {layout}: cannot parse "1-02" as "01""#)),
        (
            "2006-01-02T15:04:05",
            format!(r#"parsing time "2006-01-02T15:04:05" as {layout}: cannot parse "" as "Z07:00""#),
        ),
        (
            "2006-01-02T15:04:05.Z",
            format!(r#"parsing time "2006-01-02T15:04:05.Z" as {layout}: cannot parse ".Z" as "Z07:00""#),
        ),
        ("2006-13-02T15:04:05Z", r#"parsing time "2006-13-02T15:04:05Z": month out of range"#.into()),
        ("2006-02-30T15:04:05Z", r#"parsing time "2006-02-30T15:04:05Z": day out of range"#.into()),
        ("2006-01-02T24:04:05Z", r#"parsing time "2006-01-02T24:04:05Z": hour out of range"#.into()),
        ("2006-01-02T15:60:05Z", r#"parsing time "2006-01-02T15:60:05Z": minute out of range"#.into()),
        ("2006-01-02T15:04:60Z", r#"parsing time "2006-01-02T15:04:60Z": second out of range"#.into()),
        (
            "2006-01-02T15:04:05+25:00",
            r#"parsing time "2006-01-02T15:04:05+25:00": time zone offset hour out of range"#.into(),
        ),
        (
            "2006-01-02T15:04:05+25:61",
            r#"parsing time "2006-01-02T15:04:05+25:61": time zone offset minute out of range"#.into(),
        ),
        ("2006-01-02T15:04:05Z!", r#"parsing time "2006-01-02T15:04:05Z!": extra text: "!""#.into()),
        ("é\n", format!(r#"parsing time "\xc3\xa9\x0a" as {layout}: cannot parse "\xc3\xa9\x0a" as "2006""#)),
    ];
    for (text, want) in cases {
        assert_eq!(Time::parse(text).map_err(|e| e.to_string()), Err(want), "{text}");
    }
}

#[test]
fn micro_time_wants_six_digits() {
    let layout = r#""2006-01-02T15:04:05.000000Z07:00""#;
    assert_eq!(MicroTime::parse("2006-01-02T15:04:05.123456Z"), Ok(MicroTime(MOMENT.truncate_to_micros())));
    assert_eq!(MicroTime::parse("2006-01-02T16:04:05,123456+01:00"), Ok(MicroTime(MOMENT.truncate_to_micros())));
    let cases = [
        ("2006-01-02T15:04:05Z", format!(r#" as {layout}: cannot parse "Z" as ".000000""#)),
        ("2006-01-02T15:04:05.1234567Z", format!(r#" as {layout}: cannot parse "7Z" as "Z07:00""#)),
        ("2006-01-02T15:04:05.12345Z", format!(r#" as {layout}: cannot parse ".12345Z" as ".000000""#)),
        ("2006-01-02T15:04:05.-12345Z", ": fractional second out of range".into()),
    ];
    for (text, want) in cases {
        let want = format!("parsing time \"{text}\"{want}");
        assert_eq!(MicroTime::parse(text).map_err(|e| e.to_string()), Err(want), "{text}");
    }
}

#[test]
fn instants_move_and_compare() {
    let later = MOMENT.plus(Duration(1_500_000_000));
    assert_eq!(later, Timestamp::new(MOMENT.secs + 1, 623_456_789));
    assert_eq!(later.since(MOMENT), Duration(1_500_000_000));
    assert_eq!(MOMENT.plus(Duration(-1_000_000_000)).secs, MOMENT.secs - 1);
    assert_eq!(Timestamp::new(i64::MAX, 0).since(Timestamp::ZERO), Duration(i64::MAX));
    assert_eq!(Timestamp::ZERO.since(Timestamp::new(i64::MAX, 0)), Duration(i64::MIN));
    assert_eq!(Timestamp::new(i64::MAX, 0).plus(Duration(i64::MAX)).secs, i64::MAX);
}

#[test]
fn a_manual_clock_stands_still() {
    let clock = ManualClock::new(MOMENT);
    assert_eq!(clock.now(), MOMENT);
    clock.advance(Duration(5_000_000_000));
    assert_eq!(clock.now().secs, MOMENT.secs + 5);
    clock.set(Timestamp::ZERO);
    assert!(clock.now().is_zero());
    assert!(SystemClock.now() > MOMENT);
}

proptest! {
    #[test]
    fn printing_and_parsing_agree(secs in -62_135_596_800i64..253_402_300_799, nanos in 0u32..1_000_000_000) {
        let instant = Timestamp::new(secs, nanos);
        let time = Time(instant.truncate_to_seconds());
        prop_assert_eq!(Time::parse(&time.to_string()), Ok(time));
        let micro = MicroTime(instant.truncate_to_micros());
        prop_assert_eq!(MicroTime::parse(&micro.to_string()), Ok(micro));
    }

    #[test]
    fn any_instant_prints(secs: i64, nanos in 0u32..1_000_000_000) {
        prop_assert!(MicroTime(Timestamp::new(secs, nanos)).to_string().ends_with('Z'));
    }

    #[test]
    fn any_text_is_answered(text in "[0-9T:Z+.,\\-é]{0,30}") {
        let _ = (Time::parse(&text), MicroTime::parse(&text));
    }
}
