//! The two shapes of a log line, which are those of kube-apiserver: klog's text, and component-base's JSON.

use std::fmt::{self, Debug, Write};

use object::timestamp::MicroTime;
use object::{Clock, SystemClock, Timestamp};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// `I1118 22:00:00.000000   12345 chain.rs:42] "message" key="value"`
pub struct Text;

/// `{"ts":1763503200000.123,"caller":"server/chain.rs:42","msg":"message","v":0,"key":"value"}`
pub struct Json;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        text(writer, event.metadata(), &Fields::of(event), SystemClock.now())
    }
}

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        json(writer, event.metadata(), &Fields::of(event), SystemClock.now())
    }
}

fn text(mut out: impl Write, metadata: &Metadata<'_>, fields: &Fields, now: Timestamp) -> fmt::Result {
    let severity = match *metadata.level() {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let time = MicroTime(now).to_string();
    // 2026-11-18T22:00:00.000000Z
    let (month, day, clock) = (time.get(5..7), time.get(8..10), time.get(11..26));
    let (month, day, clock) = (month.unwrap_or_default(), day.unwrap_or_default(), clock.unwrap_or_default());
    let file = metadata.file().and_then(|path| path.rsplit('/').next()).unwrap_or("???");
    let (line, process) = (metadata.line().unwrap_or(1), std::process::id());
    write!(out, "{severity}{month}{day} {clock} {process:>7} {file}:{line}] {}", object::quote(&fields.message))?;
    for (key, value) in &fields.values {
        match value {
            Value::Text(text) if text.contains('\n') => {
                write!(out, " {key}=<\n\t{}\n >", text.trim_end_matches('\n').replace('\n', "\n\t"))?;
            }
            Value::Text(text) => write!(out, " {key}={}", object::quote(text))?,
            Value::Plain(text) => write!(out, " {key}={text}")?,
        }
    }
    out.write_char('\n')
}

fn json(mut out: impl Write, metadata: &Metadata<'_>, fields: &Fields, now: Timestamp) -> fmt::Result {
    let path = metadata.file().unwrap_or("???").trim_start_matches("crates/").replace("/src/", "/");
    let millis = now.secs as f64 * 1e3 + f64::from(now.nanos) / 1e6;
    write!(out, "{{\"ts\":{millis},\"caller\":{},", quoted(&format!("{path}:{}", metadata.line().unwrap_or(1))))?;
    write!(out, "\"msg\":{}", quoted(&fields.message))?;
    // As upstream, errors have no verbosity.
    if *metadata.level() != Level::ERROR {
        write!(out, ",\"v\":{}", super::verbosity(metadata))?;
    }
    for (key, value) in &fields.values {
        match value {
            Value::Text(text) => write!(out, ",{}:{}", quoted(key), quoted(text))?,
            Value::Plain(text) => write!(out, ",{}:{text}", quoted(key))?,
        }
    }
    out.write_str("}\n")
}

fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    codec::json::encode(&object::Value::from(text), None, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

enum Value {
    /// Is quoted.
    Text(String),
    /// A number or boolean.
    Plain(String),
}

/// What an event says. What is called `error` in the code is klog's `err`, and comes first.
#[derive(Default)]
struct Fields {
    message: String,
    values: Vec<(&'static str, Value)>,
}

impl Fields {
    fn of(event: &Event<'_>) -> Fields {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text) | Value::Plain(text)) => self.message = text,
            ("error", value) => self.values.insert(0, ("err", value)),
            (name, value) => self.values.push((name, value)),
        }
    }
}

/// As much of a text as is shown, and a little more, so that it can be seen that it was cut.
#[derive(Default)]
struct Beginning(String);

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = (object::SHOWN_BYTES + 1).saturating_sub(self.0.len());
        self.0.push_str(&text[..text.ceil_char_boundary(room)]);
        if self.0.len() > object::SHOWN_BYTES { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Whatever is logged may be what a client chose, so every text is cut.
impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = Beginning::default();
        // It fails when there is enough.
        let _ = write!(text, "{value:?}");
        self.add(field, Value::Text(object::shown(&text.0).into_owned()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(object::shown(value).into_owned()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let value = if value.is_finite() { Value::Plain(value.to_string()) } else { Value::Text(value.to_string()) };
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Plain(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Plain(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Plain(value.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::{Context, SubscriberExt};
    use tracing_subscriber::{Layer, Registry};

    use super::*;

    type Lines = Arc<Mutex<Vec<(String, String)>>>;

    /// Writes each event in both shapes.
    struct Both(Lines);

    impl<S: Subscriber> Layer<S> for Both {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let (mut plain, mut structured) = (String::new(), String::new());
            let now = Timestamp::new(1_763_503_200, 123_456_000);
            text(&mut plain, event.metadata(), &Fields::of(event), now).unwrap();
            json(&mut structured, event.metadata(), &Fields::of(event), now).unwrap();
            self.0.lock().unwrap().push((plain, structured));
        }
    }

    fn lines(say: impl Fn()) -> (String, String) {
        let lines = Lines::default();
        tracing::subscriber::with_default(Registry::default().with(Both(lines.clone())), say);
        let line = lines.lock().unwrap().remove(0);
        line
    }

    #[test]
    fn lines_are_klogs() {
        let (plain, structured) = lines(|| {
            let error = "it \"broke\"";
            tracing::error!(count = 3, path = %"/a b", %error, done = true, "cannot do it");
        });
        let (head, rest) = plain.split_once("] ").unwrap();
        assert!(head.starts_with("E1118 22:00:00.123456 ") && head.contains(" lines.rs:"), "{head}");
        assert_eq!(rest, "\"cannot do it\" err=\"it \\\"broke\\\"\" count=3 path=\"/a b\" done=true\n");
        let (head, rest) = structured.split_once("\"msg\"").unwrap();
        assert!(head.starts_with("{\"ts\":1763503200123.456,\"caller\":\"apiserver/logging/lines.rs:"), "{head}");
        let want = ":\"cannot do it\",\"err\":\"it \\\"broke\\\"\",\"count\":3,\"path\":\"/a b\",\"done\":true}\n";
        assert_eq!(rest, want);
    }

    #[test]
    fn long_texts_are_cut() {
        for long in ["x".repeat(60_000), "ä".repeat(60_000), "\u{1}".repeat(60_000)] {
            let (plain, structured) = lines(|| {
                tracing::warn!(user = long, path = %long, why = ?long, "{long}");
            });
            for line in [plain, structured] {
                assert!(line.len() < 4 * 8 * object::SHOWN_BYTES && line.matches("...").count() == 4, "{}", line.len());
            }
        }
    }

    #[test]
    fn a_line_break_makes_no_second_line() {
        let (plain, structured) = lines(|| tracing::info!(name = "a\nI1118 forged", "two\nlines"));
        assert!(plain.ends_with("] \"two\\nlines\" name=<\n\ta\n\tI1118 forged\n >\n"), "{plain}");
        assert!(
            structured.ends_with("\"msg\":\"two\\nlines\",\"v\":0,\"name\":\"a\\nI1118 forged\"}\n"),
            "{structured}"
        );
        let (_, structured) = lines(|| tracing::debug!(target: "v3", "HTTP"));
        assert!(structured.ends_with("\"msg\":\"HTTP\",\"v\":3}\n"), "{structured}");
    }
}
