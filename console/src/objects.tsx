// A collection as the table that the server prints, followed by a watch.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, type Meta, json, message, query, watch } from "./api";
import { type Resource, collection, find, link, resources, title } from "./resources";
import { Ago, Empty, Failure, Panel, Text, useRead } from "./ui";

const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
/** How many rows are asked for at once; the first are shown before the last have come. */
const PAGE = 2500;
/** The height of a row, which is the same for all: only those in sight are in the document. */
const ROW = 26;

interface Head {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority: number;
}

interface Row {
  cells: unknown[];
  object: { metadata: Meta };
}

interface TableList {
  columnDefinitions?: Head[];
  rows: Row[];
  metadata: { continue?: string; resourceVersion?: string };
}

export function KindsPage() {
  const [text, setText] = useState("");
  const read = useRead(() => resources(true), []);
  const shown = (read.value ?? []).filter((one) => one.verbs.includes("list") && title(one).includes(text.toLowerCase()));
  const groups = [...new Set(shown.map((one) => one.group))];
  return (
    <main>
      <h1>Objects</h1>
      <p><input type="search" aria-label="Filter kinds" placeholder="Filter kinds" value={text} onInput={(event) => setText(event.currentTarget.value)} /></p>
      {read.error !== undefined && <Failure error={read.error} doing="read what the server serves" />}
      <div class="grid">
        {groups.map((group) => (
          <Panel key={group} title={group || "core"}>
            <ul class="links">
              {shown.filter((one) => one.group === group).map((one) => (
                <li><a href={link(one)}>{one.resource}</a> <small>{one.kind} {one.version}</small></li>
              ))}
            </ul>
          </Panel>
        ))}
      </div>
    </main>
  );
}

/** The rows of a collection, kept current. */
class Follower {
  heads: Head[] = [];
  rows = new Map<string, Row>();
  /** When rows were last changed by the watch, to mark them for a moment. */
  changed = new Map<string, number>();
  state = "loading";
  error: unknown;
  count = 0;

  constructor(
    private of: Resource,
    private namespace: string,
    private selector: { labelSelector: string; fieldSelector: string },
    private signal: AbortSignal,
    private draw: () => void,
  ) {}

  async run() {
    let pause = 1000;
    while (!this.signal.aborted) {
      try {
        let version = await this.list();
        pause = 1000;
        while (!this.signal.aborted) version = await this.follow(version);
      } catch (error) {
        if (this.signal.aborted) return;
        this.error = error;
        // Nothing changes for a user who may not list, or for a kind that is gone.
        if (error instanceof ApiError && [401, 403, 404, 405].includes(error.code)) return this.show("");
        this.show(error instanceof ApiError && error.code === 410 ? "reading again" : `${message(error)} Trying again.`);
      }
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 30000);
    }
  }

  private async list(): Promise<string> {
    const rows = new Map<string, Row>();
    let next = "";
    let version = "";
    do {
      const asked = query({ limit: PAGE, continue: next, ...this.selector });
      const list = await json<TableList>(collection(this.of, this.namespace) + asked, { accept: TABLE, signal: this.signal });
      if (list.columnDefinitions) this.heads = list.columnDefinitions;
      for (const row of list.rows ?? []) rows.set(row.object.metadata.uid ?? row.object.metadata.name, row);
      next = list.metadata.continue ?? "";
      version = list.metadata.resourceVersion ?? "";
      if (this.rows.size <= rows.size) this.rows = rows;
      this.show(next ? `loading, ${rows.size} so far` : "");
    } while (next);
    this.rows = rows;
    this.error = undefined;
    this.show(this.of.verbs.includes("watch") ? "live" : "");
    return version;
  }

  private async follow(from: string): Promise<string> {
    if (!this.of.verbs.includes("watch")) return new Promise((done) => this.signal.addEventListener("abort", () => done(from)));
    let version = from;
    const asked = query({ watch: "1", resourceVersion: from, allowWatchBookmarks: "true", ...this.selector });
    await watch(collection(this.of, this.namespace) + asked, TABLE, this.signal, (event: { type: string; object: TableList & { code?: number; message?: string } }) => {
      if (event.type === "ERROR") throw new ApiError(event.object.code ?? 500, event.object.message ?? "the watch failed");
      for (const row of event.object.rows ?? []) {
        const { metadata } = row.object;
        version = metadata.resourceVersion ?? version;
        if (event.type === "BOOKMARK") continue;
        const at = metadata.uid ?? metadata.name;
        if (event.type === "DELETED") this.rows.delete(at);
        else this.rows.set(at, row);
        this.changed.set(at, Date.now());
      }
      this.show("live");
    });
    return version;
  }

  private show(state: string) {
    this.state = state;
    this.count += 1;
    this.draw();
  }
}

function useFollower(of: Resource | undefined, namespace: string, labelSelector: string, fieldSelector: string): Follower | undefined {
  const [follower, setFollower] = useState<{ it: Follower; count: number }>();
  useEffect(() => {
    if (!of) return;
    const abort = new AbortController();
    let frame = 0;
    // Many events become one drawing.
    const draw = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (!abort.signal.aborted) setFollower({ it, count: it.count });
      });
    };
    const it = new Follower(of, namespace, { labelSelector, fieldSelector }, abort.signal, draw);
    void it.run();
    return () => abort.abort();
  }, [of, namespace, labelSelector, fieldSelector]);
  return follower?.it;
}

