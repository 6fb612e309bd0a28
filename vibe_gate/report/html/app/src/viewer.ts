// One file's change as rows: unified or side by side, folded, coloured, with findings below their lines.

import { blobText } from "./blobs";
import type { Data, FileEntry, Finding, Writer, Written } from "./data";
import { fill, h } from "./dom";
import { placeHash } from "./hash";
import { Colours, cutTokens } from "./highlight";
import { List } from "./list";
import { diffRows, emphasis, type Range, type Row, rowOf, splitLines } from "./rows";
import { counted, visible } from "./visible";

/** What belongs to the lines of a file of the reviewed change. */
export interface Remarks {
  findings: readonly Finding[];
  /** Where each finding stands in full, by its id. */
  firsts: ReadonlyMap<string, Finding>;
  unreviewed: Data["unreviewed"];
  written: readonly Written[];
  writers: Data["writers"];
}

type Item = Row | Finding | Written;

/** One side of a file. */
interface Side {
  lines: string[];
  colours: Colours;
  endsOpen: boolean;
  hasCrlf: boolean;
}

const LINE = 20;
const LONGEST = 2_000;

export class Viewer {
  readonly #title = h("h3", { class: "path" });
  readonly #layout = h("button", { type: "button", onclick: () => this.toggleLayout() });
  readonly #note = h("p", { class: "none" });
  readonly #list: List;
  #file: FileEntry | null = null;
  #turn = "";
  #remarks: Remarks = { findings: [], firsts: new Map(), unreviewed: [], written: [], writers: [] };
  #before = side("", "");
  #after = side("", "");
  #shown: Range[] = [];
  #items: Item[] = [];
  #target = { line: 0, before: false };
  #split = innerWidth > 1500;

