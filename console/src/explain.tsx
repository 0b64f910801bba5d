// The fields of a kind with their descriptions, from the server's OpenAPI document.
import { useState } from "preact/hooks";
import { json, path } from "./api";
import type { Resource } from "./resources";
import { Empty, Failure, Text, useRead } from "./ui";

interface Schema {
  type?: string;
  format?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  allOf?: Schema[];
  $ref?: string;
  default?: unknown;
  enum?: unknown[];
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
}

type Schemas = Record<string, Schema>;

/** A schema with what it refers to; the description beside a reference is about the field, so it stays. */
function resolve(of: Schema, all: Schemas): Schema {
  const reference = of.$ref ?? of.allOf?.[0]?.$ref;
  const target = reference && all[reference.replace(/^#\/components\/schemas\//, "")];
  return target ? { ...target, description: of.description || target.description, default: of.default } : of;
}

/** The schema of an object's fields, through lists and maps, and how its type is written. */
function inner(of: Schema, all: Schemas): { type: string; schema: Schema } {
  const schema = resolve(of, all);
  if (schema.items) {
    const item = inner(schema.items, all);
    return { type: `[]${item.type}`, schema: item.schema };
  }
  if (typeof schema.additionalProperties === "object") {
    const value = inner(schema.additionalProperties, all);
    return { type: `map of ${value.type}`, schema: value.schema };
  }
  return { type: schema.type ?? "any", schema };
}

export function Explain({ of }: { of: Resource }) {
  const at = of.group ? path("openapi", "v3", "apis", of.group, of.version) : path("openapi", "v3", "api", of.version);
  const read = useRead((signal) => json<{ components?: { schemas?: Schemas } }>(at, { signal }), [at]);
  if (read.error !== undefined) return <Failure error={read.error} doing={`read ${at}`} />;
  if (!read.value) return null;
  const all = read.value.components?.schemas ?? {};
  const is = (schema: Schema) => schema["x-kubernetes-group-version-kind"]?.some((one) => one.group === of.group && one.version === of.version && one.kind === of.kind);
  const found = Object.values(all).find(is);
  if (!found?.properties) return <Empty>The server's OpenAPI document does not describe {of.kind}.</Empty>;
  return (
    <>
      <p><Text of={found.description} max={2000} /></p>
      <Fields schema={found} all={all} />
    </>
  );
}

function Fields({ schema, all }: { schema: Schema; all: Schemas }) {
  return (
    <ul class="explain">
      {Object.entries(schema.properties ?? {}).map(([name, field]) => (
        <Field key={name} name={name} field={field} all={all} required={!!schema.required?.includes(name)} />
      ))}
    </ul>
  );
}

/** A field; those below it are drawn when it is opened, since types may contain themselves. */
function Field({ name, field, all, required }: { name: string; field: Schema; all: Schemas; required: boolean }) {
  const [open, setOpen] = useState(false);
  const { type, schema } = inner(field, all);
  const description = resolve(field, all).description;
  const head = (
    <>
      <b>{name}</b> <small>{type}{required ? ", required" : ""}{field.enum ? `, one of ${field.enum.join(", ")}` : ""}</small>
    </>
  );
  const text = description && <p class="dim"><Text of={description} max={3000} /></p>;
  if (!schema.properties) return <li>{head}{text}</li>;
  return (
    <li>
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{head}</summary>
        {text}
        {open && <Fields schema={schema} all={all} />}
      </details>
    </li>
  );
}
