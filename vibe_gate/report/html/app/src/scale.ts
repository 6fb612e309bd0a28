// Arithmetic of the time axis; all times in milliseconds.

import type { Call } from "./data";

export interface Span {
  readonly from: number;
  readonly to: number;
}

const SHORTEST = 5;

/** The span made smaller (`factor` below 1) or larger around a time, inside of `full`. */
export function zoom(span: Span, at: number, factor: number, full: Span): Span {
  const size = Math.min(Math.max((span.to - span.from) * factor, SHORTEST), full.to - full.from);
  const from = at - ((at - span.from) / (span.to - span.from)) * size;
  return within({ from, to: from + size }, full);
}

/** The span moved by a part of its size, inside of `full`. */
export function pan(span: Span, part: number, full: Span): Span {
  const by = (span.to - span.from) * part;
  return within({ from: span.from + by, to: span.to + by }, full);
}

/** The span moved into `full`. */
export function within(span: Span, full: Span): Span {
  const size = Math.min(Math.max(span.to - span.from, SHORTEST), full.to - full.from);
  const from = Math.min(Math.max(span.from, full.from), full.to - size);
  return { from, to: from + size };
}

/** Round times of a span, at most about `most` of them, counted from `zero`. */
export function ticks(span: Span, zero: number, most: number): number[] {
  const least = (span.to - span.from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least) ?? 10 * power;
  const first = Math.ceil((span.from - zero) / step);
  const last = Math.floor((span.to - zero) / step);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => zero + (first + index) * step);
}

/** A duration for people: "38 ms", "1.24 s", "2 min 5 s". */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_995) return `${(ms / 1_000).toFixed(2)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** How long a call took; "" without an end. */
export function timeOf(call: Call): string {
  return call.end === null ? "" : duration(call.end - call.start);
}

/** For each call the first of `most` rows that is free when it starts; the last row takes the rest. */
export function stack(calls: readonly Call[], most: number): number[] {
  const ends: number[] = [];
  return calls.map((call) => {
    let row = ends.findIndex((end) => end <= call.start);
    if (row < 0) row = Math.min(ends.length, most - 1);
    ends[row] = Math.max(ends[row] ?? 0, call.end ?? call.start);
    return row;
  });
}
