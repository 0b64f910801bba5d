// What extends the server, and boxes to try it out.
import { useState } from "preact/hooks";
import { Grants } from "./access";
import { Admission } from "./admission";
import { type Obj, json } from "./api";
import { type Condition, Conditions } from "./conditions";
import { Definitions } from "./definitions";
import { readMetrics } from "./figures";
import { TryRequest } from "./requests";
import { type Resource, resources, title } from "./resources";
import { Tokens } from "./tokens";
import { Empty, Failure, Panel, Table, Tabs, Text, duration, useRead } from "./ui";

const TABS: Record<string, [string, () => preact.JSX.Element]> = {
  definitions: ["Definitions", Definitions],
  services: ["APIServices", Services],
  admission: ["Admission", Admission],
  authorization: ["Authorization", Authorization],
  requests: ["Requests", Requests],
  flow: ["Flow schemas", Flow],
  certificates: ["Certificates and tokens", Certificates],
  features: ["Features and flags", Features],
};

export function ExtensionsPage({ tab }: { tab: string }) {
  const name = tab in TABS ? tab : "definitions";
  const Tab = TABS[name]![1];
  return (
    <main>
      <h1>Extensions</h1>
      <Tabs label="Extensions" current={name} tabs={Object.entries(TABS).map(([name, [title]]) => ({ name, title, link: `#/extensions/${name}` }))} />
      <Tab />
    </main>
  );
}

interface Service extends Obj {
  spec: { service?: { namespace: string; name: string }; groupPriorityMinimum: number; caBundle?: string; insecureSkipTLSVerify?: boolean };
  status?: { conditions?: Condition[] };
}

function Services() {
  const read = useRead((signal) => json<{ items: Service[] }>("/apis/apiregistration.k8s.io/v1/apiservices", { signal }), []);
  return (
    <Panel title="APIServices" wide>
      {read.error !== undefined && <Failure error={read.error} doing="list APIServices" />}
      {read.value && (
        <Table
          label="APIServices"
          rows={read.value.items}
          first={1}
          by={(one) => one.metadata.name}
          empty="There are no APIServices."
          columns={[
            { title: "name", sort: (one) => one.metadata.name, cell: (one) => <Text of={one.metadata.name} max={120} /> },
            { title: "answered by", sort: (one) => (one.spec.service ? "0" : "1") + one.metadata.name, cell: (one) => <Text of={one.spec.service ? `${one.spec.service.namespace}/${one.spec.service.name}` : "this server"} /> },
            { title: "TLS", cell: (one) => (one.spec.service ? one.spec.insecureSkipTLSVerify ? <span class="warn">not verified</span> : "verified" : "") },
            { title: "conditions", cell: (one) => <Conditions of={one.status?.conditions} good={["Available"]} /> },
          ]}
        />
      )}
    </Panel>
  );
}

interface Schema extends Obj {
  spec: { priorityLevelConfiguration: { name: string }; matchingPrecedence: number; distinguisherMethod?: { type: string } };
}

function Flow() {
  const read = useRead((signal) => json<{ items: Schema[] }>("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", { signal }), []);
  return (
    <Panel title="Flow schemas" note="in the order in which they are tried; a request can be tried under Requests" wide>
      {read.error !== undefined && <Failure error={read.error} doing="list flow schemas" />}
      {read.value && (
        <Table
          label="Flow schemas"
          rows={[...read.value.items].sort((a, b) => a.spec.matchingPrecedence - b.spec.matchingPrecedence || a.metadata.name.localeCompare(b.metadata.name))}
          by={(one) => one.metadata.name}
          empty="There are no flow schemas."
          columns={[
            { title: "precedence", number: true, cell: (one) => one.spec.matchingPrecedence },
            { title: "name", cell: (one) => <a href={`#/objects/flowcontrol.apiserver.k8s.io/flowschemas/-/${encodeURIComponent(one.metadata.name)}`}><Text of={one.metadata.name} /></a> },
            { title: "level", cell: (one) => <Text of={one.spec.priorityLevelConfiguration.name} /> },
            { title: "flows by", cell: (one) => one.spec.distinguisherMethod?.type ?? "none" },
          ]}
        />
      )}
    </Panel>
  );
}

