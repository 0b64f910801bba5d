// One object: YAML to read and edit, events, owners and dependents, who may do what to it.
import { useState } from "preact/hooks";
import { Access } from "./access";
import { ApiError, type Obj, json, message, query, text } from "./api";
import { diff } from "./diff";
import { Explain } from "./explain";
import { resourceOf } from "./find";
import { type Resource, collection, find, item, link, resources, title } from "./resources";
import { Ago, Empty, Failure, Panel, Table, Text, useRead } from "./ui";

const YAML = "application/yaml";
const TABS = { yaml: "YAML", events: "Events", family: "Owners and dependents", fields: "Managed fields", explain: "Fields explained", access: "Who may" } as const;

export function ObjectPage(props: { group: string; resource: string; namespace: string; name: string; tab: string }) {
  const found = useRead(() => find(props.group, props.resource), [props.group, props.resource]);
  const of = found.value;
  if (found.error !== undefined) return <main><Failure error={found.error} doing="read what the server serves" /></main>;
  if (!("value" in found)) return <main />;
  if (!of) return <main><Empty>The server does not serve {title(props)}.</Empty></main>;
  const here = link(of, props.namespace, props.name);
  const tab = (props.tab in TABS ? props.tab : "yaml") as keyof typeof TABS;
  return (
    <main>
      <h1>
        <a href={link(of)}>{title(of)}</a> / {props.namespace && <><a href={link(of, props.namespace)}><Text of={props.namespace} /></a> / </>}
        <Text of={props.name} />
      </h1>
      <nav class="tabs" aria-label="Parts of the object">
        {Object.entries(TABS).map(([name, label]) => (
          <a href={`${here}?tab=${name}`} aria-current={tab === name ? "page" : undefined}>{label}</a>
        ))}
      </nav>
      {tab === "yaml" && <Yaml of={of} namespace={props.namespace} name={props.name} />}
      {tab === "events" && <Events of={of} namespace={props.namespace} name={props.name} />}
      {tab === "family" && <Family of={of} namespace={props.namespace} name={props.name} />}
      {tab === "fields" && <Fields of={of} namespace={props.namespace} name={props.name} />}
      {tab === "explain" && <Explain of={of} />}
      {tab === "access" && <Access of={of} namespace={props.namespace} name={props.name} />}
    </main>
  );
}

interface PartProps {
  of: Resource;
  namespace: string;
  name: string;
}

/** Managed fields are a page of their own. */
function withoutManaged(yaml: string): string {
  return yaml.replace(/^ {2}managedFields:\n(?: {2}[- ].*\n)*/m, "");
}

/** Longer lines take a browser seconds to lay out. The editor has them whole. */
const LINE_MAX = 4000;

function shortened(yaml: string): string {
  const cut = (line: string) => (line.length > LINE_MAX ? `${line.slice(0, LINE_MAX)} … ${line.length - LINE_MAX} more characters` : line);
  return yaml.split("\n").map(cut).join("\n");
}

function Yaml({ of, namespace, name }: PartProps) {
  const path = item(of, namespace, name);
  const [again, setAgain] = useState(0);
  const read = useRead((signal) => text(path, { accept: YAML, signal }).then(withoutManaged), [path, again]);
  const [edited, setEdited] = useState<string>();
  const [checked, setChecked] = useState<{ before: string; after: string; sent: string }>();
  const [error, setError] = useState<unknown>();
  const [done, setDone] = useState("");
  if (read.error !== undefined) return <Failure error={read.error} doing={`read ${name}`} />;
  if (read.value === undefined) return null;
  const stored = read.value;
  const put = (body: string, dryRun: boolean) =>
    text(path + query({ fieldManager: "ferrokube-console", fieldValidation: "Strict", dryRun: dryRun ? "All" : "" }), { method: "PUT", accept: YAML, type: YAML, body }).then(withoutManaged);
  const attempt = async (what: () => Promise<void>) => {
    setError(undefined);
    setDone("");
    try {
      await what();
    } catch (error) {
      setError(error);
    }
  };
  const check = () => attempt(async () => setChecked({ before: stored, after: await put(edited!, true), sent: edited! }));
  const save = () =>
    attempt(async () => {
      await put(checked!.sent, false);
      setChecked(undefined);
      setEdited(undefined);
      setDone("Saved.");
      setAgain((count) => count + 1);
    });
  /** What is stored now takes the place of what the edit began with; the edit stays. */
  const rebase = () =>
    attempt(async () => {
      const now = withoutManaged(await text(path, { accept: YAML }));
      const version = /^ {2}resourceVersion: .*$/m.exec(now)?.[0];
      setEdited((mine) => (version ? mine?.replace(/^ {2}resourceVersion: .*$/m, version) : mine));
      setChecked({ before: now, after: edited ?? "", sent: "" });
    });
  const conflict = error instanceof ApiError && error.code === 409;
  const can = of.verbs.includes("update");
  return (
    <>
      <div class="actions">
        {edited === undefined && can && <button type="button" onClick={() => (setEdited(stored), setDone(""))}>Edit</button>}
        {edited !== undefined && !checked && <button type="button" onClick={check} disabled={edited === stored}>Dry run and compare</button>}
        {checked && checked.sent !== "" && <button type="button" class="main" onClick={save}>Save</button>}
        {checked && <button type="button" onClick={() => (setChecked(undefined), setError(undefined))}>Edit on</button>}
        {edited !== undefined && <button type="button" onClick={() => (setEdited(undefined), setChecked(undefined), setError(undefined))}>Discard</button>}
        {edited === undefined && <button type="button" onClick={() => setAgain(again + 1)}>Read again</button>}
        <span role="status" class="good">{done}</span>
      </div>
      {error !== undefined && (
        <div role="alert" class="bad">
          <p><Text of={message(error)} max={3000} /></p>
          {error instanceof ApiError && error.status?.details?.causes && (
            <ul>{error.status.details.causes.map((cause) => <li><code><Text of={cause.field} /></code> <Text of={cause.message} max={1000} /></li>)}</ul>
          )}
          {conflict && <button type="button" onClick={rebase}>Compare with what is stored now, and keep my changes</button>}
        </div>
      )}
      {checked ? (
        <Diff before={checked.before} after={checked.after} dry={checked.sent !== ""} />
      ) : edited !== undefined ? (
        <textarea class="yaml" aria-label="The object as YAML" spellcheck={false} value={edited} onInput={(event) => setEdited(event.currentTarget.value)} />
      ) : (
        <pre class="yaml" tabIndex={0} aria-label="The object as YAML"><bdi>{shortened(stored)}</bdi></pre>
      )}
    </>
  );
}

