// The index of a site: its runs sorted, filtered, and drawn as far as the person has scrolled.

import { type Child, choices, fill, h } from "./dom";
import { added, byOf, COLUMNS, type Column, dayOf, type Filter, FILTERS, inSeconds, type Names, NEWEST, newestDay } from "./selection";
import { parseSelection, resultOf, type Run, type Selection, selected, selectionHash } from "./selection";
import { sortTests } from "./tests";
import { counted } from "./visible";

const CHUNK = 200;
/** Rows that a print has at most: some twenty sheets. */
const PRINTED = 1_000;
const KEY = 12;
/** Columns whose greatest value is asked for first. */
const GREATEST: readonly Column[] = ["time", "lines", "found", "usd", "seconds"];
const IS_RUN_ID = /^\d{8}T\d{9}Z-[0-9a-f]{8}$/;
const IS_PAGE = /^runs\/\d{8}T\d{9}Z-[0-9a-f]{8}-[0-9a-f]{4,16}\.html$/;
/** Filters that have no field of their own are shown as buttons that remove them. */
const CHIPS: Partial<Record<Filter, string>> = { said: "said", test: "test", reused: "answers used again", run: "run" };

const data = JSON.parse(document.getElementById("data")?.textContent ?? "{}") as Names & { runs: Run[] };
const list = document.getElementById("list") as HTMLTableElement;
const tools = document.getElementById("tools") as HTMLElement;
const section = document.getElementById("runs") as HTMLElement;

let shown: Run[] = [];
let current: Selection = NEWEST;

const rows = h("tbody");
const more = h("div", { class: "none" });
const heads = [...list.querySelectorAll("th")].map((head, at) => {
  const column = COLUMNS[at] as Column;
  const button = h("button", { type: "button", onclick: () => sortBy(column) }, head.textContent);
  fill(head, button);
  return { column, head };
});

const search = h("input", { type: "search", "aria-label": "Filter runs", placeholder: "title, person, file …" });
const path = h("input", { type: "search", "aria-label": "File or folder", placeholder: "file or folder" });
const values = (of: (run: Run) => string): [string, string][] =>
  [...new Set(data.runs.map(of))].filter(Boolean).sort().map((name) => [name, name]);
const named = (names: string[]): [string, string][] => [...names].sort().map((name) => [name, name]);
const select = (name: Filter, label: string, all: string, rest: [string, string][]): HTMLSelectElement =>
  choices(label, all, rest, () => go({ [name]: selects[name]?.value ?? "" }));
const selects: Partial<Record<Filter, HTMLSelectElement>> = {};
selects.outcome = select("outcome", "Outcome", "every outcome", values((run) => run[1]));
selects.author = select("author", "Author", "agents and people", values((run) => run[2]));
selects.person = select("person", "Person", "everybody", named(data.people));
selects.agent = select("agent", "Agent", "every agent", named(data.agents));
selects.workflow = select("workflow", "Workflow", "every workflow", named(data.workflows));
selects.model = select("model", "Model", "every model", named(data.models));
selects.criterion = select("criterion", "Criterion", "every criterion", named(data.criteria));
if (data.tests.length) selects.result = select("result", "Result", "every result", values((run) => resultOf(run, data)));
const newest = newestDay(data.runs);
const day = (label: string): HTMLInputElement => h("input", { type: "date", "aria-label": label });
const [from, to] = [day("From"), day("To")];
const period = h("span", { class: "period" }, "from ", from, " to ", to);
const TYPED = [["q", search], ["path", path], ["from", from], ["to", to]] as const;
const days = h("span", {});
const chips = h("span", {});
const told = h("p", { class: "told", role: "status" });
const reset = h("button", { type: "button", onclick: () => (location.hash = "#sort=-time") }, "all runs");

const watcher = new IntersectionObserver((entries) => {
  if (!entries.at(-1)?.isIntersecting) return;
  draw();
  watcher.unobserve(more); // it is told again if there is still room
  if (rows.childElementCount < shown.length) watcher.observe(more);
}, { rootMargin: "600px" });

/** Changes filters, by way of the address, so that the browser's Back leads back. */
function go(only: Partial<Record<Filter, string>>): void {
  location.hash = selectionHash({ ...current, only: { ...current.only, ...only } });
}

function sortBy(sort: Column): void {
  const descending = current.sort === sort ? !current.descending : GREATEST.includes(sort);
  location.hash = selectionHash({ ...current, sort, descending });
}

function draw(until = rows.childElementCount + CHUNK): void {
  rows.append(...shown.slice(rows.childElementCount, until).map(row));
  const left = shown.length - rows.childElementCount;
  fill(more, left > 0 && `${counted(left)} more`, left > 0 && h("span", { class: "app" }, ": scroll"));
}

