// A program that waits, in Node, whose timers count whole milliseconds: `waits.js idle case` prints
// the same as idle.lua, and `waits.js delay seconds count` the same as delay.lua.
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

const now = () => Number(process.hrtime.bigint()) / 1e9;

async function delay(seconds, count) {
  const late = [];
  const start = now();
  for (let i = 0; i < count; i++) {
    const before = now();
    await new Promise((wake) => setTimeout(wake, seconds * 1e3));
    late.push(((now() - before - seconds) * 1e6).toFixed(2));
  }
  console.log("took_s", now() - start);
  console.log("late_us " + late.join(" "));
}

const [what, ...words] = process.argv.slice(2);
if (what === "delay") {
  delay(...words.map(Number));
} else {
  // Standard input never has data. Reading it keeps the program from ending.
  process.stdin.resume();
  cases[words[0]](() => console.log("ready"));
}
