import assert from "node:assert/strict";
import { test } from "node:test";
import { diffRows, emphasis, type Row, rowOf, splitLines } from "../src/rows";
import type { Hunk } from "../src/data";

/** "=1:1" a line of both sides, "-2:3" a removed line with its partner, "~5:5*9" a fold of nine lines. */
function drawn(rows: Row[]): string {
  const signs = { same: "=", del: "-", add: "+", change: "!", fold: "~" };
  return rows.map((row) => `${signs[row.kind]}${row.old}:${row.new}${row.count ? `*${row.count}` : ""}`).join(" ");
}

const CASES: [name: string, old: number, now: number, hunks: Hunk[], unified: string, split: string][] = [
  ["an added file", 0, 2, [[0, 0, 1, 2]], "+0:1 +0:2", "!0:1 !0:2"],
  ["a removed file", 2, 0, [[1, 2, 0, 0]], "-1:0 -2:0", "!1:0 !2:0"],
  ["an empty file", 0, 0, [], "", ""],
  ["a replaced line", 3, 3, [[2, 1, 2, 1]], "=1:1 -2:2 +2:2 =3:3", "=1:1 !2:2 =3:3"],
  ["two lines for one", 1, 2, [[1, 1, 1, 2]], "-1:1 +1:1 +0:2", "!1:1 !0:2"],
  ["an insertion, by the line before", 4, 5, [[2, 0, 3, 1]], "=1:1 =2:2 +0:3 =3:4 =4:5", "=1:1 =2:2 !0:3 =3:4 =4:5"],
  ["folds around a change", 20, 20, [[10, 1, 10, 1]], "~1:1*6 =7:7 =8:8 =9:9 -10:10 +10:10 =11:11 =12:12 =13:13 ~14:14*7",
    "~1:1*6 =7:7 =8:8 =9:9 !10:10 =11:11 =12:12 =13:13 ~14:14*7"],
  ["an untouched file", 9, 9, [], "~1:1*9", "~1:1*9"],
  ["hunks that overlap or lie outside", 3, 3, [[2, 1, 2, 1], [1, 2, 1, 2], [9, 1, 9, 1], [-5, 2, 1, 1]], "=1:1 -2:2 +2:2 =3:3", "=1:1 !2:2 =3:3"],
];

test("rows follow the hunks, unified and side by side", () => {
  for (const [name, old, now, hunks, unified, split] of CASES) {
    assert.equal(drawn(diffRows(old, now, hunks, [], false)), unified, name);
    assert.equal(drawn(diffRows(old, now, hunks, [], true)), split, name);
  }
});

test("lines that must be seen are not folded, and are found in either numbering", () => {
  const rows = diffRows(30, 31, [[2, 0, 3, 1]], [[18, 20]], false);
  assert.equal(drawn(rows), "=1:1 =2:2 +0:3 =3:4 =4:5 =5:6 ~6:7*11 =17:18 =18:19 =19:20 ~20:21*11");
  assert.deepEqual([rowOf(rows, 19, false), rowOf(rows, 18, true), rowOf(rows, 3, false), rowOf(rows, 99, false)], [8, 8, 2, -1]);
});

test("lines are split as git does", () => {
  assert.deepEqual(["", "a", "a\n", "a\n\n", "a\rb\n"].map(splitLines), [[], ["a"], ["a"], ["a", ""], ["a\rb"]]);
});

test("what differs between two lines is marked if enough of them is the same", () => {
  assert.deepEqual(emphasis("return total", "return total + tax"), null);
  assert.deepEqual(emphasis("return total + tax", "return total"), [12, 18]);
  assert.deepEqual(emphasis("send(bank, 3)", "send(post, 3)"), [5, 9]);
  assert.deepEqual([emphasis("aaa", "bbb"), emphasis("        try:", "        return x")], [null, null]);
  assert.deepEqual(emphasis("x".repeat(600), "x".repeat(601)), null);
});

test("a file of any length has its rows", () => {
  assert.equal(diffRows(0, 300_000, [[0, 0, 1, 300_000]], [], false).length, 300_000);
});
