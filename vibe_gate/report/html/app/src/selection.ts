// Which runs of a site are listed, and in which order, as the part of the address after "#":
// outcome=fail&author=agent&agent=NAME&person=NAME&path=FILE&model=NAME&criterion=RUBRIC/ID&said=WORD&workflow=ID
// &test=ID&result=WORD&reused=1&run=ID&from=DAY&to=DAY&q=TEXT&sort=-usd

/** As `report/site/runs.py` writes it; names of any kind are numbers of lists beside, -1 if there is none.
 * `page`: 1 for `runs/ID.html`, 0 without one, else its address. `tested`: of a run of a test. */
export type Run = readonly [
  id: string,
  outcome: string,
  author: string,
  title: string,
  key: string,
  page: number | string,
  files: number,
  added: number,
  deleted: number,
  findings: number,
  usd: number,
  ms: number,
  agents: readonly number[],
  usdByModel: readonly (readonly [model: number, usd: number])[],
  found: readonly (readonly [criterion: number, word: number])[],
  hits: number,
  misses: number,
  workflow: number,
  person: number,
  paths: readonly number[],
  tested?: readonly [test: number, result: number, model: number, repetition: number],
];

export interface Names {
  agents: string[];
  models: string[];
  criteria: string[];
  words: string[];
  tests: string[];
  results: string[];
  workflows: string[];
  people: string[];
  paths: string[];
}

export const FILTERS = [
  "outcome", "author", "agent", "person", "path", "model", "criterion", "said", "workflow", "test", "result", "reused",
  "run", "from", "to", "q",
] as const;
export type Filter = (typeof FILTERS)[number];

export const COLUMNS = ["time", "outcome", "by", "change", "lines", "found", "usd", "seconds", "run"] as const;
export type Column = (typeof COLUMNS)[number];

export interface Selection {
  only: Partial<Record<Filter, string>>;
  sort: Column;
  descending: boolean;
}

export const NEWEST: Selection = { only: {}, sort: "time", descending: true };

/** The selection of an address; null if it is the place of an element. */
export function parseSelection(hash: string): Selection | null {
  const text = hash.replace(/^#/, "");
  if (!text) return NEWEST;
  if (!text.includes("=")) return null;
  const only: Partial<Record<Filter, string>> = {};
  let [sort, descending]: [Column, boolean] = ["time", true];
  for (const part of text.split("&")) {
    const at = part.indexOf("=");
    const [name, value] = [part.slice(0, at), decode(part.slice(at + 1))];
    const column = value.replace(/^-/, "") as Column;
    if (name === "sort" && COLUMNS.includes(column)) [sort, descending] = [column, value.startsWith("-")];
    else if ((name === "from" || name === "to") && !isDay(value)) continue;
    else if (FILTERS.includes(name as Filter) && value) only[name as Filter] = value;
  }
  return { only, sort, descending };
}

/** The address of a selection, with its "#". */
export function selectionHash({ only, sort, descending }: Selection): string {
  const parts = FILTERS.filter((name) => only[name]).map((name) => `${name}=${encodeURIComponent(only[name] as string)}`);
  if (sort !== "time" || !descending) parts.push(`sort=${descending ? "-" : ""}${sort}`);
  return `#${parts.join("&")}`;
}

/** The runs of a selection, in its order; those with equal values stay newest first. `runs` are. */
export function selected(runs: readonly Run[], names: Names, { only, sort, descending }: Selection): Run[] {
  const number = (kind: Exclude<keyof Names, "paths">, name: string | undefined): number | undefined =>
    name === undefined ? undefined : names[kind].indexOf(name);
  const [agent, model] = [number("agents", only.agent), number("models", only.model)];
  const [criterion, word] = [number("criteria", only.criterion), number("words", only.said)];
  const [workflow, person] = [number("workflows", only.workflow), number("people", only.person)];
  const [test, result] = [number("tests", only.test), number("results", only.result)];
  const paths = only.path === undefined ? undefined : pathsOf(names.paths, only.path);
  const words = (only.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const outcomes = only.outcome?.split(",");
  const found = runs.filter((run) => {
    const day = dayOf(run);
    return (
      (!outcomes || outcomes.includes(run[1])) &&
      (!only.author || run[2] === only.author) &&
      (agent === undefined || run[12].includes(agent)) &&
      (workflow === undefined || run[17] === workflow) &&
      (person === undefined || run[18] === person) &&
      (!paths || run[19].some((at) => paths.has(at))) &&
      (model === undefined || run[20]?.[2] === model || run[13].some(([each]) => each === model)) &&
      (test === undefined || run[20]?.[0] === test) &&
      (result === undefined || run[20]?.[1] === result) &&
      ((criterion === undefined && word === undefined) ||
        run[14].some(([one, said]) => (criterion ?? one) === one && (word ?? said) === said)) &&
      (!only.reused || run[15] > 0) &&
      (!only.run || run[0] === only.run) &&
      (!only.from || day >= only.from) &&
      (!only.to || day <= only.to) &&
      words.every((text) => textOf(run, names).includes(text))
    );
  });
  if (sort === "time") return descending ? found : found.reverse();
  const value = VALUES[sort];
  const sign = descending ? -1 : 1;
  return found
    .map((run): [string | number, Run] => [value(run, names), run])
    .sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0))
    .map(([, run]) => run);
}

