// What the page knows, as `report/html/__init__.py` writes it. Its strings come from others: show them through `h` only.

export type Hunk = readonly [oldStart: number, oldLines: number, newStart: number, newLines: number];

/** Milliseconds since 1970; `role` is the node of an event of the run. */
export type Head = readonly [
  source: "run" | "sdk" | "hook",
  seq: number,
  ts: number,
  type: string,
  tool: string,
  use: string,
  role: string,
  text: string,
];

export interface FileEntry {
  path: string;
  old_path: string | null;
  type: string;
  added: number;
  deleted: number;
  /** Ids of the contents. */
  before: string | null;
  after: string | null;
  /** Why there are no contents. */
  why: string;
  hunks: Hunk[];
}

export interface Call {
  name: string;
  state: string;
  start: number;
  end: number | null;
  use: string;
  agent: string;
  pre: number | null;
  post: number | null;
}

export interface Turn {
  /** Also of the content with the whole events: JSON of [source, seq, event] each. */
  id: string;
  node: string;
  kind: string;
  agent: string;
  model: string;
  status: string;
  started: number;
  ended: number | null;
  usd: number | null;
  input_tokens: number;
  output_tokens: number;
  heads: Head[];
  calls: Call[];
  todos: { text: string; status: string }[];
  files: FileEntry[];
  /** From and to, while the model's API could not be asked. */
  waits: [number, number][];
}

/** A finding at one of its places; it stands there once for each of them, with the same `id`. */
export interface Finding {
  id: string;
  path: string;
  line: number;
  side: "after" | "before";
  level: string;
  criterion: string;
  message: string;
}

/** A turn of a captured session that wrote changed lines; `id` is that of its element. */
export interface Writer {
  id: string;
  name: string;
  session: string;
  /** The tool whose record says so; "" for a captured session. */
  source: string;
  asked: string;
  /** Whether the page has its prompt. */
  prompt: boolean;
}

/** Lines after the change that one tool call wrote; `writer` is an index of the writers. */
export type Written = readonly [path: string, first: number, last: number, writer: number, tool: string, use: string];

export interface Data {
  files: FileEntry[];
  turns: Turn[];
  findings: Finding[];
  unreviewed: { path: string; line: number; end_line: number; reason: string; rubrics: string[] }[];
  events: Head[];
  writers: Writer[];
  written: Written[];
}

/** A whole event: what the logs of a bundle hold, without promises about its shape. */
export type Whole = { readonly [name: string]: unknown };

/** A string of a whole event; "" if it has none of that name. */
export function textOf(whole: unknown, name: string): string {
  const value = fieldOf(whole, name);
  return typeof value === "string" ? value : "";
}

/** A field of its own, so that `__proto__` and `constructor` are names like any other. */
export function fieldOf(whole: unknown, name: string): unknown {
  return typeof whole === "object" && whole !== null && Object.hasOwn(whole, name) ? (whole as Whole)[name] : undefined;
}

/** How links name an event: "sdk-8". */
export function eventName(head: Head): string {
  return `${head[0]}-${head[1]}`;
}

/** What people call a turn: "judge-quality/turn-001". */
export function turnName(turn: Turn): string {
  return turn.id.replace(/^nodes\//, "");
}
