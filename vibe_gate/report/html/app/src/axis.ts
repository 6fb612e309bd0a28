// One time axis for the run: a lane for the run and one for each turn, with calls as bars and the rest as marks.

import { type Call, type Head, type Turn, turnName } from "./data";
import { fill, h } from "./dom";
import { duration, pan, type Span, stack, ticks, timeOf, within, zoom } from "./scale";
import { visible } from "./visible";

export interface Lane {
  turn: Turn | null;
  heads: readonly Head[];
}

/** Who is told of what the person chose on the axis; a span of null is everything. */
export interface Chosen {
  span: (span: Span | null) => void;
  event: (lane: Lane, head: Head) => void;
  lane: (lane: Lane) => void;
}

const LANE = 26;
const BAR = 5;
const ROWS = 2;
const RULER = 20;
const COLOURS = ["text", "dim", "line", "band", "accent", "good", "bad", "warn", "violet"] as const;

/** What the axis shows of a state: colour, and a shape that needs no colour. */
const STATES = new Map<string, [colour: (typeof COLOURS)[number], shape: "full" | "hatched" | "crossed" | "open"]>([
  ["completed", ["good", "full"]],
  ["failed", ["bad", "hatched"]],
  ["refused", ["violet", "crossed"]],
]);
/** Without an end, or without a beginning. */
const UNFINISHED = ["warn", "open"] as const;

/** What it shows of other events: colour and sign, as the legend has them. */
const MARKS = new Map<string, [colour: (typeof COLOURS)[number], sign: string]>([
  ["message", ["accent", "●"]], ["result", ["accent", "●"]], ["todo", ["violet", "◆"]], ["usage", ["warn", "▲"]],
  ["hook", ["dim", "|"]], ["run", ["dim", "▪"]],
]);