const VALUES: Record<Exclude<Column, "time">, (run: Run, names: Names) => string | number> = {
  outcome: (run) => run[1],
  by: (run, names) => byOf(run, names).toLowerCase(),
  change: (run) => run[3].toLowerCase(),
  lines: (run) => run[7] + run[8],
  found: (run) => run[9],
  usd: (run) => run[10],
  seconds: (run) => run[11],
  run: (run) => run[0],
};

function isDay(text: string): boolean {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : NaN;
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

/** The day on which a run began, YYYY-MM-DD in UTC, by its id. */
export function dayOf([id]: Run): string {
  return `${id.slice(0, 4)}-${id.slice(4, 6)}-${id.slice(6, 8)}`;
}

/** The day of the newest run; "" if there is none. What no review here wrote (foreign) may bear any date. */
export function newestDay(runs: readonly Run[]): string {
  return runs.filter((run) => run[1] !== "foreign").map(dayOf).find((day) => !Number.isNaN(Date.parse(day))) ?? "";
}

/** The numbers of the paths that are meant: a file, or what is below a folder; else those that have the text. */
export function pathsOf(paths: readonly string[], text: string): ReadonlySet<number> {
  const [wanted, below] = [text.replace(/\/?\**$/, ""), (path: string) => path.startsWith(`${wanted}/`)];
  const numbers = (is: (path: string) => boolean) => new Set(paths.flatMap((path, at) => (is(path) ? [at] : [])));
  const found = numbers((path) => path === wanted || below(path));
  return found.size ? found : numbers((path) => path.includes(wanted));
}

/** Who wrote the change: the commit's author, and in brackets the agents that its signs name; else "agent" or "human". */
export function byOf(run: Run, names: Names): string {
  const [author, person, agents] = [run[2], names.people[run[18]] ?? "", run[12].map((at) => names.agents[at])];
  if (!author) return "";
  const named = agents.join(", ") || (person && author !== "human" ? author : "");
  return (person || author) + (named && ` (${named})`);
}

function textOf(run: Run, names: Names): string {
  const criteria = run[14].map(([at]) => names.criteria[at]).join(" ");
  const paths = run[19].map((at) => names.paths[at]).join(" ");
  const test = run[20] ? names.tests[run[20][0]] : "";
  return `${run[0]} ${run[4]} ${run[3]} ${run[1]} ${run[2]} ${byOf(run, names)} ${criteria} ${paths} ${test}`.toLowerCase();
}

/** Milliseconds as seconds with one digit behind their point, half a tenth rounded up. */
export function inSeconds(ms: number): string {
  return (Math.floor(ms / 100 + 0.5) / 10).toFixed(1);
}

/** How the test of a run ended; "" of a run that is no test's. */
export function resultOf(run: Run, names: Names): string {
  return run[20] ? (names.results[run[20][1]] ?? "") : "";
}

export interface Total {
  runs: number;
  usd: number;
  outcomes: [name: string, runs: number][];
  models: [name: string, usd: number][];
  asked: number;
  areReviews: boolean;
  medianMs: number;
}

/** What some runs come to: outcomes and models with the greatest first; the median time of the reviews that asked a
 * model, as the picture has it, or of other runs that did if there is no such review. */
export function added(runs: readonly Run[], names: Names): Total {
  const [outcomes, models] = [new Map<string, number>(), new Map<string, number>()];
  let usd = 0;
  for (const run of runs) {
    const outcome = resultOf(run, names) || run[1];
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    usd += run[10];
    for (const [model, cost] of run[13]) {
      const name = names.models[model] ?? "";
      models.set(name, (models.get(name) ?? 0) + cost);
    }
  }
  const greatest = (of: Map<string, number>): [string, number][] => [...of].sort(([, a], [, b]) => b - a);
  const all = runs.filter((run) => run[10] > 0 || run[16] > 0);
  const reviews = all.filter((run) => names.workflows[run[17]] === "review");
  const areReviews = reviews.length > 0;
  const times = (areReviews ? reviews : all).map((run) => run[11]).sort((a, b) => a - b);
  const [middle, next] = [times[(times.length - 1) >> 1] ?? 0, times[times.length >> 1] ?? 0];
  const medianMs = (middle + next) / 2;
  const costs = { usd, outcomes: greatest(outcomes), models: greatest(models) };
  return { runs: runs.length, ...costs, asked: times.length, areReviews, medianMs };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
