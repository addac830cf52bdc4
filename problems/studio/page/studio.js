// Talks to the server and ties picture and panels together.

import { ask, find, followTheme } from "./common.js";
import { Picture, Scale } from "./picture.js";
import * as panels from "./panels.js";

const picture = new Picture(find("picture"), find("ground"), find("solids"));
const state = { session: "", scene: null, view: null, armed: null, selected: null, scale: new Scale(), playing: false };
let line = Promise.resolve();
const coalesced = new Map();

// ---- messages --------------------------------------------------------------------------------

async function post(action, fields) {
  if (action === "hello") state.session = sessionStorage.getItem("session") || "";
  const begin = performance.now();
  const answer = await ask("/message", { session: state.session, action, ...fields });
  const facts = await answer.json();
  if (!answer.ok && action === "hello" && state.session) { // the server was started anew
    sessionStorage.removeItem("session");
    return post(action, fields);
  }
  if (!answer.ok) throw new Error(facts.error || `the server answers ${answer.status}`);
  if (action !== "look") find("latency").textContent = `${(performance.now() - begin).toFixed(0)} ms`;
  return facts;
}

// Messages go one after the other; of waiting ones of the same kind (sliders) only the last.
function send(action, fields = {}, latest = false) {
  if (latest) {
    const waiting = coalesced.has(action);
    coalesced.set(action, fields);
    if (waiting) return line;
  }
  line = line.then(async () => {
    const content = latest ? coalesced.get(action) : fields;
    coalesced.delete(action);
    try {
      show(await post(action, content));
    } catch (error) {
      complain(error.message === "Failed to fetch" ? "The server does not answer; is dynsys studio still running?" : error.message);
    }
  });
  return line;
}

let complaint = 0;
function complain(words) {
  const box = find("error");
  box.textContent = words;
  box.hidden = false;
  clearTimeout(complaint);
  complaint = setTimeout(() => { box.hidden = true; }, 7000);
}

// ---- showing ---------------------------------------------------------------------------------

const act = {
  add: (kind, place) => send("add", { kind: kind.word, place }),
  remove: (name) => { if (state.selected === `sensor:${name}`) select(null); return send("remove", { name }); },
  move: (name, body) => send("move", { name, body }),
  place: (name, xyz, rpy) => {
    const numbers = (text) => text.split(/[\s,;]+/).filter(Boolean).map(Number);
    const wanted = { xyz: numbers(xyz), rpy: numbers(rpy) };
    if ([...wanted.xyz, ...wanted.rpy].some((x) => !Number.isFinite(x)) || wanted.xyz.length !== 3 || wanted.rpy.length !== 3) complain("Give three numbers each: x, y, z in m, and roll, pitch, yaw in rad.");
    else send("place", { name, ...wanted });
  },
  noise: (name, text) => {
    const std = text.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (!std.length || std.some((x) => !Number.isFinite(x) || x < 0)) complain("Give one deviation, or one per unit: numbers, not negative.");
    else send("noise", { name, std });
  },
  repair: (number) => send("repair", { number }),
  drop: (number) => send("drop", { number }),
  adopt: () => send("adopt"),
  refit: () => { state.scale = new Scale(); picture.spread = picture.forceScale = picture.momentScale = 0; show(state.view); },
  select, hover,
};

