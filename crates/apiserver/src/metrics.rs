//! What the server's parts contribute to `/metrics`: what it is, the store's latencies, the caches and watch events.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cache::CacheMeters;
use kinds::core::service::AllocationMeters;
use metrics::Histogram;
use outbound::Egress;
use registry::Lookup;
use rest::{Api, SIZE_BOUNDS};
use server::{Impersonation, Metrics, Version, metric_head};

use crate::admission::Host;
use crate::authentication::Authentication;
use crate::authorization::Authorization;
use crate::metered::{Timing, Timings};

/// Lets the metrics show what the API and the store know.
pub fn contribute(
    metrics: &Metrics,
    api: &Arc<Api>,
    version: Version,
    timings: Arc<Timings>,
    kinds: &kinds::KindOptions,
    host: &Host,
) {
    contribute_admission(metrics, host.meters.clone(), host.expressions.clone());
    let (durations, allocation) = (kinds.certificate_durations.clone(), kinds.allocation.meters.clone());
    metrics.contribute(move |out| durations.write(out).expect("writing to a string cannot fail"));
    let weak = Arc::downgrade(api);
    metrics.contribute(move |out| {
        if let Some(api) = weak.upgrade() {
            let written = about(&api, &version, out)
                .and_then(|()| api.admission.write_metrics(out))
                .and_then(|()| stores(&api, &timings, out))
                .and_then(|()| caches(&api, out))
                .and_then(|()| watches(&api, out))
                .and_then(|()| addresses(&api, &allocation, out))
                .and_then(|()| api.streams.write(out));
            written.expect("writing to a string cannot fail");
        }
    });
}

/// Adds the metrics of authentication and authorization, of their configuration files, and of connections through proxies.
pub fn contribute_access(
    metrics: &Metrics,
    authentication: &Authentication,
    authorization: &Authorization,
    egress: &Egress,
) {
    authentication.contribute(metrics);
    let (meters, reloads) = (authorization.meters.clone(), authorization.reloads.clone());
    let certificates = egress.certificates.clone();
    let (egress, calls) = (egress.meters.clone(), egress.calls.clone());
    metrics.contribute(move |out| {
        let written = meters.write(out).and_then(|()| egress.write(out)).and_then(|()| calls.write(out));
        let written = written.and_then(|()| certificates.write("webhooks", out));
        written.expect("writing to a string cannot fail");
        if let Some(reloads) = &reloads {
            reloads.write(out).expect("writing to a string cannot fail");
        }
    });
}

/// Lets the metrics show what admission does, and how many compiled expressions there are.
fn contribute_admission(metrics: &Metrics, admission: Arc<::admission::AdmissionMeters>, expressions: Arc<cel::Pool>) {
    metrics.contribute(move |out| {
        let written = admission.write(out).and_then(|()| {
            let count = expressions.count();
            let name = "ferrokube_cel_expressions";
            metric_head(out, name, "gauge", "Compiled CEL expressions with different texts or types.")?;
            writeln!(out, "{name} {}", count.expressions)?;
            let name = "ferrokube_cel_expression_uses";
            metric_head(
                out,
                name,
                "gauge",
                "How often policies, webhooks and custom resource definitions use compiled CEL expressions.",
            )?;
            writeln!(out, "{name} {}", count.uses)?;
            for (name, help, seconds) in [
                (
                    "apiserver_cel_compilation_duration_seconds",
                    "CEL compilation time in seconds.",
                    &expressions.compilations,
                ),
                (
                    "apiserver_cel_evaluation_duration_seconds",
                    "CEL evaluation time in seconds.",
                    &expressions.evaluations,
                ),
            ] {
                metric_head(out, name, "histogram", help)?;
                seconds.write(name, "", out)?;
            }
            Ok(())
        });
        written.expect("writing to a string cannot fail");
    });
}

