// The grid of tests: sorted by its heads, filtered by name and by how tests ended.

import { choices, fill, h } from "./dom";
import { counted } from "./visible";

const STATES = ["failed", "flaky", "error", "undecided", "skipped", "passed"];

/** Makes heads sort, and adds the fields that filter; nothing without a grid. */
export function sortTests(): void {
  const grid = document.getElementById("grid") as HTMLTableElement | null;
  const [body, tools] = [grid?.tBodies[0], document.getElementById("tests-tools")];
  if (!grid || !body || !tools) return;
  const rows = [...body.rows].map((row) => ({
    row,
    name: (row.cells[0]?.textContent ?? "").toLowerCase(),
    state: row.dataset.state ?? "",
    values: (row.dataset.values ?? "").split(",").map((text) => (text ? Number(text) : NaN)),
  }));
  const heads = [...(grid.tHead?.rows[0]?.cells ?? [])];
  const search = h("input", { type: "search", "aria-label": "Filter tests", placeholder: "test" });
  const there = STATES.filter((state) => rows.some((one) => one.state === state));
  const state = choices("State of the test", "every test", there.map((name) => [name, name]), filter);
  const told = h("span", { role: "status" });

  function filter(): void {
    const text = search.value.toLowerCase();
    let number = 0;
    for (const one of rows) {
      one.row.hidden = !(one.name.includes(text) && (!state.value || one.state === state.value));
      if (!one.row.hidden) number += 1;
    }
    fill(told, number < rows.length && `${counted(number)} of ${counted(rows.length)} tests`);
  }

  function sort(at: number): void {
    const isRising = heads[at]?.getAttribute("aria-sort") !== "ascending";
    const sign = isRising ? 1 : -1;
    // Rows without the figure stay last.
    rows.sort((a, b) => {
      if (at === 0) return sign * (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
      const [left, right] = [a.values[at - 1] ?? NaN, b.values[at - 1] ?? NaN];
      return Number.isNaN(left) || Number.isNaN(right) ? Number(Number.isNaN(left)) - Number(Number.isNaN(right)) : sign * (left - right);
    });
    body?.append(...rows.map((one) => one.row));
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[at]?.setAttribute("aria-sort", isRising ? "ascending" : "descending");
  }

  heads.forEach((head, at) => fill(head, h("button", { type: "button", onclick: () => sort(at) }, head.textContent)));
  search.addEventListener("input", filter);
  tools.append(search, state, told);
}
