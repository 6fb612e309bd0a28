import assert from "node:assert/strict";
import { test } from "node:test";
import { parsePlace, type Place, placeHash } from "../src/hash";

const CASES: [hash: string, place: Place][] = [
  ["#verdict", { kind: "element", id: "verdict" }],
  ["#c=quality/no-secrets", { kind: "criterion", name: "quality/no-secrets", vote: 0 }],
  ["#c=quality/no-secrets/2", { kind: "criterion", name: "quality/no-secrets", vote: 2 }],
  ["#e=nodes/judge-q/turn-001", { kind: "event", turn: "nodes/judge-q/turn-001", event: "" }],
  ["#e=nodes/judge-q/turn-001/sdk-8", { kind: "event", turn: "nodes/judge-q/turn-001", event: "sdk-8" }],
  ["#e=run-3", { kind: "event", turn: "", event: "run-3" }],
  ["#f=src/a%20b.py:12", { kind: "file", turn: "", path: "src/a b.py", line: 12, before: false }],
  ["#f=a%3A7:-3", { kind: "file", turn: "", path: "a:7", line: 3, before: true }],
  ["#f=a%26f%3Db%23%25", { kind: "file", turn: "", path: "a&f=b#%", line: 0, before: false }],
  ["#e=nodes/fix/turn-001&f=a.py:1", { kind: "file", turn: "nodes/fix/turn-001", path: "a.py", line: 1, before: false }],
];

test("places are addresses, and back", () => {
  for (const [hash, place] of CASES) {
    assert.deepEqual(parsePlace(hash), place, hash);
    assert.equal(placeHash(place), hash);
  }
});

test("an address that no browser would write is a place all the same", () => {
  assert.deepEqual(parsePlace("#f=%ED%A0%80:1"), { kind: "file", turn: "", path: "%ED%A0%80", line: 1, before: false });
  assert.equal(placeHash({ kind: "element", id: "\ud800" }), "#%EF%BF%BD");
  assert.equal(parsePlace("").kind, "element");
  assert.equal(parsePlace("#c=").kind, "criterion");
});
