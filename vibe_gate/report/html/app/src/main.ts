// The page with scripts: tabs from its sections, and what each adds to what stands there already.

import { Activity } from "./activity";
import { Changes } from "./changes";
import type { Data } from "./data";
import { h } from "./dom";
import { parsePlace, type Place, placeHash } from "./hash";
import { listen } from "./keyboard";
import { searchField } from "./search";
import { zoomWhenSeen } from "./zoom";

const data = JSON.parse(document.getElementById("data")?.textContent ?? "null") as Data;
const sections = [...document.querySelectorAll<HTMLElement>("main > section[data-tab]")];
const tabs = sections.map((section) => h("a", { class: "tab", href: section.id, id: `tab-${section.id}` }, section.dataset.tab));
const tools = document.getElementById("tools");
let changes: Changes | null = null;
let activity: Activity | null = null;

/** Goes to a place; `replace` without a step of the history. */
function go(place: Place, replace = false): void {
  const hash = placeHash(place);
  // Setting `location.hash` would show the place a moment later, after the next key.
  if (hash !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", hash);
  show();
}

/** Shows what the address names. */
function show(): void {
  const place = parsePlace(location.hash || `#${sections[0]?.id ?? ""}`);
  for (const old of document.querySelectorAll("main .target:not(.line)")) old.classList.remove("target");
  switch (place.kind) {
    case "file":
      select("changes");
      return openChanges()?.show(place);
    case "event": {
      const arrived = shownTab() !== "activity";
      select("activity");
      return void openActivity()?.show(place, arrived);
    }
    case "criterion":
      return showElement(criterion(place.name, place.vote));
    case "element":
      return showElement(document.getElementById(place.id));
  }
}

function criterion(name: string, vote: number): HTMLElement | null {
  const row = document.querySelector<HTMLElement>(`tr[data-c="${CSS.escape(name)}"]`);
  const votes = row?.querySelector<HTMLDetailsElement>("details.votes");
  if (votes) votes.open = true;
  return (vote && votes?.querySelector<HTMLElement>(`[data-vote="${vote}"]`)) || row;
}

/** Opens the tab of an element, and shows the element if it is not the tab itself. */
function showElement(element: HTMLElement | null): void {
  const section = element?.closest<HTMLElement>("section[data-tab]") ?? sections[0];
  if (!section) return;
  select(section.id);
  if (section.id === "changes") openChanges()?.show(null);
  if (section.id === "activity") void openActivity()?.show(null, false);
  if (!element || element === section) return;
  for (let fold = element.closest("details"); fold; fold = fold.parentElement?.closest("details") ?? null) fold.open = true;
  element.classList.add("target");
  if (!element.hasAttribute("tabindex")) element.tabIndex = -1;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: element.getBoundingClientRect().height > innerHeight / 2 ? "start" : "center" });
}

function shownTab(): string {
  return document.body.dataset.tab ?? "";
}

function select(id: string): void {
  if (shownTab() !== id) scrollTo(0, 0);
  document.body.dataset.tab = id;
  for (const section of sections) section.hidden = section.id !== id;
  tabs.forEach((tab, index) => {
    if (sections[index]?.id === id) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  });
}

function openChanges(): Changes | null {
  const section = document.getElementById("changes");
  const hasFiles = data.files.length > 0 || data.turns.some((turn) => turn.files.length);
  if (!changes && section && hasFiles) changes = new Changes(section, data, go);
  return changes;
}

function openActivity(): Activity | null {
  const section = document.getElementById("activity");
  if (!activity && section && data.turns.length + data.events.length) activity = new Activity(section, data, go);
  return activity;
}

/** Goes to the next finding, in the tab that is open, or to the next event. */
function step(by: 1 | -1): void {
  const tab = shownTab();
  if (tab === "activity") return openActivity()?.step(by);
  const order = [...document.querySelectorAll<HTMLElement>("#verdict .finding")].map((element) => element.id);
  const place = parsePlace(location.hash);
  const here = place.kind === "file"
    ? order.findIndex((id) => data.findings.some((one) => one.id === id && one.path === place.path && one.line === place.line))
    : order.indexOf(place.kind === "element" ? place.id : "");
  const id = order[here < 0 ? (by > 0 ? 0 : order.length - 1) : here + by];
  const finding = data.findings.find((one) => one.id === id);
  if (!id || !finding) return;
  const { path, line, side } = finding;
  go(tab === "changes" ? { kind: "file", turn: "", path, line, before: side === "before" } : { kind: "element", id }, true);
}

/** Goes from a line or a finding to the turn that wrote it, and from the turn to its prompt. */
function goToWriter(): void {
  const shown = 'section[data-tab]:not([hidden]) :is(.pinned.writer, .target) a[href^="#w-"]';
  const id = document.querySelector(shown)?.getAttribute("href")?.slice(1);
  if (id) go({ kind: "element", id });
}

document.documentElement.classList.add("live");
tools?.append(h("nav", { "aria-label": "Parts of the report" }, ...tabs));
const field = searchField(data, go);
const keys = listen([
  ...sections.map(({ id, dataset }, index) =>
    ({ key: `${index + 1}`, does: dataset.tab ?? "", run: () => go({ kind: "element", id }) })),
  { key: "/", does: "search everything", run: () => field.focus() },
  { key: "j", does: "next finding or event", run: () => step(1) },
  { key: "k", does: "previous finding or event", run: () => step(-1) },
  { key: "u", does: "unified or side by side", run: () => shownTab() === "changes" && changes?.viewer.toggleLayout() },
  ...(data.writers.length ? [{ key: "w", does: "who wrote the line; then: the prompt", run: goToWriter }] : []),
  { key: "+ − 0 ← →", does: "on the time axis: zoom, show all, move", run: () => {} },
  { key: "Escape", does: "leave a field or a dialog", run: () => (document.activeElement as HTMLElement | null)?.blur() },
]);
tools?.append(h("button", { type: "button", "aria-label": "Keys", title: "Keys (?)", onclick: keys }, "?"));
zoomWhenSeen(document.querySelectorAll<HTMLElement>(".scroll"));
addEventListener("hashchange", show);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => (fold.open = true)));
// A click on the link of the place that is shown already changes no address.
document.addEventListener("click", (event) => {
  const link = (event.target as Element).closest?.("a[href]");
  if (link?.getAttribute("href") === location.hash) show();
});
show();
