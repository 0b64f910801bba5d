// What was refused, failed or warned about, with the request that it was.
import type { Seen } from "./figures";
import { Code, clientLink, requestLink } from "./clients";
import { Ago, Panel, Table, Text } from "./ui";

export function Errors({ items }: { items: Seen[] }) {
  return (
    <Panel title="Last errors and warnings" note="while this page is open">
      <Table
        label="Last errors and warnings"
        rows={items}
        most={15}
        by={(seen, at) => seen.auditID + at}
        empty="No request failed."
        columns={[
          { title: "ended", cell: (seen) => <Ago at={seen.time} />, solid: true },
          { title: "code", cell: (seen) => <Code of={seen.code} /> },
          { title: "user", cell: (seen) => <a href={clientLink(seen)}><Text of={seen.user || "(not authenticated)"} max={48} /></a> },
          {
            title: "request and reason",
            cell: (seen) => (
              <>
                <a href={requestLink(seen)}>{seen.verb} <Text of={seen.target} max={70} /></a>
                <br />
                <Text of={seen.message || seen.warnings[0] || ""} max={160} />
              </>
            ),
          },
        ]}
      />
    </Panel>
  );
}
