// An object as YAML, edited: a dry run shows what would be stored before it is.
import { useState } from "preact/hooks";
import { ApiError, message, query, text } from "./api";
import { diff } from "./diff";
import type { PartProps } from "./object";
import { item } from "./resources";
import { Empty, Failure, Text, useRead } from "./ui";

export const YAML = "application/yaml";
export const MANAGER = "ferrokube-console";

/** Managed fields are a page of their own. */
export function withoutManaged(yaml: string): string {
  return yaml.replace(/^ {2}managedFields:\n(?: {2}[- ].*\n)*/m, "");
}

/** Longer lines take a browser seconds to lay out. The editor has them whole. */
const LINE_MAX = 4000;

function shortened(yaml: string): string {
  const cut = (line: string) => (line.length > LINE_MAX ? `${line.slice(0, LINE_MAX)} … ${line.length - LINE_MAX} more characters` : line);
  return yaml.split("\n").map(cut).join("\n");
}

export function Edit({ of, namespace, name }: PartProps) {
  const path = item(of, namespace, name);
  const [again, setAgain] = useState(0);
  const read = useRead((signal) => text(path, { accept: YAML, signal }).then(withoutManaged), [path, again]);
  const [edited, setEdited] = useState<string>();
  const [checked, setChecked] = useState<{ before: string; after: string; sent: string }>();
  const [error, setError] = useState<unknown>();
  const [done, setDone] = useState("");
  if (read.error !== undefined) return <Failure error={read.error} doing={`read ${name}`} />;
  if (read.value === undefined) return null;
  const stored = read.value;
  const put = (body: string, dryRun: boolean) =>
    text(path + query({ fieldManager: MANAGER, fieldValidation: "Strict", dryRun: dryRun ? "All" : "" }), { method: "PUT", accept: YAML, type: YAML, body }).then(withoutManaged);
  const attempt = async (what: () => Promise<void>) => {
    setError(undefined);
    setDone("");
    try {
      await what();
    } catch (error) {
      setError(error);
    }
  };
  const check = () => attempt(async () => setChecked({ before: stored, after: await put(edited!, true), sent: edited! }));
  const save = () =>
    attempt(async () => {
      await put(checked!.sent, false);
      setChecked(undefined);
      setEdited(undefined);
      setDone("Saved.");
      setAgain((count) => count + 1);
    });
  /** What is stored now takes the place of what the edit began with; the edit stays. */
  const rebase = () =>
    attempt(async () => {
      const now = withoutManaged(await text(path, { accept: YAML }));
      const version = /^ {2}resourceVersion: .*$/m.exec(now)?.[0];
      setEdited((mine) => (version ? mine?.replace(/^ {2}resourceVersion: .*$/m, version) : mine));
      setChecked({ before: now, after: edited ?? "", sent: "" });
    });
  const conflict = error instanceof ApiError && error.code === 409;
  const can = of.verbs.includes("update");
  return (
    <>
      <div class="actions">
        {edited === undefined && can && <button type="button" onClick={() => (setEdited(stored), setDone(""))}>Edit</button>}
        {edited !== undefined && !checked && <button type="button" onClick={check} disabled={edited === stored}>Dry run and compare</button>}
        {checked && checked.sent !== "" && <button type="button" class="main" onClick={save}>Save</button>}
        {checked && <button type="button" onClick={() => (setChecked(undefined), setError(undefined))}>Edit on</button>}
        {edited !== undefined && <button type="button" onClick={() => (setEdited(undefined), setChecked(undefined), setError(undefined))}>Discard</button>}
        {edited === undefined && <button type="button" onClick={() => setAgain(again + 1)}>Read again</button>}
        <span role="status" class="good">{done}</span>
      </div>
      {error !== undefined && (
        <Refusal error={error}>{conflict && <button type="button" onClick={rebase}>Compare with what is stored now, and keep my changes</button>}</Refusal>
      )}
      {checked ? (
        <>
          <p class="dim">{checked.sent !== "" ? "What the server would store, after defaults and admission, beside what is stored:" : "What is stored now beside your text:"}</p>
          <Changes before={checked.before} after={checked.after} />
        </>
      ) : edited !== undefined ? (
        <textarea class="yaml" aria-label="The object as YAML" spellcheck={false} value={edited} onInput={(event) => setEdited(event.currentTarget.value)} />
      ) : (
        <pre class="yaml" tabIndex={0} aria-label="The object as YAML"><bdi>{shortened(stored)}</bdi></pre>
      )}
    </>
  );
}

/** Why a write was refused, with its causes. */
export function Refusal({ error, children }: { error: unknown; children?: preact.ComponentChildren }) {
  const causes = error instanceof ApiError ? error.status?.details?.causes : undefined;
  return (
    <div role="alert" class="bad">
      <p><Text of={message(error)} max={3000} /></p>
      {causes && <ul>{causes.slice(0, 100).map((cause) => <li><code><Text of={cause.field} /></code> <Text of={cause.message} max={1000} /></li>)}</ul>}
      {children}
    </div>
  );
}

/** The lines that two texts differ in. */
export function Changes({ before, after }: { before: string; after: string }) {
  const changes = diff(before, after);
  if (changes.length === 0) return <Empty>Nothing would change.</Empty>;
  const sign = { same: " ", gone: "-", new: "+", gap: " " };
  return (
    <pre class="yaml diff" tabIndex={0} aria-label="Differences">
      {changes.map((change) => (
        <div class={change.kind}>{sign[change.kind]} <bdi>{shortened(change.text)}</bdi></div>
      ))}
    </pre>
  );
}
