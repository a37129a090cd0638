// A client of HTTP/2 for http2.lua: Node's own. Its arguments are an address and the name of a
// case below. What a case prints is compared there.
import http2 from "node:http2";
import { readFileSync } from "node:fs";

const [, , address, name, ...more] = process.argv;

const options = {};
if (address.startsWith("https")) options.ca = readFileSync(more[0]);
const session = http2.connect(address, options);
session.on("error", (error) => print("session", error.code));
session.on("goaway", (code) => print("goaway", code));

function print(...words) {
  console.log(words.join(" "));
}

// Sends a request. The result has the status, the fields, the body, and the code of a reset.
function ask(fields, body, begun) {
  return new Promise((resolve) => {
    const stream = session.request({ ":path": "/", ...fields });
    const reply = { fields: {}, body: "", size: 0 };
    stream.on("response", (got) => {
      reply.fields = got;
      reply.status = got[":status"];
    });
    stream.on("data", (data) => {
      reply.size += data.length;
      if (reply.size < 1000) reply.body += data;
      if (begun) begun(stream, data);
    });
    stream.on("error", () => {});
    stream.on("close", () => resolve({ ...reply, code: stream.rstCode }));
    stream.end(body);
    if (begun) begun(stream);
  });
}

const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));
const ended = new Promise((resolve) => session.on("close", resolve));

const cases = {
  async requests() {
    const first = await ask({ ":path": "/echo/a%20b?x=1%202&y=%41+b&x=3", "x-own": "mine" });
    print(first.status, first.body);
    print(first.fields["content-type"], first.fields["content-length"], !!first.fields.date);
    const cookies = ["one=1", "two=2"];
    const second = await ask({ ":method": "POST", ":path": "/body", cookie: cookies }, "a body");
    print(second.status, second.body, second.fields["x-set"], second.fields["set-cookie"]);
    const head = await ask({ ":method": "HEAD", ":path": "/echo/x" });
    print(head.status, head.size, head.fields["content-length"] > 0);
    print((await ask({ ":path": "/nowhere" })).status);
    print((await ask({ ":method": "DELETE", ":path": "/body" })).fields.allow);
    const json = await ask({ ":method": "POST", ":path": "/json" }, '{"a": [1, 2]}');
    print(json.status, json.fields["content-type"], json.body);
    print((await ask({ ":path": "/none" })).status);
    print((await ask({ ":method": "PROPFIND" })).status);
    print((await ask({ ":path": "/websocket" })).status);
  },
  async together() {
    const all = [];
    for (let i = 1; i <= 50; i++) all.push(ask({ ":path": "/" + i }));
    const bodies = (await Promise.all(all)).map((reply) => reply.body);
    print(bodies.join(","));
  },
  async large() {
    const up = await ask({ ":method": "POST", ":path": "/up" }, Buffer.alloc(3_000_000, "u"));
    print(up.status, up.body);
    const all = [];
    for (const path of ["/send", "/stream", "/send", "/stream"]) all.push(ask({ ":path": path }));
    for (const reply of await Promise.all(all)) print(reply.status, reply.size, reply.code);
  },
  async expectations() {
    const fields = { ":method": "POST", expect: "100-continue" };
    for (const path of ["/read", "/unread"]) {
      const stream = session.request({ ...fields, ":path": path });
      let was_asked = false;
      stream.on("continue", () => {
        was_asked = true;
        stream.end("a body");
      });
      stream.on("error", () => {});
      const reply = await new Promise((resolve) => stream.on("response", resolve));
      print(path, reply[":status"], was_asked);
      stream.close();
    }
    print((await ask({ ":method": "POST", expect: "more" })).status);
  },
  async readers() {
    const large = Buffer.alloc(500_000, "u");
    const slow = [];
    for (let i = 0; i < 5; i++) slow.push(ask({ ":method": "POST", ":path": "/slow" }, large));
    await wait(50);
    print((await ask({ ":method": "POST", ":path": "/quick" }, large)).body);
    print((await Promise.all(slow)).map((reply) => reply.body).join(","));
  },
  async resets() {
    let count = 0;
    const reply = await ask({ ":path": "/write" }, undefined, (stream) => {
      if (++count === 2) stream.close(http2.constants.NGHTTP2_CANCEL);
    });
    print("write", reply.code);
    print((await ask({ ":path": "/fine" })).body);
  },
  async failures() {
    for (const path of ["/error", "/late", "/nothing", "/field", "/killed", "/fine"]) {
      const reply = await ask({ ":path": path });
      print(path, reply.status, reply.body, reply.code);
    }
  },
  async limits() {
    const large = "x".repeat(3000);
    const send = (path, fields) => ask({ ":method": "POST", ":path": path, ...fields }, large);
    print("known", (await send("/body", { "content-length": 3000 })).status);
    print("unknown", (await send("/body")).status);
    print("own", (await send("/own")).body);
    print("unread", (await send("/unread")).status);
    print("head", (await ask({ "x-large": "y".repeat(5000) })).status);
    print("slow", (await ask({ ":path": "/slow" })).status);
    const both = [ask({ ":path": "/wait" }), ask({ ":path": "/wait" }), ask({ ":path": "/wait" })];
    const statuses = (await Promise.all(both)).map((reply) => reply.status);
    print("handlers", statuses.sort().join(","));
    const stream = session.request({ ":path": "/body", ":method": "POST" });
    stream.write("a");
    stream.on("response", (got) => print("late body", got[":status"]));
    stream.on("error", () => {});
    await new Promise((resolve) => stream.on("response", resolve));
    stream.close();
  },
  async windows() {
    // Nothing is read, so the window does not open.
    const stream = session.request({ ":path": "/large" });
    stream.on("error", () => {});
    stream.pause();
    await new Promise((resolve) => stream.on("close", resolve));
    print("code", stream.rstCode);
  },
  async idle() {
    print((await ask({})).status);
    await ended;
    print("ended");
  },
  async stopping() {
    const open = ask({ ":path": "/slow" });
    const first = ask({ ":path": "/first" });
    print((await first).status);
    print((await open).body);
    await ended;
    print("ended");
  },
  async load() {
    let asked = 0;
    let answered = 0;
    let refused = 0;
    const one = async () => {
      while (!session.closed && !session.destroyed) {
        asked++;
        try {
          const reply = await ask({ ":path": "/" + asked });
          if (reply.status === 200) answered++;
          else if (reply.code === http2.constants.NGHTTP2_REFUSED_STREAM) refused++;
        } catch (error) {
          refused++; // the session has taken no more
        }
      }
    };
    await Promise.all(Array.from({ length: 20 }, one));
    print(answered > 0, asked - answered - refused);
  },
  async events() {
    const seen = [];
    const reply = await ask({ ":path": "/events" }, undefined, (stream, data) => {
      if (data) seen.push(String(data));
    });
    print(reply.fields["content-type"], JSON.stringify(seen.join("")));
  },
  async timeouts() {
    let count = 0;
    const one = async () => {
      for (let i = 0; i < 30; i++) {
        const reply = await ask({ ":path": "/" + i });
        if (reply.status || reply.code) count++;
      }
    };
    await Promise.all(Array.from({ length: 40 }, one));
    print(count);
  },
  async killed() {
    const reply = await ask({ ":path": "/endless" });
    print("status", reply.status);
    await wait(1);
  },
};

await cases[name]();
session.close();
