//! Bad values of flags, as data: what kube-apiserver v1.37 says about each, recorded by giving it the same.

use apiserver::flags;

/// A line of a command, and how what kube-apiserver ends with begins.
const REFUSED: &[(&str, &str)] = &[
    ("--logging-format=xml", "format: Invalid value: \"xml\": Unsupported log format"),
    ("--logging-format=", "format: Invalid value: \"\": Unsupported log format"),
    ("--runtime-config=foo/v1=true", "unknown api groups foo/v1"),
    ("--runtime-config=apps/v9=true", "group version apps/v9 that has not been registered"),
    ("--runtime-config=apps=true", "runtime-config invalid key apps"),
    ("--runtime-config=api/all", "invalid value api/all="),
    (
        "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false",
        "--runtime-config=flowcontrol.apiserver.k8s.io/v1=false conflicts with --enable-priority-and-fairness=true",
    ),
    (
        "--storage-backend=x",
        "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'",
    ),
    (
        "--storage-media-type=text/plain",
        "--storage-media-type \"text/plain\" invalid, allowed values: application/json, ",
    ),
    ("--secure-port=99999", "--secure-port 99999 must be between 1 and 65535, inclusive."),
    ("--secure-port=-1", "--secure-port -1 must be between 1 and 65535, inclusive."),
    (
        "--audit-log-path=a --audit-log-mode=fast",
        "invalid audit log mode fast, allowed modes are \"batch,blocking,blocking-strict\"",
    ),
    ("--audit-log-path=a --audit-log-format=xml", "invalid audit log format xml, allowed formats are \"legacy,json\""),
    ("--audit-log-path=a --audit-log-version=v9", "invalid group version, allowed versions are [\"audit.k8s.io/v1\"]"),
    ("--audit-log-path=a --audit-log-maxage=-1", "--audit-log-maxage -1 can't be a negative number"),
    (
        "--audit-log-path=a --audit-log-mode=batch --audit-log-batch-buffer-size=0",
        "invalid audit batch log buffer size 0, must be a positive number",
    ),
    (
        "--audit-log-path=a --audit-log-truncate-enabled --audit-log-truncate-max-batch-size=1",
        "invalid audit truncate log max batch size 1, must be greater than max event size (102400)",
    ),
    ("--max-requests-inflight=-1", "--max-requests-inflight can not be negative value"),
    ("--max-mutating-requests-inflight=-1", "--max-mutating-requests-inflight can not be negative value"),
    (
        "--max-requests-inflight=0 --max-mutating-requests-inflight=0",
        "invalid configuration: MaxRequestsInFlight=0 and MaxMutatingRequestsInFlight=0; they must add up to something positive",
    ),
    ("--request-timeout=-1s", "--request-timeout can not be negative value"),
    (
        "--request-timeout=1",
        "invalid argument \"1\" for \"--request-timeout\" flag: time: missing unit in duration \"1\"",
    ),
    ("--goaway-chance=0.5", "--goaway-chance can not be less than 0 or greater than 0.02"),
    (
        "--goaway-chance=x",
        "invalid argument \"x\" for \"--goaway-chance\" flag: strconv.ParseFloat: parsing \"x\": invalid syntax",
    ),
    ("--min-request-timeout=-1", "--min-request-timeout can not be negative value"),
    ("--storage-initialization-timeout=-1s", "--storage-initialization-timeout can not be negative value"),
    ("--shutdown-delay-duration=-1s", "--shutdown-delay-duration can not be negative value"),
    (
        "--shutdown-watch-termination-grace-period=-1s",
        "shutdown-watch-termination-grace-period, if provided, can not be a negative value",
    ),
    ("--livez-grace-period=-1s", "--livez-grace-period can not be a negative value"),
    (
        "--strict-transport-security-directives=bogus",
        "--strict-transport-security-directives invalid, allowed values: ",
    ),
    (
        "--strict-transport-security-directives=max-age",
        "--strict-transport-security-directives invalid, allowed values: ",
    ),
    (
        "--cors-allowed-origins=example.com",
        "--cors-allowed-origins has an invalid regular expression: regular expression does not pin",
    ),
    (
        "--cors-allowed-origins=(",
        "--cors-allowed-origins has an invalid regular expression: error parsing regexp: missing closing ): `(`",
    ),
    (
        "--cors-allowed-origins=^https://a$,",
        "empty value in --cors-allowed-origins, help: List of allowed origins for CORS",
    ),
    ("--requestheader-allowed-names=,", "empty value in \"requestheader-allowed-names\""),
    ("--requestheader-group-headers=,", "empty value in \"requestheader-group-headers\""),
    ("--apiserver-count=0", "--apiserver-count should be a positive number, but value '0' provided"),
    ("--kubernetes-service-node-port=-1", "--kubernetes-service-node-port -1 must be between 0 and 65535, inclusive."),
    (
        "--service-node-port-range=5-1",
        "invalid argument \"5-1\" for \"--service-node-port-range\" flag: end port cannot be less than start port: 5-1",
    ),
    (
        "--service-node-port-range=0-70000",
        "invalid argument \"0-70000\" for \"--service-node-port-range\" flag: the port range cannot be greater than 65535: 0-70000",
    ),
    (
        "--service-node-port-range=x",
        "invalid argument \"x\" for \"--service-node-port-range\" flag: strconv.Atoi: parsing \"x\": invalid syntax",
    ),
    ("--bind-address=1.2.3", "invalid argument \"1.2.3\" for \"--bind-address\" flag: failed to parse IP: \"1.2.3\""),
    (
        "--coordinated-leadership-lease-duration=1s",
        "--coordinated-leadership-lease-duration must be greater than --coordinated-leadership-renew-deadline",
    ),
    ("--feature-gates=Bogus", "missing bool value for Bogus"),
    ("--feature-gates=Bogus=true", "unrecognized feature gate: Bogus"),
    (
        "--feature-gates=APIServerTracing=maybe",
        "invalid value of APIServerTracing=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
    ),
    ("--emulated-version=x", "could not parse \"x\" as version"),
    (
        "--etcd-servers-overrides=bogus",
        "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated",
    ),
    ("--watch-cache-sizes=bogus", "invalid value of watch cache size: bogus"),
    ("--watch-cache-sizes=pods#-1", "watch cache size cannot be negative: pods#-1"),
    (
        "--service-account-max-token-expiration=-1s",
        "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds",
    ),
    (
        "--service-account-issuer=::bad",
        "service-account-issuer \"::bad\" contained a ':' but was not a valid URL: parse \"::bad\": missing protocol scheme",
    ),
    (
        "--oidc-required-claim=x",
        "invalid argument \"x\" for \"--oidc-required-claim\" flag: malformed pair, expect string=string",
    ),
    (
        "--show-hidden-metrics-for-version=x",
        "metrics.showHiddenMetricsForVersion: Invalid value: \"x\": must be omitted",
    ),
    (
        "--kubelet-port=-1",
        "invalid argument \"-1\" for \"--kubelet-port\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax",
    ),
    ("-v=x", "invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"x\": invalid syntax"),
    ("-v=-1", "invalid argument \"-1\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"-1\": invalid syntax"),
    (
        "-v=99999999999",
        "invalid argument \"99999999999\" for \"-v, --v\" flag: strconv.ParseUint: parsing \"99999999999\": value out of range",
    ),
    ("--vmodule=x", "invalid argument \"x\" for \"--vmodule\" flag: \"x\" does not have the pattern=N format"),
    (
        "--audit-log-maxage=9999999999999999999999",
        "invalid argument \"9999999999999999999999\" for \"--audit-log-maxage\" flag: strconv.ParseInt: parsing \
         \"9999999999999999999999\": value out of range",
    ),
    (
        "--tls-curve-preferences=x",
        "invalid argument \"x\" for \"--tls-curve-preferences\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
    ),
    (
        "--log-json-info-buffer-size=x",
        "invalid argument \"x\" for \"--log-json-info-buffer-size\" flag: quantities must match the regular expression",
    ),
];

