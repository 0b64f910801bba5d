// The past of an object, where the server keeps a history: its changes, its state at each of them, and which change set which field.
import { useState } from "preact/hooks";
import { ApiError, json, query, text } from "./api";
import { diff } from "./diff";
import { Changes } from "./edit";
import type { PartProps } from "./object";
import { item } from "./resources";
import { Ago, Empty, Failure, Panel, Table, Text, useRead } from "./ui";

interface Change {
  revision: string;
  time: string;
  operation: string;
  user?: string;
  impersonator?: string;
  userAgent?: string;
  verb?: string;
  subresource?: string;
  auditID?: string;
  patch?: { op: string; path: string; value?: unknown }[];
}

interface Blamed {
  path: string;
  value: unknown;
  change?: Change;
}

const YAML = "application/yaml";

export function Past(props: PartProps) {
  const { of, namespace, name } = props;
  const path = item(of, namespace, name) + "/history";
  const [more, setMore] = useState(100);
  const changes = useRead((signal) => json<{ items: Change[]; metadata: { continue?: string } }>(path + query({ limit: more }), { signal }), [path, more]);
  const [at, setAt] = useState("");
  if (changes.error instanceof ApiError && changes.error.code === 404) {
    return <Empty>The server keeps no history, or none of this object. Started with <code>--history=7d</code> it knows every change of a week.</Empty>;
  }
  if (changes.error !== undefined) return <Failure error={changes.error} doing={`read the history of ${name}; it needs the verb get on the subresource history`} />;
  if (!changes.value) return null;
  return (
    <>
      <Panel title="Changes" wide>
        <Table
          label="Changes"
          rows={changes.value.items}
          by={(change) => change.revision}
          empty="Nothing was recorded. Changes before the history began are not known."
          columns={[
            { title: "when", cell: (change) => <Ago at={change.time} />, solid: true },
            { title: "change", cell: (change) => <span class={change.operation === "Deleted" ? "warn" : ""}>{change.operation}</span> },
            { title: "by", cell: (change) => <By change={change} /> },
            { title: "fields", cell: (change) => <Patch of={change.patch ?? []} /> },
            { title: "state", cell: (change) => change.operation !== "Deleted" && <button type="button" aria-pressed={at === change.revision} onClick={() => setAt(at === change.revision ? "" : change.revision)}>As it was</button> },
          ]}
        />
        {changes.value.metadata.continue && more < 500 && <p><button type="button" onClick={() => setMore(500)}>More</button></p>}
      </Panel>
      {at && <AsItWas {...props} at={at} />}
      <Blame {...props} />
    </>
  );
}

function By({ change }: { change: Change | undefined }) {
  if (!change?.user) return <span class="dim">not known</span>;
  return (
    <span title={`${change.verb ?? ""} ${change.subresource ?? ""} audit ID ${change.auditID ?? ""}`}>
      <Text of={change.user} max={80} /> {change.impersonator && <small>impersonated by <Text of={change.impersonator} /></small>} <small><Text of={change.userAgent} max={48} /></small>
    </span>
  );
}

/** What the change did, field by field. */
function Patch({ of }: { of: { op: string; path: string; value?: unknown }[] }) {
  if (of.length === 0) return <span class="dim">none</span>;
  const shown = of.slice(0, 4);
  return (
    <code class="patch">
      {shown.map((one) => <span class={one.op === "remove" ? "bad" : one.op === "add" ? "good" : ""}><Text of={`${one.op} ${one.path || "/"}${"value" in one ? " " + JSON.stringify(one.value) : ""}`} max={110} /></span>)}
      {of.length > shown.length && <span class="dim">and {of.length - shown.length} more</span>}
    </code>
  );
}

function AsItWas({ of, namespace, name, at }: PartProps & { at: string }) {
  const path = item(of, namespace, name);
  const read = useRead(
    async (signal) => {
      const drop = "metadata.managedFields";
      const [then, now] = await Promise.all([
        text(path + query({ resourceVersion: at, resourceVersionMatch: "Exact", drop }), { accept: YAML, signal }),
        text(path + query({ drop }), { accept: YAML, signal }).catch(() => ""),
      ]);
      return { then, now };
    },
    [path, at],
  );
  return (
    <Panel title={`Revision ${at}`} note="beside what is stored now" wide>
      {read.error !== undefined && <Failure error={read.error} doing="read the past" />}
      {read.value && (diff(read.value.then, read.value.now).length === 0 ? <Empty>It is as it was then.</Empty> : <Changes before={read.value.then} after={read.value.now} />)}
    </Panel>
  );
}

function Blame({ of, namespace, name }: PartProps) {
  const path = item(of, namespace, name) + "/history" + query({ view: "blame" });
  const read = useRead((signal) => json<{ fields: Blamed[] }>(path, { signal }), [path]);
  return (
    <Panel title="Blame" note="the change that gave each field its value" wide>
      {read.error !== undefined && <Failure error={read.error} doing="read who set which field" />}
      {read.value && (
        <Table
          label="Blame"
          rows={read.value.fields}
          by={(field) => field.path}
          empty="The object has no fields."
          columns={[
            { title: "field", sort: (field) => field.path, cell: (field) => <code><Text of={field.path} max={140} /></code> },
            { title: "value", cell: (field) => <Text of={JSON.stringify(field.value)} max={80} /> },
            { title: "by", sort: (field) => field.change?.user ?? "", cell: (field) => <By change={field.change} /> },
            { title: "when", sort: (field) => field.change?.time ?? "", cell: (field) => <Ago at={field.change?.time} />, solid: true },
          ]}
        />
      )}
    </Panel>
  );
}
