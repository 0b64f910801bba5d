// Sets of fields as managed fields have them, over the object that they are of.
import type { Path } from "./yaml";

export interface ManagedFields {
  manager?: string;
  operation?: string;
  time?: string;
  subresource?: string;
  fieldsV1?: unknown;
}

type Fields = Record<string, unknown>;

/** The step that a member of a set means: a field, an item with these keys, an item with this value, or the item at a place. */
function stepOf(member: string, value: unknown): string | number | undefined {
  const [kind, rest] = [member.slice(0, 2), member.slice(2)];
  if (kind === "f:") return rest;
  if (!Array.isArray(value)) return undefined;
  if (kind === "i:") return Number(rest);
  const wanted = JSON.parse(rest) as unknown;
  const at = value.findIndex((item) => {
    if (kind === "v:") return JSON.stringify(item) === JSON.stringify(wanted);
    return Object.entries(wanted as Fields).every(([key, is]) => (item as Fields)?.[key] === is);
  });
  return at < 0 ? undefined : at;
}

function below(value: unknown, step: string | number): unknown {
  return typeof value === "object" && value !== null ? (value as Fields)[step] : undefined;
}

/** Names a path, for maps. */
export const nameOf = (path: Path) => JSON.stringify(path);

/** Notes for each field of the sets, by its path, which of them have it. */
export function owners(managed: ManagedFields[], object: unknown): Map<string, number[]> {
  const found = new Map<string, number[]>();
  const walk = (set: unknown, value: unknown, path: Path, owner: number) => {
    const members = Object.entries((set ?? {}) as Fields).filter(([member]) => member !== ".");
    if (members.length === 0 || (set as Fields)["."]) found.set(nameOf(path), [...(found.get(nameOf(path)) ?? []), owner]);
    for (const [member, inner] of members) {
      const step = stepOf(member, value);
      if (step !== undefined) walk(inner, below(value, step), [...path, step], owner);
    }
  };
  managed.forEach((one, at) => walk(one.fieldsV1, object, [], at));
  found.delete("[]");
  return found;
}

/** The part of an object that a set has: what its manager would apply again. */
export function extract(set: unknown, value: unknown): unknown {
  const members = Object.entries((set ?? {}) as Fields).filter(([member]) => member !== ".");
  if (members.length === 0) return value;
  const made: unknown = Array.isArray(value) ? [] : {};
  for (const [member, inner] of members) {
    const step = stepOf(member, value);
    const field = step === undefined ? undefined : below(value, step);
    if (field === undefined) continue;
    if (Array.isArray(made)) made.push(extract(inner, field));
    else (made as Fields)[step!] = extract(inner, field);
  }
  return made;
}

/** The place of a field that an error names, such as .spec.containers[name="web"].image. Names may have dots in them. */
export function locate(field: string, object: unknown): { parent: unknown; step: string | number } | undefined {
  let [parent, step, value, rest]: [unknown, string | number, unknown, string] = [undefined, "", object, field];
  while (rest) {
    parent = value;
    const item = /^\[(.*?)\](?=$|[.[])/.exec(rest);
    if (item) {
      const found = itemAt(item[1]!, value);
      if (found === undefined) return undefined;
      step = found;
      rest = rest.slice(item[0].length);
    } else {
      const name = longestName(rest.slice(1), value);
      if (rest[0] !== "." || name === undefined) return undefined;
      step = name;
      rest = rest.slice(1 + name.length);
    }
    value = below(value, step);
  }
  return parent === undefined ? undefined : { parent, step };
}

function longestName(rest: string, value: unknown): string | undefined {
  const names = typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
  const fits = names.filter((name) => rest.startsWith(name) && /^$|^[.[]/.test(rest.slice(name.length)));
  return fits.sort((a, b) => b.length - a.length)[0];
}

/** The place of an item: [3], [="value"] or [name="web",protocol="TCP"]. */
function itemAt(text: string, value: unknown): number | undefined {
  if (!Array.isArray(value)) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  try {
    if (text.startsWith("=")) return stepOf(`v:${text.slice(1)}`, value) as number | undefined;
    return stepOf(`k:{${text.replace(/(^|,)([A-Za-z0-9_-]+)=/g, '$1"$2":')}}`, value) as number | undefined;
  } catch {
    return undefined;
  }
}

/** The value of such a field. */
export function valueAt(field: string, object: unknown): unknown {
  const place = locate(field, object);
  return place && below(place.parent, place.step);
}

/** Removes such a field, and what is left empty around it. */
export function remove(field: string, object: unknown): void {
  const place = locate(field, object);
  if (!place) return;
  if (Array.isArray(place.parent)) place.parent.splice(place.step as number, 1);
  else delete (place.parent as Fields)[place.step];
}
