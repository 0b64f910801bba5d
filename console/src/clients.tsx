// Who costs what: clients, the last requests of one, and one request with its stages.
import { json, query } from "./api";
import { Audited, tryRequest } from "./requests";
import type { ClientRow, Cost, Now, Seen } from "./figures";
import { Ago, Empty, Failure, Panel, Table, Text, bytes, millis, number, usePoll, useRead } from "./ui";

export function clientLink(client: { user: string; agent: string; address: string }): string {
  return "#/client" + query({ user: client.user, agent: client.agent === "(several)" ? "" : client.agent, address: client.address });
}

export function Clients({ report }: { report: Now["clients"] }) {
  const seconds = Math.max(1, report.seconds);
  const cpu = report.rows.reduce((all, row) => all + row.cpu, report.others.cpu);
  const share = (cost: Cost) => (cpu > 0 ? cost.cpu / cpu : 0);
  const rate = (count: number) => number(count / seconds);
  return (
    <Panel title="Who costs what" note={`the last ${Math.round(seconds)} s, while this page is open`} wide>
      <Table<ClientRow>
        label="Who costs what"
        rows={report.rows}
        first={3}
        most={100}
        by={(row) => `${row.user}\n${row.agent}\n${row.address}`}
        empty="No request has ended since the page was opened."
        columns={[
          { title: "user", sort: (row) => row.user, cell: (row) => <a href={clientLink(row)}><Text of={row.user || "(not authenticated)"} max={80} /></a> },
          { title: "user agent", sort: (row) => row.agent, cell: (row) => <Text of={row.agent || "–"} max={48} />, solid: true },
          { title: "address", sort: (row) => row.address, cell: (row) => <Text of={row.address || "–"} />, solid: true },
          {
            title: "CPU",
            number: true,
            sort: (row) => row.cpu,
            hint: "share of the CPU time of all requests, and milliseconds a second",
            cell: (row) => (
              <span class="share">
                <meter min={0} max={1} value={share(row)} aria-label={`${Math.round(share(row) * 100)} %`} />
                {millis(row.cpu / seconds)}/s
              </span>
            ),
          },
          { title: "requests/s", number: true, sort: (row) => row.requests, cell: (row) => rate(row.requests) },
          { title: "bytes/s", number: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes / seconds) },
          { title: "seats", number: true, sort: (row) => row.seat_seconds, hint: "seats taken on average", cell: (row) => number(row.seat_seconds / seconds) },
          { title: "watches", number: true, sort: (row) => row.watches, cell: (row) => number(row.watches) },
          { title: "errors/s", number: true, sort: (row) => row.errors, cell: (row) => <span class={row.errors > 0 ? "warn" : ""}>{rate(row.errors)}</span> },
        ]}
      />
      {report.others.requests > 0 && (
        <p class="dim">
          All others: {rate(report.others.requests)} requests/s, {millis(report.others.cpu / seconds)}/s CPU, {bytes(report.others.bytes / seconds)}/s.
        </p>
      )}
    </Panel>
  );
}

export function Code({ of }: { of: number }) {
  return <span class={of >= 500 ? "bad" : of >= 400 ? "warn" : "good"}>{of || "–"}</span>;
}

/** The last requests of a client, or one request. */
export function ClientPage({ params }: { params: URLSearchParams }) {
  const wanted = Object.fromEntries(["user", "agent", "address", "auditID"].map((name) => [name, params.get(name) ?? undefined]));
  const read = usePoll(2, (signal) => json<{ items: Seen[] }>("/console/api/requests" + query(wanted), { signal }), [params.toString()]);
  const auditID = params.get("auditID");
  const name = auditID ?? params.get("user") ?? "all clients";
  return (
    <main>
      <h1>
        <a href="#/now">Now</a> / <Text of={name} max={80} />
      </h1>
      {auditID && read.value?.items[0] ? <OneRequest of={read.value.items[0]} /> : null}
      {!auditID && (
        <Panel title="Last requests" note={<Text of={params.get("agent") ?? ""} max={100} />} wide>
          {read.error !== undefined && <Failure error={read.error} doing="read the last requests" />}
          {read.value && <Requests items={read.value.items} />}
        </Panel>
      )}
      {auditID && read.value && read.value.items.length === 0 && <Empty>The request is not among the last ones any more. The audit log has it under this audit ID.</Empty>}
    </main>
  );
}

export function requestLink(seen: Seen): string {
  return "#/client" + query({ auditID: seen.auditID });
}

