// Elements from code. Text goes in as text nodes and attribute values only; nothing here, or anywhere, takes markup.

import { counted, visible } from "./visible";

export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | undefined | ((event: never) => void);

/** An element. Names in `props` are ours; `on...` are listeners, and a link can only lead to a place of this page. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (name === "href") element.setAttribute(name, `#${String(value).replace(/^#/, "")}`);
    else if (value !== undefined) element.setAttribute(name, visible(String(value)));
  }
  element.append(...nodes(children));
  return element;
}

/** The children, strings as text in which nothing is hidden. */
function nodes(children: Child[]): (Node | string)[] {
  return children
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : visible(String(child))));
}

/** Replaces what an element holds. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...nodes(children));
}

/** Names with their values; those without a value are left out. */
export function facts(pairs: readonly (readonly [name: string, value: Child])[], name = "facts"): HTMLElement {
  const shown = pairs.filter(([, value]) => value);
  return h("dl", { class: name }, ...shown.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

/** A list of choices; the first stands for all. */
export function choices(
  label: string,
  all: string,
  rest: readonly (readonly [value: string, text: string])[],
  onchange: () => void,
): HTMLSelectElement {
  const options = [["", all] as const, ...rest].map(([value, text]) => h("option", { value }, text));
  return h("select", { "aria-label": label, onchange }, ...options);
}

const CUT = 6_000;

/** Text of any length: the beginning, and a button for the rest. */
export function longText(text: string, name = ""): HTMLElement {
  const clean = text.replaceAll("\r\n", "\n");
  const block = h("pre", { class: name, tabindex: 0 }, clean.slice(0, CUT));
  if (clean.length <= CUT) return block;
  const more = h("button", { type: "button", class: "more", onclick: () => (fill(block, clean), more.remove()) },
    `show all ${counted(clean.length)} characters`);
  return h("div", {}, block, more);
}
