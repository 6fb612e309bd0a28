// Colours for code. highlight.js answers with markup; it is taken apart into tokens and never inserted.

import core from "highlight.js/lib/common";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import scala from "highlight.js/lib/languages/scala";

core.registerLanguage("dockerfile", dockerfile);
core.registerLanguage("scala", scala);

/** Larger files, and files with longer lines, stay without colours: the expressions could take seconds. */
const LARGEST = 500_000;
const LONGEST_LINE = 5_000;

export type Token = readonly [kind: string, text: string];

/** The name of a file's language; "" for one without colours. */
function languageOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const end = name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : name;
  return end === "pyi" ? "python" : core.getLanguage(end) ? end : "";
}

/** A file's lines as tokens; null for a file without colours. */
export function highlight(text: string, path: string): Token[][] | null {
  const language = languageOf(path);
  if (!language || text.length > LARGEST || text.split("\n").some((line) => line.length > LONGEST_LINE)) return null;
  return tokens(core.highlight(text, { language, ignoreIllegals: true }).value);
}

const ENTITIES = new Map([["&amp;", "&"], ["&lt;", "<"], ["&gt;", ">"], ["&quot;", '"'], ["&#x27;", "'"]]);
const PART = /<span class="([^"]*)">|(<\/span>)|(&[a-z#0-9]+;)|(\n)|([^<&\n]+|[<&])/g;

/** highlight.js's markup as lines of tokens; anything but its spans and five entities is text. */
export function tokens(markup: string): Token[][] {
  const lines: Token[][] = [[]];
  const open: string[] = [];
  let [kind, text] = ["", ""];
  const end = (next: string): void => {
    if (text) lines.at(-1)?.push([kind, text]);
    [kind, text] = [next, ""];
  };
  for (const [, start, close, entity, newline, plain] of markup.matchAll(PART)) {
    if (start !== undefined) {
      open.push(/^hljs-([a-z]+)/.exec(start)?.[1] ?? open.at(-1) ?? "");
      end(open.at(-1) ?? "");
    } else if (close) {
      open.pop();
      end(open.at(-1) ?? "");
    } else if (newline) {
      end(kind);
      lines.push([]);
    } else text += plain ?? ENTITIES.get(entity ?? "") ?? entity;
  }
  end("");
  return lines;
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