export function Requests({ items }: { items: Seen[] }) {
  return (
    <Table
      label="Last requests"
      rows={items}
      by={(seen, at) => seen.auditID + at}
      empty="No request of this client has ended since the page was opened."
      columns={[
        { title: "ended", sort: (seen) => seen.time, cell: (seen) => <Ago at={seen.time} />, solid: true },
        { title: "request", sort: (seen) => seen.target, cell: (seen) => <a href={requestLink(seen)}>{seen.verb} <Text of={seen.target} max={120} /></a> },
        { title: "code", number: true, sort: (seen) => seen.code, cell: (seen) => <Code of={seen.code} /> },
        { title: "took", number: true, sort: (seen) => seen.seconds, cell: (seen) => millis(seen.seconds) },
        { title: "CPU", number: true, sort: (seen) => seen.cpu, cell: (seen) => millis(seen.cpu) },
        { title: "bytes", number: true, sort: (seen) => seen.bytes, cell: (seen) => bytes(seen.bytes) },
        { title: "level", sort: (seen) => seen.priorityLevel, cell: (seen) => <Text of={seen.priorityLevel || "–"} /> },
      ]}
    />
  );
}

function OneRequest({ of }: { of: Seen }) {
  const { authenticated, admitted, authorization } = of.stages;
  const wait = Math.max(0, admitted - authenticated);
  const rest = Math.max(0, of.seconds - Math.max(admitted, authenticated) - authorization);
  const stages = [
    ["authentication", authenticated],
    ["audit, impersonation, queue", wait],
    ["authorization", authorization],
    ["carried out and sent", rest],
  ] as const;
  return (
    <Panel title="Request" wide>
      <dl class="facts">
        <dt>request</dt>
        <dd class="mono">{of.verb} <Text of={of.target} max={1000} /></dd>
        <dt>answer</dt>
        <dd><Code of={of.code} /> <Text of={of.message} max={2000} /></dd>
        {of.warnings.map((warning) => (
          <>
            <dt>warning</dt>
            <dd><Text of={warning} max={1000} /></dd>
          </>
        ))}
        <dt>from</dt>
        <dd><a href={clientLink(of)}><Text of={of.user} /></a>, <Text of={of.agent} />, <Text of={of.address} /></dd>
        <dt>ended</dt>
        <dd>{new Date(of.time).toLocaleString()} (<Ago at={of.time} /> ago)</dd>
        <dt>cost</dt>
        <dd>{millis(of.cpu)} CPU, {bytes(of.bytes)}, {number(of.seatSeconds)} seat seconds</dd>
        <dt>queue</dt>
        <dd><Text of={of.flowSchema || "–"} /> → <Text of={of.priorityLevel || "–"} /></dd>
        <dt>groups</dt>
        <dd><Text of={of.groups.join(", ") || "–"} max={600} /></dd>
        <dt>authorized by</dt>
        <dd><Text of={of.reason || "–"} max={600} /></dd>
        <dt>audit ID</dt>
        <dd class="mono"><Text of={of.auditID} /></dd>
        <dt>audit record</dt>
        <dd><AuditRecord of={of} /></dd>
        {of.annotations.map(([name, value]) => (
          <>
            <dt><Text of={name} max={80} /></dt>
            <dd class="mono"><Text of={value} max={600} /></dd>
          </>
        ))}
      </dl>
      <h3>Stages, {millis(of.seconds)} in all</h3>
      <table class="stages">
        <tbody>
          {stages.map(([name, seconds]) => (
            <tr>
              <th scope="row">{name}</th>
              <td><meter min={0} max={Math.max(of.seconds, 1e-9)} value={seconds} aria-label={name} /></td>
              <td class="n">{millis(seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

/** By method: the audit policy sees requests as they were sent. */
const METHODS: Record<string, string> = { create: "POST", update: "PUT", patch: "PATCH", delete: "DELETE", deletecollection: "DELETE", post: "POST", put: "PUT" };

/** How much the audit log has of a request, by the policy in force now. */
function AuditRecord({ of }: { of: Seen }) {
  const request = { method: METHODS[of.verb] ?? "GET", path: of.target, user: of.user, groups: of.groups };
  const read = useRead((signal) => tryRequest(request, signal), [of.auditID]);
  if (read.error !== undefined) return <span class="dim">not known: that needs the verb post on /console/api/request</span>;
  if (!read.value) return <>…</>;
  return read.value.audit ? <Audited of={read.value.audit} /> : <>none: no audit log is kept</>;
}
