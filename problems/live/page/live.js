// Reads the events of the server and shows them: robot, plots, alarms, counts.
// Names of the robot are only ever set as text.

import { ask, digits, find, followTheme, isNew, make, measured, thousands, time } from "./common.js";
import { colour, Picture, Scale } from "./picture.js";
import { Agreement, Plot } from "./plots.js";

const MOST_PLOTS = 6, KEPT = 750, MOST_ALARMS = 100;
const picture = new Picture(find("picture"), find("ground"), find("solids"));
const state = { hello: null, now: null, past: [], alarms: [], plots: [], agreement: null, scale: new Scale(), frozen: false, dirty: false, chosen: false };

// ---- events ----------------------------------------------------------------------------------

async function listen() {
  for (;;) {
    try {
      const answer = await ask("/events", {});
      if (!answer.ok) throw new Error((await answer.json()).error);
      complain("");
      await read(answer.body.getReader());
    } catch (error) {
      if (!(error instanceof TypeError)) complain(error.message); // TypeError: nobody answers
    }
    lose();
    await new Promise((wake) => setTimeout(wake, 1000));
  }
}

async function read(reader) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event) || [];
      if (name) take[name](JSON.parse(data));
    }
  }
}

const take = {
  hello(facts) {
    const again = state.hello && JSON.stringify(state.hello) === JSON.stringify(facts);
    [state.past, state.alarms] = [[], []]; // all that is kept comes again
    if (again) return;
    state.hello = facts;
    state.scale = new Scale();
    find("robot").textContent = `${facts.scene.name}: ${facts.scene.bodies.length} bodies`;
    document.title = `dynsys live: ${facts.scene.name}`;
    find("alarm-words").textContent = facts.alarm.words;
    state.agreement = new Agreement(find("p-value"), facts.alarm.p_value);
    for (const plot of state.plots) plot.card.remove();
    state.plots = [];
    state.chosen = false;
    picture.show(facts.scene);
  },
  past(interval) {
    const last = state.past.findLast((i) => i.t);
    if (interval.t && last && interval.t[1] < last.t[1]) [state.past, state.alarms] = [[], []]; // a new start
    state.past.push(interval);
    if (state.past.length > KEPT) state.past.splice(0, state.past.length - KEPT);
    for (const event of interval.events) note(event);
    const on = state.alarms.at(-1);
    if (interval.alarm && on && on.on && interval.t) on.end = interval.t[1];
    state.dirty = true;
  },
  now(facts) { state.now = facts; state.dirty = true; },
};

function note(event) {
  if (event.state === "begins") state.alarms.push({ ...event, on: true });
  else if (state.alarms.length && state.alarms.at(-1).on) Object.assign(state.alarms.at(-1), event, { on: false });
  else state.alarms.push({ ...event, on: false });
  if (state.alarms.length > MOST_ALARMS) state.alarms.shift();
}

function lose() {
  if (state.now && state.now.state !== "ended") state.now.state = "lost";
  else if (!state.now) state.now = { state: "lost" };
  state.dirty = true;
}

function complain(words) {
  find("error").textContent = words;
  find("error").hidden = !words;
}

// ---- showing ---------------------------------------------------------------------------------

// Once for every picture of the browser, if anything is new; texts a few times a second.
let spoken = 0, later = 0;
function draw(at) {
  requestAnimationFrame(draw);
  if (!state.dirty || !state.now) return;
  state.dirty = false;
  showState();
  if (state.frozen || !state.hello) return;
  const speaks = at - spoken > 200;
  clearTimeout(later);
  if (speaks) spoken = at; else later = setTimeout(() => { state.dirty = true; }, 220);
  if (state.now.poses) showRobot(speaks);
  showPlots(speaks);
  if (speaks) { showFacts(); showAlarms(); }
  document.body.dataset.ready = "true";
}

const STATES = {
  preparing: ["getting ready: compiling", "wait"], waiting: ["waiting for samples", "wait"], live: ["● live", "good"],
  silent: ["no sample", "wait"], ended: ["ended", "quiet"], lost: ["no connection; trying again", "bad"], refusing: ["samples are refused", "bad"],
};
function showState() {
  const { state: word, silent } = state.now, [words, kind] = STATES[word];
  const text = word === "silent" ? `${words} for ${silent.toFixed(0)} s` : words;
  if (!isNew("state", text, kind)) return;
  find("state").textContent = text;
  find("state").className = `pill ${kind}`;
  find("state").dataset.state = word;
}

function showRobot(speaks) {
  const { now, scale } = state;
  scale.settle(now.glance.torques.map((t) => t.std));
  picture.update(now, scale);
  if (!speaks) return;
  find("time").textContent = now.time === undefined ? "" : `${now.time.toFixed(2)} s`;
  state.hello.scene.bodies.forEach((body, number) => {
    picture.links[number].group.setAttribute("aria-label", `body ${body.name}, joint ${body.joint}: ${torqueOf(number)}`);
  });
  showLegend();
  showTorques();
}