function Diff({ before, after, dry }: { before: string; after: string; dry: boolean }) {
  const changes = diff(before, after);
  if (changes.length === 0) return <Empty>Nothing would change.</Empty>;
  const sign = { same: " ", gone: "-", new: "+", gap: " " };
  return (
    <>
      <p class="dim">{dry ? "What the server would store, after defaults and admission, beside what is stored:" : "What is stored now beside your text:"}</p>
      <pre class="yaml diff" tabIndex={0} aria-label="Differences">
        {changes.map((change) => (
          <div class={change.kind}>{sign[change.kind]} <bdi>{shortened(change.text)}</bdi></div>
        ))}
      </pre>
    </>
  );
}

interface EventItem extends Obj {
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  lastTimestamp?: string;
  eventTime?: string;
}

function Events({ of, namespace, name }: PartProps) {
  const read = useRead(
    async (signal) => {
      const { metadata } = await json<Obj>(item(of, namespace, name), { signal });
      const at = namespace ? `/api/v1/namespaces/${encodeURIComponent(namespace)}/events` : "/api/v1/events";
      return json<{ items: EventItem[] }>(at + query({ fieldSelector: `involvedObject.uid=${metadata.uid}`, limit: 500 }), { signal });
    },
    [of, namespace, name],
  );
  if (read.error !== undefined) return <Failure error={read.error} doing="read events" />;
  if (!read.value) return null;
  return (
    <Table
      label="Events"
      rows={read.value.items}
      by={(event) => event.metadata.uid ?? event.metadata.name}
      empty="There are no events of this object. They are kept for as long as --event-ttl says."
      columns={[
        { title: "last", sort: (event) => event.lastTimestamp ?? event.eventTime ?? "", cell: (event) => <Ago at={event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp} /> },
        { title: "type", sort: (event) => event.type ?? "", cell: (event) => <span class={event.type === "Warning" ? "warn" : ""}><Text of={event.type} /></span> },
        { title: "reason", sort: (event) => event.reason ?? "", cell: (event) => <Text of={event.reason} /> },
        { title: "count", number: true, sort: (event) => event.count ?? 1, cell: (event) => event.count ?? 1 },
        { title: "message", cell: (event) => <Text of={event.message} max={600} /> },
      ]}
    />
  );
}

interface Relative {
  of: Resource;
  object: Obj;
}

const METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/** How deep and how wide the tree may get. */
const DEPTH_MAX = 6;
const RELATIVES_MAX = 500;

