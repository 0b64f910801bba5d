// What the server serves, from its aggregated discovery.
import { json, path } from "./api";

export interface Resource {
  group: string;
  version: string;
  resource: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
  shortNames: string[];
}

interface DiscoveryList {
  items: {
    metadata: { name?: string };
    versions: {
      version: string;
      resources?: {
        resource: string;
        responseKind?: { kind: string; group?: string; version?: string };
        scope: string;
        verbs: string[];
        shortNames?: string[];
      }[];
    }[];
  }[];
}

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

let known: Promise<Resource[]> | undefined;

/** All resources in the versions the server prefers, in the order of discovery. */
export function resources(again = false): Promise<Resource[]> {
  if (!known || again) known = read().catch((error) => ((known = undefined), Promise.reject(error)));
  return known;
}

async function read(): Promise<Resource[]> {
  const lists = await Promise.all(["/api", "/apis"].map((at) => json<DiscoveryList>(at, { accept: AGGREGATED })));
  const found: Resource[] = [];
  const seen = new Set<string>();
  for (const group of lists.flatMap((list) => list.items ?? [])) {
    for (const version of group.versions ?? []) {
      for (const one of version.resources ?? []) {
        const name = group.metadata.name ?? "";
        // A resource is listed once, in its most preferred version.
        if (seen.has(`${name}/${one.resource}`)) continue;
        seen.add(`${name}/${one.resource}`);
        found.push({
          group: name,
          version: version.version,
          resource: one.resource,
          kind: one.responseKind?.kind ?? one.resource,
          namespaced: one.scope === "Namespaced",
          verbs: one.verbs,
          shortNames: one.shortNames ?? [],
        });
      }
    }
  }
  return found;
}

export async function find(group: string, resource: string): Promise<Resource | undefined> {
  return (await resources()).find((one) => one.group === group && one.resource === resource);
}

export function apiVersion(of: Resource): string {
  return of.group ? `${of.group}/${of.version}` : of.version;
}

/** The path of a collection, of all namespaces or of one. */
export function collection(of: Resource, namespace?: string): string {
  const root = of.group ? path("apis", of.group, of.version) : path("api", of.version);
  return root + (namespace && of.namespaced ? path("namespaces", namespace) : "") + path(of.resource);
}

export function item(of: Resource, namespace: string | undefined, name: string): string {
  return collection(of, namespace) + path(name);
}

/** The page of a collection or an object. */
export function link(of: { group: string; resource: string }, namespace?: string, name?: string): string {
  const where = name === undefined ? (namespace ? [namespace] : []) : [namespace || "-", name];
  return "#" + path("objects", of.group || "core", of.resource, ...where);
}

export function title(of: { group: string; resource: string }): string {
  return of.group ? `${of.resource}.${of.group}` : of.resource;
}
