import assert from "node:assert/strict";
import { test } from "node:test";
import { type Hit, search, type Searchable, strings } from "../src/search";
import { visible } from "../src/visible";

const place = { kind: "element", id: "x" } as const;

async function* items(count: number, text: string): AsyncGenerator<Searchable> {
  for (let index = 0; index < count; index++) yield { group: index % 2 ? "odd" : "even", name: `n${index}`, text, place };
}

test("hits come by group, whatever the case, and end at a number of each", async () => {
  let [hits, done]: [readonly Hit[], boolean] = [[], false];
  await search(items(200, `${"long ".repeat(30)}NEEDLE in it`), "needle", () => false, (made, end) => ([hits, done] = [made, end]));
  assert.equal(hits.length, 80);
  assert.ok(done && hits.every((hit) => hit.excerpt.startsWith("…") && hit.excerpt.includes("NEEDLE")));
});

test("a search that nobody waits for any more ends", async () => {
  let seen = 0;
  async function* endless(): AsyncGenerator<Searchable> {
    for (;;) yield* items(1_000, `${seen++}`);
  }
  let isDone = false;
  await search(endless(), "needle", () => seen > 0, (_, done) => (isDone ||= done));
  assert.equal(isDone, false);
});

test("all strings of an event are searched", () => {
  assert.equal(strings(JSON.parse('{"a": ["b", {"__proto__": "c"}], "n": 1, "z": null}')), "b\nc\n1\n");
});

test("what fonts do not draw is written out", () => {
  const told = ["a\u202eb", "\u200b", "\u00a0", "\u0000", "é 漢 😀\t\n", "\ud800", "\ufe0f", "⟦", "−…·"].map(visible);
  assert.deepEqual(told, ["a⟦U+202E⟧b", "⟦U+200B⟧", "⟦U+00A0⟧", "⟦U+0000⟧", "é 漢 😀\t\n", "⟦U+D800⟧", "⟦U+FE0F⟧", "⟦U+27E6⟧", "−…·"]);
});