// Words for the torque of a body's joint.
function torqueOf(number) {
  const { now } = state, k = now.joints.indexOf(number);
  if (k < 0) return "torque is no output";
  const value = now.estimate.torques[k], torque = now.glance.torques.find((t) => t.body === number);
  if (value === null) return "torque undetermined";
  return `${torque && torque.std > 0 ? measured(value, torque.std) : digits(value)}${torque ? ` ${torque.unit}` : ""}`;
}

function showTorques() {
  const { now, hello } = state, box = find("torques").tBodies[0];
  if (isNew("torques", now.joints)) {
    box.replaceChildren(...now.joints.map((number) => {
      const button = make("button", { type: "button" }, hello.scene.bodies[number].joint);
      button.onclick = () => choose(number);
      const row = make("tr", {}, make("td", { className: "swatch" }, make("span")), make("th", { scope: "row" }, button), make("td", { className: "value" }));
      row.dataset.joint = hello.scene.bodies[number].joint;
      return row;
    }));
  }
  now.joints.forEach((number, k) => {
    const row = box.rows[k], torque = now.glance.torques.find((t) => t.body === number), swatch = row.cells[0].firstChild;
    row.cells[2].textContent = torqueOf(number);
    swatch.className = torque && torque.open ? "hatched" : torque && torque.std > 0 ? "" : "exact";
    swatch.style.background = torque && torque.std > 0 ? colour(state.scale.part(torque.std)) : "";
  });
}

function showLegend() {
  const { scale } = state, legend = find("legend");
  if (!isNew("legend", scale, Boolean(state.now.estimate.wrenches.length))) return;
  legend.hidden = scale.isEmpty;
  const bar = make("div", { className: "bar" }), ends = [];
  bar.style.background = `linear-gradient(90deg in oklab, ${Array.from({ length: 9 }, (_, k) => colour(k / 8)).join(", ")})`;
  for (let k = scale.low; k <= scale.high; k++) ends.push(make("span", {}, k < -3 ? `1e${k}` : String(10 ** k).slice(0, 6)));
  legend.replaceChildren(make("span", {}, "torque's deviation (N m, N)"), bar, make("div", { className: "ticks" }, ...ends),
    ...(state.now.estimate.wrenches.length ? [make("div", { className: "items" }, make("span", { className: "solid-line" }), make("span", {}, "contact force"),
      make("span", { className: "dot-line" }), make("span", {}, "contact moment"))] : []));
}

function showFacts() {
  const { counts, latency } = state.now;
  if (!counts) return;
  const us = (x) => (x === null ? "–" : time(x)), rate = ratePerSecond();
  const facts = [["samples", thousands(counts.samples)], ["per second", rate === null ? "–" : digits(rate)], ["lost", thousands(counts.lost), counts.lost],
    ["refused", thousands(counts.refused), counts.refused], ["late", thousands(counts.late), counts.late], ["with missing", thousands(counts.with_missing)],
    ["latency", us(latency[0])], ["latency 99 %", us(latency[1]), latency[1] > state.hello.deadline_us]];
  if (isNew("facts", facts.map(([name]) => name))) {
    find("facts").replaceChildren(...facts.map(([name]) => { const box = make("div", {}, make("dt", {}, name), make("dd")); box.dataset.fact = name; return box; }));
  }
  facts.forEach(([, words, bad], k) => {
    const box = find("facts").children[k];
    box.lastChild.textContent = words;
    box.classList.toggle("bad", Boolean(bad));
  });
  find("refusals").hidden = !state.now.refusal;
  find("refusal").textContent = state.now.refusal ? `the last one: ${state.now.refusal}` : "";
}

// Samples in a second of the robot's time, over what is shown.
function ratePerSecond() {
  const shown = state.past.filter((i) => i.t).slice(-50);
  const seconds = shown.length > 1 ? shown.at(-1).t[1] - shown[0].t[1] : 0;
  return seconds > 0 ? shown.slice(1).reduce((sum, i) => sum + i.n, 0) / seconds : null;
}

function showAlarms() {
  const { alarms } = state, on = alarms.at(-1);
  find("alarm").hidden = !(on && on.on);
  find("no-alarms").hidden = alarms.length > 0;
  if (!isNew("alarms", alarms)) return;
  find("alarms").replaceChildren(...alarms.toReversed().map((a) => make("li", {}, make("b", {}, `${a.start.toFixed(3)} s`),
    a.on ? " and still on" : ` for ${(a.end - a.start).toFixed(3)} s`,
    make("div", { className: "quiet" }, `chi-square ${a.chi_square < 1e6 ? digits(a.chi_square) : a.chi_square.toExponential(1)} at ${a.peak.toFixed(3)} s`))));
}

