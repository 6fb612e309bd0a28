// The tab with the changed files: of the reviewed change, and of each agent's turn.

import { type Data, type FileEntry, type Finding, turnName } from "./data";
import { choices, fill, h } from "./dom";
import { type Place, placeHash } from "./hash";
import { List } from "./list";
import { Viewer } from "./viewer";

type FilePlace = Extract<Place, { kind: "file" }>;

const ROW = 28;

export class Changes {
  readonly #filter = h("input", { type: "search", placeholder: "Filter files", "aria-label": "Filter files",
    oninput: () => this.#list() });
  readonly #of: HTMLSelectElement;
  readonly #count = h("span", { class: "count" });
  readonly #rows: List;
  readonly viewer: Viewer;
  #turn = "";
  #files: FileEntry[] = [];
  #open: FileEntry | null = null;
  /** Each finding at the first of its places whose file the page has, by its id. */
  readonly #firsts = new Map<string, Finding>();

  constructor(section: HTMLElement, private readonly data: Data, private readonly go: (place: Place) => void) {
    const rows = h("div", { class: "filelist", role: "group", "aria-label": "Changed files" });
    const pane = h("div", { class: "viewer" });
    const side = h("div", { class: "side" }, h("div", { class: "bar" }, this.#filter, this.#count), rows);
    section.append(h("div", { class: "app changes" }, side, pane));
    this.#rows = new List(rows, (index) => this.#row(this.#files[index]!));
    this.viewer = new Viewer(pane);
    const changed = data.turns.filter((turn) => turn.files.length);
    const names = changed.map((turn) => [turn.id, `${turnName(turn)} (${turn.files.length})`] as const);
    this.#of = choices("Whose changes", "the reviewed change", names, () => this.#choose());
    if (changed.length) side.prepend(this.#of);
    if (!data.files.length) this.#turn = this.#of.value = changed[0]?.id ?? "";
    for (const finding of data.findings) {
      const isOnPage = data.files.some((file) => isAbout(finding, file));
      if (isOnPage && !this.#firsts.has(finding.id)) this.#firsts.set(finding.id, finding);
    }
    this.#list();
  }

  /** Shows a file; without one the first that has a finding, or the first. */
  show(place: FilePlace | null): void {
    if (place && place.turn !== this.#turn) {
      this.#turn = this.#of.value = place.turn;
      this.#filter.value = "";
      this.#list();
    }
    if (!place && this.#open) return;
    const files = this.#all();
    const found = place
      ? files.find((file) => file.path === place.path) ?? files.find((file) => file.old_path === place.path)
      : files.find((file) => this.#findings(file).length) ?? files[0];
    this.#open = found ?? null;
    if (!found) return place ? (this.#rows.refresh(), this.viewer.lack(place.path)) : undefined;
    if (!this.#files.includes(found)) {
      this.#filter.value = "";
      this.#list();
    }
    this.#rows.reveal(this.#files.indexOf(found), true);
    this.#rows.refresh();
    const remarks = {
      findings: this.#findings(found),
      firsts: this.#firsts,
      unreviewed: this.#turn ? [] : this.data.unreviewed.filter((each) => each.path === found.path),
      written: this.#turn ? [] : this.data.written.filter((each) => each[0] === found.path),
      writers: this.data.writers,
    };
    void this.viewer.show(found, this.#turn, remarks, place?.line ?? 0, place?.before ?? false);
  }

  #all(turn = this.#turn): FileEntry[] {
    return turn ? this.data.turns.find((each) => each.id === turn)?.files ?? [] : this.data.files;
  }

  #findings(file: FileEntry): Data["findings"] {
    return this.#turn ? [] : this.data.findings.filter((finding) => isAbout(finding, file));
  }

  #choose(): void {
    const turn = this.#of.value;
    const first = this.#all(turn)[0];
    if (first) this.go({ kind: "file", turn, path: first.path, line: 0, before: false });
  }

  #list(): void {
    const wanted = this.#filter.value.toLowerCase();
    const all = this.#all();
    this.#files = all.filter((file) => `${file.old_path ?? ""} ${file.path}`.toLowerCase().includes(wanted));
    fill(this.#count, this.#files.length === all.length ? `${all.length}` : `${this.#files.length} of ${all.length}`);
    this.#rows.reset(this.#files.length, () => ROW);
  }

  #row(file: FileEntry): HTMLElement {
    const name = file.path.lastIndexOf("/") + 1;
    const count = new Set(this.#findings(file).map((each) => each.id)).size;
    return h("a", {
      class: "file", title: file.path, "aria-current": file === this.#open ? "true" : undefined,
      href: placeHash({ kind: "file", turn: this.#turn, path: file.path, line: 0, before: false }),
    },
      h("span", { class: "folder" }, file.path.slice(0, name)), h("span", { class: "name" }, file.path.slice(name)),
      count ? h("span", { class: "badge fail", title: `${count} finding${count > 1 ? "s" : ""}` }, count) : null,
      h("span", { class: "plus" }, `+${file.added}`), h("span", { class: "minus" }, `−${file.deleted}`));
  }
}

function isAbout({ path, side }: Finding, file: FileEntry): boolean {
  return path === file.path || (side === "before" && path === file.old_path);
}
