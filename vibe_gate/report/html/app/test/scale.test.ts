import assert from "node:assert/strict";
import { test } from "node:test";
import type { Call } from "../src/data";
import { duration, pan, stack, ticks, within, zoom } from "../src/scale";

const FULL = { from: 1_000, to: 11_000 };

test("the span of the axis is zoomed and moved, and never leaves the run", () => {
  assert.deepEqual(zoom(FULL, 6_000, 0.5, FULL), { from: 3_500, to: 8_500 });
  assert.deepEqual(zoom({ from: 3_500, to: 8_500 }, 3_500, 4, FULL), FULL);
  assert.deepEqual(pan({ from: 3_000, to: 5_000 }, 0.5, FULL), { from: 4_000, to: 6_000 });
  assert.deepEqual(pan({ from: 3_000, to: 5_000 }, -9, FULL), { from: 1_000, to: 3_000 });
  assert.deepEqual(within({ from: 5_000, to: 5_000 }, FULL), { from: 5_000, to: 5_005 });
});

test("ticks are round, counted from the start, and few", () => {
  assert.deepEqual(ticks(FULL, 1_000, 5).map((at) => at - 1_000), [0, 2_000, 4_000, 6_000, 8_000, 10_000]);
  assert.deepEqual(ticks({ from: 1_130, to: 1_350 }, 1_000, 4).map((at) => at - 1_000), [200, 300]);
});

test("durations are for people", () => {
  assert.deepEqual([0, 38.4, 1_240, 125_000].map(duration), ["0 ms", "38 ms", "1.24 s", "2 min 5 s"]);
  assert.deepEqual([999.6, 59_996, 119_600].map(duration), ["1.00 s", "1 min 0 s", "2 min 0 s"]);
});

test("calls at the same time stand below each other", () => {
  const call = (start: number, end: number | null): Call =>
    ({ name: "Read", state: "completed", start, end, use: "", agent: "", pre: null, post: null });
  assert.deepEqual(stack([call(0, 10), call(5, 8), call(6, 7), call(10, 12), call(11, null)], 2), [0, 1, 1, 0, 1]);
});
