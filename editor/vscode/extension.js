// The extension for VS Code: it starts `baton debug`, runs scripts as tasks, and adds the definitions
// of Baton's modules to the Lua language server.

"use strict";

const path = require("path");
const vscode = require("vscode");

/** The program baton: that of a debugging configuration, or that of the settings. */
function interpreter(configuration) {
  const own = configuration && configuration.interpreter;
  return own || vscode.workspace.getConfiguration("baton").get("interpreter") || "baton";
}

/** Starts the debugger of a session. */
const descriptors = {
  createDebugAdapterDescriptor(session) {
    return new vscode.DebugAdapterExecutable(interpreter(session.configuration), ["debug"]);
  },
};

/** Completes what a debugging configuration leaves open. */
const configurations = {
  resolveDebugConfiguration(_folder, configuration) {
    if (!configuration.type && !configuration.request) {
      // There is no launch.json: the open script is debugged.
      const editor = vscode.window.activeTextEditor;
      if (!editor || editor.document.languageId !== "lua") return undefined;
      return {
        type: "baton",
        request: "launch",
        name: "Debug the open script",
        program: editor.document.fileName,
      };
    }
    if (configuration.request === "launch" && !configuration.program) {
      vscode.window.showErrorMessage("Baton: 'program' expected, the script to debug.");
      return undefined;
    }
    return configuration;
  },

  /** Variables are replaced by now. */
  resolveDebugConfigurationWithSubstitutedVariables(_folder, configuration) {
    if (configuration.request !== "attach") return configuration;
    const pid = Number(configuration.pid);
    if (Number.isInteger(pid) && pid > 0) return { ...configuration, pid };
    vscode.window.showErrorMessage(
      `Baton: the process id of a running program expected in 'pid', got '${configuration.pid}'.`,
    );
    return undefined;
  },
};

/** Asks for a process id. */
function pickProcess() {
  return vscode.window.showInputBox({
    title: "Baton",
    prompt: "The process id of a program that was started with BATON_ATTACH=all",
    validateInput: (text) => (/^[1-9][0-9]*$/.test(text) ? undefined : "A number expected"),
  });
}

/** The task that runs a script. */
function scriptTask(definition, scope) {
  const task = new vscode.Task(
    definition,
    scope,
    path.basename(definition.script),
    "baton",
    new vscode.ProcessExecution(interpreter(), ["--", definition.script, ...(definition.args || [])]),
  );
  task.group = vscode.TaskGroup.Test;
  return task;
}

/** Offers a task for the open script, and completes those of tasks.json. */
const tasks = {
  provideTasks() {
    const editor = vscode.window.activeTextEditor;
    if (!editor || editor.document.languageId !== "lua") return [];
    const definition = { type: "baton", script: editor.document.fileName };
    return [scriptTask(definition, vscode.TaskScope.Workspace)];
  },
  resolveTask(task) {
    if (!task.definition.script) return undefined;
    return scriptTask(task.definition, task.scope || vscode.TaskScope.Workspace);
  },
};

/** Adds the definitions to the workspace's settings of the Lua language server. */
async function addDefinitions(context) {
  const own = vscode.workspace.getConfiguration("baton").get("library");
  const library = own || path.join(context.extensionPath, "library");
  const settings = vscode.workspace.getConfiguration("Lua");
  const before = settings.get("workspace.library") || [];
  if (before.includes(library)) return;
  await settings.update(
    "workspace.library",
    [...before, library],
    vscode.ConfigurationTarget.Workspace,
  );
}

function activate(context) {
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("baton", descriptors),
    vscode.debug.registerDebugConfigurationProvider("baton", configurations),
    vscode.tasks.registerTaskProvider("baton", tasks),
    vscode.commands.registerCommand("baton.pickProcess", pickProcess),
    vscode.commands.registerCommand("baton.addDefinitions", () => addDefinitions(context)),
  );
}

function deactivate() {}

module.exports = { activate, deactivate };
