// A number over the last seconds: what lay between its smallest and largest value in every
// interval, the band of two deviations around that, alarms.

import { make, measured, digits } from "./common.js";
import { element } from "./picture.js";

const LEFT = 54, RIGHT = 8, TOP = 6, BOTTOM = 16;
const LEAST_P = 1e-12;

// Steps of 1, 2 or 5 that cut a span into about so many parts.
function ticks(low, high, parts) {
  const rough = (high - low) / parts, decade = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * decade).find((s) => s >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return { step, found };
}

const short = (x, step) => {
  if (Math.abs(x) >= 1e5 || (step < 1e-3 && x !== 0)) return x.toExponential(1);
  return x.toFixed(Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9))));
};

// Pieces of consecutive intervals in which a number is known.
function pieces(past, known) {
  const found = [];
  let piece = [], before = null;
  for (const interval of past) {
    if (!interval.t) continue;
    const follows = before !== null && interval.k === before + 1;
    if (!known(interval) || !follows) { if (piece.length) found.push(piece); piece = []; }
    if (known(interval)) piece.push(interval);
    before = interval.k;
  }
  if (piece.length) found.push(piece);
  return found;
}

// Outline of what lies between two numbers of every interval.
function ribbon(piece, x, top, bottom) {
  const first = piece[0], begin = first.t[0] < first.t[1] ? [[first.t[0], first]] : [];
  const points = [...begin, ...piece.map((interval) => [interval.t[1], interval])];
  const at = (t, y) => `${x(t).toFixed(1)} ${y.toFixed(1)}`;
  const there = points.map(([t, interval]) => at(t, top(interval)));
  const back = points.map(([t, interval]) => at(t, bottom(interval))).reverse();
  return `M${there.join("L")}L${back.join("L")}Z`;
}

class Chart {
  constructor(svg) {
    this.svg = svg;
    this.layers = ["alarms", "grid", "bands", "curves", "marks"].map((name) => element("g", { class: `layer-${name}` }));
    svg.append(...this.layers);
  }

  // Draw; low and high are what the vertical axis spans, y maps a number to a height.
  frame(span, yTicks, y) {
    const width = this.svg.clientWidth || 600, height = this.svg.clientHeight || 118;
    const x = (t) => LEFT + ((t - span[0]) / (span[1] - span[0])) * (width - LEFT - RIGHT);
    const lines = [], words = [];
    for (const [value, label] of yTicks) {
      const at = y(value, height);
      lines.push(`M${LEFT} ${at.toFixed(1)}H${width - RIGHT}`);
      words.push(element("text", { class: "tick y", x: LEFT - 6, y: at.toFixed(1) }, label));
    }
    const seconds = ticks(span[0], span[1], Math.max(2, Math.min(6, width / 75)));
    for (const t of seconds.found) {
      const at = x(t);
      if (at < LEFT + 12 || at > width - 18) continue;
      words.push(element("text", { class: "tick x", x: at.toFixed(1), y: height - 3 }, `${short(t, seconds.step)} s`));
    }
    this.layers[1].replaceChildren(element("path", { class: "grid", d: lines.join("") }), ...words);
    return { x, width, height };
  }

  alarms(list, span, x, height) {
    const marks = [];
    for (const alarm of list) {
      if (alarm.end < span[0] || alarm.start > span[1]) continue;
      const from = x(Math.max(alarm.start, span[0])), to = Math.max(x(Math.min(alarm.end, span[1])), from + 1.5);
      marks.push(element("rect", { class: "alarmed", x: from.toFixed(1), y: TOP, width: (to - from).toFixed(1), height: height - TOP - BOTTOM }));
      if (alarm.start >= span[0]) marks.push(element("path", { class: "alarm-start", d: `M${from.toFixed(1)} ${TOP}V${height - BOTTOM}` }));
    }
    this.layers[0].replaceChildren(...marks);
  }
}

