// The tab of what happened: the axis, the list of events or the conversation, and one event with all that belongs to it.

import { Axis, type Lane } from "./axis";
import { wholeEvents } from "./blobs";
import { type Call, type Data, eventName, type Head, turnName, type Whole } from "./data";
import { choices, fill, h } from "./dom";
import { eventView, kindOf, parts, turnView } from "./event";
import { type Place, placeHash } from "./hash";
import { List } from "./list";
import { duration, type Span, timeOf } from "./scale";
import { counted } from "./visible";

interface Entry {
  lane: Lane;
  head: Head;
  kind: string;
}

const KINDS = ["call", "result", "assistant", "user", "todo", "usage", "hook", "run", "system"];
const CHOICES = [["all", "everything"], ["failed", "failed or refused"]] as const;
const SAID = new Set(["call", "result", "assistant", "user", "todo", "message"]);
const FAILED = new Set(["failed", "refused", "unfinished"]);
const ROW = 26;

export class Activity {
  readonly axis: Axis;
  readonly #lanes: Lane[];
  readonly #all: Entry[];
  readonly #calls: Map<string, Call>;
  readonly #list: List;
  readonly #rows = h("div", { class: "events", tabindex: 0, role: "group", "aria-label": "Events" });
  readonly #detail = h("div", { class: "detail", tabindex: 0, role: "region", "aria-label": "Event" });
  readonly #turns: HTMLSelectElement;
  readonly #kind: HTMLSelectElement;
  readonly #text = h("input", { type: "search", placeholder: "Filter events", "aria-label": "Filter events",
    oninput: () => this.#fill() });
  readonly #view = h("button", { type: "button", onclick: () => this.#toggle() }, "Conversation");
  readonly #count = h("span", { class: "count" });
  #wholes: ReadonlyMap<string, Whole> = new Map();
  readonly #turnTable: HTMLElement | undefined;
  #span: Span | null = null;
  #shown: Entry[] = [];
  #selected: Entry | null = null;
  #talk = false;
  #wanted: Place | null = null;

