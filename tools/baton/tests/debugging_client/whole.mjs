// Drives each request of the debugger by the test client of VS Code's debuggers.
//
// Its arguments are the interpreter, a script, the command line of a simulated run that fails, and
// its script. It writes what it has seen as JSON.

import { createRequire } from "node:module";

const [, , modules, baton, program, simulate, simulated] = process.argv;
const require = createRequire(modules + "/");
const { DebugClient } = require("@vscode/debugadapter-testsupport");

const seen = {};

/** Starts a session, up to the breakpoints, which are set. */
async function start(configuration, breakpoints, filters = []) {
  const client = new DebugClient(baton, "debug", "baton");
  client.defaultTimeout = 60_000;
  await client.start();
  const initialized = client.waitForEvent("initialized");
  const capabilities = (await client.initializeRequest()).body;
  await client.launchRequest(configuration);
  await initialized;
  const source = { path: configuration.program };
  const set = await client.setBreakpointsRequest({ source, breakpoints });
  await client.setExceptionBreakpointsRequest({ filters });
  return { client, capabilities, set: set.body.breakpoints };
}

/** Makes a request, and waits for the stop that it leads to. */
async function stop(client, request) {
  const [event] = await Promise.all([client.waitForEvent("stopped"), request()]);
  return event.body;
}

/** The frames of a process. */
async function frames(client, threadId, more = {}) {
  return (await client.stackTraceRequest({ threadId, ...more })).body;
}

/** Why a request has failed. */
async function why(request) {
  try {
    await request;
    return undefined;
  } catch (error) {
    return error.message;
  }
}

const { client, capabilities, set } = await start(
  { program, allStop: true, watchLimit: 0.2 },
  [{ line: 4 }, { line: 5, condition: "n = 1" }, { line: 5, logMessage: "{n +}" }],
  ["all"],
);
seen.capabilities = Object.keys(capabilities).filter((name) => capabilities[name] === true);
seen.wrong = set.map((breakpoint) => breakpoint.message ?? "");

const first = await stop(client, () => client.configurationDoneRequest());
const { threadId } = first;
const stack = await frames(client, threadId);
const page = await frames(client, threadId, { startFrame: 1, levels: 1 });
seen.pages = [
  stack.totalFrames === stack.stackFrames.length,
  page.stackFrames[0].id === stack.stackFrames[1].id,
];
const frameId = stack.stackFrames[0].id;

const evaluate = (expression, context = "repl", frame = frameId) =>
  client.evaluateRequest({ expression, context, frameId: frame });

// A runaway is cancelled; another one is ended by a pause; a hover has a limit.
const runaway = "(function() while true do end end)()";
const cancelled = why(evaluate(runaway));
await client.customRequest("cancel", { requestId: client.sequence - 1 });
const paused = why(evaluate(runaway));
await client.pauseRequest({ threadId });
seen.ended = [await cancelled, await paused];
seen.limited = await why(evaluate(runaway, "hover"));

seen.preview = (await evaluate("values", "watch")).body.result;
const completions = await client.completionsRequest({ frameId, text: "values.na", column: 10 });
seen.completions = completions.body.targets.map((target) => target.label);
const changed = await client.customRequest("setExpression", {
  expression: "values.name",
  value: "'new'",
  frameId,
});
seen.changed = changed.body.value;

// Another process, which waits.
const threads = (await client.threadsRequest()).body.threads;
const waiter = threads.find((thread) => thread.name.includes("waiter")).id;
const waiting = (await frames(client, waiter)).stackFrames.find((frame) => frame.name === "await");
seen.waiting = (await evaluate("wanted", "hover", waiting.id)).body.result;

// Started again, with the same breakpoints; then the error.
const again = await stop(client, () => client.restartRequest({}));
seen.again = again.reason;
await client.setBreakpointsRequest({ source: { path: program }, breakpoints: [] });
const error = await stop(client, () => client.continueRequest({ threadId: again.threadId }));
const info = (await client.exceptionInfoRequest({ threadId: error.threadId })).body;
seen.error = [error.reason, info.description, info.details.typeName];

// All wait after that: an idle program stops.
await Promise.all([
  client.waitForEvent("output"),
  client.continueRequest({ threadId: error.threadId }),
]);
const idle = await stop(client, () => client.pauseRequest({ threadId: 1 }));
seen.idle = [idle.reason, idle.threadId, idle.allThreadsStopped];
await client.stop();

// A run with the fewest switches is replayed.
const replay = await start({ program: simulated, simulate }, [{ line: 5 }]);
const exited = replay.client.waitForEvent("exited");
let stopped = await stop(replay.client, () => replay.client.configurationDoneRequest());
for (let n = 1; n < 4; n++) {
  stopped = await stop(replay.client, () =>
    replay.client.continueRequest({ threadId: stopped.threadId }),
  );
}
await replay.client.continueRequest({ threadId: stopped.threadId });
seen.replayed = (await exited).body.exitCode;
await replay.client.stop();

console.log(JSON.stringify(seen));
