#!/usr/bin/env node
// Runs the program of the package for this system. npm installs only the package that fits.
"use strict";

const { spawn } = require("node:child_process");

const name = `baton-lua-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/baton`);
} catch {
  console.error(`baton: the package ${name} is not installed: there is no program for this system, ` +
    "or npm ran with --omit=optional");
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends its signals to both programs. Others reach only this one.
for (const signal of ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]) {
  process.on(signal, () => child.kill(signal));
}
for (const signal of ["SIGINT", "SIGQUIT"]) {
  process.on(signal, () => {});
}
child.on("error", (why) => {
  console.error(`baton: cannot start ${program}: ${why.message}`);
  process.exit(1);
});
child.on("exit", (status, signal) => {
  if (signal === null) process.exit(status);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
