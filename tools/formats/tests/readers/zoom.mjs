// Opens a flame graph in jsdom, runs its script, clicks the box named "target" or else the last one,
// and presses Escape. Prints what can be seen after each step as JSON.
//
//     node zoom.mjs DIRECTORY_WITH_NODE_MODULES FILE

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, file] = process.argv.slice(2);
const { JSDOM } = createRequire(join(modules, "package.json"))("jsdom");
const { window } = new JSDOM(readFileSync(file, "utf8"), {
  contentType: "image/svg+xml",
  runScripts: "outside-only",
});
const { document } = window;
const boxes = Array.from(document.querySelectorAll(".box"));

function seen() {
  const shown = boxes.filter((box) => box.style.display !== "none");
  return {
    details: document.querySelector(".details").textContent,
    boxes: shown.map((box) => ({
      title: box.querySelector("title").textContent.split("\n")[0],
      text: box.querySelector("text").textContent,
      x: Number(box.querySelector("rect").getAttribute("x")),
      width: Number(box.querySelector("rect").getAttribute("width")),
      isBelow: box.classList.contains("below"),
    })),
  };
}

const steps = [seen()];
window.eval(document.querySelector("script").textContent);
const isTarget = (box) => /^target\b/.test(box.querySelector("title").textContent);
const target = (boxes.find(isTarget) ?? boxes.at(-1)).querySelector("rect");
target.dispatchEvent(new window.MouseEvent("mouseover", { bubbles: true }));
target.dispatchEvent(new window.MouseEvent("click", { bubbles: true }));
steps.push(seen());
window.dispatchEvent(new window.KeyboardEvent("keydown", { key: "Escape" }));
steps.push(seen());
console.log(JSON.stringify(steps));
