// What an event says: its parts for reading, the call and the result that belong to it, and what it cost.

import type { Call, Head, Turn, Whole } from "./data";
import { eventName, fieldOf, textOf } from "./data";
import { h, longText } from "./dom";
import { placeHash } from "./hash";
import { duration } from "./scale";

const MOST = 200;
const DEEPEST = 6;

/** Any value for reading: strings as text, objects and lists as names with values. */
export function valueView(value: unknown, depth = 0): HTMLElement {
  if (typeof value === "string") return value.length > 80 || value.includes("\n") ? longText(value) : h("code", {}, value);
  if (typeof value !== "object" || value === null) return h("code", {}, JSON.stringify(value) ?? "");
  if (depth > DEEPEST) return longText(JSON.stringify(value));
  const entries = Object.entries(value);
  if (!entries.length) return h("code", {}, Array.isArray(value) ? "[]" : "{}");
  const list = h("dl", { class: "fields" }, ...entries.slice(0, MOST).map(([name, each]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, valueView(each, depth + 1)))));
  return entries.length > MOST ? h("div", {}, list, longText(JSON.stringify(value))) : list;
}

/** What kind of event the lists call it. */
export function kindOf(head: Head): string {
  const [source, , , type, tool, , role] = head;
  if (source !== "sdk") return source;
  if (type !== "message") return type;
  return tool ? (role === "tool" ? "result" : "call") : role || "message";
}

/** The parts of a message: text, thinking, a judge's answers, a tool's input or its result. */
export function parts(whole: Whole): HTMLElement[] {
  const made: HTMLElement[] = [];
  const [thinking, content] = [textOf(whole, "thinking"), fieldOf(whole, "content")];
  if (thinking) made.push(h("details", { class: "thinking" }, h("summary", {}, "Thinking"), longText(thinking, "prose")));
  if (typeof content === "string") {
    if (content) made.push(longText(content, "prose"));
  } else if (content !== undefined) made.push(valueView(content));
  const [input, result] = [fieldOf(whole, "input"), fieldOf(whole, "result")];
  const answers = fieldOf(input, "answers");
  if (Array.isArray(answers)) made.push(...answers.map(answer));
  else if (input !== undefined) made.push(valueView(input));
  if (result !== undefined) made.push(valueView(result));
  return made;
}

