// Pictures that are larger than their frame: zoom by buttons, keys and the wheel, and moving by the mouse.
// Without scripts they scroll.

import { h } from "./dom";

const LEAST_READABLE = 0.75;
const FAR = 0.5;
const MOST = 3;

/** Gives each frame its buttons and keys when it is first seen: one in a tab or a fold that is closed has no size yet. */
export function zoomWhenSeen(frames: Iterable<HTMLElement>): void {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      zoomable(entry.target as HTMLElement);
    }
  });
  for (const frame of frames) seen.observe(frame);
}

function zoomable(frame: HTMLElement): void {
  const picture = frame.querySelector<SVGSVGElement>(":scope > svg");
  if (!picture) return;
  const { width, height } = picture.viewBox.baseVal;
  frame.classList.toggle("wide", width > frame.clientWidth && frame.parentElement?.tagName === "SECTION");
  let scale = 1;

  function fitting(): number {
    return Math.min(1, (frame.clientWidth - 2) / width, (Math.max(frame.clientHeight, innerHeight * 0.6) - 2) / height);
  }

  /** Zooms, and keeps what is at this point of the frame where it is. */
  function zoom(to: number, x = frame.clientWidth / 2, y = frame.clientHeight / 2): void {
    const next = Math.min(MOST, Math.max(Math.min(fitting(), 0.1), to));
    const [left, top] = [(frame.scrollLeft + x) / scale, (frame.scrollTop + y) / scale];
    scale = next;
    picture?.setAttribute("width", `${width * scale}`);
    picture?.setAttribute("height", `${height * scale}`);
    picture?.classList.toggle("far", scale < FAR);
    frame.scrollTo(left * scale - x, top * scale - y);
  }

  /** All of it if it can be read so; else its beginning. */
  function begin(): void {
    zoom(Math.max(fitting(), LEAST_READABLE));
    const first = picture?.querySelector(":scope > svg")?.getBoundingClientRect();
    if (first) frame.scrollTo(first.left + first.width / 2 - frame.getBoundingClientRect().left - frame.clientWidth / 2, 0);
  }

  const moves: Record<string, () => void> = {
    "+": () => zoom(scale * 1.25),
    "=": () => zoom(scale * 1.25),
    "-": () => zoom(scale / 1.25),
    "0": () => zoom(fitting()),
    "1": () => zoom(1),
  };
  frame.addEventListener("keydown", (event) => {
    const move = event.ctrlKey || event.metaKey || event.altKey ? undefined : moves[event.key];
    if (!move || event.target !== frame) return;
    event.preventDefault();
    event.stopPropagation();
    move();
  });
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const box = frame.getBoundingClientRect();
    zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  drag(frame);
  const button = (text: string, label: string, key: string): HTMLElement =>
    h("button", { type: "button", "aria-label": label, title: `${label} (${key})`, onclick: () => moves[key]?.() }, text);
  frame.before(h("div", { class: "zoom" }, button("−", "Zoom out", "-"), button("+", "Zoom in", "+"),
    button("Fit", "Show all", "0"), button("1:1", "Full size", "1")));
  begin();
}

/** Moves what a frame shows with the mouse; a click that did not move stays a click. */
function drag(frame: HTMLElement): void {
  let from: { x: number; y: number; left: number; top: number } | null = null;
  let moved = false;
  frame.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType !== "mouse") return;
    from = { x: event.clientX, y: event.clientY, left: frame.scrollLeft, top: frame.scrollTop };
    moved = false;
  });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    const [right, down] = [event.clientX - from.x, event.clientY - from.y];
    moved ||= Math.abs(right) + Math.abs(down) > 4;
    if (moved) frame.scrollTo(from.left - right, from.top - down);
  });
  addEventListener("pointerup", () => (from = null));
  frame.addEventListener("dragstart", (event) => event.preventDefault());
  frame.addEventListener("click", (event) => {
    if (moved) event.preventDefault(), event.stopPropagation();
    moved = false;
  }, { capture: true });
}