/** Who may do what to the objects of a kind, and what the authorizers say of one request. */
function Authorization() {
  const [asked, setAsked] = useState<{ of: Resource; namespace: string; name: string }>();
  const [error, setError] = useState("");
  const ask = async (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const value = (name: string) => String(form.get(name) ?? "").trim();
    const wanted = value("resource").toLowerCase();
    const all = await resources().catch(() => []);
    const of = all.find((one) => [title(one), one.resource, one.kind.toLowerCase(), ...one.shortNames].includes(wanted));
    setError(of ? "" : "The server serves no such resource.");
    setAsked(of && { of, namespace: of.namespaced ? value("namespace") : "", name: value("name") });
  };
  return (
    <>
      <Panel title="Who can" note="by RBAC" wide>
        <form class="filters" onSubmit={ask}>
          <input name="resource" required aria-label="Resource" placeholder="Resource, such as pods" />
          <input name="namespace" aria-label="Namespace" placeholder="Namespace" />
          <input name="name" aria-label="Name" placeholder="Name" />
          <button type="submit">Who can?</button>
        </form>
        <p role="status" class="bad">{error}</p>
      </Panel>
      {asked && <Grants {...asked} />}
      <TryRequest title="Why, or why not" />
    </>
  );
}

function Requests() {
  return <TryRequest title="Try a request" audits />;
}

interface Certificate {
  purpose: string;
  file: string;
  name: string;
  ends: number | null;
  problem: string;
}

/** A certificate that ends sooner is shown as a warning. */
const SOON_SECONDS = 30 * 86400;

function Certificates() {
  const read = useRead((signal) => json<{ items: Certificate[] }>("/console/api/certificates", { signal }), []);
  const left = (one: Certificate) => (one.ends === null ? -1 : one.ends - Date.now() / 1000);
  return (
    <>
      <Panel title="Certificates" note="in the files that the server uses" wide>
        {read.error !== undefined && <Failure error={read.error} doing="read /console/api/certificates" />}
        {read.value && (
          <Table
            label="Certificates"
            rows={read.value.items}
            by={(one, at) => one.file + at}
            empty="The server uses no certificate from a file."
            columns={[
              { title: "for", sort: (one) => one.purpose, cell: (one) => one.purpose },
              { title: "name", sort: (one) => one.name, cell: (one) => <Text of={one.name} /> },
              {
                title: "ends in",
                number: true,
                sort: left,
                cell: (one) =>
                  one.ends === null ? (
                    <span class="bad"><Text of={one.problem} /></span>
                  ) : (
                    <time class={left(one) < 0 ? "bad" : left(one) < SOON_SECONDS ? "warn" : ""} dateTime={new Date(one.ends * 1000).toISOString()} title={new Date(one.ends * 1000).toLocaleString()}>
                      {left(one) < 0 ? "ended" : duration(left(one))}
                    </time>
                  ),
              },
              { title: "file", sort: (one) => one.file, cell: (one) => <Text of={one.file} max={200} /> },
            ]}
          />
        )}
      </Panel>
      <Tokens />
    </>
  );
}

function Features() {
  const [filter, setFilter] = useState("");
  const gates = useRead(async (signal) => (await readMetrics(signal)).get("kubernetes_feature_enabled") ?? [], []);
  const flags = useRead((signal) => json<{ flags: Record<string, string> }>("/console/api/flags", { signal }), []);
  const has = (line: string) => line.toLowerCase().includes(filter.toLowerCase());
  const lines = Object.entries(flags.value?.flags ?? {}).map(([name, value]) => `${name}=${value}`).filter(has);
  return (
    <>
      <p><input type="search" aria-label="Filter" placeholder="Filter" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} /></p>
      <div class="grid">
        <Panel title="Feature gates" note="as they are in force">
          {gates.error !== undefined && <Failure error={gates.error} doing="read /metrics" />}
          {gates.value && (
            <Table
              label="Feature gates"
              rows={gates.value.filter((one) => has(one.labels.name ?? ""))}
              first={0}
              by={(one) => one.labels.name ?? ""}
              empty="No feature gate has this in its name."
              columns={[
                { title: "gate", sort: (one) => one.labels.name ?? "", cell: (one) => <Text of={one.labels.name} /> },
                { title: "stage", sort: (one) => one.labels.stage ?? "", cell: (one) => one.labels.stage || "GA" },
                { title: "state", sort: (one) => one.value, cell: (one) => (one.value ? <span class="good">on</span> : <span class="dim">off</span>) },
              ]}
            />
          )}
        </Panel>
        <Panel title="Flags">
          {flags.error !== undefined ? (
            <Failure error={flags.error} doing="read /console/api/flags" />
          ) : (
            flags.value && (lines.length > 0 ? <pre class="yaml" tabIndex={0} aria-label="Flags"><bdi>{lines.join("\n")}</bdi></pre> : <Empty>No flag has this in it.</Empty>)
          )}
        </Panel>
      </div>
    </>
  );
}
