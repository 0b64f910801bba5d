// Definitions of custom resources: versions, conditions, how their conversions do, and what their rules may cost.
import { useState } from "preact/hooks";
import { type Obj, json } from "./api";
import { by, readMetrics } from "./figures";
import { Conditions, type Condition } from "./conditions";
import { Failure, Panel, Table, Text, millis, number, useRead } from "./ui";

interface Definition extends Obj {
  spec: { group: string; names: { plural: string; kind: string }; versions: Version[]; conversion?: { strategy?: string } };
  status?: { conditions?: Condition[]; storedVersions?: string[] };
}

interface Version {
  name: string;
  served: boolean;
  storage: boolean;
  deprecated?: boolean;
  schema?: { openAPIV3Schema?: unknown };
}

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

export function Definitions() {
  // The schemas of a cluster's definitions are megabytes, and are read one by one when they are looked at.
  const read = useRead((signal) => json<{ items: Definition[] }>(`${DEFINITIONS}?drop=spec.versions.schema,metadata.managedFields`, { signal }), []);
  const conversions = useRead(readConversions, []);
  const [judged, setJudged] = useState("");
  return (
    <>
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
              { title: "conversion", sort: (one) => one.spec.conversion?.strategy ?? "None", cell: (one) => <Converted strategy={one.spec.conversion?.strategy ?? "None"} by={conversions.value?.get(one.metadata.name)} /> },
              { title: "conditions", cell: (one) => <Conditions of={one.status?.conditions} good={["NamesAccepted", "Established"]} /> },
              { title: "rules", cell: (one) => <button type="button" aria-label={`Cost of the rules of ${one.metadata.name}`} aria-pressed={judged === one.metadata.name} onClick={() => setJudged(judged === one.metadata.name ? "" : one.metadata.name)}>cost</button> },
            ]}
          />
        )}
      </Panel>
      {judged && <Rules definition={judged} />}
    </>
  );
}

interface Conversion {
  calls: number;
  failed: number;
  seconds: number;
}

/** Calls of conversion webhooks since the start, by definition. */
async function readConversions(signal: AbortSignal): Promise<Map<string, Conversion>> {
  const metrics = await readMetrics(signal);
  const name = "apiserver_crd_conversion_webhook_duration_seconds";
  const seconds = by(metrics, `${name}_sum`, ["crd_name"]);
  const found = new Map<string, Conversion>();
  for (const [key, count] of by(metrics, `${name}_count`, ["crd_name", "succeeded"])) {
    const [definition = "", succeeded] = key.split("\u0000");
    const one = found.get(definition) ?? { calls: 0, failed: 0, seconds: seconds.get(definition) ?? 0 };
    found.set(definition, { ...one, calls: one.calls + count, failed: one.failed + (succeeded === "true" ? 0 : count) });
  }
  return found;
}

function Converted({ strategy, by: of }: { strategy: string; by: Conversion | undefined }) {
  if (strategy === "None") return <span class="dim">none</span>;
  if (!of) return <>{strategy}, not called yet</>;
  return (
    <span class={of.failed > 0 ? "bad" : ""}>
      {strategy}: {number(of.calls)} calls, mean {millis(of.seconds / of.calls)}, {of.failed > 0 ? `${number(of.failed)} failed` : "none failed"}
    </span>
  );
}

interface Judged {
  count: number;
  total: number;
  totalMax: number;
  ruleMax: number;
  items: { path: string; cost: number }[];
  problems: string[];
}

/** What the rules of each version may cost at most, as the server estimates it when a definition is written. */
function Rules({ definition }: { definition: string }) {
  const read = useRead(
    async (signal) => {
      const { spec } = await json<Definition>(`${DEFINITIONS}/${encodeURIComponent(definition)}`, { signal });
      const made: { version: string; of: Judged }[] = [];
      for (const { name, schema } of spec.versions) {
        if (schema?.openAPIV3Schema) made.push({ version: name, of: await json<Judged>("/console/api/rules", { method: "POST", body: JSON.stringify(schema.openAPIV3Schema), signal }) });
      }
      return made;
    },
    [definition],
  );
  if (read.error !== undefined) return <Panel title={definition} wide><Failure error={read.error} doing="judge the rules: it needs the verb post on /console/api/rules" /></Panel>;
  return (
    <>
      {(read.value ?? []).map(({ version, of }) => (
        <Panel key={version} title={`Rules of ${definition}, ${version}`} note={`${of.count} rules, ${percent(of.total, of.totalMax)} of what all may cost`} wide>
          {of.problems.map((problem) => <p class="bad"><Text of={problem} max={500} /></p>)}
          <Table
            label={`Rules of ${version}`}
            rows={of.items}
            by={(rule, at) => rule.path + at}
            empty="The schema has no rules."
            columns={[
              { title: "rule", cell: (rule) => <code><Text of={rule.path.replace(/^openAPIV3Schema\./, "")} max={200} /></code> },
              { title: "cost at most", number: true, sort: (rule) => rule.cost, cell: (rule) => number(rule.cost) },
              {
                title: "of the limit",
                number: true,
                sort: (rule) => rule.cost,
                cell: (rule) => (
                  <span class="share">
                    <meter min={0} max={1} value={Math.min(1, rule.cost / of.ruleMax)} aria-label={percent(rule.cost, of.ruleMax)} />
                    {percent(rule.cost, of.ruleMax)}
                  </span>
                ),
              },
            ]}
          />
        </Panel>
      ))}
    </>
  );
}

function percent(part: number, of: number): string {
  const value = (100 * part) / of;
  return value >= 1000 ? "over 1000 %" : `${value < 0.1 && value > 0 ? "<0.1" : value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}
