// Colours for code. highlight.js answers with markup; it is taken apart into tokens and never inserted.

import core from "highlight.js/lib/common";

/** Longer lines stay without colours: an expression of a language may take the square or the cube of their length. So
    does the rest of a file that took so long and more than a millisecond a line; ordinary code takes a tenth of that. */
const LONGEST_LINE = 500;
const MOST_MS = 300;

export type Token = readonly [kind: string, text: string];

/** The name of a file's language; "" for one without colours. */
function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const end = name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : name;
  return end === "pyi" ? "python" : core.getLanguage(end) ? end : "";
}

/** What begins, and what ends, strings and comments of several lines; lines are coloured one by one. */
const QUOTES = [['"""', '"""', "string"], ["'''", "'''", "string"]] as const;
const MARKUP = [["<!--", "-->", "comment"]] as const;
const BLOCKS = [["/*", "*/", "comment"]] as const;
const SPANS = new Map<string, readonly (readonly [string, string, string])[]>([
  ["python", QUOTES], ["xml", MARKUP], ["markdown", MARKUP], ["vue", MARKUP],
  ...["bash", "yaml", "ini", "ruby", "perl", "r", "makefile", "diff", "json", "lua"].map((name) => [name, []] as const),
]);

/** The colours of a file's lines, each made when it is asked for. */
export class Colours {
  readonly #language: string;
  readonly #lines: readonly string[];
  readonly #made = new Map<number, Token[]>();
  #inside: ([string, number] | undefined)[] | null = null;
  #spent = 0;

  constructor(lines: readonly string[], path: string) {
    this.#lines = lines;
    this.#language = languageOf(path);
  }

  /** A line (from 0) as tokens, which together are its text. */
  line(index: number): readonly Token[] {
    const text = this.#lines[index] ?? "";
    const known = this.#made.get(index);
    if (known) return known;
    const isSlow = this.#spent > Math.max(MOST_MS, this.#made.size);
    if (!this.#language || text.length > LONGEST_LINE || isSlow) return [["", text]];
    const start = performance.now();
    this.#inside ??= insides(this.#lines, SPANS.get(core.getLanguage(this.#language)?.name?.toLowerCase() ?? "") ?? BLOCKS);
    const [kind, end] = this.#inside[index] ?? ["", 0];
    const rest = text.slice(end);
    const own = rest ? tokens(core.highlight(rest, { language: this.#language, ignoreIllegals: true }).value) : [];
    const made: Token[] = end ? [[kind, text.slice(0, end)], ...own] : own;
    this.#spent += performance.now() - start;
    this.#made.set(index, made);
    return made;
  }
}

/** Of each line that begins inside of a string or comment: its kind, and where it ends in this line. */
function insides(lines: readonly string[], spans: readonly (readonly [string, string, string])[]): ([string, number] | undefined)[] {
  const made: ([string, number] | undefined)[] = [];
  let open: readonly [string, string, string] | undefined;
  lines.forEach((line, index) => {
    if (line.length > LONGEST_LINE) return;
    let at = 0;
    if (open) {
      const end = line.indexOf(open[1]);
      at = end < 0 ? line.length : end + open[1].length;
      made[index] = [open[2], at];
      if (end < 0) return;
      open = undefined;
    }
    while (at < line.length) {
      const next = spans.map((span) => [line.indexOf(span[0], at), span] as const).filter(([found]) => found >= 0)
        .sort((one, other) => one[0] - other[0])[0];
      if (!next) return;
      const [from, span] = next;
      const end = line.indexOf(span[1], from + span[0].length);
      if (end < 0) {
        open = span;
        return;
      }
      at = end + span[1].length;
    }
  });
  return made;
}

const ENTITIES = new Map([["&amp;", "&"], ["&lt;", "<"], ["&gt;", ">"], ["&quot;", '"'], ["&#x27;", "'"]]);
const PART = /<span class="([^"]*)">|(<\/span>)|(&[a-z#0-9]+;)|([^<&]+|[<&])/g;

/** highlight.js's markup of a line as tokens; anything but its spans and five entities is text. */
export function tokens(markup: string): Token[] {
  const made: Token[] = [];
  const open: string[] = [];
  let [kind, text] = ["", ""];
  const end = (next: string): void => {
    if (text) made.push([kind, text]);
    [kind, text] = [next, ""];
  };
  for (const [, start, close, entity, plain] of markup.matchAll(PART)) {
    if (start !== undefined) {
      open.push(/^hljs-([a-z]+)/.exec(start)?.[1] ?? open.at(-1) ?? "");
      end(open.at(-1) ?? "");
    } else if (close) {
      open.pop();
      end(open.at(-1) ?? "");
    } else text += plain ?? ENTITIES.get(entity ?? "") ?? entity;
  }
  end("");
  return made;
}

/** The part of a line's tokens between two positions. */
export function cutTokens(line: readonly Token[], from: number, to: number): Token[] {
  const made: Token[] = [];
  let at = 0;
  for (const [kind, text] of line) {
    const part = text.slice(Math.max(0, from - at), Math.max(0, to - at));
    if (part) made.push([kind, part]);
    at += text.length;
  }
  return made;
}
