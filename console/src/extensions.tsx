// What extends the server, and boxes to try it out.
import { useState } from "preact/hooks";
import { ApiError, type Obj, json, message, query, send, text } from "./api";
import { readMetrics } from "./figures";
import { resourceOf } from "./find";
import { collection } from "./resources";
import { Empty, Failure, Panel, Table, Text, duration, useRead } from "./ui";

const TABS: Record<string, [string, () => preact.JSX.Element]> = {
  definitions: ["Definitions", Definitions],
  services: ["APIServices", Services],
  flow: ["Flow schemas", Flow],
  admission: ["Admission", Admission],
  certificates: ["Certificates", Certificates],
  features: ["Features and flags", Features],
};

export function ExtensionsPage({ tab }: { tab: string }) {
  const name = tab in TABS ? tab : "definitions";
  const Tab = TABS[name]![1];
  return (
    <main>
      <h1>Extensions</h1>
      <nav class="tabs" aria-label="Extensions">
        {Object.entries(TABS).map(([one, [label]]) => (
          <a href={`#/extensions/${one}`} aria-current={one === name ? "page" : undefined}>{label}</a>
        ))}
      </nav>
      <Tab />
    </main>
  );
}

interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
}

/** The conditions that are not as they should be, with their reasons. */
function Conditions({ of, good }: { of: Condition[] | undefined; good: string[] }) {
  const wrong = good.filter((type) => of?.find((one) => one.type === type)?.status !== "True");
  const others = (of ?? []).filter((one) => !good.includes(one.type) && one.status === "True" && one.type !== "KubernetesAPIApprovalPolicyConformant");
  if (wrong.length === 0 && others.length === 0) return <span class="good">{good.join(", ")}</span>;
  const shown = [...wrong.map((type) => of?.find((one) => one.type === type) ?? { type, status: "Unknown" }), ...others] as Condition[];
  return <span class="warn"><Text of={shown.map((one) => `${one.status === "True" ? "" : "not "}${one.type}: ${one.reason ?? ""} ${one.message ?? ""}`).join("; ")} max={300} /></span>;
}

interface Definition extends Obj {
  spec: { group: string; names: { plural: string; kind: string }; versions: { name: string; served: boolean; storage: boolean; deprecated?: boolean }[]; conversion?: { strategy?: string } };
  status?: { conditions?: Condition[]; storedVersions?: string[] };
}

function Definitions() {
  const read = useRead((signal) => json<{ items: Definition[] }>("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", { signal }), []);
  return (
    <Panel title="Definitions of custom resources" wide>
      {read.error !== undefined && <Failure error={read.error} doing="list definitions" />}
      {read.value && (
        <Table
          label="Definitions"
          rows={read.value.items}
          first={0}
          by={(one) => one.metadata.name}
          empty="There are no custom resources. Apply a CustomResourceDefinition, and it is here."
          columns={[
            { title: "resource", sort: (one) => one.metadata.name, cell: (one) => <a href={`#/objects/${encodeURIComponent(one.spec.group)}/${encodeURIComponent(one.spec.names.plural)}`}><Text of={one.metadata.name} max={120} /></a> },
            { title: "versions", cell: (one) => <Text of={one.spec.versions.map((v) => v.name + (v.storage ? " (stored)" : "") + (v.served ? "" : " (not served)") + (v.deprecated ? " (deprecated)" : "")).join(", ")} /> },
            { title: "stored before", cell: (one) => <Text of={one.status?.storedVersions?.join(", ")} /> },
            { title: "conversion", sort: (one) => one.spec.conversion?.strategy ?? "None", cell: (one) => one.spec.conversion?.strategy ?? "None" },
            { title: "conditions", cell: (one) => <Conditions of={one.status?.conditions} good={["NamesAccepted", "Established"]} /> },
          ]}
        />
      )}
    </Panel>
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
  const [answer, setAnswer] = useState<Record<string, string>>();
  const [error, setError] = useState<unknown>();
  const ask = async (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const value = (name: string) => String(form.get(name) ?? "").trim();
    const groups = value("groups").split(",").map((group) => group.trim()).filter(Boolean);
    const asked = query({ method: value("method"), path: value("path"), user: value("user") }) + groups.map((group) => `&group=${encodeURIComponent(group)}`).join("");
    setError(undefined);
    try {
      setAnswer(await json<Record<string, string>>("/console/api/flow" + asked));
    } catch (error) {
      setError(error);
    }
  };
  return (
    <>
      <Panel title="Where would a request go?" wide>
        <form class="filters" onSubmit={ask}>
          <select name="method" aria-label="Method">{["GET", "POST", "PUT", "PATCH", "DELETE"].map((method) => <option>{method}</option>)}</select>
          <input name="path" required class="long" aria-label="Path" placeholder="/api/v1/namespaces/default/pods" />
          <input name="user" required aria-label="User" placeholder="User" />
          <input name="groups" aria-label="Groups, separated by commas" placeholder="Groups" defaultValue="system:authenticated" />
          <button type="submit">Try</button>
        </form>
        <div role="status">
          {error !== undefined && <Failure error={error} doing="try it" />}
          {answer && <p>{answer.verb} <Text of={answer.resource} /> matches <b><Text of={answer.flowSchema} /></b> and goes to <b><Text of={answer.priorityLevel} /></b>.</p>}
        </div>
      </Panel>
      <Panel title="Flow schemas" note="in the order in which they are tried" wide>
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
    </>
  );
}

const REGISTRATIONS = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];

