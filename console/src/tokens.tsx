// Tokens that are stored as Secrets, and when they end. The tokens themselves are not read.
import { type Obj, json, query } from "./api";
import { Ago, Failure, Panel, Table, Text, duration, useRead } from "./ui";

interface Token {
  kind: string;
  namespace: string;
  name: string;
  created: string | undefined;
  used: string | undefined;
  /** In milliseconds; undefined if it never ends. */
  ends: number | undefined;
}

interface Secret extends Obj {
  data?: { expiration?: string };
}

const LAST_USED = "kubernetes.io/legacy-token-last-used";
const KINDS = [
  ["bootstrap token", "/api/v1/namespaces/kube-system/secrets", "bootstrap.kubernetes.io/token"],
  ["service account's token", "/api/v1/secrets", "kubernetes.io/service-account-token"],
] as const;

async function readTokens(signal: AbortSignal): Promise<Token[]> {
  const lists = await Promise.all(
    KINDS.map(async ([kind, path, type]) => {
      // Only these fields leave the server.
      const asked = query({ fieldSelector: `type=${type}`, fields: "metadata.name,metadata.namespace,metadata.creationTimestamp,metadata.labels,data.expiration", limit: 500 });
      const { items } = await json<{ items: Secret[] }>(path + asked, { signal });
      return items.map(({ metadata, data }) => ({
        kind,
        namespace: metadata.namespace ?? "",
        name: metadata.name,
        created: metadata.creationTimestamp,
        used: metadata.labels?.[LAST_USED],
        ends: data?.expiration ? Date.parse(atob(data.expiration)) : undefined,
      }));
    }),
  );
  return lists.flat();
}

export function Tokens() {
  const read = useRead(readTokens, []);
  const left = (token: Token) => (token.ends === undefined ? Infinity : (token.ends - Date.now()) / 1000);
  return (
    <Panel title="Tokens" note="that are stored; those of kubectl create token are not, and end by themselves" wide>
      {read.error !== undefined && <Failure error={read.error} doing="list Secrets" />}
      {read.value && (
        <Table
          label="Tokens"
          rows={read.value}
          by={(token) => token.namespace + "/" + token.name}
          empty="No token is stored."
          columns={[
            { title: "kind", sort: (token) => token.kind, cell: (token) => token.kind },
            { title: "name", sort: (token) => token.name, cell: (token) => <Text of={`${token.namespace}/${token.name}`} /> },
            { title: "created", sort: (token) => token.created ?? "", cell: (token) => <Ago at={token.created} /> },
            { title: "last used", sort: (token) => token.used ?? "", cell: (token) => <Text of={token.used ?? "–"} /> },
            {
              title: "ends in",
              number: true,
              sort: left,
              cell: (token) =>
                token.ends === undefined ? (
                  <span class="warn">never</span>
                ) : (
                  <time class={left(token) < 0 ? "bad" : ""} dateTime={new Date(token.ends).toISOString()} title={new Date(token.ends).toLocaleString()}>{left(token) < 0 ? "ended" : duration(left(token))}</time>
                ),
            },
          ]}
        />
      )}
    </Panel>
  );
}
