import assert from "node:assert/strict";
import { test } from "node:test";

import { added, byOf, inSeconds, type Names, NEWEST, newestDay, parseSelection, pathsOf, type Run } from "../src/selection";
import { selected, selectionHash } from "../src/selection";

const names: Names = {
  agents: ["Codex"], models: ["m", "other"], criteria: ["q/types"], words: ["right", "wrong"],
  tests: ["a.py::t[1]"], results: ["passed", "failed"],
  workflows: ["review", "fix"], people: ["Ada", "Bo"], paths: ["src/pay/a.py", "src/pay.py", "lib/src/pay/a.py"],
};
const run = (day: string, outcome: string, usd: number, more: number[][] = [], [workflow, person, at] = [0, 0, 0]): Run =>
  [`202610${day}T120000000Z-00000000`, outcome, "agent", "a title", "k", 1, 1, 2, 3, 0, usd, +day, [0], [[0, usd]],
    more as never, 0, 1, workflow, person, [at]];
const runs = [run("07", "fail", 0.5, [[0, 1]]), run("06", "pass", 2, [], [1, 1, 1]), run("05", "pass", 1, [], [0, -1, 2])];
const days = (hash: string): string[] => selected(runs, names, parseSelection(hash) ?? NEWEST).map(([id]) => id.slice(6, 8));

test("an address filters and sorts, and one that is none is a place", () => {
  assert.deepEqual(days(""), ["07", "06", "05"]);
  assert.deepEqual(days("#from=2026-10-06&to=2026-10-06"), ["06"]);
  assert.deepEqual(days("#criterion=q%2Ftypes&said=wrong"), ["07"]);
  assert.deepEqual(days("#criterion=q%2Ftypes&said=right"), []);
  assert.deepEqual(days("#outcome=pass&sort=usd"), ["05", "06"]);
  assert.deepEqual(days("#q=TITLE+codex&agent=nobody"), []);
  assert.deepEqual(days("#person=Bo"), ["06"]);
  assert.deepEqual(days("#workflow=review&path=src/pay"), ["07"]);
  assert.deepEqual(days("#q=bo%20fail"), []);
  assert.deepEqual(days("#q=ada%20fail%20src/pay/"), ["07"]);
  assert.equal(parseSelection("#commits"), null);
  assert.deepEqual(parseSelection("#from=%E0&to=2026-02-30&outcome=x")?.only, { outcome: "x" });
});

test("a selection comes back from its address, whatever stands in it", () => {
  for (const only of [{ q: "a&b=c%" }, { model: "m", from: "2026-10-05" }, {}]) {
    const selection = { only, sort: "usd", descending: true } as const;
    assert.deepEqual(parseSelection(selectionHash(selection)), selection);
  }
});

test("the newest day is that of a review here", () => {
  assert.equal(newestDay([run("31", "foreign", 0), ...runs]), "2026-10-07");
  assert.equal(newestDay([run("39", "pass", 0)]), "");
});

test("what is listed is added up, the greatest first", () => {
  const total = added(runs, names);
  assert.deepEqual([total.runs, total.usd, total.outcomes], [3, 3.5, [["pass", 2], ["fail", 1]]]);
  assert.deepEqual(total.models, [["m", 3.5]]);
  const medians = [runs, runs.slice(1), runs.slice(1, 2)].map((some) => added(some, names));
  assert.deepEqual(medians.map((one) => [one.asked, one.areReviews, one.medianMs]), [
    [2, true, 6], [1, true, 5], [1, false, 6],
  ]);
  assert.deepEqual([2_250, 2_249, 0].map(inSeconds), ["2.3", "2.2", "0.0"]);
});

test("a path is a file, what is below a folder, or else a text", () => {
  const found = (text: string): number[] => [...pathsOf(names.paths, text)];
  assert.deepEqual(found("src/pay/a.py"), [0]);
  for (const folder of ["src/pay", "src/pay/", "src/pay/**"]) assert.deepEqual(found(folder), [0]);
  assert.deepEqual(found("pay/a"), [0, 2]);
  assert.deepEqual(found("nothing"), []);
});

test("a list names the commit's author, and agents or what the run says", () => {
  assert.deepEqual(runs.map((one) => byOf(one, names)), ["Ada (Codex)", "Bo (Codex)", "agent (Codex)"]);
  const unnamed = [...runs[0]!.slice(0, 12), [], ...runs[0]!.slice(13)] as unknown as Run;
  assert.equal(byOf(unnamed, names), "Ada (agent)");

});

test("runs of a test are found by it, by how it ended, and by the model under test, and counted by how it ended", () => {
  const own = run("04", "done", 0);
  const all = [...runs, [...own.slice(0, 20), [0, 1, 1, 2]] as unknown as Run];
  for (const hash of ["#test=a.py%3A%3At%5B1%5D", "#result=failed", "#model=other", "#q=t%5B1"]) {
    assert.deepEqual(selected(all, names, parseSelection(hash) ?? NEWEST).map(([id]) => id.slice(6, 8)), ["04"], hash);
  }
  assert.deepEqual(added(all, names).outcomes, [["pass", 2], ["fail", 1], ["failed", 1]]);
});
