// Who manages which field: the object as YAML, each line in the colour of its manager.
import { type Obj, json } from "./api";
import { type ManagedFields, nameOf, owners } from "./fields";
import type { PartProps } from "./object";
import { item } from "./resources";
import { Ago, Empty, Failure, Text, useRead } from "./ui";
import { type Line, lines } from "./yaml";

/** More lines are left out: the page with the YAML has them. */
const LINES_MAX = 5000;

export function Managed({ of, namespace, name }: PartProps) {
  const read = useRead((signal) => json<Obj>(item(of, namespace, name), { signal }), [of, namespace, name]);
  if (read.error !== undefined) return <Failure error={read.error} doing={`read ${name}`} />;
  if (!read.value) return null;
  const { managedFields, ...metadata } = read.value.metadata as Obj["metadata"] & { managedFields?: ManagedFields[] };
  const managed = managedFields ?? [];
  if (managed.length === 0) return <Empty>The object has no managed fields. The next write gives it some.</Empty>;
  const object = { ...read.value, metadata };
  const all = lines(object);
  const of_line = ownersOfLines(all.slice(0, LINES_MAX), owners(managed, object));
  return (
    <>
      <ul class="legend managers" aria-label="Managers">
        {managed.map((one, at) => (
          <li>
            <i class={`bar c${(at % 8) + 1}`} /> <b><Text of={one.manager} max={80} /></b> {one.operation} {one.subresource && <>of <Text of={one.subresource} /></>} <Ago at={one.time} />
          </li>
        ))}
        <li><i class="bar" /> no manager: set by the server</li>
      </ul>
      <pre class="yaml managed" tabIndex={0} aria-label="The object, by manager">
        {of_line.map(({ line, by, first }) => (
          <div class={by.length === 0 ? "none" : `own c${(by[0]! % 8) + 1}`} title={by.map((at) => managed[at]!.manager).join(", ") || undefined}>
            <small>{first ? by.map((at) => managed[at]!.manager ?? "").join(", ").slice(0, 60) : ""}</small>
            <bdi>{line.text}</bdi>
          </div>
        ))}
      </pre>
      {all.length > LINES_MAX && <p class="dim">{all.length - LINES_MAX} more lines are not shown.</p>}
    </>
  );
}

/** Each line with those who have its field, or one around it that they have as a whole. */
function ownersOfLines(all: Line[], owners: Map<string, number[]>) {
  let last = "";
  return all.map((line) => {
    let by: number[] = [];
    for (let depth = line.path.length; depth > 0 && by.length === 0; depth--) by = owners.get(nameOf(line.path.slice(0, depth))) ?? [];
    const first = by.join() !== last;
    last = by.join();
    return { line, by, first };
  });
}
