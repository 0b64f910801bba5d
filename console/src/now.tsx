// The first page: what the server does now.
import { useEffect, useReducer } from "preact/hooks";
import { ApiError, json, text } from "./api";
import { Clients } from "./clients";
import { Errors } from "./errors";
import { type Metrics, type Now, History, by, one, readMetrics, readNow, sum } from "./figures";
import { Plot, colour } from "./plot";
import { link, title } from "./resources";
import { Store } from "./store";
import { Ago, Failure, Panel, Table, Text, bytes, duration, millis, number, usePoll } from "./ui";

const history = new History();
const VERBS = ["GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE"];
const HUES = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];

export function NowPage() {
  const now = usePoll(2, readNow);
  const metrics = usePoll(10, readMetrics);
  const ready = usePoll(10, readReady);
  const watched = usePoll(10, (signal) => json<{ items: Watched[] }>("/console/api/watches", { signal }));
  if (now.value) history.add(now.value);
  return (
    <main>
      <h1 class="sr">Now</h1>
      <Head now={now.value} metrics={metrics.value} ready={ready.value} stale={now.error} />
      {now.error !== undefined && !now.value ? (
        <Panel title="Requests" wide>
          <Failure error={now.error} doing="read /console/api/now" />
          <p class="dim">A role with the verb get on the nonResourceURLs /console/api/* and /metrics shows this page.</p>
        </Panel>
      ) : (
        <Plots />
      )}
      {now.value && <Clients report={now.value.clients} />}
      <div class="grid">
        {now.value && <Levels now={now.value} metrics={metrics.value} />}
        {now.value && <Errors items={now.value.errors} />}
        {metrics.error !== undefined && !metrics.value && (
          <Panel title="Metrics">
            <Failure error={metrics.error} doing="read /metrics" />
          </Panel>
        )}
        {metrics.value && <FromMetrics metrics={metrics.value} watched={watched.value?.items ?? []} />}
        {now.value && <Parts now={now.value} />}
      </div>
    </main>
  );
}

interface Ready {
  ok: boolean;
  failed: string[];
}

async function readReady(signal: AbortSignal): Promise<Ready> {
  try {
    await text("/readyz", { accept: "text/plain", signal });
    return { ok: true, failed: [] };
  } catch (error) {
    if (!(error instanceof ApiError) || error.code < 500) throw error;
    const failed = [...error.message.matchAll(/^\[-\](\S+)/gm)].map((match) => match[1]!);
    return { ok: false, failed };
  }
}

function Head(props: { now?: Now; metrics?: Metrics; ready?: Ready; stale: unknown }) {
  const { now, metrics, ready } = props;
  const started = metrics && one(metrics, "process_start_time_seconds");
  return (
    <dl class="strip" aria-label="Health">
      <div>
        <dt>health</dt>
        <dd>
          {props.stale instanceof TypeError ? (
            <b class="bad">unreachable</b>
          ) : ready ? (
            ready.ok ? (
              <b class="good">ready</b>
            ) : (
              <b class="bad">not ready {ready.failed.length > 0 && <Text of={ready.failed.join(", ")} />}</b>
            )
          ) : (
            "–"
          )}
        </dd>
      </div>
      <Figure name="version">{now ? <Text of={now.version} /> : "–"}</Figure>
      <Figure name="up">{started ? <Ago at={started * 1000} /> : "–"}</Figure>
      <Figure name="in flight">{now ? `${now.inFlight.reads} reads, ${now.inFlight.writes} writes` : "–"}</Figure>
      <Figure name="open watches">{now ? number(now.requests.filter((one) => one.verb === "WATCH").reduce((all, one) => all + one.open, 0)) : "–"}</Figure>
      <Figure name="memory">{metrics ? bytes(one(metrics, "process_resident_memory_bytes") ?? 0) : "–"}</Figure>
      <Figure name="CPU time">{metrics ? duration(one(metrics, "process_cpu_seconds_total") ?? 0) : "–"}</Figure>
      <Figure name="open files">{metrics ? number(one(metrics, "process_open_fds") ?? 0) : "–"}</Figure>
    </dl>
  );
}

function Figure({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Draws anew when the colours change with the theme. */
function useTheme() {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    addEventListener("console-theme", draw);
    return () => removeEventListener("console-theme", draw);
  }, []);
}

function Plots() {
  useTheme();
  const samples = history.samples;
  const times = samples.map((sample) => sample.time);
  const verbs = VERBS.filter((verb) => samples.some((sample) => (sample.byVerb[verb] ?? 0) > 0));
  const classes = ["2xx", "3xx", "4xx", "5xx"].filter((name) => samples.some((sample) => (sample.byClass[name] ?? 0) > 0));
  const hue = { "2xx": "c3", "3xx": "c1", "4xx": "c4", "5xx": "c5" } as Record<string, string>;
  const last = samples[samples.length - 1];
  const total = last ? Object.values(last.byVerb).reduce((all, rate) => all + rate, 0) : 0;
  return (
    <div class="plots">
      <Plot
        title="Requests per second"
        note={`${number(total)} now`}
        times={times}
        show={number}
        lines={verbs.map((verb, at) => ({ name: verb, colour: colour(HUES[at % HUES.length]!), values: samples.map((sample) => sample.byVerb[verb] ?? 0) }))}
      />
      <Plot
        title="Answers per second"
        note="by class of the code"
        times={times}
        show={number}
        lines={classes.map((name) => ({ name, colour: colour(hue[name]!), values: samples.map((sample) => sample.byClass[name] ?? 0) }))}
      />
      <Plot
        title="Latency"
        note="of all but long-running requests"
        times={times}
        show={millis}
        lines={[
          { name: "p50", colour: colour("c1"), values: samples.map((sample) => sample.p50) },
          { name: "p99", colour: colour("c4"), values: samples.map((sample) => sample.p99) },
        ]}
      />
    </div>
  );
}

function Levels({ now, metrics }: { now: Now; metrics?: Metrics }) {
  const wait = (name: string) => {
    if (!metrics) return NaN;
    const where = { priority_level: name };
    const base = "apiserver_flowcontrol_request_wait_duration_seconds";
    return sum(metrics, `${base}_sum`, where) / sum(metrics, `${base}_count`, where);
  };
  return (
    <Panel title="Priority levels" note="seats, queues, waits">
      <Table
        label="Priority levels"
        rows={now.levels}
        by={(level) => level.name}
        empty="Priority and fairness is off: --max-requests-inflight alone limits requests."
        columns={[
          { title: "level", sort: (l) => l.name, cell: (l) => <a href={`#/objects/flowcontrol.apiserver.k8s.io/prioritylevelconfigurations/-/${encodeURIComponent(l.name)}`}><Text of={l.name} /></a> },
          {
            title: "seats",
            number: true,
            sort: (l) => l.seats / Math.max(1, l.limit),
            cell: (l) => (
              <span class={l.seats >= l.limit && l.limit > 0 && l.name !== "exempt" ? "bad" : ""}>
                {l.seats}/{l.limit}
              </span>
            ),
            hint: "seats in use, of those that it may use now",
          },
          { title: "waiting", number: true, sort: (l) => l.waiting, cell: (l) => <span class={l.waiting > 0 ? "warn" : ""}>{l.waiting}</span> },
          { title: "mean wait", number: true, sort: (l) => wait(l.name), cell: (l) => millis(wait(l.name)), hint: "since the start" },
          { title: "refused", number: true, sort: (l) => l.rejected + l.timedOut, cell: (l) => <span class={l.rejected + l.timedOut > 0 ? "warn" : ""}>{number(l.rejected + l.timedOut)}</span> },
          { title: "served", number: true, sort: (l) => l.dispatched, cell: (l) => number(l.dispatched) },
        ]}
      />
    </Panel>
  );
}

/** How far the watchers of a resource are. */
interface Watched {
  group: string;
  resource: string;
  watchers: number;
  behind: number;
  events: number;
}

function FromMetrics({ metrics, watched }: { metrics: Metrics; watched: Watched[] }) {
  return (
    <>
      <Hooks metrics={metrics} />
      <Watches metrics={metrics} watched={watched} />
      <Kinds metrics={metrics} />
      <Store metrics={metrics} />
    </>
  );
}

function Hooks({ metrics }: { metrics: Metrics }) {
  const rows: { name: string; kind: string; at: string; calls: number; seconds: number; refused: number }[] = [];
  const group = "admissionregistration.k8s.io";
  const webhook = "apiserver_admission_webhook_admission_duration_seconds";
  const rejected = by(metrics, "apiserver_admission_webhook_rejection_count", ["name"]);
  const seconds = by(metrics, `${webhook}_sum`, ["name", "type"]);
  for (const [key, calls] of by(metrics, `${webhook}_count`, ["name", "type"])) {
    const [name = "", type = ""] = key.split("\u0000");
    const kind = type === "admit" ? "mutating" : "validating";
    // The metrics name the webhook, not the configuration that it is in.
    rows.push({ name, kind: `${kind} webhook`, at: link({ group, resource: `${kind}webhookconfigurations` }), calls, seconds: (seconds.get(key) ?? 0) / calls, refused: rejected.get(name) ?? 0 });
  }
  for (const [base, kind] of [
    ["apiserver_validating_admission_policy_check", "validating"],
    ["apiserver_mutating_admission_policy_check", "mutating"],
  ] as const) {
    const total = by(metrics, `${base}_total`, ["policy"]);
    const time = by(metrics, `${base}_duration_seconds_sum`, ["policy"]);
    for (const [name, calls] of total) {
      const refused = (metrics.get(`${base}_total`) ?? []).filter((one) => one.labels.policy === name && one.labels.enforcement_action === "deny");
      rows.push({ name, kind: `${kind} policy`, at: link({ group, resource: `${kind}admissionpolicies` }, "", name), calls, seconds: (time.get(name) ?? 0) / calls, refused: refused.reduce((all, one) => all + one.value, 0) });
    }
  }
  return (
    <Panel title="Webhooks and policies" note="time and refusals since the start">
      <Table
        label="Webhooks and policies"
        rows={rows}
        first={3}
        by={(row) => row.kind + row.name}
        empty="No webhook or policy has seen a request. Register one, and its times and refusals are here."
        columns={[
          { title: "name", sort: (row) => row.name, cell: (row) => <a href={row.at}><Text of={row.name} /></a> },
          { title: "kind", sort: (row) => row.kind, cell: (row) => row.kind },
          { title: "calls", number: true, sort: (row) => row.calls, cell: (row) => number(row.calls) },
          { title: "mean", number: true, sort: (row) => row.seconds, cell: (row) => millis(row.seconds) },
          { title: "refused", number: true, sort: (row) => row.refused, cell: (row) => <span class={row.refused > 0 ? "warn" : ""}>{number(row.refused)}</span> },
        ]}
      />
    </Panel>
  );
}

function Watches({ metrics, watched }: { metrics: Metrics; watched: Watched[] }) {
  const sent = by(metrics, "apiserver_watch_events_sizes_sum", ["group", "resource"]);
  const events = by(metrics, "apiserver_watch_events_total", ["group", "resource"]);
  const now = new Map(watched.map((one) => [one.group + "\u0000" + one.resource, one]));
  const rows = [...new Set([...now.keys(), ...events.keys()])].map((key) => {
    const [group = "", resource = ""] = key.split("\u0000");
    const { watchers = 0, behind = 0, events: lag = 0 } = now.get(key) ?? {};
    return { group, resource, watchers, behind, lag, bytes: sent.get(key) ?? 0, events: events.get(key) ?? 0 };
  });
  return (
    <Panel title="Watches" note="by resource; the server's own are among them">
      <Table
        label="Watches"
        rows={rows.filter((row) => row.watchers > 0 || row.events > 0)}
        first={2}
        most={12}
        by={(row) => row.group + "/" + row.resource}
        empty="There are no watches."
        columns={[
          { title: "resource", sort: (row) => row.resource, cell: (row) => <a href={link(row)}><Text of={title(row)} /></a> },
          { title: "open", number: true, sort: (row) => row.watchers, cell: (row) => number(row.watchers) },
          {
            title: "lag",
            number: true,
            hint: "events that the slowest watcher has not been sent yet, and how many watchers have such events",
            sort: (row) => row.lag + row.behind / 1e6,
            cell: (row) => (row.behind > 0 ? <span class={row.lag > 100 ? "bad" : "warn"}>{number(row.lag)} ({row.behind})</span> : <span class="dim">0</span>),
          },
          { title: "events", number: true, sort: (row) => row.events, cell: (row) => number(row.events) },
          { title: "bytes", number: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
        ]}
      />
    </Panel>
  );
}

function Kinds({ metrics }: { metrics: Metrics }) {
  const counts = metrics.get("apiserver_resource_objects") ?? metrics.get("apiserver_storage_objects") ?? [];
  const sizes = by(metrics, "apiserver_resource_size_estimate_bytes", ["group", "resource"]);
  const rows = counts
    .filter((one) => one.value > 0)
    .map((one) => {
      const { group = "", resource = "" } = one.labels;
      return { group, resource, count: one.value, bytes: sizes.get(group + "\u0000" + resource) ?? NaN };
    });
  return (
    <Panel title="Biggest kinds" note="stored objects">
      <Table
        label="Biggest kinds"
        rows={rows}
        first={1}
        most={12}
        by={(row) => row.group + "/" + row.resource}
        empty="Nothing is stored."
        columns={[
          {
            title: "resource",
            sort: (row) => row.resource,
            cell: (row) => (
              <a href={`#/objects/${encodeURIComponent(row.group || "core")}/${encodeURIComponent(row.resource.split(".")[0]!)}`}>
                <Text of={row.group && !row.resource.includes(".") ? `${row.resource}.${row.group}` : row.resource} />
              </a>
            ),
          },
          { title: "objects", number: true, sort: (row) => row.count, cell: (row) => number(row.count) },
          { title: "bytes", number: true, sort: (row) => (Number.isNaN(row.bytes) ? -1 : row.bytes), cell: (row) => (Number.isNaN(row.bytes) ? "–" : bytes(row.bytes)) },
        ]}
      />
    </Panel>
  );
}

function Parts({ now }: { now: Now }) {
  return (
    <Panel title="Memory by part" note="what is counted">
      <Table
        label="Memory by part"
        rows={now.memory}
        first={1}
        by={(part) => part.name}
        empty="The server counts no part of its memory."
        columns={[
          { title: "part", sort: (part) => part.name, cell: (part) => part.name },
          { title: "bytes", number: true, sort: (part) => part.bytes, cell: (part) => bytes(part.bytes) },
        ]}
      />
    </Panel>
  );
}