/// Lets the metrics show how requests share the server, and the audit log, as far as there are any.
pub fn contribute_chain(
    metrics: &Metrics,
    unfinished: &server::Unfinished,
    auditor: Option<&Arc<::audit::Auditor>>,
    flow: Option<&Arc<flow::Flow>>,
) {
    let counted = unfinished.clone();
    metrics.contribute(move |out| {
        let name = "ferrokube_unfinished_body_bytes";
        let written = metric_head(out, name, "gauge", "Bytes of request bodies that have not arrived completely.")
            .and_then(|()| writeln!(out, "{name} {}", counted.bytes()));
        written.expect("writing to a string cannot fail");
    });
    let auditor = auditor.cloned();
    metrics.contribute(move |out| {
        let written = match &auditor {
            Some(auditor) => auditor.write_metrics(out),
            None => no_audit(out),
        };
        written.expect("writing to a string cannot fail");
    });
    if let Some(flow) = flow.cloned() {
        metrics.contribute(move |out| flow.write_metrics(out).expect("writing to a string cannot fail"));
    }
}

/// Lets the metrics show who impersonates, and what that asks of authorization.
pub fn contribute_impersonation(metrics: &Metrics, impersonation: &Impersonation) {
    let meters = impersonation.meters.clone();
    metrics.contribute(move |out| meters.write(out).expect("writing to a string cannot fail"));
}

/// Adds the metrics of conversion webhooks.
pub fn contribute_conversions(metrics: &Metrics, meters: &Arc<crd::ConversionMeters>) {
    let meters = meters.clone();
    metrics.contribute(move |out| meters.write(out).expect("writing to a string cannot fail"));
}

/// Without an audit log nothing is logged and nothing refused because of it.
fn no_audit(out: &mut String) -> std::fmt::Result {
    for (name, help) in [
        ("apiserver_audit_event_total", "Audit events that were made."),
        ("apiserver_audit_requests_rejected_total", "Requests refused because they could not be logged."),
    ] {
        metric_head(out, name, "counter", help)?;
        writeln!(out, "{name} 0")?;
    }
    Ok(())
}

fn about(api: &Api, version: &Version, out: &mut String) -> std::fmt::Result {
    metric_head(out, "kubernetes_build_info", "gauge", "What this is.")?;
    writeln!(out, "kubernetes_build_info{{{}}} 1", version.labels())?;
    let name = "version_info";
    metric_head(out, name, "gauge", "The versions that this server is of, emulates and is compatible with.")?;
    let current = registry::Release::CURRENT;
    let (emulated, compatible) = (api.features.emulated(), api.features.compatible());
    writeln!(
        out,
        "{name}{{binary=\"{current}.0\",component=\"kube\",emulation=\"{emulated}\",min_compat=\"{compatible}\"}} 1"
    )?;
    let name = "kubernetes_feature_enabled";
    metric_head(out, name, "gauge", "Features, and whether they are on.")?;
    for (feature, stage, enabled) in api.features.iter() {
        // What is generally available has no stage there.
        let stage = if stage == "GA" { String::new() } else { stage.to_uppercase() };
        writeln!(out, "{name}{{name=\"{feature}\",stage=\"{stage}\"}} {}", u8::from(enabled))?;
    }
    Ok(())
}

fn caches(api: &Api, out: &mut String) -> std::fmt::Result {
    let catalog = api.catalog.load();
    let mut caches: Vec<(String, Arc<cache::Cache>)> = Vec::new();
    for storage in catalog.resources().filter_map(|resource| resource.storage.as_ref()) {
        // A resource has one cache for all its versions, and one name is enough for it.
        if !caches.iter().any(|(_, known)| Arc::ptr_eq(known, &storage.cache)) {
            let labels = format!("group=\"{}\",resource=\"{}\"", storage.resource.group, storage.resource.resource);
            caches.push((labels, storage.cache.clone()));
        }
    }
    let mut family = |name: &str, kind: &str, help: &str, value: fn(&cache::Cache) -> i64| {
        metric_head(out, name, kind, help)?;
        caches.iter().try_for_each(|(labels, cache)| writeln!(out, "{name}{{{labels}}} {}", value(cache)))
    };
    let received = |cache: &cache::Cache| i64::try_from(cache.events_received()).unwrap_or(i64::MAX);
    family("apiserver_storage_events_received_total", "counter", "Changes the store has told of.", received)?;
    family("apiserver_watch_cache_events_received_total", "counter", "Changes that caches have taken over.", received)?;
    let help = "Changes that caches have made visible to watchers.";
    family("apiserver_watch_cache_events_dispatched_total", "counter", help, received)?;
    let help = "The revision that a cache has reached, without what is beyond 15 digits.";
    family("apiserver_watch_cache_resource_version", "gauge", help, |cache| cache.revision() % 1_000_000_000_000_000)?;
    let help = "Objects that were there when watches began, and were sent to them.";
    family("apiserver_init_events_total", "counter", help, |cache| {
        i64::try_from(cache.meters.initial_events.value()).unwrap_or(i64::MAX)
    })?;
    family(
        "apiserver_watch_cache_initializations_total",
        "counter",
        "How often caches have listed the store.",
        |cache| i64::try_from(cache.meters.initializations.count()).unwrap_or(i64::MAX),
    )?;
    family("watch_cache_capacity", "gauge", "How many changes a cache keeps for watchers.", |cache| {
        i64::try_from(cache.capacity()).unwrap_or(i64::MAX)
    })?;
    cache_times(&caches, out)
}

