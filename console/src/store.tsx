// How the store does: revision, size, log, checkpoint and commits, or etcd's health, and its operations.
import { useRef } from "preact/hooks";
import { json } from "./api";
import { type Metrics, by, one, sum } from "./figures";
import { Ago, Failure, Panel, Table, Text, bytes, millis, number, usePoll } from "./ui";

interface StoreFigures {
  /** "" if it works. */
  problem: string;
  revision: number;
  compacted: number;
  size: number;
  inUse: number;
  log: LogFigures | null;
}

interface LogFigures {
  size: number;
  pending: number;
  checkpoint: number;
  commits: number;
  seconds: number;
  secondsMax: number;
}

const readStores = async (signal: AbortSignal) => (await json<{ items: StoreFigures[] }>("/console/api/stores", { signal })).items;

export function Store({ metrics }: { metrics: Metrics }) {
  const stores = usePoll(10, readStores);
  const seconds = by(metrics, "etcd_request_duration_seconds_sum", ["operation"]);
  const rows = [...by(metrics, "etcd_request_duration_seconds_count", ["operation"])].map(([operation, calls]) => ({
    operation,
    calls,
    mean: (seconds.get(operation) ?? 0) / calls,
    errors: sum(metrics, "etcd_request_errors_total", { operation }),
  }));
  return (
    <Panel title="Store" note="operations since the start">
      {stores.error !== undefined && !stores.value && <Failure error={stores.error} doing="read /console/api/stores" />}
      {(stores.value ?? []).map((store, at) => <Figures key={at} of={store} />)}
      <History metrics={metrics} />
      <Table
        label="Store operations"
        rows={rows}
        first={1}
        by={(row) => row.operation}
        empty="The store was not asked for anything yet."
        columns={[
          { title: "operation", sort: (row) => row.operation, cell: (row) => row.operation },
          { title: "calls", number: true, sort: (row) => row.calls, cell: (row) => number(row.calls) },
          { title: "mean", number: true, sort: (row) => row.mean, cell: (row) => millis(row.mean) },
          { title: "errors", number: true, sort: (row) => row.errors, cell: (row) => <span class={row.errors > 0 ? "bad" : ""}>{number(row.errors)}</span> },
        ]}
      />
    </Panel>
  );
}

function figure(name: string, value: preact.ComponentChildren, hint?: string) {
  return (
    <div title={hint}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** What is kept of the past, where the server keeps a history. */
function History({ metrics }: { metrics: Metrics }) {
  const size = one(metrics, "ferrokube_history_bytes");
  if (size === undefined) return null;
  return (
    <dl class="strip">
      {figure("history", one(metrics, "ferrokube_history_recording") ? `${bytes(size)}, ${number(one(metrics, "ferrokube_history_changes") ?? 0)} changes` : <b class="bad">not recording</b>)}
      {figure("reaches back", <Ago at={(one(metrics, "ferrokube_history_begin_seconds") ?? 0) * 1000} />)}
      {figure("gaps", number(one(metrics, "ferrokube_history_gaps_total") ?? 0))}
    </dl>
  );
}

function Figures({ of }: { of: StoreFigures }) {
  const { log } = of;
  const mean = useMean(log);
  return (
    <dl class="strip">
      {figure("health", of.problem ? <b class="bad"><Text of={of.problem} max={300} /></b> : <b class="good">works</b>)}
      {figure("revision", number(of.revision), `history is readable from revision ${of.compacted}`)}
      {figure("size", `${bytes(of.size)}, ${bytes(of.inUse)} in use`)}
      {log && figure("log", `${bytes(log.size)}, ${bytes(log.pending)} not in the database`)}
      {log && figure("checkpoint", of.revision > log.checkpoint ? `${number(of.revision - log.checkpoint)} revisions behind` : "complete")}
      {log && figure("commit", mean === undefined ? "–" : millis(mean), "the mean time to make a group of writes durable, lately: mostly the sync to disk")}
      {log && figure("slowest commit", millis(log.secondsMax), "since the start")}
    </dl>
  );
}

/** The mean time of the commits since the last look, or since the start. */
function useMean(log: LogFigures | null): number | undefined {
  const before = useRef<LogFigures>(undefined);
  const kept = useRef<number>(undefined);
  if (log && log !== before.current) {
    const [commits, seconds] = [log.commits - (before.current?.commits ?? 0), log.seconds - (before.current?.seconds ?? 0)];
    if (commits > 0) kept.current = seconds / commits;
    before.current = log;
  }
  return kept.current;
}
