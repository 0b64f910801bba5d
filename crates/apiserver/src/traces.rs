//! `--tracing-config-file`: a TracingConfiguration says where spans go and how many requests are traced.

use std::path::Path;

use codec::{ConfigKind, ConfigType};
use object::Errors;
use outbound::Egress;
use outbound::otlp;
use server::Tracer;
use spans::KeyValue;
use standalone::Identity;

use crate::start::hostname;

const FILE: ConfigKind = ConfigKind {
    kind: "TracingConfiguration",
    versions: &["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"],
    scheme: "pkg/server/options/tracing.go:44",
    fields: &[("endpoint", ConfigType::String), ("samplingRatePerMillion", ConfigType::Int)],
};
const RATE_MAX: i64 = 1_000_000;
/// Where collectors listen if the file does not say.
const DEFAULT_ENDPOINT: &str = "localhost:4317";

/// The file, understood.
#[derive(Debug, PartialEq, Eq)]
struct TraceSettings {
    endpoint: String,
    rate_per_million: u32,
}

/// Starts the exporter; None without a file.
pub fn tracer(file: Option<&Path>, egress: &Egress) -> Result<Option<Tracer>, String> {
    let Some(path) = file else { return Ok(None) };
    if !path.exists() {
        return Err(format!("tracing-config-file {} does not exist", path.display()));
    }
    let text = std::fs::read(path).map_err(|error| {
        let (path, why) = (path.display().to_string(), outbound::in_gos_words(&error));
        let quoted = object::quote(&path);
        format!("failed to read tracing config: unable to read tracing configuration from {quoted}: open {path}: {why}")
    })?;
    let settings = TraceSettings::read(&text)?;
    let resource = vec![
        KeyValue::text("service.name", "apiserver"),
        KeyValue::text("service.instance.id", Identity::lease_name_on(&hostname())),
    ];
    let sink = otlp::start(&settings.endpoint, resource, egress.to_control_plane())?;
    Ok(Some(Tracer::new(sink, settings.rate_per_million)))
}

impl TraceSettings {
    fn read(text: &[u8]) -> Result<TraceSettings, String> {
        let file = FILE.read(text).map_err(|why| format!("failed to read tracing config: {why}"))?;
        let rate = file.field("samplingRatePerMillion").as_int().unwrap_or(0);
        let endpoint = Some(file.str_at(&["endpoint"])).filter(|endpoint| !endpoint.is_empty());
        let mut errors = Errors::new();
        let at = object::Path::of("samplingRatePerMillion");
        if rate < 0 {
            errors.invalid(&at, rate, "sampling rate must be positive");
        }
        if rate > RATE_MAX {
            errors.invalid(&at, rate, "sampling rate per million must be less than or equal to one million");
        }
        let scheme = endpoint.and_then(|endpoint| endpoint.split_once("//")).map(|(scheme, _)| scheme);
        if let Some(endpoint) = endpoint.filter(|_| scheme.is_some_and(|scheme| !matches!(scheme, "dns:" | "unix:"))) {
            let scheme = scheme.unwrap_or("").trim_end_matches(':');
            let why = format!(
                "unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  See https://github.com/grpc/grpc/blob/master/doc/naming.md"
            );
            errors.invalid(&object::Path::of("endpoint"), endpoint, why);
        }
        if !errors.is_empty() {
            return Err(format!("failed to validate tracing configuration: {}", errors.aggregate()));
        }
        let rate_per_million = u32::try_from(rate).map_err(|error| error.to_string())?;
        Ok(TraceSettings { endpoint: endpoint.unwrap_or(DEFAULT_ENDPOINT).to_string(), rate_per_million })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_validated() {
        let read = |body: &str| {
            let text = format!("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n{body}\n");
            TraceSettings::read(text.as_bytes())
        };
        let defaults = TraceSettings { endpoint: DEFAULT_ENDPOINT.into(), rate_per_million: 0 };
        assert_eq!(read(""), Ok(defaults));
        let set = TraceSettings { endpoint: "collector:4317".into(), rate_per_million: 5 };
        assert_eq!(read("endpoint: collector:4317\nsamplingRatePerMillion: 5"), Ok(set));
        for (body, want) in [
            ("samplingRatePerMillion: -1", "samplingRatePerMillion: Invalid value: -1: sampling rate must be positive"),
            ("samplingRatePerMillion: 1000001", "must be less than or equal to one million"),
            ("endpoint: http://a", "unsupported scheme: http."),
            ("endpoints: a", "strict decoding error: unknown field \"endpoints\""),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
