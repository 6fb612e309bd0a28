// What an event says: its parts for reading, the call and the result that belong to it, and what it cost.

import { eventName, fieldOf, type Head, textOf, type Turn, turnName, type Whole } from "./data";
import { facts, h, longText } from "./dom";
import { placeHash } from "./hash";
import { duration, timeOf } from "./scale";
import { counted } from "./visible";

const MOST = 200;
const DEEPEST = 6;

/** Any value for reading: strings as text, objects and lists as names with values. */
export function valueView(value: unknown, depth = 0): HTMLElement {
  if (typeof value === "string") return value.length > 80 || value.includes("\n") ? longText(value) : h("code", {}, value);
  if (typeof value !== "object" || value === null) return h("code", {}, JSON.stringify(value) ?? "");
  if (depth > DEEPEST) return longText(JSON.stringify(value));
  const entries = Object.entries(value);
  if (!entries.length) return h("code", {}, Array.isArray(value) ? "[]" : "{}");
  const list = facts(entries.slice(0, MOST).map(([name, each]) => [name, valueView(each, depth + 1)]), "fields");
  return entries.length > MOST ? h("div", {}, list, longText(JSON.stringify(value))) : list;
}

/** What kind of event the lists call it. */
export function kindOf(head: Head): string {
  const [source, , , type, tool, , role] = head;
  if (source !== "sdk") return source;
  if (type !== "message") return type;
  return tool ? (role === "tool" ? "result" : "call") : role || "message";
}

/** The parts of a message of a turn: text, thinking, a judge's answers, a tool's input or its result. */
export function parts(whole: Whole, turn: string): HTMLElement[] {
  const made: HTMLElement[] = [];
  const [thinking, content] = [textOf(whole, "thinking"), fieldOf(whole, "content")];
  if (thinking) made.push(h("details", {}, h("summary", {}, "Thinking"), longText(thinking, "prose")));
  if (typeof content === "string") {
    if (content) made.push(longText(content, "prose"));
  } else if (content !== undefined) made.push(valueView(content));
  const [input, result] = [fieldOf(whole, "input"), fieldOf(whole, "result")];
  const [answers, changes] = [fieldOf(input, "answers"), textOf(input, "changes")];
  if (Array.isArray(answers)) made.push(...(changes ? [longText(changes, "prose")] : []), ...answers.map((given) => answer(given, turn)));
  else if (input !== undefined) made.push(valueView(input));
  if (result !== undefined) made.push(valueView(result));
  return made;
}

/** A judge's answer to one question, with links to what became of it and to the lines it quotes. */
function answer(given: unknown, turn: string): HTMLElement {
  const [name, outcome] = [textOf(given, "criterion"), textOf(given, "outcome")];
  const [reason, against] = [textOf(given, "reason"), textOf(given, "counterexample")];
  const rows = [...document.querySelectorAll<HTMLElement>("tr[data-c]")];
  const alike = rows.filter((each) => each.dataset.c?.split("/").at(-1) === name);
  // Two rubrics may ask alike; the one that this turn voted for links to it, as does the vote.
  const own = placeHash({ kind: "event", turn, event: "" });
  const isOwn = (each: HTMLElement): boolean =>
    [...each.querySelectorAll("a")].some((link) => `${link.getAttribute("href")}/`.startsWith(`${own}/`));
  const row = alike.find(isOwn) ?? alike[0];
  const vote = [...row?.querySelectorAll<HTMLElement>("[data-vote]") ?? []].find(isOwn);
  const became = vote?.querySelector(".badge")?.textContent ?? outcome;
  const place = placeHash({ kind: "criterion", name: row?.dataset.c ?? "", vote: Number(vote?.dataset.vote) || 0 });
  const evidence = fieldOf(given, "evidence");
  const quoted = Array.isArray(evidence) ? evidence.map(quotation) : [];
  return h("section", { class: "answer" },
    h("p", {}, h("span", { class: `badge ${["pass", "fail"].includes(outcome) ? outcome : ""}` }, outcome), " ",
      row ? h("a", { href: place }, name) : name, became !== outcome && ` counted as ${became}`),
    h("p", {}, reason),
    against ? h("p", { class: "against" }, "For example: ", against) : null,
    quoted.length ? h("ul", { class: "evidence" }, ...quoted) : null);
}

function quotation(given: unknown): HTMLElement {
  const [path, line] = [textOf(given, "path"), Number(fieldOf(given, "line")) || 0];
  const place = placeHash({ kind: "file", turn: "", path, line, before: textOf(given, "side") === "before" });
  return h("li", {}, h("a", { href: place }, `${path}:${line}`), h("pre", { class: "quote" }, textOf(given, "quote")));
}

