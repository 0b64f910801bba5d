//! Sets of indexes as jobs write them: `1,3-5,7`.

use object::quote;

/// How many indexes there are, if they are in order and below the number of completions.
pub fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last) = (0_i64, None);
    for part in text.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(out_of_order(last, first));
        }
        total = total.saturating_add(end.saturating_sub(first).saturating_add(1));
        last = Some(end);
    }
    Ok(total)
}

/// The first index that two ordered sets have in common. Parts that are none are passed over.
pub fn overlap(a: &str, b: &str, completions: i64) -> Option<i64> {
    let parts = |text: &str| -> Vec<(i64, i64)> {
        if text.is_empty() {
            return Vec::new();
        }
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (a, b) = (parts(a), parts(b));
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x.0 <= y.1 && y.0 <= x.1 {
            return Some(x.0.max(y.0));
        }
        if x.0 <= y.0 {
            i += 1;
        } else {
            j += 1;
        }
    }
    None
}

fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let limits: Vec<&str> = text.split('-').collect();
    let index = |text: &str| -> Result<i64, String> {
        let number: i64 =
            text.parse().map_err(|_| format!("cannot convert string to integer for index: {}", quote(text)))?;
        if number >= completions { Err(format!("too large index: {}", quote(text))) } else { Ok(number) }
    };
    match limits.as_slice() {
        [only] => index(only).map(|only| (only, only)),
        [first, last] => {
            let (first, last) = (index(first)?, index(last)?);
            if first >= last { Err(out_of_order(first, last)) } else { Ok((first, last)) }
        }
        _ => Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            quote(text)
        )),
    }
}

fn out_of_order(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        let cases = [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("1,3-5,7", Ok(5)),
            ("10", Err(r#"too large index: "10""#)),
            ("1-10", Err(r#"too large index: "10""#)),
            ("x", Err(r#"cannot convert string to integer for index: "x""#)),
            ("1,", Err(r#"cannot convert string to integer for index: """#)),
            ("3-1", Err("non-increasing order, previous: 3, current: 1")),
            ("3,3", Err("non-increasing order, previous: 3, current: 3")),
            (
                "1-2-3",
                Err(
                    r#"the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'"#,
                ),
            ),
        ];
        for (text, want) in cases {
            assert_eq!(count(text, 10), want.map_err(str::to_string), "{text}");
        }
    }

    #[test]
    fn overlaps_are_found() {
        let cases = [
            ("1,3-5", "2,6", None),
            ("1,3-5", "0,4", Some(4)),
            ("0-9", "3-4", Some(3)),
            ("x,2", "2", Some(2)),
            ("", "1", None),
        ];
        for (a, b, want) in cases {
            assert_eq!(overlap(a, b, 10), want, "{a} {b}");
        }
    }
}
