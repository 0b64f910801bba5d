// Server-side apply: some fields of an object, and conflicts with other managers decided one by one.
import { useState } from "preact/hooks";
import { ApiError, type Obj, json, query, text } from "./api";
import { Changes, MANAGER, Refusal, YAML, withoutManaged } from "./edit";
import { type ManagedFields, extract, remove, valueAt } from "./fields";
import type { PartProps } from "./object";
import { item } from "./resources";
import { Failure, Table, Text, useRead } from "./ui";
import { parse, print } from "./yaml";

const APPLY = "application/apply-patch+yaml";

interface Conflict {
  field: string;
  message: string;
}

/** What to do with a conflict: take the field over, or leave it to its manager. */
type Choice = "take" | "leave";

export function Apply({ of, namespace, name }: PartProps) {
  const path = item(of, namespace, name);
  const [again, setAgain] = useState(0);
  const read = useRead((signal) => json<Obj>(path, { signal }), [path, again]);
  const [written, setWritten] = useState<string>();
  const [choices, setChoices] = useState<Record<string, Choice>>({});
  const [outcome, setOutcome] = useState<{ error?: unknown; before?: string; after?: string; body?: string; force?: boolean }>({});
  const [done, setDone] = useState("");
  if (read.error !== undefined) return <Failure error={read.error} doing={`read ${name}`} />;
  if (!read.value) return null;
  const stored = read.value;
  const body = written ?? own(stored);
  const send = (body: string, force: boolean, dryRun: boolean) =>
    text(path + query({ fieldManager: MANAGER, fieldValidation: "Strict", force: force ? "true" : "", dryRun: dryRun ? "All" : "" }), { method: "PATCH", accept: YAML, type: APPLY, body });
  const check = async (body: string, force: boolean) => {
    setDone("");
    try {
      const [before, after] = await Promise.all([text(path, { accept: YAML }), send(body, force, true)]);
      setOutcome({ before: withoutManaged(before), after: withoutManaged(after), body, force });
    } catch (error) {
      setOutcome({ error });
      setChoices({});
    }
  };
  const decide = () => {
    try {
      const config = parse(body);
      const conflicts = conflictsOf(outcome.error);
      for (const { field } of conflicts) if (choices[field] === "leave") remove(field, config);
      const left = print(config);
      setWritten(left);
      void check(left, conflicts.some(({ field }) => choices[field] === "take"));
    } catch (error) {
      setOutcome({ error });
    }
  };
  const save = async () => {
    try {
      await send(outcome.body!, !!outcome.force, false);
      setOutcome({});
      setWritten(undefined);
      setDone("Applied.");
      setAgain((count) => count + 1);
    } catch (error) {
      setOutcome({ error });
    }
  };
  const conflicts = conflictsOf(outcome.error);
  return (
    <>
      <p class="dim">Only the fields that are here are applied, as the manager {MANAGER}; what it applied before and is not here any more is removed.</p>
      <div class="actions">
        {outcome.body === undefined && conflicts.length === 0 && <button type="button" onClick={() => check(body, false)}>Dry run and compare</button>}
        {outcome.body !== undefined && <button type="button" class="main" onClick={save}>Apply</button>}
        {(outcome.body !== undefined || conflicts.length > 0) && <button type="button" onClick={() => setOutcome({})}>Edit on</button>}
        <span role="status" class="good">{done}</span>
      </div>
      {outcome.error !== undefined && conflicts.length === 0 && <Refusal error={outcome.error} />}
      {conflicts.length > 0 && <Conflicts conflicts={conflicts} stored={stored} body={body} choices={choices} choose={setChoices} decide={decide} />}
      {outcome.body !== undefined ? (
        <Changes before={outcome.before!} after={outcome.after!} />
      ) : (
        conflicts.length === 0 && <textarea class="yaml" aria-label="The fields to apply, as YAML" spellcheck={false} value={body} onInput={(event) => setWritten(event.currentTarget.value)} />
      )}
    </>
  );
}

function conflictsOf(error: unknown): Conflict[] {
  if (!(error instanceof ApiError) || error.code !== 409) return [];
  const causes = error.status?.details?.causes ?? [];
  return causes.filter((cause) => cause.reason === "FieldManagerConflict").map((cause) => ({ field: cause.field ?? "", message: cause.message ?? "" }));
}

/** What the console applied before, or as little as can be applied. */
function own(stored: Obj): string {
  const managed = (stored.metadata as { managedFields?: ManagedFields[] }).managedFields ?? [];
  const mine = managed.find((one) => one.manager === MANAGER && one.operation === "Apply");
  const { apiVersion, kind } = stored;
  const { name, namespace } = stored.metadata;
  const before = (mine ? extract(mine.fieldsV1, stored) : {}) as Partial<Obj>;
  return print({ apiVersion, kind, ...before, metadata: { name, ...(namespace ? { namespace } : {}), ...before.metadata } });
}

function Conflicts(props: { conflicts: Conflict[]; stored: Obj; body: string; choices: Record<string, Choice>; choose: (choices: Record<string, Choice>) => void; decide: () => void }) {
  const { conflicts, choices, choose } = props;
  let mine: unknown;
  try {
    mine = parse(props.body);
  } catch {
    mine = undefined;
  }
  const shown = (value: unknown) => <code><Text of={value === undefined ? "–" : JSON.stringify(value)} max={120} /></code>;
  const set = (field: string, choice: Choice) => choose({ ...choices, [field]: choice });
  return (
    <div role="alert">
      <p class="bad">Other managers have {conflicts.length === 1 ? "a field" : `${conflicts.length} fields`} that you want to set. Decide for each.</p>
      <Table
        label="Conflicts"
        rows={conflicts}
        by={(conflict) => conflict.field}
        empty=""
        columns={[
          { title: "field", cell: (conflict) => <code><Text of={conflict.field} max={160} /></code> },
          { title: "managed by", cell: (conflict) => <Text of={/"(.*?)"/.exec(conflict.message)?.[1] ?? conflict.message} max={120} /> },
          { title: "now", cell: (conflict) => shown(valueAt(conflict.field, props.stored)) },
          { title: "yours", cell: (conflict) => shown(valueAt(conflict.field, mine)) },
          {
            title: "decision",
            cell: (conflict) => (
              <span class="choice" role="radiogroup" aria-label={conflict.field}>
                {(["take", "leave"] as const).map((choice) => (
                  <label>
                    <input type="radio" name={conflict.field} checked={choices[conflict.field] === choice} onChange={() => set(conflict.field, choice)} />
                    {choice === "take" ? "take it over" : "leave it to them"}
                  </label>
                ))}
              </span>
            ),
          },
        ]}
      />
      <p><button type="button" disabled={conflicts.some(({ field }) => !choices[field])} onClick={props.decide}>Go on with these decisions</button></p>
    </div>
  );
}