export function CollectionPage(props: { group: string; resource: string; namespace: string; params: URLSearchParams }) {
  const found = useRead(() => find(props.group, props.resource), [props.group, props.resource]);
  if (found.error !== undefined) return <main><Failure error={found.error} doing="read what the server serves" /></main>;
  if (!("value" in found)) return <main />;
  if (!found.value) return <main><Empty>The server does not serve {title(props)}.</Empty></main>;
  return <Collection of={found.value} namespace={props.namespace} params={props.params} />;
}

function Collection({ of, namespace, params }: { of: Resource; namespace: string; params: URLSearchParams }) {
  const labels = params.get("labels") ?? "";
  const fields = params.get("fields") ?? "";
  const follower = useFollower(of, namespace, labels, fields);
  const [text, setText] = useState("");
  const [order, setOrder] = useState({ at: -1, down: false });
  const heads = (follower?.heads ?? []).map((head, at) => ({ ...head, at })).filter((head) => head.priority === 0);
  const rows = useMemo(() => {
    if (!follower) return [];
    const lower = text.toLowerCase();
    const all = [...follower.rows.values()];
    const some = lower ? all.filter((row) => row.object.metadata.name.toLowerCase().includes(lower) || row.cells.some((cell) => typeof cell === "string" && cell.toLowerCase().includes(lower))) : all;
    if (order.at < 0) return some;
    const head = follower.heads[order.at];
    const value = (row: Row) => (head?.name === "Age" ? (row.object.metadata.creationTimestamp ?? "") : (row.cells[order.at] as string | number));
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    return some.sort((a, b) => compare(String(value(a)), String(value(b))) * (order.down ? -1 : 1));
  }, [follower, follower?.count, text, order]);
  const setSelector = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    location.hash = link(of, namespace) + query({ labels: String(form.get("labels") ?? ""), fields: String(form.get("fields") ?? "") });
  };
  return (
    <main>
      <h1>
        <a href="#/objects">Objects</a> / <a href={link(of)}>{title(of)}</a>
        {namespace && <> / <Text of={namespace} /></>}
      </h1>
      <form class="filters" onSubmit={setSelector}>
        <input type="search" aria-label="Filter rows" placeholder="Filter rows" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <input name="labels" aria-label="Label selector" placeholder="Label selector" defaultValue={labels} />
        <input name="fields" aria-label="Field selector" placeholder="Field selector" defaultValue={fields} />
        <button type="submit">Select</button>
        <span role="status" class="dim">{rows.length} of {follower?.rows.size ?? 0}{follower?.state ? `, ${follower.state}` : ""}</span>
      </form>
      {follower?.error !== undefined && follower.rows.size === 0 && <Failure error={follower.error} doing={`list ${title(of)}`} />}
      {follower && rows.length === 0 && follower.error === undefined && follower.state !== "loading" && (
        <Empty>{text || labels || fields ? "Nothing matches." : `There are no ${title(of)}${namespace ? " in this namespace" : ""}.`}</Empty>
      )}
      {follower && rows.length > 0 && <Rows of={of} heads={heads} rows={rows} changed={follower.changed} order={order} setOrder={setOrder} all={!namespace && of.namespaced} />}
    </main>
  );
}

interface RowsProps {
  of: Resource;
  heads: (Head & { at: number })[];
  rows: Row[];
  changed: Map<string, number>;
  order: { at: number; down: boolean };
  setOrder: (order: { at: number; down: boolean }) => void;
  all: boolean;
}

/** Draws the rows that are in sight, and room for the others. */
function Rows({ of, heads, rows, changed, order, setOrder, all }: RowsProps) {
  const place = useRef<HTMLDivElement>(null);
  const [from, setFrom] = useState(0);
  const scrolled = () => setFrom(Math.max(0, Math.floor(place.current!.scrollTop / ROW) - 20));
  const many = 100;
  const start = Math.min(from, Math.max(0, rows.length - many));
  const shown = rows.slice(start, start + many);
  const now = Date.now();
  const columns = heads.length + (all ? 1 : 0);
  return (
    <div class="scroll tall" ref={place} onScroll={scrolled} tabIndex={0} role="group" aria-label={title(of)}>
      <table class="rows" aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {all && <th scope="col">Namespace</th>}
            {heads.map((head) => (
              <th scope="col" title={head.description} aria-sort={order.at === head.at ? (order.down ? "descending" : "ascending") : undefined}>
                <button type="button" class="head" onClick={() => setOrder({ at: head.at, down: order.at === head.at && !order.down })}>
                  {head.name}{order.at === head.at ? (order.down ? " ↓" : " ↑") : ""}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {start > 0 && <tr style={{ height: `${start * ROW}px` }} aria-hidden="true"><td colSpan={columns} /></tr>}
          {shown.map((row, at) => {
            const { metadata } = row.object;
            const uid = metadata.uid ?? metadata.name;
            return (
              <tr key={uid} aria-rowindex={start + at + 2} class={now - (changed.get(uid) ?? 0) < 2000 ? "changed" : ""}>
                {all && <td><a href={link(of, metadata.namespace)}><Text of={metadata.namespace} max={80} /></a></td>}
                {heads.map((head) => (
                  <td class={head.type === "integer" || head.type === "number" ? "n" : ""}>
                    {head.format === "name" || head.name === "Name" ? (
                      <a href={link(of, metadata.namespace, metadata.name)}><Text of={row.cells[head.at]} max={120} /></a>
                    ) : head.name === "Age" ? (
                      <Ago at={metadata.creationTimestamp} />
                    ) : (
                      <Text of={row.cells[head.at]} max={160} />
                    )}
                  </td>
                ))}
              </tr>
            );
          })}
          {start + many < rows.length && <tr style={{ height: `${(rows.length - start - many) * ROW}px` }} aria-hidden="true"><td colSpan={columns} /></tr>}
        </tbody>
      </table>
    </div>
  );
}