// ---- plots -----------------------------------------------------------------------------------

function showPlots(speaks) {
  const { past, hello, alarms } = state, last = past.findLast((i) => i.t);
  if (!last) return;
  if (!state.chosen) { state.chosen = true; firstPlots(last).forEach(addPlot); }
  const length = Number(find("window").value), span = [last.t[1] - length, last.t[1]];
  const shown = past.filter((i) => i.t && i.t[1] >= span[0] && i.t[0] >= span[0]);
  for (const plot of state.plots) { plot.draw(shown, span, alarms); if (speaks) plot.say(state.now); }
  state.agreement.draw(shown, span, alarms);
  if (speaks) find("p-now").textContent = last.p[0] === null ? "nothing checks the readings" : Number(last.p[0].toPrecision(2)).toString();
}

// Columns that were chosen before the page was loaded again, else the largest two torques and a force.
function firstPlots(last) {
  const { columns } = state.hello, kept = JSON.parse(sessionStorage.getItem("plots") || "[]").map((name) => columns.indexOf(name));
  if (kept.length && kept.every((c) => c >= 0)) return kept;
  const size = (c) => Math.max(Math.abs(last.high[c] || 0), Math.abs(last.low[c] || 0));
  const largest = (kind, end) => columns.map((_, c) => c).filter((c) => columns[c].startsWith(kind) && columns[c].endsWith(end)).sort((a, b) => size(b) - size(a));
  const found = [...largest("torque.", "").slice(0, 2), ...largest("external_wrench.", ".fz").slice(0, 1)];
  return found.length ? found : columns.map((_, c) => c).slice(0, 3);
}

function addPlot(column) {
  if (state.plots.length >= MOST_PLOTS) return;
  const plot = new Plot(state.hello, column, (gone) => {
    gone.card.remove();
    state.plots = state.plots.filter((other) => other !== gone);
    keepPlots();
  }, keepPlots);
  state.plots.push(plot);
  find("plots").append(plot.card);
  keepPlots();
}

function keepPlots() {
  sessionStorage.setItem("plots", JSON.stringify(state.plots.map((p) => state.hello.columns[p.column])));
  find("add").disabled = state.plots.length >= MOST_PLOTS;
  state.dirty = true;
}

// Plot the torque of a body's joint, in the first plot.
function choose(number) {
  const { joint } = state.hello.scene.bodies[number], { columns } = state.hello;
  const column = columns.findIndex((name) => name === `torque.${joint}` || name.startsWith(`torque.${joint}.`));
  if (column < 0) return;
  if (state.plots.length) { state.plots[0].show(column); keepPlots(); } else addPlot(column);
  picture.selected = `body:${number}`;
}

find("add").onclick = () => {
  if (!state.hello) return;
  const used = new Set(state.plots.map((p) => p.column)), free = state.hello.columns.findIndex((_, c) => !used.has(c));
  addPlot(Math.max(free, 0));
  state.plots.at(-1).select.focus();
};
find("window").onchange = () => { state.dirty = true; };

// ---- mouse, keyboard, theme ------------------------------------------------------------------

const svg = find("picture");
let drag = null;
svg.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, y: event.clientY, moved: false, shift: event.button !== 0 };
  svg.setPointerCapture(event.pointerId);
});
svg.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  drag = { ...drag, x: event.clientX, y: event.clientY, moved: true };
  picture.drag(dx, dy, drag.shift);
});
svg.addEventListener("pointerup", (event) => {
  const moved = drag && drag.moved;
  drag = null;
  const link = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-body]");
  if (!moved && link) choose(Number(link.dataset.body));
});
svg.addEventListener("contextmenu", (event) => event.preventDefault());
svg.addEventListener("wheel", (event) => picture.wheel(event), { passive: false });
svg.addEventListener("keydown", (event) => {
  const link = event.target.closest("[data-body]");
  if (picture.steer(event) || !link || (event.key !== "Enter" && event.key !== " ")) return;
  event.preventDefault();
  choose(Number(link.dataset.body));
});
find("show-names").onchange = (event) => { picture.names = event.target.checked; picture.draw(); };
for (const button of document.querySelectorAll("[data-view]")) button.onclick = () => picture.look(button.dataset.view);
find("freeze").onclick = () => {
  state.frozen = !state.frozen;
  find("freeze").setAttribute("aria-pressed", String(state.frozen));
  state.dirty = true;
};
new ResizeObserver(() => { state.dirty = true; }).observe(find("plots"));
followTheme(find("theme"), () => picture.draw());
requestAnimationFrame(draw);
listen();