function show(facts) {
  if (facts.session && facts.session !== state.session) sessionStorage.setItem("session", (state.session = facts.session));
  if (facts.scene) begin(facts.scene);
  if (!facts.poses) return;
  if (facts.log && facts.log.shown && !facts.estimate) {
    const before = state.view;
    if (before && before.estimate && before.generation === facts.generation && same(facts.poses, before.poses)) facts.estimate = before.estimate;
    else send("seek", { sample: facts.log.sample }, true);
  }
  if (state.view && !same(facts.poses, state.view.poses)) { find("tip").hidden = true; picture.moving = true; }
  state.view = facts;
  if (facts.selected) state.selected = `sensor:${facts.selected}`;
  if (facts.files) panels.showFiles(facts.files);
  if (facts.shapes) picture.showMeshes(facts.shapes);
  panels.showLooks(facts.looks);
  if (facts.looks.meshes && !state.asked) { state.asked = true; send("looks"); }
  if (facts.saved) find("saved").textContent = `saved ${facts.saved}`;
  state.scale.settle(facts.glance.torques.map((t) => t.std));
  panels.showSensors(facts.sensors, act);
  panels.showVerdict(facts, act);
  panels.showSuggestions(facts, act);
  panels.showTorques(facts, state.scale, act);
  panels.showWrenches(facts, act);
  panels.showCost(facts);
  panels.showLegend(state.scale, facts, act);
  panels.setSliders(state.scene, facts.values, coalesced.has("pose"));
  find("undo").disabled = !facts.can_undo;
  find("redo").disabled = !facts.can_redo;
  showPlayer(facts);
  picture.update(facts, state.scale);
  select(state.selected);
  if ([facts.looks, ...Object.values(facts.tasks)].some((task) => task.state === "pending")) waitForTasks();
  document.body.dataset.ready = "true";
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
let waiting = 0;
function waitForTasks() {
  clearTimeout(waiting);
  waiting = setTimeout(() => send("look", {}, true), 250);
}

function begin(scene) {
  state.scene = scene;
  state.selected = state.armed = null;
  state.asked = false;
  state.scale = new Scale();
  picture.forceScale = picture.momentScale = 0;
  find("robot").textContent = `${scene.name}: ${scene.bodies.length} bodies, ${scene.bodies.reduce((sum, b) => sum + b.freedoms, 0)} freedoms`;
  find("folder").textContent = scene.folder;
  panels.showFiles(scene.files);
  panels.showPalette(scene.kinds, arm);
  panels.showSliders(scene, () => send("pose", { values: scene.sliders.map((_, k) => Number(find(`slider-${k}`).value)) }, true));
  panels.showArmed(null);
  picture.show(scene);
}

function arm(kind) {
  state.armed = kind && state.armed && state.armed.word === kind.word ? null : kind;
  find("picture").classList.toggle("armed", Boolean(state.armed));
  panels.showArmed(state.armed);
}

function select(key) {
  const exists = !key || key.startsWith("body:") || state.view.sensors.some((s) => `sensor:${s.name}` === key);
  const other = exists && key && state.selected !== key;
  state.selected = exists ? key : null;
  picture.selected = state.selected;
  mark("selected", state.selected);
  panels.showSelection(state.selected, state.view, state.scene, act);
  if (other && narrow.matches) find("selection").scrollIntoView({ block: "nearest" });
  picture.draw();
}

function hover(key) {
  picture.hovered = key;
  mark("hover", key);
  picture.draw();
}

function mark(name, key) {
  for (const element of document.querySelectorAll("[data-key]")) element.classList.toggle(name, element.dataset.key === key);
}

// ---- mouse and keyboard on the picture -------------------------------------------------------

const svg = find("picture");
const hit = (event) => {
  const under = document.elementFromPoint(event.clientX, event.clientY);
  const sensor = under && under.closest("[data-sensor]");
  if (sensor) return `sensor:${sensor.dataset.sensor}`;
  const body = under && under.closest("#picture") ? picture.bodyAt(event.clientX, event.clientY, under) : null;
  return body === null ? null : `body:${body}`;
};
let drag = null;

svg.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, y: event.clientY, key: hit(event), moved: false, shift: event.button === 2 || event.button === 1 };
  svg.setPointerCapture(event.pointerId);
});
svg.addEventListener("pointermove", (event) => {
  if (!drag) { tip(event, hit(event)); return; }
  const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  drag.moved = true;
  find("tip").hidden = true;
  if (drag.key && drag.key.startsWith("sensor:") && !drag.shift) {
    const target = hit(event);
    hover(target && target.startsWith("body:") ? target : drag.key);
    return;
  }
  svg.classList.add("turning");
  picture.drag(dx, dy, drag.shift);
  drag.x = event.clientX; drag.y = event.clientY;
});
svg.addEventListener("pointerup", (event) => {
  const { key, moved } = drag || {};
  drag = null;
  svg.classList.remove("turning");
  svg.releasePointerCapture(event.pointerId);
  const target = hit(event);
  if (moved && key && key.startsWith("sensor:")) {
    hover(null);
    if (target && target.startsWith("body:")) act.move(key.slice(7), state.scene.bodies[Number(target.slice(5))].name);
  } else if (!moved) {
    choose(target, event.shiftKey);
  }
});
svg.addEventListener("pointerleave", () => { if (!drag) tip(null, null); });
svg.addEventListener("contextmenu", (event) => event.preventDefault());
svg.addEventListener("wheel", (event) => picture.wheel(event), { passive: false });

function choose(key, several) {
  if (state.armed && key && key.startsWith("body:")) {
    const body = state.scene.bodies[Number(key.slice(5))], kind = state.armed;
    if (!several) arm(null);
    act.add(kind, kind.place === "frame" ? body.name : body.joint);
  } else {
    select(key);
  }
}

function tip(event, key) {
  if (picture.hovered !== key) hover(key);
  const box = find("tip");
  box.hidden = !key;
  if (!key) return;
  const stage = find("stage").getBoundingClientRect();
  box.textContent = tipWords(key);
  box.style.left = `${Math.min(event.clientX - stage.left + 14, stage.width - 230)}px`;
  box.style.top = `${event.clientY - stage.top + 16}px`;
}

