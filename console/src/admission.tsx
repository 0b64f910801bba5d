// Webhooks and policies, and a box that sends an object as a dry run and shows what each policy says of it.
import { useState } from "preact/hooks";
import { ApiError, type Obj, json, message, query, send } from "./api";
import { MANAGER, YAML } from "./edit";
import { resourceOf } from "./find";
import { collection } from "./resources";
import { Failure, Panel, Table, Text, useRead } from "./ui";
import { parse } from "./yaml";

const GROUP = "/apis/admissionregistration.k8s.io/v1";
const REGISTRATIONS = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];

const EXAMPLE = `apiVersion: v1
kind: ConfigMap
metadata:
  name: try
  namespace: default
data: {}
`;

interface Finding {
  policy: string;
  binding: string;
  validation: number;
  outcome: "holds" | "fails" | "ignored";
  message: string;
}

interface Policy extends Obj {
  spec: { validations?: { expression: string }[] };
}

export function Admission() {
  const read = useRead(
    async (signal) => {
      const lists = await Promise.all(
        REGISTRATIONS.map(async (resource) => {
          const list = await json<{ items: Obj[] }>(`${GROUP}/${resource}?drop=metadata.managedFields`, { signal }).catch((error) => {
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
            empty="Neither webhooks nor policies are registered. Apply one, and try an object above."
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

interface Outcome {
  ok: boolean;
  text: string;
  warnings: string[];
  findings: Finding[];
  expressions: Map<string, string>;
}

/** What came of the object: an answer, or a refusal, and in either case what the policies said. */
async function attempt(body: string): Promise<Outcome> {
  const object = parse(body) as Partial<Obj>;
  const of = await resourceOf(String(object.apiVersion ?? ""), String(object.kind ?? ""));
  if (!of) throw new Error("The server does not serve this apiVersion and kind.");
  const asked = query({ dryRun: "All", fieldValidation: "Strict", fieldManager: MANAGER });
  const headers = { "x-ferrokube-explain": "policies" };
  const sent = send(collection(of, object.metadata?.namespace ?? "default") + asked, { method: "POST", accept: YAML, type: YAML, body, headers });
  const answer = await sent.then(async (response) => ({ ok: true, text: await response.text(), headers: response.headers }), (error) => {
    if (!(error instanceof ApiError) || !error.headers) throw error;
    return { ok: false, text: message(error), headers: error.headers };
  });
  const warnings = (answer.headers.get("warning") ?? "").split(/,\s*(?=299 )/).map((one) => one.replace(/^299 - "(.*)"$/, "$1")).filter(Boolean);
  const told = answer.headers.get("x-ferrokube-policies");
  const findings = told ? (JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(told), (c) => c.charCodeAt(0)))) as { items: Finding[] }).items : [];
  return { ok: answer.ok, text: answer.text, warnings, findings, expressions: await expressionsOf(findings) };
}

/** The expressions that the findings are about, of the policies that the user may read. */
async function expressionsOf(findings: Finding[]): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of new Set(findings.map((finding) => finding.policy))) {
    const policy = await json<Policy>(`${GROUP}/validatingadmissionpolicies/${encodeURIComponent(name)}`).catch(() => undefined);
    policy?.spec.validations?.forEach((validation, at) => found.set(`${name}/${at}`, validation.expression));
  }
  return found;
}

function TryOut() {
  const [outcome, setOutcome] = useState<Outcome>();
  const [error, setError] = useState<unknown>();
  const submit = async (event: Event) => {
    event.preventDefault();
    const body = String(new FormData(event.currentTarget as HTMLFormElement).get("object") ?? "");
    setError(undefined);
    try {
      setOutcome(await attempt(body));
    } catch (error) {
      setOutcome(undefined);
      setError(error);
    }
  };
  return (
    <Panel title="Try an object" note="created as a dry run: nothing is stored, and you need the right to create it" wide>
      <form onSubmit={submit}>
        <textarea name="object" class="yaml small" aria-label="Object as YAML" spellcheck={false} defaultValue={EXAMPLE} />
        <button type="submit">Try</button>
      </form>
      <div role="status">
        {error !== undefined && <p class="bad"><Text of={message(error)} max={2000} /></p>}
        {outcome && <p class={outcome.ok ? "good" : "bad"}>{outcome.ok ? "It would be created." : <Text of={outcome.text} max={3000} />}</p>}
        {outcome?.warnings.map((warning) => <p class="warn"><Text of={warning} max={1000} /></p>)}
        {outcome && <Findings of={outcome} />}
        {outcome?.ok && (
          <details>
            <summary>as it would be stored</summary>
            <pre class="yaml"><bdi>{outcome.text}</bdi></pre>
          </details>
        )}
      </div>
    </Panel>
  );
}

function Findings({ of }: { of: Outcome }) {
  const colour = { holds: "good", fails: "bad", ignored: "warn" } as const;
  return (
    <Table
      label="What policies say"
      rows={of.findings}
      by={(finding, at) => finding.policy + at}
      empty="No policy applies to it, or you may not list policies."
      columns={[
        { title: "policy", cell: (finding) => <a href={`#/objects/admissionregistration.k8s.io/validatingadmissionpolicies/-/${encodeURIComponent(finding.policy)}`}><Text of={finding.policy} max={100} /></a> },
        { title: "binding", cell: (finding) => <Text of={finding.binding} max={100} /> },
        { title: "expression", cell: (finding) => <code><Text of={of.expressions.get(`${finding.policy}/${finding.validation}`) ?? `number ${finding.validation + 1}`} max={300} /></code> },
        { title: "outcome", cell: (finding) => <span class={colour[finding.outcome]}>{finding.outcome}</span> },
        { title: "message", cell: (finding) => <Text of={finding.message} max={300} /> },
      ]}
    />
  );
}
