// A program that waits, in Node: `idle.js case`. Prints the same as idle.lua.
const net = require("net");

const kept = [];
const cases = {
  nothing: (ready) => ready(),
  second: (ready) => { setInterval(() => {}, 1000); ready(); },
  kilohertz: (ready) => { setInterval(() => {}, 1); ready(); },
  listen: (ready) => net.createServer(() => {}).listen(0, "127.0.0.1", ready),
  crowd: (ready) => {
    const wait = async () => { await new Promise((wake) => kept.push(wake)); };
    for (let i = 0; i < 10000; i++) wait();
    ready();
  },
  hour: (ready) => { setTimeout(() => {}, 3600e3); ready(); },
  busy: (ready) => {
    const start = Date.now();
    while (Date.now() - start < 1000);
    ready();
  },
};

// Standard input never has data. Reading it keeps the program from ending.
process.stdin.resume();
cases[process.argv[2]](() => console.log("ready"));
