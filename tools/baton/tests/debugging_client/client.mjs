// Debugs a program with many processes by the test client of VS Code's debuggers.
//
// Its arguments are the interpreter, the script, and the line of a breakpoint in it. It writes what
// it has seen as JSON.

import { createRequire } from "node:module";
import assert from "node:assert";

const [, , modules, baton, program, line] = process.argv;
const require = createRequire(modules + "/");
const { DebugClient } = require("@vscode/debugadapter-testsupport");

// The client starts its first argument with the second one: `baton debug`.
const client = new DebugClient(baton, "debug", "baton");
client.defaultTimeout = 60_000;
await client.start();

// Its chunk is not loaded yet.
const at = { path: program, line: Number(line), verified: false };
const stopped = client.waitForEvent("stopped");
await client.hitBreakpoint({ program }, at);
const threadId = (await stopped).body.threadId;
const threads = (await client.threadsRequest()).body.threads;

async function innermost() {
  const stack = await client.stackTraceRequest({ threadId, startFrame: 0, levels: 1 });
  return stack.body.stackFrames[0];
}

async function evaluate(expression) {
  const frameId = (await innermost()).id;
  const answer = await client.evaluateRequest({ expression, frameId, context: "watch" });
  return answer.body.result;
}

const own = Number(await evaluate("own"));
const before = Number(await evaluate("total()"));
// The others count on, until each has counted twice, on average.
let after = before;
while (after < before + 2000) after = Number(await evaluate("total()"));
assert.strictEqual(Number(await evaluate("own")), own);

const [, step] = await Promise.all([
  client.nextRequest({ threadId }),
  client.waitForEvent("stopped"),
]);
assert.strictEqual(step.body.reason, "step");
const scopes = await client.scopesRequest({ frameId: (await innermost()).id });
const locals = await client.variablesRequest({
  variablesReference: scopes.body.scopes[0].variablesReference,
});

console.log(JSON.stringify({
  threads: threads.length,
  line: (await innermost()).line,
  stepped: Number(await evaluate("own")) - own,
  locals: locals.body.variables.map((variable) => variable.name),
}));
await client.stop();
