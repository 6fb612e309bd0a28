// Text of others, with nothing hidden in it: the counterpart of domain/escape.py.

const UNUSUAL = /[^\t\n\x20-\x7e\xa1-\xac\xae-\u02ff]/;
// Categories, then letters and marks that fonts draw as nothing, and our own bracket.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Z}\u115f\u1160\u3164\uffa0\u2800\u034f\u27e6\u17b4\u17b5\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;

/** Whatever fonts draw as nothing, as blank or in another direction, as its code: ⟦U+202E⟧. */
export function visible(text: string): string {
  if (!UNUSUAL.test(text)) return text;
  return text.replace(HIDDEN, (char) => {
    const code = char.codePointAt(0) ?? 0;
    if (char === " " || char === "\t" || char === "\n") return char;
    return `⟦U+${code.toString(16).toUpperCase().padStart(4, "0")}⟧`;
  });
}

/** The text on one line, at most `most` characters of it. */
export function short(text: string, most = 200): string {
  const line = text.replace(/\s+/g, " ");
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** A number with its thousands apart. */
export function counted(number: number): string {
  return number.toLocaleString("en");
}
