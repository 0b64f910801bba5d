// Who may do what to an object: the rules of RBAC read backwards, and what all authorizers together say about one user.
import { useState } from "preact/hooks";
import { json, message } from "./api";
import type { Resource } from "./resources";
import { Failure, Panel, Table, Text, useRead } from "./ui";

interface Rule {
  verbs: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
}

interface Role {
  metadata: { name: string; namespace?: string };
  rules?: Rule[] | null;
}

interface Binding {
  metadata: { name: string; namespace?: string };
  roleRef: { kind: string; name: string };
  subjects?: { kind: string; name: string; namespace?: string }[];
}

const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"];
const RBAC = "/apis/rbac.authorization.k8s.io/v1";

interface Grant {
  subject: string;
  verbs: string[];
  by: string;
}

/** The verbs that rules allow on a resource, or on one object of it. */
export function verbsOf(rules: Rule[], group: string, resource: string, name: string): string[] {
  const has = (list: string[] | undefined, wanted: string) => !!list && (list.includes("*") || list.includes(wanted));
  const about = rules.filter((rule) => has(rule.apiGroups, group) && has(rule.resources, resource) && (!rule.resourceNames?.length || rule.resourceNames.includes(name)));
  return VERBS.filter((verb) => about.some((rule) => has(rule.verbs, verb)));
}

async function grants(of: Resource, namespace: string, name: string, signal: AbortSignal): Promise<Grant[]> {
  const read = async <T,>(path: string) => (await json<{ items: T[] }>(RBAC + path, { signal })).items;
  const within = `/namespaces/${encodeURIComponent(namespace)}`;
  const [clusterRoles, clusterBindings, roles, bindings] = await Promise.all([
    read<Role>("/clusterroles"),
    read<Binding>("/clusterrolebindings"),
    namespace ? read<Role>(`${within}/roles`) : [],
    namespace ? read<Binding>(`${within}/rolebindings`) : [],
  ]);
  const found: Grant[] = [];
  for (const binding of [...clusterBindings, ...bindings]) {
    const of_role = binding.roleRef.kind === "ClusterRole" ? clusterRoles : roles;
    const role = of_role.find((one) => one.metadata.name === binding.roleRef.name);
    const verbs = verbsOf(role?.rules ?? [], of.group, of.resource, name);
    if (verbs.length === 0) continue;
    const by = `${binding.metadata.namespace ? "RoleBinding" : "ClusterRoleBinding"} ${binding.metadata.name} → ${binding.roleRef.kind} ${binding.roleRef.name}`;
    for (const subject of binding.subjects ?? []) {
      const shown = subject.kind === "ServiceAccount" ? `ServiceAccount ${subject.namespace}/${subject.name}` : `${subject.kind} ${subject.name}`;
      found.push({ subject: shown, verbs, by });
    }
  }
  return found;
}

export function Access({ of, namespace, name }: { of: Resource; namespace: string; name: string }) {
  const read = useRead((signal) => grants(of, namespace, name, signal), [of, namespace, name]);
  return (
    <>
      <Panel title="By RBAC" note="members of system:masters may do everything besides; other authorizers are not read backwards" wide>
        {read.error !== undefined && <Failure error={read.error} doing="read roles and bindings" />}
        {read.value && (
          <Table
            label="Who may, by RBAC"
            rows={read.value}
            by={(grant, at) => grant.subject + grant.by + at}
            empty="No binding allows anybody anything here."
            columns={[
              { title: "subject", sort: (grant) => grant.subject, cell: (grant) => <Text of={grant.subject} max={120} /> },
              { title: "may", cell: (grant) => (grant.verbs.length === VERBS.length ? "everything" : grant.verbs.join(", ")) },
              { title: "through", sort: (grant) => grant.by, cell: (grant) => <Text of={grant.by} max={160} /> },
            ]}
          />
        )}
      </Panel>
      <Why of={of} namespace={namespace} name={name} />
    </>
  );
}

interface Review {
  status: { allowed: boolean; denied?: boolean; reason?: string; evaluationError?: string };
}

/** Asks all authorizers about one user. */
function Why({ of, namespace, name }: { of: Resource; namespace: string; name: string }) {
  const [answer, setAnswer] = useState("");
  const ask = async (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const value = (field: string) => String(form.get(field) ?? "").trim();
    const groups = value("groups").split(",").map((group) => group.trim()).filter(Boolean);
    const spec = { user: value("user"), groups, resourceAttributes: { group: of.group, version: of.version, resource: of.resource, namespace, name, verb: value("verb") } };
    try {
      const review = await json<Review>("/apis/authorization.k8s.io/v1/subjectaccessreviews", {
        method: "POST",
        body: JSON.stringify({ apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec }),
      });
      const { allowed, denied, reason, evaluationError } = review.status;
      setAnswer([allowed ? "Allowed." : denied ? "Denied." : "Not allowed: no authorizer has an opinion.", reason, evaluationError].filter(Boolean).join(" "));
    } catch (error) {
      setAnswer(message(error));
    }
  };
  return (
    <Panel title="Why, or why not" note="asks all authorizers in order" wide>
      <form class="filters" onSubmit={ask}>
        <input name="user" required aria-label="User" placeholder="User, such as system:serviceaccount:ns:name" />
        <input name="groups" aria-label="Groups, separated by commas" placeholder="Groups, with commas" />
        <select name="verb" aria-label="Verb">{VERBS.map((verb) => <option>{verb}</option>)}</select>
        <button type="submit">Ask</button>
      </form>
      <p role="status"><Text of={answer} max={2000} /></p>
    </Panel>
  );
}
