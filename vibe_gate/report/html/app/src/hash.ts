// Places of the page as the part of its address after "#":
// c=RUBRIC/CRITERION[/VOTE], e=TURN[/SOURCE-SEQ], f=PATH[:LINE] (":-LINE": a removed line), or the id of an element.
// A file that an agent's turn changed, rather than the reviewed change: e=TURN&f=PATH[:LINE].

export type Place =
  | { kind: "element"; id: string }
  | { kind: "criterion"; name: string; vote: number }
  | { kind: "event"; turn: string; event: string }
  | { kind: "file"; turn: string; path: string; line: number; before: boolean };

const EVENT = /^(?:(.*)\/)?((?:run|sdk|hook)-\d+)$/s;

/** The place that an address names; text that is none is the id of an element. */
export function parsePlace(hash: string): Place {
  const text = hash.replace(/^#/, "");
  const parts = new Map(text.split("&").map((part): [string, string] => [part.slice(0, 2), part.slice(2)]));
  const file = parts.get("f=");
  if (file !== undefined) {
    const [, path = "", minus = "", line = "0"] = /^(.*?)(?::(-?)(\d{1,9}))?$/s.exec(file) ?? [];
    return { kind: "file", turn: decode(parts.get("e=") ?? ""), path: decode(path), line: +line, before: minus === "-" };
  }
  const event = parts.get("e=");
  if (event !== undefined) {
    const whole = decode(event);
    const [, turn = "", name] = EVENT.exec(whole) ?? [];
    return name === undefined ? { kind: "event", turn: whole, event: "" } : { kind: "event", turn, event: name };
  }
  const criterion = parts.get("c=");
  if (criterion !== undefined) {
    const [, name = "", vote = "0"] = /^([^/]*\/.*?)(?:\/(\d{1,6}))?$/s.exec(decode(criterion)) ?? [, decode(criterion)];
    return { kind: "criterion", name, vote: +vote };
  }
  return { kind: "element", id: decode(text) };
}

/** The address of a place, with its "#". */
export function placeHash(place: Place): string {
  switch (place.kind) {
    case "element":
      return `#${encode(place.id)}`;
    case "criterion":
      return `#c=${encode(place.name)}${place.vote ? `/${place.vote}` : ""}`;
    case "event":
      return `#e=${[place.turn, place.event].filter(Boolean).map(encode).join("/")}`;
    case "file": {
      const line = place.line ? `:${place.before ? "-" : ""}${place.line}` : "";
      const turn = place.turn ? `e=${encode(place.turn)}&` : "";
      return `#${turn}f=${encode(place.path).replaceAll(":", "%3A")}${line}`;
    }
  }
}

function encode(text: string): string {
  return encodeURIComponent(text.replace(/\p{Surrogate}/gu, "\ufffd")).replaceAll("%2F", "/").replaceAll("%3A", ":");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