  constructor(host: HTMLElement) {
    const rows = h("div", { class: "code", role: "region", "aria-label": "Lines of the file", tabindex: 0 });
    host.append(h("header", {}, this.#title, this.#layout), this.#note, rows);
    this.#list = new List(rows, (index) => this.#render(index));
    this.#layOut();
  }

  /** Lays the lines out the other way: unified, or side by side. */
  toggleLayout(): void {
    this.#split = !this.#split;
    this.#layOut();
  }

  /** Shows a file, at a line if one is named. */
  async show(file: FileEntry, turn: string, remarks: Remarks, line: number, before: boolean): Promise<void> {
    const other = this.#file !== file;
    this.#file = file;
    this.#turn = turn;
    this.#remarks = remarks;
    this.#target = { line, before };
    if (other) {
      fill(this.#title, file.old_path ? `${file.old_path} → ${file.path}` : file.path, " ",
        h("span", { class: "plus" }, `+${file.added}`), " ", h("span", { class: "minus" }, `−${file.deleted}`), " ",
        h("small", {}, file.type.replaceAll("_", " ")));
      this.#shown = [];
      this.#items = [];
      this.#list.reset(0, () => 0);
      const [before, after] = await Promise.all([file.before, file.after].map((id) => (id ? blobText(id) : "")));
      if (this.#file !== file) return; // another was opened meanwhile
      this.#before = side(before ?? "", file.old_path ?? file.path);
      this.#after = side(after ?? "", file.path);
    }
    this.#layOut();
  }

  #layOut(): void {
    fill(this.#layout, this.#split ? "Unified" : "Side by side");
    const file = this.#file;
    if (!file) return;
    const { line, before } = this.#target;
    const around = [...this.#remarks.findings.filter((each) => each.side === "after").map((each) => each.line)];
    if (line && !before) around.push(line);
    const shown = [...this.#shown, ...around.map((at): Range => [at - 3, at + 3])];
    const rows = diffRows(this.#before.lines.length, this.#after.lines.length, file.hunks, shown, this.#split);
    const whole = this.#remarks.findings.filter((each) => !each.line);
    const at = new Map<Row | undefined, Finding[]>();
    for (const finding of this.#remarks.findings.filter((each) => each.line)) {
      const row = rows[rowOf(rows, finding.line, finding.side === "before")];
      if (row) at.set(row, [...(at.get(row) ?? []), finding]);
      else whole.push(finding);
    }
    const written = before ? undefined : this.#written(line);
    const author = written && rows[rowOf(rows, line, false)];
    this.#items = [...whole, ...rows.flatMap((row) =>
      [row, ...(at.get(row) ?? []), ...(written && row === author ? [written] : [])])];
    const unseen = this.#remarks.unreviewed.find((each) => !each.line);
    this.#say(
      line && rows.length && rowOf(rows, line, before) < 0 && `There is no line ${line}${before ? " before the change" : ""}.`,
      file.why || !rows.length && "No lines changed.",
      this.#before.hasCrlf !== this.#after.hasCrlf && file.before && file.after && "Line endings changed.",
      this.#remarks.written.length && "An agent wrote the lines with ◆ or a bar after their number; the number shows which.",
      unseen ? notJudged(unseen) : this.#remarks.unreviewed.length && "Lines with a bar beside their number were not judged.",
    );
    const columns = this.#columns();
    this.#list.reset(this.#items.length, (index) => this.#height(this.#items[index]!, columns));
    this.#reveal(line, before);
  }

  /** Says that there is no such file. */
  lack(path: string): void {
    this.#file = null;
    fill(this.#title, path);
    this.#say("This file is not part of the change.");
    this.#list.reset(this.#items.length = 0, () => 0);
  }

  #say(...notes: (string | false | 0 | null)[]): void {
    fill(this.#note, notes.filter(Boolean).join(" "));
    this.#note.hidden = !notes.some(Boolean);
  }

  #reveal(line: number, before: boolean): void {
    const first = this.#remarks.findings.find((each) => each.line);
    const [wanted, side] = line ? [line, before] : [first?.line ?? 0, first?.side === "before"];
    const index = this.#items.findIndex((item) => !isWritten(item) && "kind" in item && rowOf([item], wanted, side) === 0);
    if (wanted && index >= 0) this.#list.reveal(index);
  }

  /** Characters that a line of the pane takes. */
  #columns(): number {
    const probe = h("code", { class: "probe" }, "0".repeat(100));
    this.#list.host.append(probe);
    const width = probe.getBoundingClientRect().width / 100;
    probe.remove();
    const pane = this.#list.host.clientWidth / (this.#split ? 2 : 1) - (this.#split ? 80 : 140);
    return Math.max(20, Math.floor(pane / (width || 8)));
  }

  /** An estimate; rows are measured once they are drawn. */
  #height(item: Item, columns: number): number {
    if (isWritten(item) || !("kind" in item)) return 60;
    if (item.kind === "fold") return LINE + 8;
    const length = (lines: string[], line: number): number => Math.min(lines[line - 1]?.length ?? 0, LONGEST);
    const [old, now] = [length(this.#before.lines, item.old), length(this.#after.lines, item.new)];
    const longest = this.#split ? Math.max(old, now) : item.kind === "del" ? old : now;
    return LINE * Math.max(1, Math.ceil(longest / columns));
  }

  #render(index: number): HTMLElement {
    const item = this.#items[index]!;
    if (isWritten(item)) return this.#author(item);
    if (!("kind" in item)) return this.#finding(item);
    if (item.kind === "fold") return this.#fold(item);
    const { old, new: now, kind } = item;
    const isTarget = this.#target.line > 0 && rowOf([item], this.#target.line, this.#target.before) === 0;
    const name = `line ${kind}${isTarget ? " target" : ""}`;
    if (this.#split) {
      const changed = kind === "change";
      return h("div", { class: name }, ...this.#half(old, true, changed, changed ? now : 0, changed ? "del" : ""),
        ...this.#half(now, false, changed, changed ? old : 0, changed ? "add" : ""));
    }
    const sign = kind === "del" ? "−" : kind === "add" ? "+" : "";
    const code = kind === "del" ? this.#code(old, true, now) : this.#code(now, false, kind === "add" ? old : 0);
    return h("div", { class: name }, this.#number(kind === "add" ? 0 : old, true),
      this.#number(kind === "del" ? 0 : now, false), h("span", { class: "sign" }, sign), code);
  }

  #half(line: number, before: boolean, changed: boolean, partner: number, name: string): HTMLElement[] {
    const code = line ? this.#code(line, before, partner) : h("code", {});
    code.className = changed ? (line ? name : "void") : "";
    return [this.#number(line, before), code];
  }

  #number(line: number, before: boolean): HTMLElement {
    if (!line || !this.#file) return h("span", { class: "number" });
    const place = placeHash({ kind: "file", turn: this.#turn, path: this.#file.path, line, before });
    const unseen = !before && this.#remarks.unreviewed.find((each) => each.line <= line && line <= Math.max(each.line, each.end_line));
    const written = before ? undefined : this.#written(line);
    const writer = written && this.#remarks.writers[written[3]];
    const title = [unseen && notJudged(unseen), writer && `${saidBy(writer)}${writer.name}`];
    const name = `number${unseen ? " unseen" : ""}${written ? " written" : ""}`;
    // The first of the lines that one call wrote has the mark, and can be reached with the Tab key.
    const isFirst = written?.[1] === line;
    return h("a", { class: name, href: place, tabindex: isFirst ? 0 : -1, title: title.filter(Boolean).join(". ") || undefined },
      isFirst ? h("span", { class: "mark", "aria-hidden": "true" }, "◆") : null, line);
  }

  #written(line: number): Written | undefined {
    return this.#remarks.written.find(([, first, last]) => first <= line && line <= last);
  }

  /** Who wrote the line that the address names. */
  #author([, , , at, tool]: Written): HTMLElement {
    const writer = this.#remarks.writers[at];
    if (!writer) return h("div");
    const { id, name, session, asked, prompt } = writer;
    return h("div", { class: "pinned writer" },
      h("p", {}, saidBy(writer), h("a", { href: id }, name), session ? ` of session ${session}` : null, tool ? ` · ${tool}` : null),
      asked ? h("p", {}, "Asked: ", prompt ? h("a", { href: `${id}-prompt` }, asked) : asked) : null);
  }

  /** The code of a line; what differs from its partner of the other side is marked. */
  #code(line: number, before: boolean, partner: number): HTMLElement {
    const own = before ? this.#before : this.#after;
    const other = before ? this.#after : this.#before;
    const text = own.lines[line - 1] ?? "";
    const cut = text.length > LONGEST;
    const tokens = own.colours.line(line - 1);
    const marked = partner ? emphasis(text, other.lines[partner - 1] ?? "") : null;
    const spans = (from: number, to: number): HTMLElement[] =>
      cutTokens(tokens, from, to).map(([kind, part]) => h("span", kind ? { class: `t-${kind}` } : {}, part));
    const code = h("code", {}, ...(marked
      ? [...spans(0, marked[0]), h("mark", {}, ...spans(...marked)), ...spans(marked[1], text.length)]
      : spans(0, Math.min(text.length, LONGEST))));
    if (cut) {
      code.append(h("button", { type: "button", class: "more",
        onclick: () => (code.textContent = visible(text)) }, `show all ${counted(text.length)} characters`));
    }
    if (line === own.lines.length && own.endsOpen) code.append(h("small", { class: "none" }, " no newline at the end"));
    return code;
  }

  #fold(row: Row): HTMLElement {
    const open = (): void => {
      const at = this.#list.host.scrollTop;
      this.#shown.push([row.new, row.new + row.count - 1]);
      this.#target.line = 0;
      this.#layOut();
      this.#list.host.scrollTop = at;
    };
    const text = `⋯ ${counted(row.count)} unchanged lines`;
    return h("div", { class: "fold" }, h("button", { type: "button", onclick: open }, text));
  }

  #finding(finding: Finding): HTMLElement {
    const { id, level, criterion, line, message } = finding;
    const first = this.#remarks.firsts.get(id);
    if (first && first !== finding) return furtherPlace(finding, first);
    return h("div", { class: `pinned finding ${level}` },
      h("p", {}, h("span", { class: "level" }, level), " ",
        criterion ? h("a", { href: placeHash({ kind: "criterion", name: criterion, vote: 0 }) }, criterion) : null, " ",
        h("a", { href: id, class: "why" }, "why"), " ", line ? h("small", {}, `line ${line}`) : null),
      h("p", {}, message));
  }
}

/** A finding at another of its places: a line that leads to where it stands in full. */
function furtherPlace({ id, level }: Finding, { path, line, side }: Finding): HTMLElement {
  const before = side === "before";
  return h("div", { class: `pinned finding ${level}` },
    h("p", {}, h("span", { class: "level" }, level), " also here; in full at ",
      h("a", { href: placeHash({ kind: "file", turn: "", path, line, before }) }, line ? `${path}:${line}` : path), " ",
      h("a", { href: id, class: "why" }, "why")));
}

function isWritten(item: Item): item is Written {
  return Array.isArray(item);
}

/** What stands before a writer's name: what a tool's record says is a claim. */
function saidBy({ source }: Writer): string {
  return source ? `${source} says: ` : "Written by ";
}

function notJudged({ reason, rubrics }: Data["unreviewed"][number]): string {
  return `Not judged${rubrics.length ? ` by ${rubrics.join(", ")}` : ""}: ${reason}`;
}

function side(text: string, path: string): Side {
  const lines = splitLines(text).map((line) => line.replace(/\r$/, ""));
  const endsOpen = text !== "" && !text.endsWith("\n");
  return { lines, colours: new Colours(lines, path), endsOpen, hasCrlf: text.includes("\r\n") };
}