/** One event with all that belongs to it. */
export function eventView(turn: Turn | null, head: Head, wholes: ReadonlyMap<string, Whole>, zero: number): HTMLElement {
  const whole = wholes.get(eventName(head));
  const [source, , ts, type, tool, use, role, text] = head;
  const at = h("time", { title: new Date(ts).toISOString() }, `+${duration(ts - zero)}`);
  const title = h("h3", {}, `${tool || type} `, h("small", {}, `${kindOf(head)} ${eventName(head)}`));
  if (!turn || !whole) return h("article", {}, title, facts([["time", at], ["node", role], ["", text]]));
  const ofCall = use ? turn.heads.filter((each) => each[5] === use && (each[0] === "hook" || each[3] === "message")) : [];
  const made = use ? turn.calls.find((each) => each.use === use) : undefined;
  const wholeOf = (name: string): Whole | undefined =>
    ofCall.filter((each) => kindOf(each) === name).map((each) => wholes.get(eventName(each)))[0];
  const [asked, response] = [wholeOf("call"), wholeOf("result")];
  const isMessage = ["message", "result"].includes(type);
  const call = source === "sdk" && asked
    ? [h("h4", {}, "Input"), ...parts(asked, turn.id), h("h4", {}, "Response"),
      ...(response ? parts(response, turn.id) : [h("p", { class: "none" }, "No response was recorded.")])]
    : null;
  return h("article", {}, title,
    facts([
      ["time", at],
      ["turn", h("a", { href: placeHash({ kind: "event", turn: turn.id, event: "" }) }, turnName(turn))],
      ["state", made && `${made.state} ${timeOf(made)}`],
      ["subagent", made?.agent],
      ["this answer of the model", tokensOf(textOf(asked ?? whole, "message_id"), wholes)],
      ["whole turn", costOf(turn)],
    ]),
    links(turn, ofCall.filter((each) => each !== head)),
    ...(call ?? (isMessage ? parts(whole, turn.id) : [])),
    h("details", { open: !call && !isMessage }, h("summary", {}, "Raw JSON"), longText(JSON.stringify(whole, null, 2))));
}

function links(turn: Turn, heads: readonly Head[]): HTMLElement | null {
  const made = heads.map((head) => h("a", { href: placeHash({ kind: "event", turn: turn.id, event: eventName(head) }) },
    head[0] === "hook" ? head[3] : kindOf(head)));
  return made.length ? h("p", { class: "links" }, "Go to ", ...made) : null;
}

function costOf(turn: Turn): string {
  return turn.usd === null ? "cost not known" : `$${turn.usd.toFixed(4)}`;
}

/** Tokens of the model's answer with an id; "" if they were not recorded. */
function tokensOf(message: string, wholes: ReadonlyMap<string, Whole>): string {
  const usages = [...wholes.values()].filter((each) => textOf(each, "type") === "usage");
  const usage = message ? usages.find((each) => textOf(each, "message_id") === message) : undefined;
  if (!usage) return "";
  const tokens = fieldOf(usage, "tokens");
  const count = (name: string): number => Number(fieldOf(tokens, name)) || 0;
  return `${counted(count("input"))} tokens in, ${counted(count("output"))} out`;
}

/** A turn: who was asked, how it ended, what it cost, its todos and what it changed. */
export function turnView(turn: Turn): HTMLElement {
  const states = Map.groupBy(turn.calls.filter((call) => call.state !== "completed"), (call) => call.state);
  const ends = [...states].map(([state, calls]) => `${calls.length} ${state}`).join(", ");
  const todos = turn.todos.map((todo) => h("li", {}, h("span", { class: "badge" }, todo.status), " ", todo.text));
  const files = turn.files.map((file) => {
    const place = placeHash({ kind: "file", turn: turn.id, path: file.path, line: 0, before: false });
    return h("li", {}, h("a", { href: place }, file.path), ` +${file.added} −${file.deleted}`);
  });
  return h("article", {}, h("h3", {}, turnName(turn)),
    facts([
      ["agent", turn.agent || turn.kind],
      ["model", turn.model],
      ["ended", turn.status],
      ["time", turn.ended && duration(turn.ended - turn.started)],
      ["tool calls", `${turn.calls.length}${ends && ` (${ends})`}`],
      ["tokens", `${counted(turn.input_tokens)} in, ${counted(turn.output_tokens)} out`],
      ["cost", costOf(turn)],
    ]),
    todos.length ? h("h4", {}, "Todos") : null, h("ul", {}, ...todos),
    files.length ? h("h4", {}, "Changed files") : null, h("ul", {}, ...files));
}
