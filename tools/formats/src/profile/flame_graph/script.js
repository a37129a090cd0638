(function () {
  "use strict";
  var here = document.currentScript;
  var svg = (here && here.closest("svg")) || document.documentElement;
  var left = Number(svg.dataset.left);
  var character = Number(svg.dataset.character);
  var details = svg.querySelector(".details");
  var searchLine = svg.querySelector(".search");
  // Positions in the file are rounded to this many parts of the whole.
  var rounding = 1e-8;
  var all = { x: 0, w: 1, depth: 0 };

  var boxes = Array.from(svg.querySelectorAll(".box"), function (group) {
    var title = group.querySelector("title").textContent;
    return {
      group: group,
      rect: group.querySelector("rect"),
      text: group.querySelector("text"),
      title: title,
      label: title.split("\n")[0],
      x: Number(group.dataset.x),
      w: Number(group.dataset.w),
      depth: Number(group.dataset.d)
    };
  });

  // The boxes of each depth, from the left to the right.
  var levels = [];
  boxes.forEach(function (box) {
    (levels[box.depth] = levels[box.depth] || []).push(box);
  });
  levels.forEach(function (level) {
    level.sort(function (one, other) { return one.x - other.x; });
  });

  // The box that this one stands on.
  function below(box) {
    var level = levels[box.depth - 1] || [];
    var first = 0, end = level.length;
    while (first < end) {
      var middle = (first + end) >> 1;
      if (level[middle].x <= box.x + rounding) first = middle + 1;
      else end = middle;
    }
    return level[first - 1];
  }

  // ---- the width, and what is enlarged

  var enlarged = all;
  var span = 0;

  function fitting(label, width) {
    var limit = Math.floor((width - 8) / character);
    var characters = Array.from(label);
    if (limit < 3) return "";
    if (characters.length <= limit) return label;
    return characters.slice(0, limit - 1).join("") + "\u2026";
  }

  function place(box, x, w) {
    box.rect.setAttribute("x", left + x * span);
    box.rect.setAttribute("width", w * span);
    box.text.setAttribute("x", left + x * span + 4);
    box.text.textContent = fitting(box.label, w * span);
  }

  // Shows this box over the whole width, with all that is above it and all that it stands on.
  function enlarge(to) {
    enlarged = to;
    boxes.forEach(function (box) {
      var isWithin = box.depth >= to.depth &&
        box.x >= to.x - rounding && box.x + box.w <= to.x + to.w + rounding;
      var isBelow = box.depth < to.depth &&
        box.x <= to.x + rounding && box.x + box.w >= to.x + to.w - rounding;
      box.isShown = isWithin || isBelow;
      box.group.style.display = box.isShown ? "" : "none";
      box.group.classList.toggle("below", isBelow);
      if (isWithin) place(box, (box.x - to.x) / to.w, box.w / to.w);
      if (isBelow) place(box, 0, 1);
    });
    if (chosen && !chosen.isShown) choose(null);
  }

  // Fits the picture to the window.
  function fit() {
    var width = svg.getBoundingClientRect().width || Number(svg.dataset.width);
    span = Math.max(width - 2 * left, 1);
    enlarge(enlarged);
  }

  // ---- the chosen box

  var chosen = null;

  function describe(box) {
    var lines = box ? box.title.split("\n") : [];
    details.textContent = lines.length ? lines[0] + ": " + lines.slice(1).join("; ") : "";
  }

  function choose(box) {
    if (chosen) chosen.group.classList.remove("chosen");
    chosen = box;
    describe(box);
    if (!box) return;
    box.group.classList.add("chosen");
    if (box.group.scrollIntoView) box.group.scrollIntoView({ block: "nearest" });
  }

  // The box beside this one, by so many steps to the right.
  function beside(box, steps) {
    var level = levels[box.depth].filter(function (other) { return other.isShown; });
    return level[level.indexOf(box) + steps];
  }

  // The widest box on this one.
  function above(box) {
    return (levels[box.depth + 1] || []).find(function (other) {
      return other.isShown && below(other) === box;
    });
  }

  function move(key) {
    var to = boxes[0];
    if (chosen && key === "ArrowUp") to = above(chosen);
    if (chosen && key === "ArrowDown") to = below(chosen);
    if (chosen && key === "ArrowLeft") to = beside(chosen, -1);
    if (chosen && key === "ArrowRight") to = beside(chosen, 1);
    if (to) choose(to);
  }

  // ---- the search

  var help = "find: / text, ~ pattern, n next; click or Enter enlarges, Escape goes back";
  var sought = null; // { text, isPattern, isTyped }
  var found = [];

  // A function that tells whether a label is sought; null if the pattern is none.
  function matcher() {
    if (!sought.isPattern) {
      var text = sought.text.toLowerCase();
      return function (label) { return label.toLowerCase().indexOf(text) >= 0; };
    }
    try {
      var pattern = new RegExp(sought.text, "i");
      return function (label) { return pattern.test(label); };
    } catch (error) {
      return null;
    }
  }

  function search() {
    var matches = sought && sought.text !== "" ? matcher() : function () { return false; };
    found = [];
    var share = 0;
    levels.forEach(function (level) {
      level.forEach(function (box) {
        var parent = below(box);
        var isFound = matches !== null && matches(box.label);
        // What stands on a found box is counted with it.
        box.isCounted = isFound || Boolean(parent && parent.isCounted);
        if (isFound && !(parent && parent.isCounted)) share += box.w;
        if (isFound) found.push(box);
        box.group.classList.toggle("found", isFound);
      });
    });
    if (!sought) {
      searchLine.textContent = help;
      return;
    }
    searchLine.textContent = (sought.isPattern ? "~" : "/") + sought.text +
      (sought.isTyped ? "_" : "") + "   " + (matches === null
        ? "is no regular expression"
        : found.length + " found, " + (100 * share).toFixed(1) + " %");
  }

  function begin(isPattern) {
    sought = { text: "", isPattern: isPattern, isTyped: true };
    search();
  }

  function next(steps) {
    var shown = found.filter(function (box) { return box.isShown; });
    if (shown.length === 0) return;
    var at = shown.indexOf(chosen);
    if (at < 0 && steps < 0) at = 0;
    choose(shown[(at + steps + shown.length) % shown.length]);
  }

  // Whether the key belongs to the text that is being typed.
  function type(key) {
    if (key === "Backspace") sought.text = Array.from(sought.text).slice(0, -1).join("");
    else if (key === "Enter") sought.isTyped = false;
    else if (key === "Escape") sought = null;
    else if (Array.from(key).length === 1) sought.text += key;
    else return false;
    search();
    return true;
  }

  function goBack() {
    if (sought) {
      sought = null;
      search();
    } else {
      choose(null);
      enlarge(all);
    }
  }

  // Whether the key means something here.
  function press(key) {
    if (sought && sought.isTyped) return type(key);
    if (key.indexOf("Arrow") === 0) move(key);
    else if (key === "Enter" && chosen) enlarge(chosen);
    else if (key === "Escape") goBack();
    else if (key === "/" || key === "~") begin(key === "~");
    else if (key === "n" || key === "N") next(key === "n" ? 1 : -1);
    else return false;
    return true;
  }

  // ---- events

  function boxOf(event) {
    var group = event.target.closest(".box");
    return boxes.find(function (box) { return box.group === group; });
  }

  svg.addEventListener("click", function (event) {
    var box = boxOf(event);
    if (box) enlarge(box);
    else if (event.target === searchLine) begin(false);
  });
  svg.addEventListener("mouseover", function (event) {
    describe(boxOf(event) || chosen);
  });
  window.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event.key)) event.preventDefault();
  });
  window.addEventListener("resize", fit);

  // Without a script, the picture keeps its shape.
  svg.removeAttribute("viewBox");
  svg.setAttribute("width", "100%");
  search();
  fit();
})();
