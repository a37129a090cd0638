// Loads a heap snapshot with the loader of Chrome's DevTools, and prints what it finds as JSON.
//
//     node heap.mjs DIRECTORY_WITH_NODE_MODULES FILE

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { MessageChannel } from "node:worker_threads";

const [modules, file] = process.argv.slice(2);
const require = createRequire(join(modules, "package.json"));
const worker = "node_modules/chrome-devtools-frontend/front_end/entrypoints/heap_snapshot_worker";

// DevTools is in TypeScript. Its loader and its model become one file of JavaScript. Its own
// build makes a list of languages; here it has only the language of the sources.
const oneLanguage = {
  name: "one language",
  setup(build) {
    build.onResolve({ filter: /\/locales\.js$/ }, () => ({ path: "locales", namespace: "languages" }));
    const contents = `
      export const LOCALES = ["en-US"];
      export const BUNDLED_LOCALES = ["en-US"];
      export const DEFAULT_LOCALE = "en-US";
      export const REMOTE_FETCH_PATTERN = "";
      export const LOCAL_FETCH_PATTERN = "";
    `;
    build.onLoad({ filter: /.*/, namespace: "languages" }, () => ({ contents }));
  },
};
const directory = mkdtempSync(join(tmpdir(), "baton-heap-"));
process.on("exit", () => rmSync(directory, { recursive: true }));
const outfile = join(directory, "devtools.mjs");
await require("esbuild").build({
  absWorkingDir: modules,
  stdin: {
    contents: `
      export { HeapSnapshotLoader } from "./${worker}/HeapSnapshotLoader.js";
      export { SecondaryInitManager } from "./${worker}/HeapSnapshot.js";
    `,
    resolveDir: modules,
    loader: "ts",
  },
  plugins: [oneLanguage],
  bundle: true,
  outfile,
  format: "esm",
  platform: "node",
  logLevel: "error",
});

// What the program takes from newer engines and from a browser.
Promise.withResolvers ??= function () {
  const deferred = {};
  deferred.promise = new Promise((resolve, reject) => Object.assign(deferred, { resolve, reject }));
  return deferred;
};
const { HeapSnapshotLoader, SecondaryInitManager } =
  await import(pathToFileURL(outfile));

const problems = [];
const loader = new HeapSnapshotLoader({
  sendEvent(name, data) {
    if (name === "BrokenSnapshot") problems.push(String(data));
  },
});
const text = readFileSync(file, "utf8");
for (let at = 0; at < text.length; at += 1000) loader.write(text.slice(at, at + 1000));
loader.close();
await loader.parsingComplete;
const channel = new MessageChannel();
new SecondaryInitManager(channel.port2);
const snapshot = await loader.buildSnapshot(channel.port1);

const nodes = [];
const node = snapshot.createNode(0);
for (let index = 0; index < snapshot.nodes.length; index += snapshot.nodeFieldCount) {
  node.nodeIndex = index;
  const edges = [];
  for (const iterator = node.edges(); iterator.hasNext(); iterator.next()) {
    const edge = iterator.item();
    edges.push({ type: edge.type(), name: edge.name(), to: edge.node().ordinal() });
  }
  nodes.push({
    type: node.type(),
    name: node.rawName(),
    id: node.id(),
    self: node.selfSize(),
    retained: node.retainedSize(),
    distance: node.distance(),
    edges,
  });
}
const aggregates = snapshot.aggregatesWithFilter({});
const classes = Object.values(aggregates).map(({ name, count, self, maxRet }) => ({
  name,
  count,
  self,
  retained: maxRet,
}));
const found = JSON.stringify({ nodes, classes, problems });
// The port would keep the program alive.
process.stdout.write(found, () => process.exit(0));