/// What kube-apiserver takes, however odd it looks.
const TAKEN: &[&str] = &[
    "--logging-format=json",
    "--runtime-config=apps/v1=",
    "--runtime-config=apps/v1/nothing=true",
    "--runtime-config=extensions/v1beta1=true",
    "--audit-log-maxage=0x10",
    "--audit-log-maxage=1_000",
    "--audit-log-maxage=017",
    "--max-requests-inflight=0x10",
    "--goaway-chance=1e-3",
    "--event-ttl=-1s",
    "--service-node-port-range=30000",
    "--strict-transport-security-directives=max-age=1,includeSubDomains,preload",
    "--cors-allowed-origins=//example\\.com(:|$),^https://a$",
    "--delete-collection-workers=-1",
];

fn read(line: &str) -> Result<flags::Serve, String> {
    let arguments = std::iter::once("ferrokube").chain(line.split(' '));
    let matches = flags::command("ferrokube").try_get_matches_from(arguments).map_err(|error| error.to_string())?;
    flags::serve(&matches, "ferrokube")
}

#[test]
fn bad_values_are_refused_as_kube_apiserver_refuses_them() {
    let mut wrong = Vec::new();
    for (line, want) in REFUSED {
        match read(line) {
            Ok(_) => wrong.push(format!("{line} is taken")),
            Err(why) if !why.starts_with(want) => wrong.push(format!("{line}: {why}")),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn odd_values_are_taken_as_kube_apiserver_takes_them() {
    for line in TAKEN {
        assert!(read(line).is_ok(), "{line}: {:?}", read(line).err());
    }
    assert_eq!(read("--max-requests-inflight=0x10").ok().map(|serve| serve.config.serving.max_reads), Some(16));
}
