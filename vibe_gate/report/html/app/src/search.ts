// Search over everything the page holds, in slices, so that typing never waits.

import { blobText, wholeEvents } from "./blobs";
import { type Data, eventName, turnName, type Whole } from "./data";
import { fill, h } from "./dom";
import type { Place } from "./hash";
import { splitLines } from "./rows";
import { short } from "./visible";

/** A text that can be found, and where it stands. */
export interface Searchable {
  group: string;
  name: string;
  text: string;
  place: Place;
}

export type Hit = Omit<Searchable, "text"> & { excerpt: string };

const SLICE_MS = 10;
const MOST_OF_A_GROUP = 40;
const SHORTEST = 2;

/** The place of a query in a text, whatever the case; null without one. */
export function match(item: Searchable, query: string): Hit | null {
  const at = item.text.toLowerCase().indexOf(query);
  const inName = at < 0 && item.name.toLowerCase().includes(query);
  if (at < 0 && !inName) return null;
  const from = Math.max(0, at - 40);
  const excerpt = (from ? "…" : "") + short(item.text.slice(from, from + 200), 160);
  return { group: item.group, name: item.name, excerpt, place: item.place };
}

/** All strings of a value, as lines. */
export function strings(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return String(value ?? "");
  return Object.values(value).map(strings).join("\n");
}

/** What can be found, cheapest first; contents are inflated as they are reached. */
async function* searchables(data: Data): AsyncGenerator<Searchable> {
  const shown = new Set<string>();
  for (const { id, path, line, message, criterion } of data.findings) {
    if (shown.has(id)) continue;
    shown.add(id);
    yield { group: "Findings", name: `${path}:${line}`, text: `${message} ${criterion}`, place: { kind: "element", id } };
  }
  for (const row of document.querySelectorAll<HTMLTableRowElement>("tr[data-c]")) {
    const name = row.dataset.c ?? "";
    const said = [row.cells[2]?.firstChild, ...row.querySelectorAll(".vote p, .vote pre")];
    const text = said.map((each) => each?.textContent ?? "").join(" ");
    yield { group: "Criteria", name, text, place: { kind: "criterion", name, vote: 0 } };
  }
  for (const { id, textContent } of document.querySelectorAll<HTMLElement>("#authors article")) {
    const name = data.writers.find((writer) => writer.id === id)?.name ?? "";
    yield { group: "Authors", name, text: textContent ?? "", place: { kind: "element", id } };
  }
  const sources = [{ id: "", files: data.files }, ...data.turns];
  const files = sources.flatMap(({ id, files }) => files.map((file) => ({ turn: id, file, path: file.path })));
  for (const { turn, file, path } of files) {
    yield { group: "Files", name: path, text: file.old_path ?? "", place: { kind: "file", turn, path, line: 0, before: false } };
  }
  for (const { turn, file, path } of files) {
    // Unchanged lines stand on both sides; of the side before only files that are gone are searched.
    const [id, before] = file.after ? [file.after, false] : [file.before, true];
    if (!id) continue;
    const lines = splitLines(await blobText(id));
    for (const [index, text] of lines.entries()) {
      const line = index + 1;
      yield { group: "Contents", name: `${path}:${line}`, text, place: { kind: "file", turn, path, line, before } };
    }
  }
  const event = (turn: string, name: string, title: string, whole: Whole): Searchable =>
    ({ group: "Events", name: title, text: strings(whole), place: { kind: "event", turn, event: name } });
  for (const head of data.events) yield event("", eventName(head), `${head[3]} ${head[6]}`, { text: head[7] });
  for (const turn of data.turns) {
    const wholes = await wholeEvents(turn);
    const states = new Map(turn.calls.map((call) => [call.use, call.state === "completed" ? "" : ` ${call.state}`]));
    for (const head of turn.heads) {
      const whole = head[0] !== "hook" && wholes.get(eventName(head));
      if (whole) yield event(turn.id, eventName(head), `${head[4] || head[3]}${states.get(head[5]) ?? ""} · ${turnName(turn)}`, whole);
    }
  }
}

