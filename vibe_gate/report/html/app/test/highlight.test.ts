import assert from "node:assert/strict";
import { test } from "node:test";
import { cutTokens, highlight, tokens } from "../src/highlight";

test("markup becomes lines of tokens, and what is not highlight.js's stays text", () => {
  const markup = '<span class="hljs-string">&quot;a\n<span class="hljs-subst">{b}</span>&quot;</span> &lt;b&gt; <img src=x> &bogus;';
  assert.deepEqual(tokens(markup), [
    [["string", '"a']],
    [["string", ""], ["subst", "{b}"], ["string", '"'], ["", " <b> <img src=x> &bogus;"]].filter(([, text]) => text),
  ]);
});

test("the tokens of a file hold exactly its text", () => {
  const text = 'def f(x: str) -> None:\n    """<script>&amp;</script>\n    \u202e"""\n    return f"{x}" # \'&\'\n';
  for (const path of ["a.py", "Makefile", "x/y.html", "z.ts", "q.json", "a.md", "Dockerfile"]) {
    assert.equal(highlight(text, path)?.map((line) => line.map(([, part]) => part).join("")).join("\n"), text, path);
  }
  assert.ok(highlight(text, "a.py")?.[0]?.some(([kind, part]) => kind === "keyword" && part === "def"));
});

test("files that are unknown, large or have long lines have no colours", () => {
  assert.deepEqual(["a.unknown", "README", "constructor"].map((path) => highlight("x", path)), [null, null, null]);
  assert.equal(highlight("x = 1\n".repeat(100_000), "a.py"), null);
  assert.equal(highlight("x".repeat(6_000), "a.py"), null);
});

test("a line is cut between tokens and inside of them", () => {
  const line = [["a", "one"], ["b", "two"], ["c", "three"]] as const;
  assert.deepEqual(cutTokens(line, 2, 7), [["a", "e"], ["b", "two"], ["c", "t"]]);
  assert.deepEqual(cutTokens(line, 3, 3), []);
});
