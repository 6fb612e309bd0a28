// The lines of a diff as rows: which stand where, which are folded away. No diff is computed; the hunks say it.

import type { Hunk } from "./data";

/** Line numbers count from 1; 0 is none. `count` is the number of lines of a fold. */
export interface Row {
  kind: "same" | "del" | "add" | "change" | "fold";
  old: number;
  new: number;
  count: number;
}

interface Block {
  same: boolean;
  old: number;
  oldCount: number;
  new: number;
  newCount: number;
}

/** Lines of the file after, both ends included. */
export type Range = readonly [first: number, last: number];

const CONTEXT = 3;
const SMALLEST_FOLD = 4;

/** Lines as git counts them. */
export function splitLines(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** The file as alternating blocks; hunks that do not fit the contents are left out. */
function blocks(oldTotal: number, newTotal: number, hunks: readonly Hunk[]): Block[] {
  const made: Block[] = [];
  let [old, now] = [1, 1];
  const upTo = (nextOld: number, nextNew: number): void => {
    if (nextOld > old || nextNew > now) {
      made.push({ same: true, old, oldCount: nextOld - old, new: now, newCount: nextNew - now });
    }
  };
  for (const [oldStart, oldCount, newStart, newCount] of hunks) {
    // git names the line before when a side of the hunk is empty.
    const [nextOld, nextNew] = [oldStart + +(oldCount === 0), newStart + +(newCount === 0)];
    const fits = nextOld - old === nextNew - now && nextOld >= old;
    if (!fits || nextOld + oldCount - 1 > oldTotal || nextNew + newCount - 1 > newTotal) continue;
    upTo(nextOld, nextNew);
    made.push({ same: false, old: nextOld, oldCount, new: nextNew, newCount });
    [old, now] = [nextOld + oldCount, nextNew + newCount];
  }
  upTo(oldTotal + 1, newTotal + 1);
  return made;
}

/** The rows of a diff; `shown` are lines outside of the hunks that must not be folded. */
export function diffRows(
  oldTotal: number,
  newTotal: number,
  hunks: readonly Hunk[],
  shown: readonly Range[],
  split: boolean,
): Row[] {
  return blocks(oldTotal, newTotal, hunks).flatMap((block, index, all) => {
    if (block.same) return sameRows(block, index > 0, index < all.length - 1, shown);
    return split ? splitRows(block) : unifiedRows(block);
  });
}

/** The row before and after at which a line of either side is shown; -1 if it is folded away or is none. */
export function rowOf(rows: readonly Row[], line: number, before: boolean): number {
  return rows.findIndex((row) => {
    const first = before ? row.old : row.new;
    if (row.kind === "fold") return first <= line && line < first + row.count;
    return first === line && row.kind !== (before ? "add" : "del");
  });
}

function sameRows(block: Block, changedBefore: boolean, changedAfter: boolean, shown: readonly Range[]): Row[] {
  const count = Math.min(block.oldCount, block.newCount);
  const wanted: [number, number][] = shown.map(([first, last]) => [first - block.new, last - block.new]);
  if (changedBefore) wanted.push([0, CONTEXT - 1]);
  if (changedAfter) wanted.push([count - CONTEXT, count - 1]);
  wanted.sort((one, other) => one[0] - other[0]);
  const rows: Row[] = [];
  let next = 0;
  const fold = (end: number): void => {
    if (end - next < SMALLEST_FOLD) return;
    rows.push({ kind: "fold", old: block.old + next, new: block.new + next, count: end - next });
    next = end;
  };
  const show = (end: number): void => {
    for (; next < end; next++) rows.push({ kind: "same", old: block.old + next, new: block.new + next, count: 0 });
  };
  for (const [first, last] of wanted) {
    if (last < next || first >= count) continue;
    fold(first);
    show(Math.min(last + 1, count));
  }
  fold(count);
  show(count);
  return rows;
}

/** Removed lines, then added ones; each knows its partner of the other side by number. */
function unifiedRows(block: Block): Row[] {
  const pairs = splitRows(block);
  return [
    ...pairs.filter((row) => row.old).map((row): Row => ({ ...row, kind: "del" })),
    ...pairs.filter((row) => row.new).map((row): Row => ({ ...row, kind: "add" })),
  ];
}

/** Lines of both sides beside each other. */
function splitRows(block: Block): Row[] {
  return Array.from({ length: Math.max(block.oldCount, block.newCount) }, (_, index) => ({
    kind: "change",
    old: index < block.oldCount ? block.old + index : 0,
    new: index < block.newCount ? block.new + index : 0,
    count: 0,
  }));
}

/** What two partner lines have not in common: [first, length from the end]; null if that says nothing. */
export function emphasis(line: string, partner: string): [start: number, end: number] | null {
  const most = Math.min(line.length, partner.length);
  if (most === 0 || Math.max(line.length, partner.length) > 500) return null;
  let start = 0;
  while (start < most && line[start] === partner[start]) start++;
  let tail = 0;
  while (tail < most - start && line.at(-1 - tail) === partner.at(-1 - tail)) tail++;
  // Blanks alone say nothing.
  const shared = (line.slice(0, start) + line.slice(line.length - tail)).trim().length;
  return shared * 3 < most || start + tail === line.length ? null : [start, line.length - tail];
}
