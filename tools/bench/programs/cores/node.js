// Work and messages on two cores, by worker_threads: `node.js map KIND SECONDS`, `message WAY KIND
// BYTES SECONDS`, `reference buffer BYTES SECONDS`, `spawn COUNT`.
const fs = require("fs");
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");

const chunks = {
  queens() {
    const size = 7, columns = [], up = [], down = [];
    function place(row) {
      if (row === size) return 1;
      let ways = 0;
      for (let column = 0; column < size; column++) {
        const rising = row + column, falling = row - column + size;
        if (!columns[column] && !up[rising] && !down[falling]) {
          columns[column] = up[rising] = down[falling] = true;
          ways += place(row + 1);
          columns[column] = up[rising] = down[falling] = false;
        }
      }
      return ways;
    }
    return place(0);
  },
  mandelbrot() {
    const size = 40, limit = 50;
    let steps = 0;
    for (let row = 0; row < size; row++) {
      for (let column = 0; column < size; column++) {
        const cx = (column * 3) / size - 2, cy = (row * 2) / size - 1;
        let x = 0, y = 0, step = 0;
        while (step < limit && x * x + y * y < 4) {
          [x, y] = [x * x - y * y + cx, 2 * x * y + cy];
          step++;
        }
        steps += step;
      }
    }
    return steps;
  },
  trees() {
    const grow = (depth) => (depth === 0 ? {} : { left: grow(depth - 1), right: grow(depth - 1) });
    const nodes = (tree) => (tree.left ? 1 + nodes(tree.left) + nodes(tree.right) : 1);
    return nodes(grow(11));
  },
};

// The CPU time of this thread alone, and of all threads, in microseconds.
function threadCpu() {
  const used = fs.readFileSync("/proc/thread-self/schedstat", "utf8");
  return Number(used.split(" ")[0]) / 1e3;
}
function programCpu() {
  const used = process.cpuUsage();
  return used.user + used.system;
}
const next = (worker) => new Promise((resolve) => worker.once("message", resolve));
const print = (figures) => console.log(JSON.stringify(figures));

// What a worker does with a message, by its role.
const roles = {
  work(count) {
    let sum = 0;
    for (let n = 0; n < count; n++) sum += chunks[workerData.kind]();
    parentPort.postMessage(sum);
  },
  answer(value) {
    parentPort.postMessage(value, value instanceof ArrayBuffer ? [value] : []);
  },
  // A number says how many messages follow, and how many of them are answered by one receipt.
  receive(value) {
    if (Array.isArray(value)) {
      [this.all, this.window] = value;
      this.taken = 0;
      this.since = threadCpu();
      return;
    }
    this.taken++;
    if (this.taken === this.all) parentPort.postMessage(threadCpu() - this.since);
    else if (this.taken % this.window === 0) parentPort.postMessage(null);
  },
};

async function map(kind, seconds) {
  const start = () => new Worker(__filename, { workerData: { role: "work", kind } });
  const workers = [start(), start()];
  async function together(some, all) {
    const start = performance.now(), cpu = programCpu();
    const done = some.map(next);
    for (const worker of some) worker.postMessage(all / some.length);
    await Promise.all(done);
    return { ms: performance.now() - start, cpu: programCpu() - cpu };
  }
  // Both are warm.
  await together(workers, 2);
  for (let all = 2; ; all *= 2) {
    const one = await together(workers.slice(0, 1), all);
    if (one.ms < seconds * 1e3) continue;
    const two = await together(workers, all);
    return { one_ms: one.ms, two_ms: two.ms, speedup: one.ms / two.ms, cpu: two.cpu / one.cpu };
  }
}

// Repeats `run` with four times as many until it takes long enough. Returns the last one's figures
// for each of its messages.
async function untilLong(seconds, messages, run) {
  await run(1); // The worker has begun.
  for (let n = 1; ; n *= 4) {
    const start = performance.now(), cpu = programCpu(), own = threadCpu();
    const other = await run(n);
    const elapsed = performance.now() - start, each = n * messages;
    if (elapsed < seconds * 1e3) continue;
    const figures = {
      us: (elapsed * 1e3) / each,
      cpu_us: (programCpu() - cpu) / each,
      sender_us: (threadCpu() - own) / each,
    };
    return other === undefined ? figures : { ...figures, receiver_us: other / each };
  }
}

function maker(kind, bytes) {
  if (kind === "table") return (id) => ({ id, price: 12.5, name: "a small order", open: true });
  const text = Buffer.alloc(bytes, "x").toString("latin1");
  return () => text;
}

async function message(way, kind, bytes, seconds) {
  const create = maker(kind, bytes);
  const role = way === "stream" ? "receive" : "answer";
  const worker = new Worker(__filename, { workerData: { role } });
  if (way === "pingpong") {
    return untilLong(seconds, 2, async (n) => {
      for (let i = 0; i < n; i++) {
        worker.postMessage(create(i));
        await next(worker);
      }
    });
  }
  // Nothing bounds the queue of a worker, so at most two windows of messages are under way.
  const window = Math.max(1, Math.min(64, Math.floor((32 << 20) / bytes)));
  let receipts = 0, tell = () => {};
  worker.on("message", (value) => {
    receipts++;
    tell(value);
  });
  const receipt = () => new Promise((resolve) => (tell = resolve));
  return untilLong(seconds, 1, async (n) => {
    worker.postMessage([n, window]);
    receipts = 0;
    for (let i = 0; i < n; i++) {
      while (i - receipts * window >= 2 * window) await receipt();
      worker.postMessage(create(i));
    }
    const all = Math.ceil(n / window);
    for (;;) {
      const value = await receipt();
      if (receipts === all) return value;
    }
  });
}

async function reference(what, bytes, seconds) {
  const worker = new Worker(__filename, { workerData: { role: "answer" } });
  let buffer = new ArrayBuffer(bytes);
  return untilLong(seconds, 2, async (n) => {
    for (let i = 0; i < n; i++) {
      worker.postMessage(buffer, [buffer]);
      buffer = await next(worker);
    }
  });
}

async function spawn(count) {
  console.log("base");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  const start = performance.now();
  for (let n = 0; n < count; n++) {
    await next(new Worker(__filename, { workerData: { role: "begin" } }));
  }
  print({ us: ((performance.now() - start) * 1e3) / count });
  console.log("all");
  await new Promise((resolve) => process.stdin.once("end", resolve));
}

const parts = { map, message, reference, spawn };

if (isMainThread) {
  const [part, ...words] = process.argv.slice(2);
  const number = (word) => (isNaN(word) ? word : Number(word));
  parts[part](...words.map(number)).then((figures) => {
    if (figures) print(figures);
    process.exit(0);
  });
} else if (workerData.role === "begin") {
  parentPort.postMessage(true);
  parentPort.on("message", () => {});
} else {
  parentPort.on("message", (value) => roles[workerData.role](value));
}
