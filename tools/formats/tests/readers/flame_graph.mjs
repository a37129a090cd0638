// Opens a flame graph in jsdom, runs its script, and carries out steps. Prints what can be seen
// before the script and after each step as JSON.
//
//     node flame_graph.mjs DIRECTORY_WITH_NODE_MODULES FILE STEP...
//
// A step is "width PIXELS", "click TITLE" with the beginning of a box's title, or "keys KEY KEY...".

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, file, ...steps] = process.argv.slice(2);
const { JSDOM } = createRequire(join(modules, "package.json"))("jsdom");
const { window } = new JSDOM(readFileSync(file, "utf8"), {
  contentType: "image/svg+xml",
  runScripts: "outside-only",
});
const { document } = window;
const svg = document.documentElement;
const boxes = Array.from(document.querySelectorAll(".box"));

function seen() {
  const shown = boxes.filter((box) => box.style.display !== "none");
  return {
    details: document.querySelector(".details").textContent,
    search: document.querySelector(".search").textContent,
    width: svg.getAttribute("width"),
    boxes: shown.map((box) => ({
      title: box.querySelector("title").textContent.split("\n")[0],
      text: box.querySelector("text").textContent,
      x: Number(box.querySelector("rect").getAttribute("x")),
      width: Number(box.querySelector("rect").getAttribute("width")),
      isBelow: box.classList.contains("below"),
      isFound: box.classList.contains("found"),
      isChosen: box.classList.contains("chosen"),
    })),
  };
}

function carryOut(step) {
  const [what, ...words] = step.split(" ");
  if (what === "width") {
    // jsdom lays nothing out.
    svg.getBoundingClientRect = () => ({ width: Number(words[0]) });
    window.dispatchEvent(new window.Event("resize"));
  } else if (what === "click") {
    const title = words.join(" ");
    const isIt = (box) => box.querySelector("title").textContent.startsWith(title);
    const target = boxes.find(isIt).querySelector("rect");
    target.dispatchEvent(new window.MouseEvent("mouseover", { bubbles: true }));
    target.dispatchEvent(new window.MouseEvent("click", { bubbles: true }));
  } else {
    for (const key of words) {
      window.dispatchEvent(new window.KeyboardEvent("keydown", { key }));
    }
  }
}

const views = [seen()];
window.eval(document.querySelector("script").textContent);
for (const step of steps) {
  carryOut(step);
  views.push(seen());
}
console.log(JSON.stringify(views));