const EXAMPLE = `apiVersion: v1
kind: ConfigMap
metadata:
  name: try
  namespace: default
data: {}
`;

function Admission() {
  const read = useRead(
    async (signal) => {
      const lists = await Promise.all(
        REGISTRATIONS.map(async (resource) => {
          const list = await json<{ items: Obj[] }>(`/apis/admissionregistration.k8s.io/v1/${resource}`, { signal }).catch((error) => {
            if (error instanceof ApiError && error.code === 404) return { items: [] };
            throw error;
          });
          return list.items.map((object) => ({ resource, object }));
        }),
      );
      return lists.flat();
    },
    [],
  );
  return (
    <>
      <TryOut />
      <Panel title="Webhooks and policies" wide>
        {read.error !== undefined && <Failure error={read.error} doing="list webhooks and policies" />}
        {read.value && (
          <Table
            label="Webhooks and policies"
            rows={read.value}
            by={(one) => one.resource + one.object.metadata.name}
            empty="Neither webhooks nor policies are registered."
            columns={[
              { title: "name", sort: (one) => one.object.metadata.name, cell: (one) => <a href={`#/objects/admissionregistration.k8s.io/${one.resource}/-/${encodeURIComponent(one.object.metadata.name)}`}><Text of={one.object.metadata.name} max={120} /></a> },
              { title: "kind", sort: (one) => one.resource, cell: (one) => one.resource },
            ]}
          />
        )}
      </Panel>
    </>
  );
}

/** Sends an object as a dry run: admission says everything that it would say, and nothing is stored. */
function TryOut() {
  const [outcome, setOutcome] = useState<{ ok: boolean; text: string; warnings: string[] }>();
  const attempt = async (event: Event) => {
    event.preventDefault();
    const body = String(new FormData(event.currentTarget as HTMLFormElement).get("object") ?? "");
    const field = (name: string) => new RegExp(`^${name}:[ \\t]*["']?([^\\s"'#]+)`, "m").exec(body)?.[1] ?? "";
    const namespace = /^ {2}namespace:[ \t]*["']?([^\s"'#]+)/m.exec(body)?.[1] ?? "default";
    try {
      const of = await resourceOf(field("apiVersion"), field("kind"));
      if (!of) throw new Error("The server does not serve this apiVersion and kind.");
      const asked = query({ dryRun: "All", fieldValidation: "Strict", fieldManager: "ferrokube-console" });
      const response = await send(collection(of, namespace) + asked, { method: "POST", accept: "application/yaml", type: "application/yaml", body });
      const warnings = (response.headers.get("warning") ?? "").split(/,\s*(?=299 )/).map((one) => one.replace(/^299 - "(.*)"$/, "$1")).filter(Boolean);
      setOutcome({ ok: true, text: await response.text(), warnings });
    } catch (error) {
      setOutcome({ ok: false, text: message(error), warnings: [] });
    }
  };
  return (
    <Panel title="Try an object" note="created as a dry run: nothing is stored, and you need the right to create it" wide>
      <form onSubmit={attempt}>
        <textarea name="object" class="yaml small" aria-label="Object as YAML" spellcheck={false} defaultValue={EXAMPLE} />
        <button type="submit">Try</button>
      </form>
      <div role="status">
        {outcome && <p class={outcome.ok ? "good" : "bad"}>{outcome.ok ? "It would be created as:" : <Text of={outcome.text} max={3000} />}</p>}
        {outcome?.warnings.map((warning) => <p class="warn"><Text of={warning} max={1000} /></p>)}
        {outcome?.ok && <pre class="yaml"><bdi>{outcome.text}</bdi></pre>}
      </div>
    </Panel>
  );
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
  );
}

function Features() {
  const [filter, setFilter] = useState("");
  const gates = useRead(async (signal) => (await readMetrics(signal)).get("kubernetes_feature_enabled") ?? [], []);
  const flags = useRead((signal) => text("/flagz", { accept: "text/plain", signal }), []);
  const has = (line: string) => line.toLowerCase().includes(filter.toLowerCase());
  const lines = (flags.value ?? "").split("\n").filter((line) => /^[a-z0-9-]+=/.test(line) && has(line));
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
            <Failure error={flags.error} doing="read /flagz, which the feature gate ComponentFlagz serves" />
          ) : (
            lines.length > 0 ? <pre class="yaml" tabIndex={0} aria-label="Flags"><bdi>{lines.join("\n")}</bdi></pre> : <Empty>No flag has this in it.</Empty>
          )}
        </Panel>
      </div>
    </>
  );
}
