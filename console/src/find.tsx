// Finding: kinds at once, objects by name, label or uid across all kinds.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Obj, json, message, query } from "./api";
import { type Resource, apiVersion, collection, link, resources, title } from "./resources";
import { Empty, Panel, Table, Text } from "./ui";

const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/** How many are asked for at once, read of each kind, and shown. */
const AT_ONCE = 6;
const PAGE = 2000;
const PAGES_MAX = 50;
const FOUND_MAX = 300;

export function FindBox() {
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [kinds, setKinds] = useState<Resource[]>([]);
  const go = (event: Event) => {
    event.preventDefault();
    const only = matching(kinds, text).find((one) => [one.resource, one.kind.toLowerCase(), ...one.shortNames].includes(text.trim().toLowerCase()));
    location.hash = only ? link(only) : "#/find" + query({ q: text.trim() });
    input.current?.blur();
  };
  return (
    <form role="search" class="find" onSubmit={go}>
      <input
        id="find"
        ref={input}
        type="search"
        aria-label="Find a kind, or objects by name, label=value or uid"
        placeholder="Find  /"
        value={text}
        list="kinds"
        autocomplete="off"
        spellcheck={false}
        onFocus={() => void resources().then(setKinds, () => undefined)}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <datalist id="kinds">{kinds.map((one) => <option value={one.resource}>{title(one)}</option>)}</datalist>
    </form>
  );
}

function matching(kinds: Resource[], text: string): Resource[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  return kinds.filter((one) => one.verbs.includes("list") && (title(one).includes(wanted) || one.kind.toLowerCase().includes(wanted) || one.shortNames.includes(wanted)));
}

interface Found {
  of: Resource;
  name: string;
  namespace: string;
  why: string;
}

export function FindPage({ text }: { text: string }) {
  const [kinds, setKinds] = useState<Resource[]>([]);
  const [found, setFound] = useState<Found[]>([]);
  const [state, setState] = useState("searching");
  useEffect(() => {
    const abort = new AbortController();
    setFound([]);
    setState("searching");
    const all: Found[] = [];
    let left = 0;
    const run = async () => {
      const known = (await resources()).filter((one) => one.verbs.includes("list"));
      setKinds(matching(known, text));
      if (!text) return setState("");
      left = known.length;
      const next = known.values();
      const work = async () => {
        for (const of of next) {
          // What the user may not list is not searched.
          await search(of, text, all, abort.signal).catch(() => undefined);
          left -= 1;
          if (abort.signal.aborted) return;
          setFound([...all]);
          setState(all.length >= FOUND_MAX ? "only the first are shown" : left ? `searching ${left} more kinds` : "");
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
    };
    run().catch((error) => abort.signal.aborted || setState(message(error)));
    return () => abort.abort();
  }, [text]);
  return (
    <main>
      <h1>Find <Text of={text} max={80} /></h1>
      {kinds.length > 0 && (
        <Panel title="Kinds" wide>
          <ul class="links">{kinds.slice(0, 40).map((one) => <li><a href={link(one)}>{title(one)}</a></li>)}</ul>
        </Panel>
      )}
      <Panel title="Objects" note={<span role="status">{state}</span>} wide>
        {found.length === 0 && state === "" ? (
          <Empty>Nothing that you may see has this in its name, as its uid, or as a label.</Empty>
        ) : (
          <Table
            label="Objects found"
            rows={found}
            by={(one, at) => title(one.of) + one.namespace + one.name + at}
            empty="Searching."
            columns={[
              { title: "name", sort: (one) => one.name, cell: (one) => <a href={link(one.of, one.namespace, one.name)}><Text of={one.name} max={120} /></a> },
              { title: "kind", sort: (one) => title(one.of), cell: (one) => title(one.of) },
              { title: "namespace", sort: (one) => one.namespace, cell: (one) => <Text of={one.namespace} /> },
              { title: "by", cell: (one) => one.why },
            ]}
          />
        )}
      </Panel>
    </main>
  );
}

async function search(of: Resource, text: string, found: Found[], signal: AbortSignal) {
  const isLabel = /^[^=\s]+=[^=\s]*$/.test(text);
  const lower = text.toLowerCase();
  let next = "";
  for (let page = 0; page < PAGES_MAX && found.length < FOUND_MAX; page++) {
    const asked = query({ limit: PAGE, continue: next, labelSelector: isLabel ? text : "" });
    const list = await json<{ items: Obj[]; metadata: { continue?: string } }>(collection(of) + asked, { accept: METADATA, signal });
    for (const { metadata } of list.items) {
      const why = isLabel ? "label" : metadata.uid === lower ? "uid" : metadata.name.toLowerCase().includes(lower) ? "name" : "";
      if (why && found.length < FOUND_MAX) found.push({ of, name: metadata.name, namespace: metadata.namespace ?? "", why });
    }
    next = list.metadata.continue ?? "";
    if (!next) return;
  }
}

/** The resource of an owner reference. */
export async function resourceOf(version: string, kind: string): Promise<Resource | undefined> {
  const group = version.includes("/") ? version.split("/")[0]! : "";
  const all = await resources();
  return all.find((one) => one.kind === kind && apiVersion(one) === version) ?? all.find((one) => one.kind === kind && one.group === group);
}
