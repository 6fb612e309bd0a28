// A list of any length that builds only the rows that can be seen. Rows are measured as they are drawn, and whatever
// the person looks at stays where it is while heights above it become known.

import { h } from "./dom";

const BEYOND = 12;

export class List {
  readonly #body = h("div", { class: "rows", role: "presentation" });
  readonly #nodes = new Map<number, HTMLElement>();
  readonly #numbers = new WeakMap<Element, number>();
  readonly #sizes: ResizeObserver;
  #tops = new Float64Array(1);
  #anchor = { index: 0, above: 0 };

  /** `render` makes the row of a number. */
  constructor(
    readonly host: HTMLElement,
    private readonly render: (index: number) => HTMLElement,
  ) {
    host.classList.add("list");
    host.append(this.#body);
    host.addEventListener("scroll", () => this.#scrolled());
    this.#sizes = new ResizeObserver((entries) => this.#measured(entries.map((entry) => entry.target)));
    new ResizeObserver(() => this.#draw()).observe(host);
  }

  get length(): number {
    return this.#tops.length - 1;
  }

  /** Shows other rows, from the top; `height` estimates the pixels of each. */
  reset(count: number, height: (index: number) => number): void {
    this.#tops = new Float64Array(count + 1);
    for (let index = 0; index < count; index++) this.#tops[index + 1] = this.#top(index) + height(index);
    this.#anchor = { index: 0, above: 0 };
    this.host.scrollTop = 0;
    this.refresh();
  }

  /** Makes the rows in sight anew. */
  refresh(): void {
    for (const index of [...this.#nodes.keys()]) this.#drop(index);
    this.#draw();
  }

  /** Scrolls to a row: into the middle, or only as far as needed. */
  reveal(index: number, nearest = false): void {
    const [top, bottom, space] = [this.#top(index), this.#top(index + 1), this.host.clientHeight];
    let to = top - Math.max(0, (space - (bottom - top)) / 2);
    if (nearest) to = Math.min(Math.max(this.host.scrollTop, bottom - space), top);
    to = Math.max(0, to);
    this.#anchor = { index, above: top - to };
    this.host.scrollTop = to;
    this.#draw();
  }

  /** The row of a number, if it is in sight. */
  node(index: number): HTMLElement | undefined {
    return this.#nodes.get(index);
  }

  #top(index: number): number {
    return this.#tops[index] ?? 0;
  }

  #at(position: number): number {
    let [low, high] = [0, Math.max(0, this.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#top(middle) <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #scrolled(): void {
    // A scroll of our own ends where the anchor says; only a person's makes a new one.
    if (Math.abs(this.host.scrollTop - (this.#top(this.#anchor.index) - this.#anchor.above)) > 1) {
      const index = this.#at(this.host.scrollTop);
      this.#anchor = { index, above: this.#top(index) - this.host.scrollTop };
    }
    this.#draw();
  }

  #draw(): void {
    const first = Math.max(0, this.#at(this.host.scrollTop) - BEYOND);
    const last = Math.min(this.length, this.#at(this.host.scrollTop + this.host.clientHeight) + BEYOND);
    for (const index of [...this.#nodes.keys()]) if (index < first || index >= last) this.#drop(index);
    // From the end, so that the next row is there already and rows keep their order.
    for (let index = last - 1; index >= first; index--) {
      let node = this.#nodes.get(index);
      if (!node) {
        node = this.render(index);
        this.#nodes.set(index, node);
        this.#numbers.set(node, index);
        this.#body.insertBefore(node, this.#nodes.get(index + 1) ?? null);
        this.#sizes.observe(node);
      }
      node.style.top = `${this.#top(index)}px`;
    }
    this.#body.style.height = `${this.#top(this.length)}px`;
  }

  #drop(index: number): void {
    const node = this.#nodes.get(index);
    if (!node) return;
    this.#sizes.unobserve(node);
    this.#nodes.delete(index);
    node.remove();
  }

  #measured(rows: Element[]): void {
    const grown = new Map<number, number>();
    for (const row of rows) {
      const index = this.#numbers.get(row);
      if (index === undefined || this.#nodes.get(index) !== row || !row.isConnected) continue;
      const height = row.getBoundingClientRect().height;
      const more = height - (this.#top(index + 1) - this.#top(index));
      if (height > 0 && Math.abs(more) > 0.5) grown.set(index, more);
    }
    if (!grown.size) return;
    let more = 0;
    for (let index = Math.min(...grown.keys()); index < this.length; index++) {
      more += grown.get(index) ?? 0;
      this.#tops[index + 1] = this.#top(index + 1) + more;
    }
    this.#draw();
    this.host.scrollTop = this.#top(this.#anchor.index) - this.#anchor.above;
  }
}