async function family({ of, namespace, name }: PartProps, signal: AbortSignal) {
  const self = await json<Obj>(item(of, namespace, name), { accept: METADATA, signal });
  const owners: { version: string; kind: string; name: string; of?: Resource }[] = [];
  let above = self.metadata.ownerReferences ?? [];
  for (let depth = 0; above.length > 0 && depth < DEPTH_MAX; depth++) {
    const found = await Promise.all(above.map(async (one) => ({ version: one.apiVersion, kind: one.kind, name: one.name, of: await resourceOf(one.apiVersion, one.kind) })));
    owners.unshift(...found);
    const next = await Promise.all(
      found.map((one) => (one.of ? json<Obj>(item(one.of, one.of.namespaced ? namespace : "", one.name), { accept: METADATA, signal }).catch(() => undefined) : undefined)),
    );
    above = next.flatMap((one) => one?.metadata.ownerReferences ?? []);
  }
  // Dependents are in the same namespace, or anywhere if the owner is in none.
  const all = (await resources()).filter((one) => one.verbs.includes("list") && (!namespace || one.namespaced) && one.resource !== "events");
  const by = new Map<string, Relative[]>();
  let skipped = 0;
  const next = all.values();
  const work = async () => {
    for (const one of next) {
      try {
        const list = await json<{ items: Obj[] }>(collection(one, namespace) + query({ limit: 2000 }), { accept: METADATA_LIST, signal });
        for (const object of list.items) for (const owner of object.metadata.ownerReferences ?? []) by.set(owner.uid, [...(by.get(owner.uid) ?? []), { of: one, object }]);
      } catch {
        skipped += 1;
      }
    }
  };
  await Promise.all([work(), work(), work(), work(), work(), work()]);
  const rows: { depth: number; relative: Relative }[] = [];
  const walk = (uid: string, depth: number) => {
    for (const relative of by.get(uid) ?? []) {
      if (rows.length >= RELATIVES_MAX || depth > DEPTH_MAX) return;
      rows.push({ depth, relative });
      walk(relative.object.metadata.uid ?? "", depth + 1);
    }
  };
  walk(self.metadata.uid ?? "", 0);
  return { owners, rows, skipped };
}

function Family(props: PartProps) {
  const read = useRead((signal) => family(props, signal), [props.of, props.namespace, props.name]);
  if (read.error !== undefined) return <Failure error={read.error} doing="read owners and dependents" />;
  if (!read.value) return <p class="dim" role="status">Reading the metadata of all kinds.</p>;
  const { owners, rows, skipped } = read.value;
  return (
    <>
      <ul class="tree" aria-label="Owners and dependents">
        {owners.map((owner, at) => (
          <li style={{ paddingLeft: `${at * 18}px` }}>{owner.of ? <a href={link(owner.of, owner.of.namespaced ? props.namespace : "", owner.name)}><Text of={owner.name} /></a> : <Text of={owner.name} />} <small><Text of={owner.kind} /></small></li>
        ))}
        <li style={{ paddingLeft: `${owners.length * 18}px` }}><b><Text of={props.name} /></b> <small>{props.of.kind}</small></li>
        {rows.map(({ depth, relative }) => (
          <li style={{ paddingLeft: `${(owners.length + depth + 1) * 18}px` }}>
            <a href={link(relative.of, relative.object.metadata.namespace, relative.object.metadata.name)}><Text of={relative.object.metadata.name} /></a> <small>{relative.of.kind}</small>
          </li>
        ))}
      </ul>
      {owners.length === 0 && rows.length === 0 && <Empty>It has no owner, and nothing that you may see names it as one.</Empty>}
      {skipped > 0 && <p class="dim">{skipped} kinds could not be listed.</p>}
    </>
  );
}

interface ManagedFields {
  manager?: string;
  operation?: string;
  time?: string;
  subresource?: string;
  apiVersion?: string;
  fieldsV1?: unknown;
}

/** The paths of a set of fields. */
function paths(set: unknown, before = ""): string[] {
  if (typeof set !== "object" || set === null) return [];
  const found: string[] = [];
  for (const [name, below] of Object.entries(set)) {
    if (name === ".") continue;
    const step = name.startsWith("f:") ? `.${name.slice(2)}` : `[${name.slice(2)}]`;
    const deeper = paths(below, before + step);
    found.push(...(deeper.length > 0 ? deeper : [before + step]));
  }
  return found;
}

function Fields({ of, namespace, name }: PartProps) {
  const read = useRead((signal) => json<Obj>(item(of, namespace, name), { signal }), [of, namespace, name]);
  if (read.error !== undefined) return <Failure error={read.error} doing={`read ${name}`} />;
  if (!read.value) return null;
  const managed = ((read.value.metadata as { managedFields?: ManagedFields[] }).managedFields ?? []).map((one, at) => ({ ...one, at }));
  if (managed.length === 0) return <Empty>The object has no managed fields.</Empty>;
  return (
    <div class="grid">
      {managed.map((one) => (
        <Panel key={one.at} title={one.manager ?? ""} note={<>{one.operation} {one.subresource} <Ago at={one.time} /></>}>
          <ul class={`fields c${(one.at % 8) + 1}`} tabIndex={0} aria-label={`Fields of ${one.manager ?? ""}`}>{paths(one.fieldsV1).slice(0, 300).map((path) => <li><code><Text of={path} max={200} /></code></li>)}</ul>
        </Panel>
      ))}
    </div>
  );
}
