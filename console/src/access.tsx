// Who may do what to an object: the rules of RBAC read backwards, and what all authorizers together say about one user.
import { json } from "./api";
import { type Resource, item } from "./resources";
import { TryRequest } from "./requests";
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

export async function grants(of: Resource, namespace: string, name: string, signal: AbortSignal): Promise<Grant[]> {
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
  return (
    <>
      <Grants of={of} namespace={namespace} name={name} />
      <TryRequest title="Why, or why not" path={item(of, namespace, name)} />
    </>
  );
}

/** Who may do what by RBAC. */
export function Grants({ of, namespace, name }: { of: Resource; namespace: string; name: string }) {
  const read = useRead((signal) => grants(of, namespace, name, signal), [of, namespace, name]);
  return (
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
  );
}