/** Hits by group as they are found; `stale` ends the search. */
export async function search(
  items: AsyncIterable<Searchable>,
  query: string,
  stale: () => boolean,
  tell: (hits: readonly Hit[], done: boolean) => void,
): Promise<void> {
  const counts = new Map<string, number>();
  const hits: Hit[] = [];
  let since = performance.now();
  for await (const item of items) {
    const count = counts.get(item.group) ?? 0;
    const hit = count < MOST_OF_A_GROUP && match(item, query);
    if (hit) {
      hits.push(hit);
      counts.set(item.group, count + 1);
    }
    if (performance.now() - since < SLICE_MS) continue;
    tell(hits, false);
    await new Promise((resume) => setTimeout(resume, 0));
    if (stale()) return;
    since = performance.now();
  }
  tell(hits, true);
}

/** The search field with its list of hits. */
export function searchField(data: Data, go: (place: Place) => void): HTMLInputElement {
  const list = h("div", { class: "hits", id: "hits", role: "listbox", "aria-label": "Search results" });
  const state = h("p", { class: "none", role: "status" });
  const panel = h("div", { class: "found", hidden: true }, list, state);
  const field = h("input", {
    type: "search", id: "search", placeholder: "Search everything  ( / )", "aria-label": "Search everything",
    role: "combobox", "aria-expanded": "false", "aria-controls": "hits", autocomplete: "off",
  });
  let [run, chosen, hits] = [0, 0, [] as readonly Hit[]];

  const show = (open: boolean): void => {
    panel.hidden = !open;
    field.setAttribute("aria-expanded", String(open));
  };
  const choose = (index: number): void => {
    chosen = Math.max(0, Math.min(index, hits.length - 1));
    list.querySelectorAll('[role="option"]').forEach((option, number) => {
      option.setAttribute("aria-selected", String(number === chosen));
      if (number === chosen) option.scrollIntoView({ block: "nearest" });
    });
    field.setAttribute("aria-activedescendant", hits.length ? `hit-${chosen}` : "");
  };
  const open = (hit: Hit | undefined): void => {
    if (!hit) return;
    show(false);
    field.blur();
    go(hit.place);
  };
  const tell = (made: readonly Hit[], done: boolean): void => {
    if (made.length !== hits.length || !made.length) {
      const groups = Map.groupBy(made, (hit) => hit.group);
      hits = [...groups.values()].flat();
      let number = 0;
      fill(list, ...[...groups].map(([group, some]) => h("div", { role: "group", "aria-label": group },
        h("p", { class: "group", "aria-hidden": "true" }, group, some.length === MOST_OF_A_GROUP ? " (the first ones)" : ""),
        ...some.map((hit) => h("div", {
          role: "option", id: `hit-${number++}`, onmousedown: (event: Event) => (event.preventDefault(), open(hit)),
        }, h("b", {}, hit.name), h("span", {}, hit.excerpt))))));
      choose(chosen);
    }
    fill(state, done ? (made.length ? "" : "Nothing found.") : "Searching…");
  };
  field.addEventListener("input", () => {
    const [own, query] = [++run, field.value.trim().toLowerCase()];
    [chosen, hits] = [0, []];
    fill(list);
    show(query.length >= SHORTEST);
    if (query.length < SHORTEST) return;
    setTimeout(() => own === run && void search(searchables(data), query, () => own !== run, tell), 120);
  });
  field.addEventListener("focus", () => show(field.value.trim().length >= SHORTEST));
  field.addEventListener("blur", () => show(false));
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter") open(hits[chosen]);
    else if (event.key === "Escape") (show(false), field.blur());
    else return;
    event.preventDefault();
  });
  document.getElementById("tools")?.append(h("div", { class: "search" }, field, panel));
  return field;
}