export class Axis {
  readonly #ruler = h("canvas", { "aria-hidden": "true" });
  readonly #canvas = h("canvas", { tabindex: 0, role: "application",
    "aria-label": "Time axis. Plus and minus zoom, left and right move, 0 shows all. The list below has the same events." });
  readonly #box = h("div", { class: "lanes", onscroll: () => this.draw() });
  readonly #probe = h("span", { hidden: true });
  readonly #labels = h("div", { class: "labels" });
  /** Time of the first event. */
  readonly zero: number;
  readonly #full: Span;
  readonly #stacks = new Map<Lane, number[]>();
  #span: Span;
  #width = 0;
  #drag: [from: number, to: number] | null = null;
  #cursor: number | null = null;

  constructor(
    host: HTMLElement,
    private readonly lanes: readonly Lane[],
    private readonly chosen: Chosen,
  ) {
    const times = lanes.flatMap(({ heads, turn }) => [
      ...heads.map((head) => head[2]), ...(turn?.calls ?? []).map((call) => call.end ?? call.start), turn?.ended ?? 0,
    ]).filter(Boolean);
    const [first, last] = times.reduce(([low, high], at) => [Math.min(low, at), Math.max(high, at)], [Infinity, 0]);
    this.zero = Number.isFinite(first) ? first : 0;
    const margin = Math.max(1, (last - this.zero) * 0.01);
    this.#full = { from: this.zero - margin, to: Math.max(last, this.zero + 1) + margin };
    this.#span = this.#full;
    for (const lane of lanes) if (lane.turn) this.#stacks.set(lane, stack(lane.turn.calls, ROWS));
    fill(this.#labels, ...lanes.map((lane) =>
      h("button", { type: "button", onclick: () => chosen.lane(lane), title: lane.turn?.status },
        lane.turn ? turnName(lane.turn) : "run")));
    host.append(this.#probe, h("div", { class: "ruler" }, h("span", {}, "time since start"), this.#ruler),
      this.#box);
    this.#box.append(this.#labels, this.#canvas);
    this.#listen();
    new ResizeObserver(() => this.draw()).observe(this.#box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Marks a time, and moves it into sight; null: none. */
  mark(at: number | null): void {
    this.#cursor = at;
    const part = at === null ? 0.5 : (at - this.#span.from) / (this.#span.to - this.#span.from);
    if (part < 0 || part > 1) this.#show(pan(this.#span, part - 0.5, this.#full));
    else this.draw();
  }

  #show(span: Span): void {
    this.#span = span;
    const everything = span.to - span.from >= (this.#full.to - this.#full.from) * 0.999;
    this.chosen.span(everything ? null : span);
    this.draw();
  }

  #listen(): void {
    const canvas = this.#canvas;
    canvas.addEventListener("wheel", (event) => {
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!sideways && !event.ctrlKey && this.#box.scrollHeight > this.#box.clientHeight + 1) return; // the lanes scroll
      event.preventDefault();
      if (sideways) this.#show(pan(this.#span, Math.sign(event.deltaX || event.deltaY) * 0.1, this.#full));
      else this.#show(zoom(this.#span, this.#time(event.offsetX), event.deltaY > 0 ? 1.25 : 0.8, this.#full));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#drag = [event.offsetX, event.offsetX];
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.#drag) {
        this.#drag[1] = event.offsetX;
        this.draw();
      } else canvas.title = visible(this.#at(event.offsetX, event.offsetY)?.text ?? "");
    });
    canvas.addEventListener("pointerup", (event) => {
      const [from, to] = (this.#drag ?? [0, 0]).toSorted((one, other) => one - other) as [number, number];
      this.#drag = null;
      const hit = this.#at(event.offsetX, event.offsetY);
      if (to - from > 4) this.#show(within({ from: this.#time(from), to: this.#time(to) }, this.#full));
      else if (hit) this.chosen.event(hit.lane, hit.head);
      else this.draw();
    });
    canvas.addEventListener("dblclick", () => this.#show(this.#full));
    canvas.addEventListener("keydown", (event) => {
      const middle = (this.#span.from + this.#span.to) / 2;
      const moves = new Map<string, () => Span>([
        ["+", () => zoom(this.#span, middle, 0.7, this.#full)],
        ["-", () => zoom(this.#span, middle, 1.4, this.#full)],
        ["ArrowLeft", () => pan(this.#span, -0.2, this.#full)],
        ["ArrowRight", () => pan(this.#span, 0.2, this.#full)],
        ["0", () => this.#full],
      ]);
      const move = moves.get(event.key.replace("=", "+"));
      if (!move || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.#show(move());
    });
  }

  #time(x: number): number {
    return this.#span.from + (x / Math.max(1, this.#width)) * (this.#span.to - this.#span.from);
  }

  #x(time: number): number {
    return ((time - this.#span.from) / (this.#span.to - this.#span.from)) * this.#width;
  }

  /** What is drawn at a point: the call there, or the nearest mark. */
  #at(x: number, y: number): { lane: Lane; head: Head; text: string } | null {
    const down = y + this.#box.scrollTop;
    const lane = this.lanes[Math.floor(down / LANE)];
    if (!lane) return null;
    const rows = this.#stacks.get(lane);
    const row = Math.floor(((down % LANE) - 3) / (BAR + 1));
    const call = lane.turn?.calls.find(({ start, end }, index) =>
      rows?.[index] === row && this.#x(start) - 2 <= x && x <= Math.max(this.#x(end ?? start), this.#x(start) + 3) + 2);
    if (call) {
      const hook = call.pre ?? call.post;
      const head = lane.heads.find((each) => (call.use ? each[5] === call.use : each[0] === "hook" && each[1] === hook));
      if (head) return { lane, head, text: `${call.name}: ${call.state} ${timeOf(call)}\n${head[7]}` };
    }
    let best: Head | null = null;
    for (const head of lane.heads) {
      const away = Math.abs(this.#x(head[2]) - x);
      if (away < 5 && (!best || away < Math.abs(this.#x(best[2]) - x))) best = head;
    }
    return best && { lane, head: best, text: `${best[3]} ${best[4]}\n${best[7]}` };
  }

  /** Draws what the span shows of the lanes in sight, in the theme's colours. */
  draw(): void {
    this.#width = this.#canvas.clientWidth;
    const height = Math.min(this.lanes.length * LANE, this.#box.clientHeight || LANE);
    const colours = this.#colours();
    const ruler = context(this.#ruler, this.#width, RULER);
    const lanes = context(this.#canvas, this.#width, height);
    if (!ruler || !lanes) return;
    ruler.fillStyle = colours.dim;
    ruler.font = "11px system-ui, sans-serif";
    lanes.font = "9px system-ui, sans-serif";
    lanes.textAlign = "center";
    lanes.strokeStyle = colours.line;
    for (const time of ticks(this.#span, this.zero, this.#width / 110)) {
      const x = Math.round(this.#x(time)) + 0.5;
      ruler.fillText(duration(time - this.zero), x + 3, 13);
      lanes.beginPath();
      lanes.moveTo(x, 0);
      lanes.lineTo(x, height);
      lanes.stroke();
    }
    this.lanes.forEach((lane, index) => {
      const top = index * LANE - this.#box.scrollTop;
      if (top > -LANE && top < height) this.#lane(lanes, lane, top, colours);
    });
    lanes.fillStyle = lanes.strokeStyle = colours.accent;
    if (this.#cursor !== null) lanes.fillRect(Math.round(this.#x(this.#cursor)), 0, 1, height);
    if (this.#drag) {
      lanes.globalAlpha = 0.2;
      lanes.fillRect(this.#drag[0], 0, this.#drag[1] - this.#drag[0], height);
      lanes.globalAlpha = 1;
    }
  }

  #lane(pen: CanvasRenderingContext2D, lane: Lane, top: number, colours: Colours): void {
    if (lane.turn) {
      const [from, to] = [this.#x(lane.turn.started), this.#x(lane.turn.ended ?? this.#full.to)];
      pen.fillStyle = colours.band;
      pen.fillRect(from, top + 2, Math.max(1, to - from), LANE - 4);
      const rows = this.#stacks.get(lane) ?? [];
      lane.turn.calls.forEach((call, index) => this.#call(pen, call, top + 3 + (rows[index] ?? 0) * (BAR + 1), colours));
    }
    const drawn = new Map<string, number>();
    for (const head of lane.heads) {
      const x = Math.round(this.#x(head[2]));
      const kind = head[0] === "sdk" ? head[3] : head[0];
      const mark = MARKS.get(kind);
      // Marks of one pixel are drawn once.
      if (!mark || x < 0 || x > this.#width || drawn.get(kind) === x) continue;
      drawn.set(kind, x);
      pen.fillStyle = colours[mark[0]];
      pen.fillText(mark[1], x, top + LANE - 4);
    }
  }

  #call(pen: CanvasRenderingContext2D, call: Call, y: number, colours: Colours): void {
    const x = this.#x(call.start);
    const width = Math.max(3, this.#x(call.end ?? call.start) - x);
    if (x + width < 0 || x > this.#width) return;
    const [colour, shape] = STATES.get(call.state) ?? UNFINISHED;
    pen.fillStyle = pen.strokeStyle = colours[colour];
    if (shape === "full") return pen.fillRect(x, y, width, BAR);
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, BAR);
    if (shape === "open") pen.setLineDash([2, 2]);
    pen.stroke();
    pen.clip();
    pen.beginPath();
    const [from, to] = [Math.max(x, 0) - BAR, Math.min(x + width, this.#width)];
    for (let at = from - (from % 4); shape !== "open" && at < to; at += 4) {
      pen.moveTo(at, y + BAR);
      pen.lineTo(at + BAR, y);
      if (shape === "crossed") {
        pen.moveTo(at, y);
        pen.lineTo(at + BAR, y + BAR);
      }
    }
    pen.stroke();
    pen.restore();
  }

  #colours(): Colours {
    const style = getComputedStyle(this.#probe);
    return Object.fromEntries(COLOURS.map((name) => {
      this.#probe.style.color = `var(--${name})`;
      return [name, style.color];
    })) as Colours;
  }
}

type Colours = Record<(typeof COLOURS)[number], string>;

function context(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const ratio = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.max(1, width * ratio), height * ratio];
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen?.scale(ratio, ratio);
  return pen;
}
