// One object: YAML to read, edit and apply, events, owners and dependents, managers and past of its fields, who may do what to it.
import { Access } from "./access";
import { type Obj, json, query } from "./api";
import { Apply } from "./apply";
import { Edit } from "./edit";
import { Explain } from "./explain";
import { resourceOf } from "./find";
import { Managed } from "./managed";
import { Past } from "./past";
import { type Resource, collection, find, item, link, resources, title } from "./resources";
import { Ago, Empty, Failure, Table, Tabs, Text, useRead } from "./ui";

const TABS = { yaml: "YAML", apply: "Apply", events: "Events", family: "Owners", fields: "Managed fields", history: "History", explain: "Explain", access: "Who may" } as const;

export interface PartProps {
  of: Resource;
  namespace: string;
  name: string;
}

export function ObjectPage(props: { group: string; resource: string; namespace: string; name: string; tab: string }) {
  const found = useRead(() => find(props.group, props.resource), [props.group, props.resource]);
  const of = found.value;
  if (found.error !== undefined) return <main><Failure error={found.error} doing="read what the server serves" /></main>;
  if (!("value" in found)) return <main />;
  if (!of) return <main><Empty>The server does not serve {title(props)}.</Empty></main>;
  const here = link(of, props.namespace, props.name);
  const part = { of, namespace: props.namespace, name: props.name };
  const tab = (props.tab in TABS ? props.tab : "yaml") as keyof typeof TABS;
  return (
    <main>
      <h1>
        <a href={link(of)}>{title(of)}</a> / {props.namespace && <><a href={link(of, props.namespace)}><Text of={props.namespace} /></a> / </>}
        <Text of={props.name} />
      </h1>
      <Tabs label="Parts of the object" current={tab} tabs={Object.entries(TABS).map(([name, title]) => ({ name, title, link: `${here}?tab=${name}` }))} />
      {tab === "yaml" && <Edit {...part} />}
      {tab === "apply" && <Apply {...part} />}
      {tab === "events" && <Events {...part} />}
      {tab === "family" && <Family {...part} />}
      {tab === "fields" && <Managed {...part} />}
      {tab === "history" && <Past {...part} />}
      {tab === "explain" && <Explain of={of} />}
      {tab === "access" && <Access {...part} />}
    </main>
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
