// Requests to the server that sent the page. All go through its ordinary chain as the signed-in user.
import { parse } from "./yaml";

const KEY = "ferrokube-console-key";

/** Where the API is: the page is at …/console/, also behind a proxy that adds a prefix. */
const ROOT = location.pathname.replace(/console\/.*$/, "");

export class ApiError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly status?: Status,
    readonly headers?: Headers,
  ) {
    super(message);
  }
}

export interface Status {
  message?: string;
  reason?: string;
  details?: { causes?: { reason?: string; message?: string; field?: string }[] };
}

export interface Meta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
}

export interface Obj {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  [field: string]: unknown;
}

/** The page's key of the session. It is no secret of the user: without the cookie, which no script sees, it opens nothing. */
export const key = {
  get: () => localStorage.getItem(KEY) ?? "none",
  set: (value: string) => localStorage.setItem(KEY, value),
  clear: () => localStorage.removeItem(KEY),
};

export interface Options {
  method?: string;
  accept?: string;
  type?: string;
  body?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Called when the server does not know the user any more. */
export const onSignedOut = { call: () => {} };

export async function send(path: string, options: Options = {}): Promise<Response> {
  const headers: Record<string, string> = {
    accept: options.accept ?? "application/json",
    "x-ferrokube-console": key.get(),
    ...options.headers,
  };
  if (options.body !== undefined) headers["content-type"] = options.type ?? "application/json";
  const response = await fetch(ROOT + path.replace(/^\//, ""), {
    method: options.method ?? "GET",
    body: options.body ?? null,
    signal: options.signal ?? null,
    headers,
    redirect: "error",
    referrerPolicy: "no-referrer",
  });
  if (response.ok) return response;
  const text = await response.text();
  const status = statusOf(text, response.headers.get("content-type") ?? "");
  if (response.status === 401) onSignedOut.call();
  throw new ApiError(response.status, status?.message ?? text.slice(0, 1000), status, response.headers);
}

/** The Status of a failed request; undefined if its text is the message. */
export function statusOf(text: string, type: string): Status | undefined {
  try {
    const status = type.includes("yaml") ? parse(text) : JSON.parse(text);
    return typeof status === "object" && status !== null ? (status as Status) : undefined;
  } catch {
    return undefined;
  }
}

export async function json<T>(path: string, options?: Options): Promise<T> {
  return (await (await send(path, options)).json()) as T;
}

export async function text(path: string, options?: Options): Promise<string> {
  return (await send(path, options)).text();
}

/** One path segment of each text. */
export function path(...segments: string[]): string {
  return segments.map((segment) => "/" + encodeURIComponent(segment)).join("");
}

export function query(values: Record<string, string | number | undefined>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== "");
  return pairs.length ? "?" + pairs.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&") : "";
}

/** Longer lines of a watch end it: a table's row is far smaller. */
const LINE_MAX = 16 * 1024 * 1024;

/** Calls back with each event of a watch until it ends. */
export async function watch(path: string, accept: string, signal: AbortSignal, event: (event: { type: string; object: never }) => void) {
  const response = await send(path, { accept, signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line) event(JSON.parse(line));
    if (rest.length > LINE_MAX) throw new Error("an event is too large");
  }
}

export function message(error: unknown): string {
  if (error instanceof ApiError) return error.message || `HTTP ${error.code}`;
  if (error instanceof TypeError) return "The server cannot be reached.";
  return error instanceof Error ? error.message : String(error);
}
