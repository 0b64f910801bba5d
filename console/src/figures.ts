// From counters to rates: the server counts, the page remembers the last quarter of an hour.
import { json, text } from "./api";

export interface Cost {
  requests: number;
  errors: number;
  bytes: number;
  cpu: number;
  seat_seconds: number;
}

export interface ClientRow extends Cost {
  user: string;
  agent: string;
  address: string;
  watches: number;
}

export interface Seen {
  time: number;
  user: string;
  agent: string;
  address: string;
  auditID: string;
  verb: string;
  target: string;
  group: string;
  resource: string;
  code: number;
  message: string;
  warnings: string[];
  groups: string[];
  reason: string;
  annotations: [string, string][];
  bytes: number;
  seconds: number;
  cpu: number;
  seatSeconds: number;
  flowSchema: string;
  priorityLevel: string;
  stages: { authenticated: number; admitted: number; authorization: number };
}

export interface Level {
  name: string;
  seats: number;
  limit: number;
  nominal: number;
  executing: number;
  waiting: number;
  queues: number;
  dispatched: number;
  rejected: number;
  timedOut: number;
  cancelled: number;
}

export interface Now {
  time: number;
  version: string;
  inFlight: { reads: number; writes: number };
  memory: { name: string; bytes: number }[];
  bounds: number[];
  requests: { verb: string; codes: Record<string, number>; open: number; buckets: number[] }[];
  levels: Level[];
  clients: { seconds: number; rows: ClientRow[]; others: Cost };
  errors: Seen[];
}

export const readNow = (signal: AbortSignal) => json<Now>("/console/api/now", { signal });

/** One moment of the plots. */
export interface Sample {
  time: number;
  byVerb: Record<string, number>;
  byClass: Record<string, number>;
  p50: number | null;
  p99: number | null;
}

const KEPT = 450;
const LONG = new Set(["WATCH", "CONNECT"]);

/** The samples of this page, for as long as it is open. */
export class History {
  samples: Sample[] = [];
  private last?: Now;

  add(now: Now) {
    const before = this.last;
    this.last = now;
    if (!before || now.time <= before.time) return;
    const seconds = (now.time - before.time) / 1000;
    const byVerb: Record<string, number> = {};
    const byClass: Record<string, number> = {};
    const buckets = new Array<number>(now.bounds.length + 1).fill(0);
    for (const verb of now.requests) {
      const old = before.requests.find((one) => one.verb === verb.verb);
      let sum = 0;
      for (const [code, count] of Object.entries(verb.codes)) {
        const more = Math.max(0, count - (old?.codes[code] ?? 0));
        sum += more;
        const named = `${code[0]}xx`;
        byClass[named] = (byClass[named] ?? 0) + more / seconds;
      }
      byVerb[verb.verb] = sum / seconds;
      if (!LONG.has(verb.verb)) verb.buckets.forEach((count, at) => (buckets[at]! += Math.max(0, count - (old?.buckets[at] ?? 0))));
    }
    const p = (part: number) => quantile(now.bounds, buckets, part);
    this.samples.push({ time: now.time / 1000, byVerb, byClass, p50: p(0.5), p99: p(0.99) });
    if (this.samples.length > KEPT) this.samples.shift();
  }
}

/** The value below which that part of the observations is, interpolated in its bucket. */
export function quantile(bounds: number[], buckets: number[], part: number): number | null {
  const all = buckets.reduce((sum, count) => sum + count, 0);
  if (all === 0) return null;
  let rest = all * part;
  for (let at = 0; at < buckets.length; at++) {
    const count = buckets[at]!;
    if (rest <= count && count > 0) {
      const low = at === 0 ? 0 : bounds[at - 1]!;
      const high = bounds[at] ?? low;
      return low + ((high - low) * rest) / count;
    }
    rest -= count;
  }
  return bounds[bounds.length - 1] ?? null;
}

export interface Series {
  labels: Record<string, string>;
  value: number;
}

/** Metrics by name. Buckets of histograms are left out. */
export type Metrics = Map<string, Series[]>;

export const readMetrics = async (signal: AbortSignal) => parseMetrics(await text("/metrics", { accept: "text/plain", signal }));

export function parseMetrics(text: string): Metrics {
  const found: Metrics = new Map();
  for (const line of text.split("\n")) {
    if (line === "" || line[0] === "#") continue;
    const open = line.indexOf("{");
    const name = line.slice(0, open < 0 ? line.indexOf(" ") : open);
    if (name.endsWith("_bucket")) continue;
    const labels: Record<string, string> = {};
    let at = open < 0 ? name.length : open + 1;
    if (open >= 0) {
      const label = /([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"[,}]/y;
      label.lastIndex = at;
      for (let match = label.exec(line); match; match = label.exec(line)) {
        labels[match[1]!] = match[2]!.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c));
        at = label.lastIndex;
      }
    }
    const value = Number(line.slice(line.indexOf(" ", at) + 1).split(" ")[0]);
    let series = found.get(name);
    if (!series) found.set(name, (series = []));
    series.push({ labels, value });
  }
  return found;
}

export function sum(metrics: Metrics, name: string, where: Record<string, string> = {}): number {
  const all = metrics.get(name) ?? [];
  const wanted = Object.entries(where);
  return all.filter((one) => wanted.every(([label, value]) => one.labels[label] === value)).reduce((total, one) => total + one.value, 0);
}

export function one(metrics: Metrics, name: string): number | undefined {
  return metrics.get(name)?.[0]?.value;
}

/** Sums by some labels. */
export function by(metrics: Metrics, name: string, labels: string[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const one of metrics.get(name) ?? []) {
    const key = labels.map((label) => one.labels[label] ?? "").join("\u0000");
    sums.set(key, (sums.get(key) ?? 0) + one.value);
  }
  return sums;
}
