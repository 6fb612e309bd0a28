// Contents of files and turns, which stand in the page as gzip in base64 and are inflated when somebody looks at them.

import type { Turn, Whole } from "./data";

const texts = new Map<string, Promise<string>>();
const turns = new Map<string, Promise<Map<string, Whole>>>();

/** The text of a content; "" if the page has none of that id. */
export function blobText(id: string): Promise<string> {
  let text = texts.get(id);
  if (!text) texts.set(id, (text = inflate(id)));
  return text;
}

async function inflate(id: string): Promise<string> {
  const element = document.querySelector(`script[data-blob="${CSS.escape(id)}"]`);
  if (!element) return "";
  const packed = Uint8Array.from(atob(element.textContent ?? ""), (char) => char.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** The whole events of a turn, by name ("sdk-8"). */
export function wholeEvents(turn: Turn): Promise<Map<string, Whole>> {
  let events = turns.get(turn.id);
  if (!events) turns.set(turn.id, (events = parse(turn)));
  return events;
}

async function parse(turn: Turn): Promise<Map<string, Whole>> {
  const events = JSON.parse((await blobText(turn.id)) || "[]") as [string, number, Whole][];
  return new Map(events.map(([source, seq, whole]) => [`${source}-${seq}`, whole]));
}