function row(run: Run): HTMLTableRowElement {
  const [id, outcome, author, title, key, page, files, plus, minus, found, usd, ms] = run;
  const sealed = author !== "";
  const time = `${dayOf(run)} ${id.slice(9, 11)}:${id.slice(11, 13)}:${id.slice(13, 15)}`;
  const lines = `${counted(files)} ${files === 1 ? "file" : "files"} +${counted(plus)} −${counted(minus)}`;
  const words = [outcome, resultOf(run, data)].filter(Boolean);
  const badges = h("span", {}, ...words.map((word) => h("span", { class: `badge ${word}` }, word)));
  const cells: Child[] = [time, badges, byOf(run, data), title || key.slice(0, KEY)];
  cells.push(...(sealed ? [lines, counted(found), usd.toFixed(4), inSeconds(ms)] : ["", "", "", ""]));
  const name = h("a", {}, id);
  if (page === 1 && IS_RUN_ID.test(id)) name.setAttribute("href", `runs/${id}.html`);
  else if (IS_PAGE.test(String(page))) name.setAttribute("href", String(page));
  return h("tr", {}, ...[...cells, page ? name : id].map((cell) => h("td", {}, cell)));
}

function show(selection: Selection): void {
  current = selection;
  shown = selected(data.runs, data, selection);
  fill(rows);
  draw();
  watcher.unobserve(more);
  watcher.observe(more);
  for (const { column, head } of heads) {
    if (column === selection.sort) head.setAttribute("aria-sort", selection.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const { only } = selection;
  for (const [name, field] of Object.entries(selects)) field.value = only[name as Filter] ?? "";
  for (const [name, field] of TYPED) if (document.activeElement !== field) field.value = only[name] ?? "";
  const span = only.from || only.to ? `${only.from ?? "the beginning"} to ${only.to ?? newest}` : "";
  fill(days, span && remover(span, { from: "", to: "" }));
  fill(chips, ...FILTERS.map((name) => {
    const [value, label] = [only[name], CHIPS[name]];
    return value && label && remover(name === "reused" ? label : `${label}: ${value}`, { [name]: "" });
  }));
  reset.hidden = FILTERS.every((name) => !only[name]);
  const total = added(shown, data);
  const outcomes = total.outcomes.map(([name, runs]) => `${counted(runs)} ${name}`).join(", ");
  const models = total.models.map(([name, usd]) => `${name} $${usd.toFixed(4)}`).join(", ");
  const its = total.models.find(([name]) => name === only.model);
  const cost = its ? `${its[0]} $${its[1].toFixed(4)} of $${total.usd.toFixed(4)}` : `$${total.usd.toFixed(4)}${models && ` (${models})`}`;
  const of = shown.length === data.runs.length ? "" : ` of ${counted(data.runs.length)}`;
  const asked = `${counted(total.asked)} ${total.areReviews ? "review" : "run"}${total.asked === 1 ? "" : "s"} that asked a model`;
  const time = total.asked ? ` · median ${inSeconds(total.medianMs)} s of ${asked}` : "";
  fill(told, h("strong", {}, `${counted(shown.length)}${of} runs`), outcomes && `: ${outcomes} · ${cost}${time}`);
}

function remover(text: string, only: Partial<Record<Filter, string>>): HTMLElement {
  return h("button", { type: "button", class: "chip", "aria-label": `Remove the filter ${text}`, onclick: () => go(only) }, `${text} ✕`);
}

function follow(isFirst = false): void {
  const selection = parseSelection(location.hash);
  if (selection) {
    show(selection);
    const isAsked = location.hash.length > 1 && !section.contains(document.activeElement);
    if (isAsked) section.scrollIntoView();
    return;
  }
  if (isFirst) show(NEWEST);
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
  target?.scrollIntoView();
}

for (const [name, field] of TYPED) {
  field.addEventListener("input", () => {
    const hash = selectionHash({ ...current, only: { ...current.only, [name]: field.value } });
    history.replaceState(null, "", hash);
    show(parseSelection(hash) ?? NEWEST);
  });
}
addEventListener("beforeprint", () => {
  draw(PRINTED);
  if (rows.childElementCount < shown.length) watcher.observe(more);
});
sortTests();
list.querySelector("tbody")?.remove();
list.append(rows);
list.after(more);
document.getElementById("newest")?.remove();
// Nothing to choose: no names, or the one workflow that all runs have.
const useful = Object.values(selects).filter((field) => field.options.length > (field === selects.workflow ? 2 : 1));
path.hidden = !data.paths.length;
tools.append(search, path, ...useful, period, days, chips, reset, told);
addEventListener("hashchange", () => follow());
follow(true);