/** A judge's answer to one question, with links to what became of it and to the lines it quotes. */
function answer(given: unknown): HTMLElement {
  const name = textOf(given, "criterion");
  const row = [...document.querySelectorAll<HTMLElement>("tr[data-c]")].find((each) => each.dataset.c?.split("/").at(-1) === name);
  const outcome = textOf(given, "outcome");
  const evidence = fieldOf(given, "evidence");
  const quoted = (Array.isArray(evidence) ? evidence : []).map((each: unknown) => {
    const [path, line] = [textOf(each, "path"), Number(fieldOf(each, "line")) || 0];
    const place = placeHash({ kind: "file", turn: "", path, line, before: textOf(each, "side") === "before" });
    return h("li", {}, h("a", { href: place }, `${path}:${line}`), h("pre", { class: "quote" }, textOf(each, "quote")));
  });
  const [reason, against] = [textOf(given, "reason"), textOf(given, "counterexample")];
  return h("section", { class: "answer" },
    h("p", {}, h("span", { class: `badge ${["pass", "fail"].includes(outcome) ? outcome : ""}` }, outcome), " ",
      row ? h("a", { href: placeHash({ kind: "criterion", name: row.dataset.c ?? "", vote: 0 }) }, name) : name),
    h("p", {}, reason), against ? h("p", { class: "against" }, "For example: ", against) : null, quoted.length ? h("ul", { class: "evidence" }, ...quoted) : null);
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
  const [, , ts, type, tool, use] = head;
  const at = h("time", { title: new Date(ts).toISOString() }, `+${duration(ts - zero)}`);
  const title = h("h3", { tabindex: -1 }, tool ? `${tool} ` : `${type} `, h("small", {}, `${kindOf(head)} ${eventName(head)}`));
  if (!turn || !whole) return h("article", {}, title, h("p", {}, at), h("p", {}, head[7]), head[6] ? h("p", {}, h("code", {}, head[6])) : null);
  const events = callEvents(turn, use);
  const link = (name: string, to: Head | undefined): HTMLElement | null =>
    to && to !== head ? h("a", { href: placeHash({ kind: "event", turn: turn.id, event: eventName(to) }) }, name) : null;
  const links = [link("call", events.asked), link("result", events.answered), ...events.hooks.map((hook) => link(hook[3], hook))];
  const asked = events.asked && wholes.get(eventName(events.asked));
  const response = events.answered && wholes.get(eventName(events.answered));
  const isCall = head[0] === "sdk" && !!use && !!asked;
  return h("article", {},
    title,
    h("dl", { class: "facts" }, ...facts(turn, whole, asked, events.call, wholes, at).map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    links.some(Boolean) ? h("p", { class: "links" }, "Go to ", ...links.filter((each) => each !== null)) : null,
    ...(isCall ? [h("h4", {}, "Input"), ...parts(asked), h("h4", {}, "Response"), ...(response ? parts(response) : [h("p", { class: "none" }, "No response was recorded.")])]
      : ["message", "result"].includes(type) ? parts(whole) : []),
    h("details", { class: "raw", open: !isCall && !["message", "result"].includes(type) }, h("summary", {}, "Raw JSON"), longText(JSON.stringify(whole, null, 2))));
}

function facts(turn: Turn, whole: Whole, asked: Whole | undefined, call: Call | undefined, wholes: ReadonlyMap<string, Whole>, at: HTMLElement): [string, HTMLElement | string][] {
  const made: [string, HTMLElement | string][] = [["time", at], ["turn", h("a", { href: placeHash({ kind: "event", turn: turn.id, event: "" }) }, turn.id.replace(/^nodes\//, ""))]];
  if (call) made.push(["state", call.end === null ? call.state : `${call.state} in ${duration(call.end - call.start)}`]);
  if (call?.agent) made.push(["subagent", call.agent]);
  const message = textOf(asked ?? whole, "message_id");
  const usage = message && [...wholes.values()].find((each) => textOf(each, "type") === "usage" && textOf(each, "message_id") === message);
  if (usage) {
    const tokens = fieldOf(usage, "tokens");
    const count = (name: string): number => Number(fieldOf(tokens, name)) || 0;
    const input = count("input") + count("cache_read") + count("cache_write");
    made.push(["this answer of the model", `${input.toLocaleString("en")} tokens in, ${count("output").toLocaleString("en")} out`]);
  }
  made.push(["whole turn", turn.usd === null ? "cost not known" : `$${turn.usd.toFixed(4)}`]);
  return made;
}

/** A turn: who was asked, how it ended, what it cost, its todos and what it changed. */
export function turnView(turn: Turn): HTMLElement {
  const failed = turn.calls.filter((call) => !["completed", "in-progress"].includes(call.state)).length;
  const told: [string, string][] = [
    ["agent", turn.agent || turn.kind], ["model", turn.model], ["ended", turn.status],
    ["time", turn.ended ? duration(turn.ended - turn.started) : ""],
    ["tool calls", `${turn.calls.length}${failed ? `, ${failed} not completed` : ""}`],
    ["tokens", `${turn.input_tokens.toLocaleString("en")} in, ${turn.output_tokens.toLocaleString("en")} out`],
    ["cost", turn.usd === null ? "not known" : `$${turn.usd.toFixed(4)}`],
  ];
  return h("article", {}, h("h3", { tabindex: -1 }, turn.id.replace(/^nodes\//, "")),
    h("dl", { class: "facts" }, ...told.filter(([, text]) => text).map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text)))),
    turn.todos.length ? h("h4", {}, "Todos") : null,
    h("ul", { class: "todos" }, ...turn.todos.map((todo) => h("li", {}, h("span", { class: "badge" }, todo.status), " ", todo.text))),
    turn.files.length ? h("h4", {}, "Changed files") : null,
    h("ul", {}, ...turn.files.map((file) => h("li", {},
      h("a", { href: placeHash({ kind: "file", turn: turn.id, path: file.path, line: 0, before: false }) }, file.path), ` +${file.added} −${file.deleted}`))));
}
