// The lines that two texts differ in, by the longest common subsequence of what is between their common ends.

export interface Change {
  kind: "same" | "gone" | "new" | "gap";
  text: string;
}

/** More lines than this are shown as all gone and all new: the table below has their product. */
const LINES_MAX = 2000;
const AROUND = 3;

export function diff(before: string, after: string): Change[] {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const middle = between(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const same = (lines: string[]): Change[] => lines.map((text) => ({ kind: "same", text }));
  return folded([...same(a.slice(0, start)), ...middle, ...same(a.slice(a.length - end))]);
}

function between(a: string[], b: string[]): Change[] {
  const gone = (text: string): Change => ({ kind: "gone", text });
  const added = (text: string): Change => ({ kind: "new", text });
  if (a.length > LINES_MAX || b.length > LINES_MAX) return [...a.map(gone), ...b.map(added)];
  const width = b.length + 1;
  const common = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1]! + 1 : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
    }
  }
  const found: Change[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      found.push({ kind: "same", text: a[i]! });
      i++;
      j++;
    } else if (common[(i + 1) * width + j]! >= common[i * width + j + 1]!) found.push(gone(a[i++]!));
    else found.push(added(b[j++]!));
  }
  return [...found, ...a.slice(i).map(gone), ...b.slice(j).map(added)];
}

/** Leaves out what is far from any change. */
function folded(all: Change[]): Change[] {
  const near = all.map(() => false);
  all.forEach((change, at) => {
    if (change.kind !== "same") near.fill(true, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const shown: Change[] = [];
  all.forEach((change, at) => {
    if (near[at]) shown.push(change);
    else if (shown[shown.length - 1]?.kind !== "gap") shown.push({ kind: "gap", text: "…" });
  });
  return shown.some((change) => change.kind !== "gap") ? shown : [];
}