  constructor(
    section: HTMLElement,
    private readonly data: Data,
    private readonly go: (place: Place, replace?: boolean) => void,
  ) {
    const turns = data.turns.toSorted((one, other) => one.started - other.started);
    this.#lanes = [{ turn: null, heads: data.events }, ...turns.map((turn) => ({ turn, heads: turn.heads }))];
    this.#all = this.#lanes.flatMap((lane) => lane.heads.map((head) => ({ lane, head, kind: kindOf(head) })));
    this.#all.sort((one, other) => one.head[2] - other.head[2]);
    this.#calls = new Map(turns.flatMap((turn) => turn.calls.filter((call) => call.use).map((call) => [call.use, call])));
    const kinds = new Set(this.#all.map((entry) => entry.kind));
    this.#turns = choices("Turn", "all turns", turns.map((turn) => [turn.id, turnName(turn)]), () => this.#chose());
    const named = KINDS.filter((kind) => kinds.has(kind)).map((kind) => [kind, kind] as const);
    this.#kind = choices("Kind of event", "what was said and done", [...CHOICES, ...named], () => this.#fill());
    if (!turns.length) this.#kind.value = "all";
    const axis = h("div", { class: "axis" });
    section.append(h("div", { class: "app activity" }, axis, legend(),
      h("div", { class: "bar" }, this.#turns, this.#kind, this.#text, this.#view, this.#count),
      h("div", { class: "panes" }, this.#rows, this.#detail)));
    this.#list = new List(this.#rows, (index) => (this.#talk ? this.#said(index) : this.#row(index)));
    this.axis = new Axis(axis, this.#lanes, {
      span: (span) => {
        this.#span = span;
        this.#fill();
      },
      event: (lane, head) => this.go(placeOf({ lane, head })),
      lane: (lane) => {
        this.#turns.value = lane.turn?.id ?? "";
        this.#chose();
      },
    });
    this.#turnTable = section.querySelector(".turns")?.cloneNode(true) as HTMLElement | undefined;
    fill(this.#detail, this.#turnTable);
    this.#fill();
  }

  /** Shows a turn, or an event of one; who arrives from elsewhere sees the conversation. Without a place: as it was. */
  async show(place: Extract<Place, { kind: "event" }> | null, arrived: boolean): Promise<void> {
    if (!place) return;
    const lane = this.#lanes.find((each) => (each.turn?.id ?? "") === place.turn);
    if (!lane) return;
    const head = lane.heads.find((each) => eventName(each) === place.event);
    this.#wanted = place;
    const wholes = lane.turn ? await wholeEvents(lane.turn) : new Map();
    if (this.#wanted !== place) return; // another was chosen meanwhile
    this.#wholes = wholes;
    const inList = this.#shown.find((entry) => entry.head === head);
    if (arrived || !inList || (this.#turns.value && this.#turns.value !== place.turn)) {
      this.#turns.value = place.turn;
      this.#kind.value = head && !SAID.has(kindOf(head)) ? "all" : "";
      this.#text.value = "";
      this.#talk = lane.turn !== null && (!head || SAID.has(kindOf(head)));
      this.#fill();
    }
    this.#selected = this.#shown.find((entry) => entry.head === head) ?? null;
    this.axis.mark(head?.[2] ?? null);
    if (head) fill(this.#detail, eventView(lane.turn, head, this.#wholes, this.axis.zero));
    else if (lane.turn) fill(this.#detail, turnView(lane.turn));
    this.#detail.scrollTop = 0;
    this.#list.refresh();
    if (this.#selected) this.#list.reveal(this.#shown.indexOf(this.#selected), !arrived && !!inList);
  }

  /** Selects the next event of the list, or the one before. */
  step(by: 1 | -1): void {
    const at = this.#selected ? this.#shown.indexOf(this.#selected) : by > 0 ? -1 : this.#shown.length;
    const next = this.#shown[at + by];
    if (next) this.go(placeOf(next), true);
  }

  #chose(): void {
    if (this.#turns.value) this.go({ kind: "event", turn: this.#turns.value, event: "" });
    else {
      this.#talk = false;
      this.#selected = null;
      this.axis.mark(null);
      fill(this.#detail, this.#turnTable);
      this.#fill();
    }
  }

  #toggle(): void {
    this.#talk = !this.#talk;
    const turn = this.#turns.value || this.#selected?.lane.turn?.id || this.data.turns[0]?.id || "";
    if (this.#talk && turn !== this.#turns.value) this.go({ kind: "event", turn, event: "" });
    this.#fill();
  }

  /** Fills the list with what the filters leave. */
  #fill(): void {
    const [turn, kind, text] = [this.#turns.value, this.#kind.value, this.#text.value.toLowerCase()];
    const span = this.#span;
    this.#shown = this.#all.filter(({ lane, head, kind: own }) =>
      (!turn || lane.turn?.id === turn) && (!this.#talk || SAID.has(own)) &&
      (kind === "all" || (kind === "failed" ? this.#failed(head) : kind ? own === kind : SAID.has(own))) &&
      (!span || (head[2] >= span.from && head[2] <= span.to)) &&
      (!text || `${head[3]} ${head[4]} ${head[6]} ${head[7]} ${this.#state(head)}`.toLowerCase().includes(text)));
    this.#view.setAttribute("aria-pressed", String(this.#talk));
    this.#rows.classList.toggle("talk", this.#talk);
    const [some, all] = [this.#shown.length, this.#all.length];
    fill(this.#count, `${some < all ? `${counted(some)} of ` : ""}${counted(all)} events`);
    this.#list.reset(this.#shown.length, () => (this.#talk ? 80 : ROW));
    const at = this.#selected ? this.#shown.indexOf(this.#selected) : -1;
    if (at >= 0) this.#list.reveal(at);
  }

  #row(index: number): HTMLElement {
    const entry = this.#shown[index]!;
    const { lane, head, kind } = entry;
    const failed = this.#failed(head);
    const call = kind === "call" && this.#calls.get(head[5]);
    const name = kind === head[3] || head[3] === "message" ? head[4] : `${head[3]} ${head[4]}`;
    return h("a", { class: `event${failed ? " failed" : ""}`, href: placeHash(placeOf(entry)), "aria-current": this.#current(entry) },
      h("span", { class: "at" }, `+${duration(head[2] - this.axis.zero)}`),
      h("span", { class: `kind${styleOf(kind)}` }, kind), h("span", { class: "tool" }, failed ? "✗ " : "", name),
      h("span", { class: "text" }, head[7].startsWith(head[4]) ? head[7].slice(head[4].length) : head[7]),
      call && h("span", { class: "took" }, call.state === "completed" ? "" : `${call.state} `, timeOf(call)),
      this.#turns.value ? null : h("span", { class: "of" }, lane.turn ? turnName(lane.turn) : head[6]));
  }

  #state(head: Head): string {
    return this.#calls.get(head[5])?.state ?? "";
  }

  #failed(head: Head): boolean {
    return FAILED.has(this.#state(head));
  }

  #current(entry: Entry): "true" | undefined {
    return entry === this.#selected ? "true" : undefined;
  }

  #said(index: number): HTMLElement {
    const entry = this.#shown[index]!;
    const whole = this.#wholes.get(eventName(entry.head));
    const failed = entry.kind === "result" && this.#failed(entry.head);
    const call = entry.kind === "call" && this.#calls.get(entry.head[5]);
    const who = `${entry.kind}${entry.head[4] ? ` · ${entry.head[4]}` : ""}`;
    return h("div", { class: `spoken${styleOf(entry.kind)}${failed ? " failed" : ""}`, "aria-current": this.#current(entry) },
      h("p", { class: "who" }, h("a", { href: placeHash(placeOf(entry)) }, who),
        h("span", { class: "at" }, `+${duration(entry.head[2] - this.axis.zero)}`),
        call && h("span", { class: "at" }, `${call.state} ${timeOf(call)}`)),
      ...(whole && entry.kind !== "todo" ? parts(whole, entry.lane.turn?.id ?? "") : [h("p", {}, entry.head[7])]));
  }
}

/** The class of a known kind; other kinds are words of others. */
function styleOf(kind: string): string {
  return KINDS.includes(kind) ? ` k-${kind}` : "";
}

function placeOf({ lane, head }: { lane: Lane; head: Head }): Place {
  return { kind: "event", turn: lane.turn?.id ?? "", event: eventName(head) };
}

function legend(): HTMLElement {
  const names = [
    ["completed", "■"], ["failed", "▨"], ["refused", "▩"], ["unfinished", "□"],
    ["message", "●"], ["todo", "◆"], ["usage", "▲"], ["hook", "|"],
  ];
  return h("p", { class: "legend" }, ...names.map(([name, shape]) => h("span", { class: `l-${name}` }, `${shape} ${name}`)),
    h("span", { class: "hint" }, "drag or wheel (Ctrl+wheel with many lanes): zoom and filter · double click: everything"));
}