function tipWords(key) {
  const name = key.slice(key.indexOf(":") + 1);
  if (key.startsWith("sensor:")) {
    const sensor = state.view.sensors.find((s) => s.name === name);
    return sensor ? `${name}\n${sensor.kind.replaceAll("_", " ")} at ${sensor.place}\n${sensor.std.every((x) => x === 0) ? "exact" : sensor.std.map((x, k) => `± ${x} ${sensor.units[k] || ""}`).join(", ")}` : "";
  }
  return document.getElementById(`link-${name}`).getAttribute("aria-label").replace(": ", "\n");
}

svg.addEventListener("keydown", (event) => {
  const focused = event.target.closest("[data-sensor], [data-body]");
  if (picture.steer(event) || !focused || (event.key !== "Enter" && event.key !== " ")) return;
  choose(focused.dataset.sensor ? `sensor:${focused.dataset.sensor}` : `body:${focused.dataset.body}`, event.shiftKey);
  event.preventDefault();
  picture.draw();
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape") arm(null);
  else if (event.key === "Delete" && !typing && state.selected && state.selected.startsWith("sensor:")) act.remove(state.selected.slice(7));
  else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !typing) send(event.shiftKey ? "redo" : "undo");
  else if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "y" && !typing) send("redo");
});

// ---- log -------------------------------------------------------------------------------------

function showPlayer(facts) {
  const log = facts.log;
  find("player").hidden = !log;
  if (!log) { state.playing = false; return; }
  find("sample").max = log.samples - 1;
  if (document.activeElement !== find("sample") || state.playing) find("sample").value = log.sample;
  find("time").textContent = facts.estimate ? `${facts.estimate.time.toFixed(2)} s` : "";
  const without = log.without_data || [];
  find("log-about").textContent = without.length ? `${log.name}; ${without.length} sensors without data` : log.name;
  find("log-about").title = without.join(", ");
  find("play").textContent = state.playing ? "⏸" : "▶";
}

async function play() {
  state.playing = !state.playing;
  const log = state.view.log, seconds = Math.min(60, Math.max(2, log.seconds)), begin = performance.now();
  const first = log.sample >= log.samples - 1 ? 0 : log.sample;
  while (state.playing && state.view.log) {
    const next = first + Math.round(((performance.now() - begin) / 1000 / seconds) * log.samples);
    await send("seek", { sample: Math.min(next, log.samples - 1) }, true);
    if (next >= log.samples - 1) state.playing = false;
    await new Promise(requestAnimationFrame);
  }
  if (state.view.log) find("play").textContent = "▶";
}

// ---- buttons and forms -----------------------------------------------------------------------

find("play").onclick = play;
find("sample").oninput = () => { state.playing = false; send("seek", { sample: Number(find("sample").value) }, true); };
find("close-log").onclick = () => send("close_log");
find("undo").onclick = () => send("undo");
find("redo").onclick = () => send("redo");
find("compile").onclick = () => send("compile");
find("search-stop").onclick = () => send("stop");
find("show-meshes").onchange = (event) => { picture.meshes = event.target.checked; picture.draw(); };
find("show-statements").onchange = (event) => { picture.statements = event.target.checked; picture.draw(); };
find("show-names").onchange = (event) => { picture.names = event.target.checked; picture.draw(); };
for (const button of document.querySelectorAll("[data-view]")) button.onclick = () => picture.look(button.dataset.view);
for (const button of document.querySelectorAll("[data-posture]")) button.onclick = () => send("posture", { which: button.dataset.posture });
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.onclick = () => {
    for (const other of document.querySelectorAll("[role=tab]")) {
      other.setAttribute("aria-selected", String(other === tab));
      if (other.id !== "tab-results") find(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
    document.body.dataset.pane = tab.id.slice(4); // narrow windows show the verdict as a pane
    find("left").scrollTop = 0; // every pane begins at its top
    if (tab.id === "tab-files") send("files");
  };
}
const onSubmit = (id, call) => { find(id).onsubmit = (event) => { event.preventDefault(); call(); }; };
onSubmit("suggest", () => send("suggest", { goal: find("goal").value, budget: Number(find("budget").value) }));
onSubmit("search", () => send("search", { seconds: Number(find("search-seconds").value) }));
onSubmit("save", () => send("save", { file: find("save-name").value, overwrite: find("overwrite").checked }));
onSubmit("open", () => find("open-name").value && send("open", { file: find("open-name").value }));
onSubmit("open-log", () => find("log-name").value && send("open_log", { file: find("log-name").value }));

// In a narrow window signs are explained on demand, and the verdict is a pane.
const narrow = matchMedia("(max-width: 820px)");
narrow.onchange = () => {
  const signs = find("legend").querySelector("details");
  if (narrow.matches && signs) signs.open = false;
  else if (!narrow.matches && document.body.dataset.pane === "results") find("tab-sensors").click();
};

followTheme(find("theme"), () => picture.draw());

send("hello");