/// How long caches take, by their labels.
fn cache_times(caches: &[(String, Arc<cache::Cache>)], out: &mut String) -> std::fmt::Result {
    let mut family = |name: &str, help: &str, series: &[(&str, fn(&CacheMeters) -> &Histogram)]| {
        metric_head(out, name, "histogram", help)?;
        for (labels, cache) in caches {
            for (more, histogram) in series {
                let histogram = histogram(&cache.meters);
                if histogram.count() > 0 {
                    histogram.write(name, &format!("{labels}{more}"), out)?;
                }
            }
        }
        Ok(())
    };
    let name = "apiserver_watch_cache_initialization_duration_seconds";
    family(name, "How long caches took to list the store.", &[("", |meters| &meters.initializations)])?;
    let name = "apiserver_watch_cache_read_wait_seconds";
    family(name, "How long readers waited for a cache to be new enough.", &[("", |meters| &meters.waits)])?;
    let name = "apiserver_watch_events_dispatch_duration_seconds";
    let stages: [(&str, fn(&CacheMeters) -> &Histogram); 2] =
        [(",stage=\"storage_to_cache\"", |meters| &meters.applied), (",stage=\"total\"", |meters| &meters.delivered)];
    family(name, "How long events took from the store to caches, and to watchers.", &stages)
}

/// The addresses and ports of services.
fn addresses(api: &Arc<Api>, meters: &AllocationMeters, out: &mut String) -> std::fmt::Result {
    let catalog = api.catalog.load();
    let Some(storage) = catalog.stored("networking.k8s.io", "ipaddresses") else { return Ok(()) };
    let cidrs = api.snapshot().list("networking.k8s.io", "servicecidrs", "");
    let known = storage.cache.snapshot(&storage.range("").into());
    let keys = known.objects.iter().filter_map(|object| object.entry().key.as_str());
    meters.write(&cidrs, keys.filter_map(|key| key.rsplit('/').next()), out)
}

