// What happens to a request: which authorizer decides and why, the priority level that it gets, and what the audit log has of it.
import { useState } from "preact/hooks";
import { json } from "./api";
import { Failure, Panel, Table, Text } from "./ui";

interface Opinion {
  name: string;
  mode: string;
  /** null if it is not asked. */
  verdict: "allow" | "deny" | "no opinion" | null;
  reason: string | null;
  error: string | null;
}

export interface Tried {
  verb: string;
  isResource: boolean;
  group: string;
  resource: string;
  subresource: string;
  namespace: string;
  name: string;
  authorizers: Opinion[];
  flow: { flowSchema: string; priorityLevel: string } | null;
  audit: Recorded | null;
}

interface Recorded {
  rule: number | null;
  level: string;
  stages: string[];
}

export interface TriedRequest {
  method: string;
  path: string;
  user: string;
  groups: string[];
  auditPolicy?: string;
}

export const tryRequest = (request: TriedRequest, signal?: AbortSignal) => json<Tried>("/console/api/request", { method: "POST", body: JSON.stringify(request), signal });

/** A line as a request in an access log, or a kubectl path: the method is optional. */
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

export function TryRequest({ title, path, audits }: { title: string; path?: string; audits?: boolean }) {
  const [tried, setTried] = useState<Tried>();
  const [error, setError] = useState<unknown>();
  const ask = async (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const value = (name: string) => String(form.get(name) ?? "").trim();
    const groups = value("groups").split(",").map((group) => group.trim()).filter(Boolean);
    const auditPolicy = value("policy");
    setError(undefined);
    try {
      setTried(await tryRequest({ method: value("method"), path: value("path"), user: value("user"), groups, ...(auditPolicy ? { auditPolicy } : {}) }));
    } catch (error) {
      setTried(undefined);
      setError(error);
    }
  };
  return (
    <Panel title={title} note="nothing is sent: the server says what would happen" wide>
      <form class="filters" onSubmit={ask}>
        <select name="method" aria-label="Method">{METHODS.map((method) => <option>{method}</option>)}</select>
        <input name="path" required class="long" aria-label="Path" placeholder="/api/v1/namespaces/default/pods" defaultValue={path ?? ""} />
        <input name="user" required aria-label="User" placeholder="User, such as system:serviceaccount:ns:name" />
        <input name="groups" aria-label="Groups, separated by commas" placeholder="Groups, with commas" defaultValue="system:authenticated" />
        <button type="submit">Try</button>
        {audits && (
          <details class="long">
            <summary>with another audit policy than the one in force</summary>
            <textarea name="policy" class="yaml small" aria-label="Audit policy" spellcheck={false} placeholder={"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata"} />
          </details>
        )}
      </form>
      <div role="status">
        {error !== undefined && <Failure error={error} doing="try it: it needs the verb post on /console/api/request" />}
        {tried && <Outcome of={tried} />}
      </div>
    </Panel>
  );
}

function Outcome({ of }: { of: Tried }) {
  const decided = of.authorizers.find((one) => one.verdict === "allow" || one.verdict === "deny");
  const what = of.isResource ? `${of.verb} ${of.resource}${of.subresource && `/${of.subresource}`}${of.group && `.${of.group}`}${of.namespace && ` in ${of.namespace}`} ${of.name}` : of.verb;
  return (
    <>
      <p>
        <b class={decided?.verdict === "allow" ? "good" : "bad"}>{decided?.verdict === "allow" ? "Allowed" : decided ? "Denied" : "Not allowed: no authorizer allows it"}</b> <Text of={what} max={300} />
      </p>
      <Chain of={of.authorizers} />
      <dl class="facts">
        <dt>priority level</dt>
        <dd>{of.flow ? <><Text of={of.flow.priorityLevel} /> by the flow schema <Text of={of.flow.flowSchema} /></> : "priority and fairness is off"}</dd>
        <dt>audit</dt>
        <dd>{of.audit ? <Audited of={of.audit} /> : "no audit log is kept; --audit-policy-file and --audit-log-path begin one"}</dd>
      </dl>
    </>
  );
}

/** The authorizers in the order in which they are asked. */
export function Chain({ of }: { of: Opinion[] }) {
  const colour = { allow: "good", deny: "bad", "no opinion": "dim" } as const;
  return (
    <Table
      label="Authorizers"
      rows={of}
      by={(one) => one.name}
      empty="The server has one authorizer, which does not say why it decides."
      columns={[
        { title: "authorizer", cell: (one) => <Text of={one.name} /> },
        { title: "mode", cell: (one) => <Text of={one.mode} /> },
        { title: "says", cell: (one) => (one.verdict ? <span class={colour[one.verdict]}>{one.verdict}</span> : <span class="dim">not asked</span>) },
        { title: "because", cell: (one) => <><Text of={one.reason} max={500} /> {one.error && <span class="warn"><Text of={one.error} max={500} /></span>}</> },
      ]}
    />
  );
}

export function Audited({ of }: { of: Recorded }) {
  if (of.rule === null) return <>nothing: no rule of the policy matches</>;
  return (
    <>
      level <b>{of.level}</b> by rule {of.rule}
      {of.stages.length > 0 && <> at {of.stages.join(", ")}</>}
    </>
  );
}
