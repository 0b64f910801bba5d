// Small parts that all pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, message } from "./api";

/** Longer texts are cut where they are shown; names of the API are shorter. */
const TEXT_MAX = 400;

/** A text of the cluster: isolated, so that right-to-left marks in it do not turn its neighbours around. */
export function Text({ of, max = TEXT_MAX }: { of: unknown; max?: number }) {
  const text = of === undefined || of === null ? "" : String(of);
  return <bdi title={text.length > 60 ? text.slice(0, 2000) : undefined}>{text.length > max ? text.slice(0, max) + "…" : text}</bdi>;
}

export function Panel(props: { title: string; note?: ComponentChildren; id?: string; wide?: boolean; children: ComponentChildren }) {
  return (
    <section class={props.wide ? "panel wide" : "panel"} aria-label={props.title} id={props.id}>
      <h2>
        {props.title} {props.note !== undefined && <small>{props.note}</small>}
      </h2>
      {props.children}
    </section>
  );
}

/** Links to the parts of a page. Where they are wider than the screen, the current one is in sight. */
export function Tabs({ label, tabs, current }: { label: string; tabs: { name: string; title: string; link: string }[]; current: string }) {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    const at = place.current?.querySelector<HTMLElement>("[aria-current]");
    if (at) place.current!.scrollLeft = at.offsetLeft - 24;
  }, [current]);
  return (
    <nav class="tabs" aria-label={label} ref={place}>
      {tabs.map(({ name, title, link }) => <a href={link} aria-current={name === current ? "page" : undefined}>{title}</a>)}
    </nav>
  );
}

export function Failure({ error, doing }: { error: unknown; doing: string }) {
  const forbidden = error instanceof ApiError && error.code === 403;
  return (
    <p class={forbidden ? "empty" : "bad"} role="alert">
      {forbidden ? "You may not " + doing + ". " : "Could not " + doing + ". "}
      <Text of={message(error)} max={1500} />
    </p>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

/** The time of day, once a second while somebody looks. */
export function useSeconds(every = 1): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => document.hidden || set(Date.now()), every * 1000);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** How long ago, with the exact time on hover. */
export function Ago({ at }: { at: string | number | undefined }) {
  const now = useSeconds(5);
  if (!at) return <span class="dim">–</span>;
  const time = typeof at === "number" ? at : Date.parse(at);
  if (Number.isNaN(time)) return <Text of={at} />;
  return (
    <time dateTime={new Date(time).toISOString()} title={new Date(time).toLocaleString()}>
      {duration((now - time) / 1000)}
    </time>
  );
}

export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s}s`;
  if (s < 7200) return `${Math.floor(s / 60)}m`;
  if (s < 172800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (count >= 1000 && at < units.length - 1) {
    count /= 1000;
    at += 1;
  }
  return `${count < 10 && at > 0 ? count.toFixed(1) : Math.round(count)} ${units[at]}`;
}

export function number(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value >= 10000) return Math.round(value).toLocaleString("en");
  if (value >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value >= 1 ? value.toFixed(1) : value >= 0.005 ? value.toFixed(2) : value > 0 ? "~0" : "0";
}

export function millis(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  const ms = seconds * 1000;
  return ms >= 10000 ? `${(ms / 1000).toFixed(1)} s` : ms >= 10 ? `${Math.round(ms)} ms` : ms >= 1 ? `${ms.toFixed(1)} ms` : `${Math.round(ms * 1000)} µs`;
}

export interface Column<R> {
  title: string;
  /** What the rows are sorted by; columns without it are not sortable. */
  sort?: (row: R) => number | string;
  cell: (row: R) => ComponentChildren;
  number?: boolean;
  /** Not broken into lines. */
  solid?: boolean;
  hint?: string;
}

/** A table that its heads sort. */
export function Table<R>(props: {
  columns: Column<R>[];
  rows: R[];
  by: (row: R, at: number) => string;
  empty: string;
  first?: number;
  most?: number;
  label: string;
}) {
  const [order, setOrder] = useState({ column: props.first ?? -1, down: !!props.columns[props.first ?? -1]?.number });
  const sort = props.columns[order.column]?.sort;
  let rows = props.rows;
  if (sort) {
    rows = [...rows].sort((a, b) => {
      const [x, y] = [sort(a), sort(b)];
      const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return order.down ? -less : less;
    });
  }
  if (rows.length === 0) return <Empty>{props.empty}</Empty>;
  const shown = rows.slice(0, props.most ?? rows.length);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={props.label}>
      <table>
        <thead>
          <tr>
            {props.columns.map((column, at) => (
              <th
                scope="col"
                class={column.number ? "n" : ""}
                aria-sort={order.column === at ? (order.down ? "descending" : "ascending") : undefined}
                title={column.hint}
              >
                {column.sort ? (
                  <button
                    type="button"
                    class="head"
                    onClick={() => setOrder({ column: at, down: order.column === at ? !order.down : !!column.number })}
                  >
                    {column.title}
                    {order.column === at ? (order.down ? " ↓" : " ↑") : ""}
                  </button>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row, at) => (
            <tr key={props.by(row, at)}>
              {props.columns.map((column) => (
                <td class={column.number ? "n" : column.solid ? "solid" : ""}>{column.cell(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shown.length && <p class="dim">and {rows.length - shown.length} more</p>}
    </div>
  );
}

/** Calls at once and then again and again while the page is visible. */
export function usePoll<T>(seconds: number, read: (signal: AbortSignal) => Promise<T>, on: unknown[] = []): { value?: T; error?: unknown } {
  const [state, set] = useState<{ value?: T; error?: unknown }>({});
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const run = async () => {
      if (!document.hidden) {
        try {
          const value = await read(abort.signal);
          if (!abort.signal.aborted) set({ value });
        } catch (error) {
          if (!abort.signal.aborted) set((old) => ({ ...old, error }));
        }
      }
      if (!abort.signal.aborted) timer = setTimeout(run, seconds * 1000);
    };
    void run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, on);
  return state;
}

/** Reads once, and again when something changes. */
export function useRead<T>(read: (signal: AbortSignal) => Promise<T>, on: unknown[]): { value?: T; error?: unknown } {
  const [state, set] = useState<{ value?: T; error?: unknown }>({});
  useEffect(() => {
    const abort = new AbortController();
    set({});
    read(abort.signal).then(
      (value) => abort.signal.aborted || set({ value }),
      (error) => abort.signal.aborted || set({ error }),
    );
    return () => abort.abort();
  }, on);
  return state;
}
