(function () {
  "use strict";
  var here = document.currentScript;
  var svg = (here && here.closest("svg")) || document.documentElement;
  var left = Number(svg.dataset.left);
  var span = Number(svg.dataset.span);
  var character = Number(svg.dataset.character);
  var details = svg.querySelector(".details");
  // Positions in the file are rounded to this many parts of the whole.
  var rounding = 1e-8;

  var boxes = Array.from(svg.querySelectorAll(".box"), function (group) {
    return {
      group: group,
      rect: group.querySelector("rect"),
      text: group.querySelector("text"),
      title: group.querySelector("title").textContent,
      x: Number(group.dataset.x),
      w: Number(group.dataset.w),
      depth: Number(group.dataset.d)
    };
  });

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
    box.text.textContent = fitting(box.title.split("\n")[0], w * span);
  }

  // Shows this box over the whole width, with all that is above it and all that it stands on.
  function zoom(to) {
    boxes.forEach(function (box) {
      var isWithin = box.depth >= to.depth &&
        box.x >= to.x - rounding && box.x + box.w <= to.x + to.w + rounding;
      var isBelow = box.depth < to.depth &&
        box.x <= to.x + rounding && box.x + box.w >= to.x + to.w - rounding;
      box.group.style.display = isWithin || isBelow ? "" : "none";
      box.group.classList.toggle("below", isBelow);
      if (isWithin) place(box, (box.x - to.x) / to.w, box.w / to.w);
      if (isBelow) place(box, 0, 1);
    });
  }

  function boxOf(event) {
    var group = event.target.closest(".box");
    return boxes.find(function (box) { return box.group === group; });
  }

  svg.addEventListener("click", function (event) {
    var box = boxOf(event);
    if (box) zoom(box);
  });
  svg.addEventListener("mouseover", function (event) {
    var box = boxOf(event);
    details.textContent = box ? box.title.replace("\n", ": ") : "";
  });
  window.addEventListener("keydown", function (event) {
    if (event.key === "Escape") zoom({ x: 0, w: 1, depth: 0 });
  });
})();