fn stores(api: &Api, timings: &Timings, out: &mut String) -> std::fmt::Result {
    let catalog = api.catalog.load();
    let mut names: Vec<(String, String)> = Vec::new();
    for storage in catalog.resources().filter_map(|resource| resource.storage.as_ref()) {
        let labels = format!("group=\"{}\",resource=\"{}\"", storage.resource.group, storage.resource.resource);
        names.push((storage.prefix.clone(), labels));
    }
    let labels_of = |part: &str, operation: &str| {
        let (_, labels) = names.iter().find(|(prefix, _)| prefix == part)?;
        let (group, resource) = labels.split_once(',')?;
        Some(format!("{group},operation=\"{operation}\",{resource}"))
    };
    let name = "etcd_request_duration_seconds";
    metric_head(out, name, "histogram", "Time the store takes, by operation and resource.")?;
    let mut result = Ok(());
    timings.each(|operation, part, timing| {
        if let Some(labels) = labels_of(part, operation) {
            result = result.and_then(|()| timing.seconds.write(name, &labels, out));
        }
    });
    result?;
    let mut family = |name: &str, help: &str, count: fn(&Timing) -> u64| {
        metric_head(out, name, "counter", help)?;
        let mut result = Ok(());
        timings.each(|operation, part, timing| {
            let count = count(timing);
            if let Some(labels) = labels_of(part, operation).filter(|_| count > 0) {
                result = result.and_then(|()| writeln!(out, "{name}{{{labels}}} {count}"));
            }
        });
        result
    };
    family("etcd_requests_total", "Operations the store was asked for.", |timing| {
        timing.requests.load(Ordering::Relaxed)
    })?;
    family("etcd_request_errors_total", "Operations the store failed to carry out.", |timing| {
        timing.errors.load(Ordering::Relaxed)
    })?;
    let lists = |show: &mut dyn FnMut(&str, &str, &Timing)| {
        timings.each(|operation, part, timing| {
            let found = names.iter().find(|(prefix, _)| prefix == part).filter(|_| operation == "list");
            if let Some((group, resource)) = found.and_then(|(_, labels)| labels.split_once(',')) {
                show(group, resource, timing);
            }
        });
    };
    store_lists(&lists, out)
}

/// Lists that are read from the store: those that caches begin with, and those of old revisions. `each` shows the labels for the
/// group and the resource, and how lists of it went.
fn store_lists(each: &dyn Fn(&mut dyn FnMut(&str, &str, &Timing)), out: &mut String) -> std::fmt::Result {
    let requests: fn(&Timing) -> u64 = |timing| timing.requests.load(Ordering::Relaxed);
    let objects: fn(&Timing) -> u64 = |timing| timing.listed.load(Ordering::Relaxed);
    for (name, help, index, value) in [
        ("apiserver_storage_list_total", "Lists that were read from the store.", ",index=\"\"", requests),
        ("apiserver_storage_list_fetched_objects_total", "Objects that they read.", ",index=\"\"", objects),
        ("apiserver_storage_list_evaluated_objects_total", "Objects that they looked at.", "", objects),
        ("apiserver_storage_list_returned_objects_total", "Objects that they found.", "", objects),
    ] {
        metric_head(out, name, "counter", help)?;
        let mut lines = String::new();
        each(&mut |group, resource, timing| {
            lines.push_str(&format!("{name}{{{group}{index},{resource},storage=\"etcd\"}} {}\n", value(timing)));
        });
        out.push_str(&lines);
    }
    let name = "apiserver_storage_list_duration_seconds";
    metric_head(out, name, "histogram", "How long lists of the store took.")?;
    let mut result = Ok(());
    each(&mut |group, resource, timing| {
        let labels = format!("{group},{resource},streamed=\"false\"");
        let written = timing.seconds.write(name, &labels, out);
        result = result.and(written);
    });
    result
}

fn watches(api: &Api, out: &mut String) -> std::fmt::Result {
    let mut totals = String::new();
    let mut sizes = String::new();
    api.meters.each(|resource, meter| {
        let labels =
            format!("group=\"{}\",resource=\"{}\",version=\"{}\"", resource.group, resource.resource, resource.version);
        let (counts, bytes) = meter.read();
        let mut sum = 0;
        for (at, count) in counts.iter().enumerate() {
            sum += count;
            let bound = SIZE_BOUNDS.get(at).map_or("+Inf".to_string(), ToString::to_string);
            sizes.push_str(&format!("apiserver_watch_events_sizes_bucket{{{labels},le=\"{bound}\"}} {sum}\n"));
        }
        sizes.push_str(&format!("apiserver_watch_events_sizes_sum{{{labels}}} {bytes}\n"));
        sizes.push_str(&format!("apiserver_watch_events_sizes_count{{{labels}}} {sum}\n"));
        totals.push_str(&format!("apiserver_watch_events_total{{{labels}}} {sum}\n"));
    });
    metric_head(out, "apiserver_watch_events_sizes", "histogram", "Bytes of an event as it is sent.")?;
    out.push_str(&sizes);
    metric_head(out, "apiserver_watch_events_total", "counter", "Events sent to watchers.")?;
    out.push_str(&totals);
    Ok(())
}