export class Plot {
  // A card with a choice of outputs; gone(plot) is called when it is closed, chosen(plot) when
  // another output is.
  constructor(hello, column, gone, chosen) {
    this.hello = hello;
    this.column = column;
    this.output = make("output", {});
    this.select = make("select", {}, ...options(hello.columns));
    this.select.setAttribute("aria-label", "Output to plot");
    this.select.value = String(column);
    this.select.onchange = () => { this.show(Number(this.select.value)); chosen(this); };
    const close = make("button", { type: "button", title: "Close this plot" }, "✕");
    close.setAttribute("aria-label", "Close this plot");
    close.onclick = () => gone(this);
    const svg = element("svg", { role: "img" });
    this.card = make("section", { className: "card plot" }, make("div", { className: "head" }, this.select, this.output, close), svg);
    this.chart = new Chart(svg);
    this.show(column);
  }

  show(column) {
    this.column = column;
    this.select.value = String(column);
    const name = this.hello.columns[column], unit = this.hello.units[column];
    this.chart.svg.setAttribute("aria-label", `${name}${unit ? ` in ${unit}` : ""} over time, with a band of two standard deviations where there is one`);
    this.card.dataset.column = name;
  }

  draw(past, span, alarms) {
    const c = this.column, banded = this.hello.banded[c];
    const known = (interval) => interval.low[c] !== null;
    const spread = (interval) => (banded && interval.std[c] !== null ? 2 * interval.std[c] : 0);
    const found = pieces(past, known), all = found.flat();
    let low = Math.min(...all.map((i) => i.low[c] - spread(i))), high = Math.max(...all.map((i) => i.high[c] + spread(i)));
    if (!all.length) [low, high] = [-1, 1];
    const room = Math.max(0.06 * (high - low), 1e-3 * Math.max(Math.abs(low), Math.abs(high)), 1e-9);
    [low, high] = [low - room, high + room];
    const y = (value, height) => TOP + ((high - value) / (high - low)) * (height - TOP - BOTTOM);
    const lines = ticks(low, high, 4);
    const { x, height } = this.chart.frame(span, lines.found.map((v) => [v, short(v, lines.step)]), y);
    const ribbons = (name, top, bottom) => found.map((piece) => element("path", { class: name, d: ribbon(piece, x, (i) => y(top(i), height), (i) => y(bottom(i), height)) }));
    this.chart.layers[2].replaceChildren(...(banded ? ribbons("band", (i) => i.high[c] + spread(i), (i) => i.low[c] - spread(i)) : []));
    this.chart.layers[3].replaceChildren(...ribbons("curve", (i) => i.high[c], (i) => i.low[c]));
    this.chart.alarms(alarms, span, x, height);
  }

  // Say the last value in words.
  say(now) {
    const value = now.values[this.column], std = now.stds[this.column], unit = this.hello.units[this.column];
    this.output.textContent = value === null ? "undetermined" : `${std > 0 ? measured(value, std) : digits(value)}${unit ? ` ${unit}` : ""}`;
  }
}

// Outputs by quantity.
function options(columns) {
  const groups = new Map();
  columns.forEach((name, k) => {
    const dot = name.indexOf("."), kind = dot < 0 ? "agreement" : name.slice(0, dot);
    if (!groups.has(kind)) groups.set(kind, []);
    groups.get(kind).push(make("option", { value: String(k) }, name));
  });
  return [...groups].map(([kind, found]) => make("optgroup", { label: kind.replaceAll("_", " ") }, ...found));
}

export class Agreement {
  // p-values on a logarithmic scale; what is below the end of the scale lies on it.
  constructor(svg, limit) {
    this.chart = new Chart(svg);
    this.limit = limit;
  }

  draw(past, span, alarms) {
    const depth = (p) => Math.max(Math.log10(Math.max(p, LEAST_P)), -12) / -12;
    const y = (p, height) => TOP + depth(p) * (height - TOP - BOTTOM);
    const { x, width, height } = this.chart.frame(span, [[1, "1"], [1e-3, "1e-3"], [1e-6, "1e-6"], [1e-9, "1e-9"], [LEAST_P, "≤1e-12"]], y);
    const found = pieces(past, (i) => i.p[0] !== null);
    this.chart.layers[3].replaceChildren(...found.map((piece) => element("path", { class: "curve", d: ribbon(piece, x, (i) => y(i.p[1], height), (i) => y(i.p[0], height)) })));
    this.chart.layers[4].replaceChildren(...(this.limit ? [element("path", { class: "limit", d: `M${LEFT} ${y(this.limit, height).toFixed(1)}H${width - RIGHT}` })] : []));
    this.chart.alarms(alarms, span, x, height);
  }
}
