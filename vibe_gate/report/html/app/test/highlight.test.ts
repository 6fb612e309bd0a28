import assert from "node:assert/strict";
import { test } from "node:test";
import { Colours, cutTokens, tokens } from "../src/highlight";

test("markup becomes tokens, and what is not highlight.js's stays text", () => {
  const markup = '<span class="hljs-string">&quot;a<span class="hljs-subst">{b}</span>&quot;</span> &lt;b&gt; <img src=x> &bogus;';
  assert.deepEqual(tokens(markup), [["string", '"a'], ["subst", "{b}"], ["string", '"'], ["", " <b> <img src=x> &bogus;"]]);
});

const coloured = (text: string, path: string) => {
  const lines = text.split("\n");
  const colours = new Colours(lines, path);
  return lines.map((_, index) => colours.line(index));
};

test("the tokens of a file hold exactly its text", () => {
  const text = 'def f(x: str) -> None:\n    """<script>&amp;</script>\n    \u202e"""\n    return f"{x}" # \'&\'\n';
  for (const path of ["a.py", "Makefile", "x/y.html", "z.ts", "q.json", "a.md", "Dockerfile", "README", "a.unknown"]) {
    assert.equal(coloured(text, path).map((line) => line.map(([, part]) => part).join("")).join("\n"), text, path);
  }
  assert.ok(coloured(text, "a.py")[0]?.some(([kind, part]) => kind === "keyword" && part === "def"));
});

test("a line inside of a string or comment of several lines has its colour", () => {
  assert.deepEqual(coloured('"""One.\nfor two\n""" + x', "a.py")[1], [["string", "for two"]]);
  assert.deepEqual(coloured("a /* b\nreturn c\nd */ return", "a.ts").slice(1).map((line) => line[0]), [["comment", "return c"], ["comment", "d */"]]);
  assert.ok(coloured("x: a/*\ny: 2", "a.yml")[1]?.every(([kind]) => kind !== "comment"));
});

test("lines that would take seconds have no colours, and those that do stop at a limit", () => {
  assert.deepEqual(coloured("x".repeat(600), "a.py"), [[["", "x".repeat(600)]]]);
  const hostile = `${"function ".repeat(55)}\n`.repeat(2_000);
  assert.deepEqual(coloured(hostile, "a.cs").at(-2), [["", "function ".repeat(55)]]);
});

test("a line is cut between tokens and inside of them", () => {
  const line = [["a", "one"], ["b", "two"], ["c", "three"]] as const;
  assert.deepEqual(cutTokens(line, 2, 7), [["a", "e"], ["b", "two"], ["c", "t"]]);
  assert.deepEqual(cutTokens(line, 3, 3), []);
});
