// What an event says: its parts for reading, the call and the result that belong to it, and what it cost.

import { type Call, eventName, fieldOf, type Head, textOf, type Turn, turnName, type Whole } from "./data";
import { type Child, facts, h, longText } from "./dom";
import { placeHash } from "./hash";
import { duration } from "./scale";
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
  const answers = fieldOf(input, "answers");
  if (Array.isArray(answers)) made.push(...answers.map((given) => answer(given, turn)));
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
  // Two rubrics may ask alike; the one that this turn voted for links to it.
  const links = (each: HTMLElement): string[] => [...each.querySelectorAll("a")].map((link) => link.getAttribute("href") ?? "");
  const own = placeHash({ kind: "event", turn, event: "" });
  const row = alike.find((each) => links(each).some((link) => `${link}/`.startsWith(`${own}/`))) ?? alike[0];
  const place = placeHash({ kind: "criterion", name: row?.dataset.c ?? "", vote: 0 });
  const evidence = fieldOf(given, "evidence");
  const quoted = Array.isArray(evidence) ? evidence.map(quotation) : [];
  return h("section", { class: "answer" },
    h("p", {}, h("span", { class: `badge ${["pass", "fail"].includes(outcome) ? outcome : ""}` }, outcome), " ",
      row ? h("a", { href: place }, name) : name),
    h("p", {}, reason),
    against ? h("p", { class: "against" }, "For example: ", against) : null,
    quoted.length ? h("ul", { class: "evidence" }, ...quoted) : null);
}

function quotation(given: unknown): HTMLElement {
  const [path, line] = [textOf(given, "path"), Number(fieldOf(given, "line")) || 0];
  const place = placeHash({ kind: "file", turn: "", path, line, before: textOf(given, "side") === "before" });
  return h("li", {}, h("a", { href: place }, `${path}:${line}`), h("pre", { class: "quote" }, textOf(given, "quote")));
}

/** The events of one tool call. */
export interface CallEvents {
  call: Call | undefined;
  asked: Head | undefined;
  answered: Head | undefined;
  hooks: Head[];
}

/** What belongs to the use of a tool: by its id. */
export function callEvents(turn: Turn, use: string): CallEvents {
  const heads = use ? turn.heads.filter((head) => head[5] === use) : [];
  const said = heads.filter((head) => head[0] === "sdk" && head[3] === "message");
  return {
    call: use ? turn.calls.find((call) => call.use === use) : undefined,
    asked: said.find((head) => head[6] !== "tool"),
    answered: said.find((head) => head[6] === "tool"),
    hooks: heads.filter((head) => head[0] === "hook"),
  };
}

/** One event with all that belongs to it. */
export function eventView(turn: Turn | null, head: Head, wholes: ReadonlyMap<string, Whole>, zero: number): HTMLElement {
  const whole = wholes.get(eventName(head));
  const [source, , ts, type, tool, use, role, text] = head;
  const at = h("time", { title: new Date(ts).toISOString() }, `+${duration(ts - zero)}`);
  const title = h("h3", {}, `${tool || type} `, h("small", {}, `${kindOf(head)} ${eventName(head)}`));
  if (!turn || !whole) return h("article", {}, title, facts([["time", at], ["node", role], ["", text]]));
  const events = callEvents(turn, use);
  const asked = events.asked && wholes.get(eventName(events.asked));
  const response = events.answered && wholes.get(eventName(events.answered));
  const isMessage = ["message", "result"].includes(type);
  const call = source === "sdk" && asked
    ? [h("h4", {}, "Input"), ...parts(asked, turn.id), h("h4", {}, "Response"),
      ...(response ? parts(response, turn.id) : [h("p", { class: "none" }, "No response was recorded.")])]
    : null;
  return h("article", {}, title,
    facts([
      ["time", at],
      ["turn", h("a", { href: placeHash({ kind: "event", turn: turn.id, event: "" }) }, turnName(turn))],
      ["state", events.call && stateOf(events.call)],
      ["subagent", events.call?.agent],
      ["this answer of the model", tokensOf(textOf(asked ?? whole, "message_id"), wholes)],
      ["whole turn", costOf(turn)],
    ]),
    links(turn, head, events),
    ...(call ?? (isMessage ? parts(whole, turn.id) : [])),
    h("details", { open: !call && !isMessage }, h("summary", {}, "Raw JSON"), longText(JSON.stringify(whole, null, 2))));
}

function links(turn: Turn, head: Head, { asked, answered, hooks }: CallEvents): HTMLElement | null {
  const targets = [["call", asked] as const, ["result", answered] as const, ...hooks.map((hook) => [hook[3], hook] as const)];
  const made: Child[] = targets.map(([name, to]) =>
    to && to !== head && h("a", { href: placeHash({ kind: "event", turn: turn.id, event: eventName(to) }) }, name));
  return made.some(Boolean) ? h("p", { class: "links" }, "Go to ", ...made) : null;
}

function stateOf(call: Call): string {
  return call.end === null ? call.state : `${call.state} in ${duration(call.end - call.start)}`;
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
  const input = count("input") + count("cache_read") + count("cache_write");
  return `${counted(input)} tokens in, ${counted(count("output"))} out`;
}

/** A turn: who was asked, how it ended, what it cost, its todos and what it changed. */
export function turnView(turn: Turn): HTMLElement {
  const failed = turn.calls.filter((call) => !["completed", "in-progress"].includes(call.state)).length;
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
      ["tool calls", `${turn.calls.length}${failed ? `, ${failed} not completed` : ""}`],
      ["tokens", `${counted(turn.input_tokens)} in, ${counted(turn.output_tokens)} out`],
      ["cost", costOf(turn)],
    ]),
    todos.length ? h("h4", {}, "Todos") : null, h("ul", {}, ...todos),
    files.length ? h("h4", {}, "Changed files") : null, h("ul", {}, ...files));
}
