// SPDX-License-Identifier: MIT
// Bars of the tables of recorded results. The table stays: it has every figure, and is all there is without scripts.
"use strict";

(() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const FIRST = 8; // cases that are drawn before somebody asks for all
  const CLIPPED = 5; // a bar of more times ours is cut off, so that the others can be told apart
  const HEIGHT = 16;

  const make = (name, attributes, parent, text) => {
    const node = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };

  const plain = (name, attributes, parent, text) => {
    const node = document.createElement(name);
    Object.assign(node, attributes);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };

  // What the table says: [{id, label, values: [{who, value}], limit}].
  const read = (box) => {
    const heads = [...box.querySelectorAll("thead th")].map((head) => head.dataset.who);
    return [...box.querySelectorAll("tbody tr")].map((row) => {
      const values = [];
      let limit = null;
      [...row.cells].forEach((cell, place) => {
        if (cell.dataset.value === undefined) return;
        const value = Number(cell.dataset.value);
        if (heads[place] === "limit") limit = value;
        else values.push({ who: heads[place], value, text: cell.textContent });
      });
      return { id: row.id, label: row.cells[0].textContent, values, limit };
    });
  };

  const longest = (one, ours, more) => {
    const all = one.values.map((entry) => entry.value);
    const own = one.values.find((entry) => entry.who === ours);
    if (more || !own) return Math.max(...all);
    return Math.max(own.value, ...all.filter((value) => value <= CLIPPED * own.value), one.limit || 0);
  };

  const bar = (svg, one, entry, top, scale, width, box) => {
    const cut = entry.value > scale;
    const length = Math.max(1, (Math.min(entry.value, scale) / scale) * width);
    const kind = entry.who.startsWith(box.dataset.ours) ? "kw-ours" : entry.who === "copy" ? "kw-copy" : "";
    const says = `${entry.who} ${entry.text} ${box.dataset.unit}`;
    const link = make("a", { href: `#${one.id}`, "aria-label": `${one.label}: ${says}` }, svg);
    make("rect", { class: `kw-bar ${kind}`, x: 0, y: top + 2, width: length, height: HEIGHT - 4 }, link);
    make("text", { x: length + 5, y: top + 12 }, link, `${cut ? "→ " : ""}${says}`);
  };

  const draw = (box, plot, cases) => {
    const whole = Math.max(260, plot.parentNode.clientWidth);
    const width = Math.max(90, whole - 250); // words stand beside the bars
    plot.replaceChildren();
    let top = 0;
    for (const one of cases) {
      make("text", { class: "kw-case", x: 0, y: top + 13 }, plot, one.label);
      const start = (top += HEIGHT + 2);
      const scale = longest(one, box.dataset.ours, box.dataset.more !== undefined);
      for (const entry of one.values) {
        bar(plot, one, entry, top, scale, width, box);
        top += HEIGHT;
      }
      if (one.limit !== null) {
        const x = (Math.min(one.limit, scale) / scale) * width;
        const line = make("line", { class: "kw-limit", x1: x, x2: x, y1: start, y2: top }, plot);
        make("title", {}, line, `limit ${one.limit} ${box.dataset.unit}`);
      }
      top += 10;
    }
    plot.setAttribute("viewBox", `0 0 ${whole} ${top}`);
    plot.setAttribute("height", top);
  };

  const start = (box) => {
    const cases = read(box);
    const caption = box.querySelector("caption").textContent;
    const area = document.createElement("div");
    const controls = plain("div", { className: "kw-controls" }, area);
    const label = plain("label", {}, controls, "cases with ");
    const filter = plain("input", { type: "search", placeholder: "bfloat16 4096" }, label);
    const all = plain("button", { type: "button" }, controls);
    const count = plain("span", { role: "status" }, controls);
    const plot = make("svg", { class: "kw-plot", role: "group", "aria-label": `Bars: ${caption}` }, area);
    let whole = false;
    const show = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = cases.filter((one) => words.every((word) => one.label.toLowerCase().includes(word)));
      const shown = whole ? found : found.slice(0, FIRST);
      all.hidden = found.length <= FIRST;
      all.textContent = whole ? `the first ${FIRST}` : `all ${found.length}`;
      count.textContent = `${shown.length} of ${cases.length}${cases.some((one) => one.limit !== null) ? "; dashed: the limit" : ""}`;
      draw(box, plot, shown);
    };
    filter.addEventListener("input", show);
    all.addEventListener("click", () => {
      whole = !whole;
      show();
    });
    box.prepend(area);
    show();
    let last = area.clientWidth;
    new ResizeObserver(() => {
      if (area.clientWidth !== last) {
        last = area.clientWidth;
        show();
      }
    }).observe(area);
  };

  document.querySelectorAll(".kw-figures").forEach(start);
})();
