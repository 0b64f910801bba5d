// YAML, read and written by js-yaml, and an object's lines with the path of each.
import { CORE_SCHEMA, dump, load } from "js-yaml";

/** A document. The server reads some words differently (yes, no): what was read here is written with quotes, and its dry run tells. */
export function parse(text: string): unknown {
  return load(text, { schema: CORE_SCHEMA });
}

export function print(value: unknown): string {
  return dump(value, { schema: CORE_SCHEMA, lineWidth: -1 });
}

/** The steps to a value: names of fields and places in lists. */
export type Path = (string | number)[];

export interface Line {
  text: string;
  path: Path;
}

/** Longer texts take a browser seconds to lay out. */
const TEXT_MAX = 4000;

/** An object as YAML, line by line, in the server's order of fields. */
export function lines(value: unknown, path: Path = [], indent = ""): Line[] {
  if (Array.isArray(value)) return value.flatMap((item, at) => itemLines(item, [...path, at], indent));
  return Object.entries(value as Record<string, unknown>).flatMap(([name, field]) => {
    const here = [...path, name];
    const head = `${indent}${plain(name)}:`;
    if (isEmpty(field)) return [{ text: `${head} ${Array.isArray(field) ? "[]" : "{}"}`, path: here }];
    if (Array.isArray(field)) return [{ text: head, path: here }, ...lines(field, here, indent)];
    if (isMap(field)) return [{ text: head, path: here }, ...lines(field, here, `${indent}  `)];
    return scalarLines(head, field, here, indent);
  });
}

function itemLines(item: unknown, path: Path, indent: string): Line[] {
  const head = `${indent}-`;
  if (isEmpty(item)) return [{ text: `${head} ${Array.isArray(item) ? "[]" : "{}"}`, path }];
  if (!isMap(item) && !Array.isArray(item)) return scalarLines(head, item, path, indent);
  const [first, ...rest] = lines(item, path, `${indent}  `);
  return [{ text: `${head} ${first!.text.slice(indent.length + 2)}`, path: first!.path }, ...rest];
}

function scalarLines(head: string, value: unknown, path: Path, indent: string): Line[] {
  if (typeof value === "string" && value.includes("\n") && !/[^\n\x20-\uffff]|^\s|\s\n/.test(value)) {
    const end = value.endsWith("\n") ? (value.endsWith("\n\n") ? "|+" : "|") : "|-";
    const body = value.replace(/\n$/, "").split("\n");
    return [{ text: `${head} ${end}`, path }, ...body.map((text) => ({ text: text && `${indent}  ${cut(text)}`, path }))];
  }
  return [{ text: `${head} ${plain(value)}`, path }];
}

/** A scalar as it is written on one line. */
function plain(value: unknown): string {
  if (typeof value !== "string") return String(value);
  const text = cut(value);
  const isPlain = /^[A-Za-z/][\w ./:@=+,()-]*$/.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$|[\s:]$|: /i.test(text);
  return isPlain ? text : JSON.stringify(text);
}

function cut(text: string): string {
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)} … ${text.length - TEXT_MAX} more characters` : text;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isEmpty(value: unknown): boolean {
  return (Array.isArray(value) && value.length === 0) || (isMap(value) && Object.keys(value).length === 0);
}
