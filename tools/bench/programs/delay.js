// The lateness of sleeps in Node, whose timers count whole milliseconds: `delay.js seconds count`.
// Prints the same as delay.lua.
const [seconds, count] = process.argv.slice(2).map(Number);
const now = () => Number(process.hrtime.bigint()) / 1e9;

async function main() {
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

main();
