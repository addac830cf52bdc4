"use strict";
// Names of the entry pointed at, in pictures of matrices; values under the pointer, over time.
for (const box of document.querySelectorAll(".matrix")) {
  const svg = box.querySelector("svg"), cross = box.querySelector(".cross");
  const readout = box.querySelector(".readout");
  const names = JSON.parse(box.querySelector("script").textContent);
  const label = (blocks) => blocks.flatMap(([name, parts]) => parts.map((p) => (p ? name + ", " + p : name)));
  const rows = label(names.rows);
  const columns = names.columns === "same" ? rows : label(names.columns);
  const rowOrder = names.rowOrder, columnOrder = names.columnOrder === "same" ? rowOrder : names.columnOrder;
  const at = new Map(), places = [];
  for (const path of svg.querySelectorAll(".entries path")) {
    for (const [, c, r, n] of path.getAttribute("d").matchAll(/M(\d+) (\d+)h(\d+)/g)) {
      for (let k = 0; k < +n; k++) at.set(+r * columns.length + +c + k, path.dataset.kind);
    }
  }
  let here = null;
  const show = (r, c) => {
    if (r < 0 || c < 0 || r >= rows.length || c >= columns.length) return;
    here = [r, c];
    const kind = at.get(r * columns.length + c);
    const row = rows[rowOrder ? rowOrder[r] : r], column = columns[columnOrder ? columnOrder[c] : c];
    cross.setAttribute("d", `M0 ${r + 0.5}H${columns.length}M${c + 0.5} 0V${rows.length}`);
    readout.textContent =
      `${names.words[0]} ${r + 1}: ${row} · ${names.words[1]} ${c + 1}: ${column}` +
      ` · ${kind ? names.kinds[kind] : "no entry"}`;
  };
  const nearest = (r, c) => {
    if (at.has(r * columns.length + c)) return [r, c];
    const reach = Math.ceil(4 * columns.length / svg.clientWidth);
    let best = null, least = 1e9;
    for (let i = -reach; i <= reach; i++) for (let j = -reach; j <= reach; j++) {
      const far = i * i + j * j;
      if (far < least && c + j >= 0 && c + j < columns.length && at.has((r + i) * columns.length + c + j)) {
        best = [r + i, c + j]; least = far;
      }
    }
    return best || [r, c];
  };
  svg.addEventListener("pointermove", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    show(...nearest(Math.floor(point.y), Math.floor(point.x)));
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns.length, ArrowDown: columns.length }[event.key];
    if (!step) return;
    event.preventDefault();
    if (!places.length) places.push(...[...at.keys()].sort((a, b) => a - b));
    const now = here ? here[0] * columns.length + here[1] : -1;
    let next;
    if (Math.abs(step) === 1) {
      next = step > 0 ? places.find((p) => p > now) : places.findLast((p) => p < now);
    } else {
      const c = here ? here[1] : 0;
      for (let p = now + step; p >= 0 && p < rows.length * columns.length; p += step) {
        if (at.has(p)) { next = p; break; }
      }
      if (next === undefined && !here) next = places.find((p) => p % columns.length >= c);
    }
    if (next !== undefined) show(Math.floor(next / columns.length), next % columns.length);
  });
}
for (const button of document.querySelectorAll(".kinds button")) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    for (const other of document.querySelectorAll(".kinds button")) {
      other.setAttribute("aria-pressed", String(on && other === button));
    }
    for (const group of document.querySelectorAll(".entries")) {
      group.classList.toggle("one", on);
      for (const path of group.children) path.classList.toggle("on", path.dataset.kind === button.dataset.kind);
    }
  });
}
for (const box of document.querySelectorAll(".series")) {
  const svg = box.querySelector("svg"), cross = box.querySelector(".cross");
  const readout = box.querySelector(".readout"), before = readout.textContent;
  const data = JSON.parse(box.querySelector("script").textContent);
  const left = 44, right = 292, span = data.t[data.t.length - 1] - data.t[0];
  svg.addEventListener("pointermove", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const time = data.t[0] + (span * (point.x - left)) / (right - left);
    let k = 0;
    while (k + 1 < data.t.length && Math.abs(data.t[k + 1] - time) <= Math.abs(data.t[k] - time)) k++;
    const x = left + ((right - left) * (data.t[k] - data.t[0])) / (span || 1);
    cross.setAttribute("d", `M${x} 8V${svg.viewBox.baseVal.height - 22}`);
    const value = data.v[k] === null ? "not determined" : `${data.v[k]} ± ${Number((2 * data.s[k]).toPrecision(3))} ${data.u}`;
    readout.textContent = `${data.t[k]} s: ${value}` + (data.x && data.x[k] !== null ? `, truth ${data.x[k]}` : "");
  });
  svg.addEventListener("pointerleave", () => { cross.setAttribute("d", ""); readout.textContent = before; });
}
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
