// Builds the pages into crates/console/pages. With --check it compares what is checked in with what the source makes.
import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = fileURLToPath(new URL("../crates/console/pages/", import.meta.url));
const checks = process.argv.includes("--check");
const BYTES_MAX = 150 * 1024;

const options = { absWorkingDir: here, bundle: true, minify: true, write: false, target: "es2022", legalComments: "none" };
const jsx = { jsx: "automatic", jsxImportSource: "preact" };
const [script, style] = await Promise.all([
  build({ ...options, ...jsx, entryPoints: ["src/main.tsx"], format: "iife", define: { "process.env.NODE_ENV": '"production"' } }),
  build({ ...options, entryPoints: ["src/style.css"] }),
]);
const files = {
  "index.html": readFileSync(`${here}src/index.html`),
  "icon.svg": readFileSync(`${here}src/icon.svg`),
  "app.js": script.outputFiles[0].contents,
  "app.css": style.outputFiles[0].contents,
};

let bytes = 0;
for (const [name, contents] of Object.entries(files)) {
  const path = `${target}${name}.gz`;
  if (checks) {
    // Versions of zlib compress differently, so what is compared is what was compressed.
    const packed = readFileSync(path);
    bytes += packed.length;
    if (!gunzipSync(packed).equals(Buffer.from(contents))) {
      console.error(`crates/console/pages/${name}.gz is not what console/ makes: run "npm ci && npm run build" there`);
      process.exit(1);
    }
  } else {
    const packed = gzipSync(contents, { level: 9 });
    bytes += packed.length;
    writeFileSync(path, packed);
  }
}
console.log(`${bytes} bytes compressed`);
if (bytes > BYTES_MAX) {
  console.error(`that is more than ${BYTES_MAX}`);
  process.exit(1);
}
