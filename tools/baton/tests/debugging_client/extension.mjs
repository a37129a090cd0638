// Runs the extension for VS Code without VS Code: a stub of its module notes what is registered.
//
// Its arguments are the extension's file and the interpreter. It writes what it has seen as JSON.

import { createRequire } from "node:module";
import { spawn } from "node:child_process";
import Module from "node:module";

const [, , file, baton] = process.argv;
const require = createRequire(import.meta.url);

const registered = {};
const messages = [];
const settings = { baton: { interpreter: baton, library: "" }, Lua: {} };

class Noted {
  constructor(...parts) {
    this.parts = parts;
  }
}

const stub = {
  DebugAdapterExecutable: class extends Noted {},
  ProcessExecution: class extends Noted {},
  Task: class extends Noted {},
  TaskGroup: { Test: "test" },
  TaskScope: { Workspace: "workspace" },
  ConfigurationTarget: { Workspace: 2 },
  debug: {
    registerDebugAdapterDescriptorFactory: (type, factory) => (registered.factory = factory),
    registerDebugConfigurationProvider: (type, provider) => (registered.configurations = provider),
  },
  tasks: { registerTaskProvider: (type, provider) => (registered.tasks = provider) },
  commands: { registerCommand: (name, command) => (registered[name] = command) },
  window: {
    activeTextEditor: { document: { languageId: "lua", fileName: "/program/open.lua" } },
    showErrorMessage: (text) => messages.push(text),
  },
  workspace: {
    getConfiguration: (section) => ({
      get: (name) => settings[section][name],
      update: async (name, value) => (settings[section][name] = value),
    }),
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? stub : load(name, ...rest));

const extension = require(file);
const context = { subscriptions: [], extensionPath: "/extension" };
extension.activate(context);

/** Starts what the descriptor says, and sends it the first request. */
function initialize([command, options]) {
  return new Promise((resolve) => {
    const server = spawn(command, options, { stdio: ["pipe", "pipe", "inherit"] });
    let answer = "";
    server.stdout.on("data", (text) => (answer += text));
    server.on("close", (status) => resolve({ status, answer }));
    const request = JSON.stringify({ seq: 1, type: "request", command: "initialize" });
    server.stdin.end(`Content-Length: ${request.length}\r\n\r\n${request}`);
  });
}

const session = { configuration: { type: "baton", request: "launch" } };
const descriptor = registered.factory.createDebugAdapterDescriptor(session);
const { status, answer } = await initialize(descriptor.parts);
await registered["baton.addDefinitions"]();
await registered["baton.addDefinitions"]();
const resolve = (configuration) =>
  registered.configurations.resolveDebugConfiguration(undefined, configuration);
const substituted = (configuration) =>
  registered.configurations.resolveDebugConfigurationWithSubstitutedVariables(
    undefined,
    configuration,
  );

console.log(JSON.stringify({
  subscriptions: context.subscriptions.length,
  started: descriptor.parts.slice(0, 2),
  status,
  capabilities: JSON.parse(answer.split("\r\n\r\n")[1]).body,
  open: resolve({}),
  refused: resolve({ type: "baton", request: "launch" }) === undefined,
  attach: substituted({ type: "baton", request: "attach", pid: "42" }).pid,
  wrong: substituted({ type: "baton", request: "attach", pid: "x" }) === undefined,
  messages,
  task: registered.tasks.provideTasks()[0].parts[4].parts,
  library: settings.Lua["workspace.library"],
}));
