// `node build.mjs`: page.js, page.css, site.js and site.css beside this folder; `node build.mjs test`: the tests, for node --test.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url)).replace(/\/$/, "");
const shared = { absWorkingDir: here, bundle: true, target: "es2022", logLevel: "warning" };

if (process.argv[2] === "test") {
  const entryPoints = readdirSync(`${here}/test`).map((name) => `test/${name}`);
  await build({ ...shared, entryPoints, outdir: ".test", platform: "node", format: "esm", outExtension: { ".js": ".mjs" } });
} else {
  // Its licence asks that the notice stays with the code.
  const licence = readFileSync(`${here}/node_modules/highlight.js/LICENSE`, "utf8").trim();
  const banner = { js: `/*! Parts of this are highlight.js:\n\n${licence}\n*/` };
  // The page holds the script as it is. esbuild writes "</script" as "<\/script"; "<!--", which stands in strings and
  // expressions of languages, would make the browser's parser count script elements.
  const script = { ...shared, banner, minify: true, format: "iife", charset: "ascii", legalComments: "inline" };
  const built = await build({ ...script, entryPoints: ["src/main.ts"], write: false });
  writeFileSync(`${here}/../page.js`, built.outputFiles[0].text.replaceAll("<!--", "\\x3c!--"));
  const site = { ...shared, minify: true, format: "iife", charset: "ascii" };
  await build({ ...site, entryPoints: { site: "src/site.ts" }, outdir: ".." });
  await build({ ...shared, entryPoints: { site: "src/site.css" }, outdir: "..", minify: true, target: "esnext" });
  await build({ ...shared, entryPoints: { page: "src/page.css" }, outdir: "..", minify: true, target: "esnext" });
}
