// The lists and cards around the picture. Names of the robot are only ever set as text.

import { digits, find, isNew, make, measured, plural, thousands, time } from "./common.js";
import { colour, element, familyOf, glyphOf, GLYPHS } from "./picture.js";

export const icon = (glyph, family) =>
  element("svg", { class: `icon ${family}`, viewBox: "0 0 20 20", "aria-hidden": "true" }, element("use", { href: `#g-${glyph}` }));
const FAMILY = new Map([["imu", "motion"], ["accelerometer", "motion"], ["gyroscope", "motion"], ["angular_accelerometer", "motion"],
  ["joint_acceleration", "motion"], ["no_contact", "stated"], ["rigid_contact", "stated"], ["pure_force", "stated"]]);
const FIRST_KINDS = 5;

export function showPalette(kinds, arm) {
  const buttons = kinds.map((kind) => {
    const button = make("button", { className: "kind", title: kind.about, type: "button" },
      icon(GLYPHS[kind.word] || "other", FAMILY.get(kind.word) || "force"), make("span", {}, kind.title));
    button.dataset.kind = kind.word;
    button.setAttribute("aria-pressed", "false");
    button.onclick = () => arm(kind);
    return button;
  });
  find("palette").replaceChildren(...buttons.slice(0, FIRST_KINDS));
  find("palette-more").replaceChildren(...buttons.slice(FIRST_KINDS));
}

export function showArmed(kind) {
  for (const button of document.querySelectorAll(".kind")) {
    button.setAttribute("aria-pressed", String(Boolean(kind) && button.dataset.kind === kind.word));
  }
  const hint = find("hint");
  hint.replaceChildren();
  if (kind) {
    hint.append(make("b", {}, `Click a ${kind.place === "frame" ? "link" : "joint"} to put: ${kind.title}`), make("br"), "Shift-click adds several, Esc stops.");
  } else {
    hint.append("Click a link or sensor; drag a sensor.", make("br"), "Drag: turn, wheel: zoom, right: shift.");
  }
}

export function showSensors(sensors, act) {
  if (!isNew("sensors", sensors)) return;
  const line = (sensor) => {
    const remove = make("button", { title: `Remove ${sensor.name}`, type: "button" }, "✕");
    remove.setAttribute("aria-label", `Remove sensor ${sensor.name}`);
    remove.onclick = (event) => { event.stopPropagation(); act.remove(sensor.name); };
    const name = make("button", { className: "name", type: "button", title: `${sensor.kind.replaceAll("_", " ")} at ${sensor.place}` }, sensor.name);
    const item = make("li", {}, icon(glyphOf(sensor), familyOf(sensor)), name, remove);
    item.dataset.key = `sensor:${sensor.name}`;
    item.onclick = () => act.select(`sensor:${sensor.name}`);
    item.onmouseenter = () => act.hover(`sensor:${sensor.name}`);
    item.onmouseleave = () => act.hover(null);
    return item;
  };
  const stated = sensors.filter((s) => s.statement), measured = sensors.filter((s) => !s.statement);
  const held = find("assumed");
  const details = make("details", { id: "assumed", open: Boolean(held && held.open) },
    make("summary", {}, `${plural(stated.length, "assumption")} (no contact, no drive)`), ...stated.map(line));
  find("sensors").replaceChildren(...measured.map(line), ...(stated.length ? [make("li", {}, details)] : []));
  find("count").textContent = `${plural(measured.length, "sensor")}, ${plural(measured.reduce((sum, s) => sum + s.rows, 0), "reading")}`;
}

export function showSelection(key, view, scene, act) {
  const about = key && key.startsWith("sensor:") ? view.sensors : [view.glance.torques, view.glance.wrenches];
  if (!isNew("selection", key, scene.name, key ? about : 0)) return;
  const card = find("selection");
  card.replaceChildren();
  if (!key) {
    card.append(make("span", { className: "quiet" }, "Nothing selected. Pick a kind above and click the robot, or click a link to see what is known of it."));
    return;
  }
  const [kind, rest] = [key.slice(0, key.indexOf(":")), key.slice(key.indexOf(":") + 1)];
  if (kind === "sensor") showSensor(card, view.sensors.find((s) => s.name === rest), scene, act);
  else showBody(card, Number(rest), view, scene, act);
}

function showSensor(card, sensor, scene, act) {
  if (!sensor) return;
  card.append(make("b", {}, sensor.name), make("div", { className: "quiet" }, `${sensor.kind.replaceAll("_", " ")}${sensor.place ? ` at ${sensor.place}` : ""} · ${plural(sensor.rows, "reading")}`));
  if (!sensor.statement) {
    const input = make("input", { id: "std", value: sensor.std.join(", "), autocomplete: "off" });
    const form = make("form", {}, make("label", { htmlFor: "std" }, `standard deviation (${sensor.units.join(", ")}) `), input);
    form.onsubmit = (event) => { event.preventDefault(); act.noise(sensor.name, input.value); };
    input.onchange = () => act.noise(sensor.name, input.value);
    card.append(form);
  }
  if ("xyz" in sensor.pose) card.append(poseForm(sensor, act));
  const row = make("div", { className: "row" });
  if (sensor.movable) {
    const select = make("select", { id: "move-to" }, ...scene.bodies.map((b) => make("option", { value: b.name, selected: scene.bodies[sensor.body] === b }, b.name)));
    select.setAttribute("aria-label", "Body to move the sensor to");
    const move = make("button", { type: "button", id: "move" }, "Move there");
    move.onclick = () => act.move(sensor.name, select.value);
    row.append(select, move);
  }
  const remove = make("button", { type: "button", id: "remove-selected" }, "Remove (Del)");
  remove.onclick = () => act.remove(sensor.name);
  row.append(remove);
  card.append(row);
}

// Where the sensor sits within its link, and how it is turned there.
function poseForm(sensor, act) {
  const field = (key, words) => {
    const input = make("input", { id: `pose-${key}`, value: sensor.pose[key].map((x) => Number(x.toPrecision(6))).join(", "), autocomplete: "off", spellcheck: false });
    return [make("label", { htmlFor: `pose-${key}` }, words), input];
  };
  const [place, xyz] = field("xyz", "x, y, z in the frame (m) ");
  const [turn, rpy] = "rpy" in sensor.pose ? field("rpy", "roll, pitch, yaw (rad) ") : [null, null];
  const form = make("form", { id: "pose" }, place, xyz, turn, rpy, make("button", { hidden: true }));
  const send = () => act.place(sensor.name, xyz.value, rpy ? rpy.value : "0 0 0");
  form.onsubmit = (event) => event.preventDefault(); // Enter is a change, too
  for (const input of [xyz, rpy]) if (input) input.onchange = send;
  return form;
}

function showBody(card, number, view, scene, act) {
  const body = scene.bodies[number];
  if (!body) return;
  const torque = view.glance.torques.find((t) => t.body === number), wrench = view.glance.wrenches.find((w) => w.body === number);
  const words = !torque ? "–" : torque.open ? "undetermined" : torque.std === 0 ? "known exactly" : `± ${digits(torque.std)} ${torque.unit}`;
  card.append(make("b", {}, body.name), make("div", { className: "quiet" }, `${body.joint_kind} joint ${body.joint} · ${body.mass} kg`),
    make("div", { className: torque && torque.open ? "bad" : "" }, `torque: ${words}`),
    make("div", { className: wrench && wrench.open.some(Boolean) ? "bad" : "" }, `contact: ${wrench ? wrenchWords(wrench) : "none, or known exactly"}`));
  const frames = Object.entries(scene.frames).filter(([, b]) => b === number).map(([name]) => name);
  const place = make("select", { id: "frame" }, ...[body.name, ...frames.filter((f) => f !== body.name)].map((f) => make("option", { value: f }, f)));
  card.append(make("label", { htmlFor: "frame" }, "frame "), place);
  const kinds = make("select", { id: "add-kind" }, ...scene.kinds.map((k) => make("option", { value: k.word }, k.title)));
  kinds.setAttribute("aria-label", "Kind of sensor to add here");
  const add = make("button", { type: "button", className: "primary", id: "add-here" }, "Add here");
  add.onclick = () => {
    const kind = scene.kinds.find((k) => k.word === kinds.value);
    act.add(kind, kind.place === "frame" ? place.value : body.joint);
  };
  card.append(make("div", { className: "row" }, kinds, add));
}

const AXES = ["tx", "ty", "tz", "fx", "fy", "fz"];
function wrenchWords(wrench) {
  const open = AXES.filter((_, k) => wrench.open[k]);
  if (open.length) return `${open.join(", ")} undetermined`;
  const worst = (part) => Math.max(...part.map((x) => x || 0));
  return `± ${digits(worst(wrench.std.slice(3)))} N, ± ${digits(worst(wrench.std.slice(0, 3)))} N m`;
}

// ---- what is determined ------------------------------------------------------------------

const MARKS = { good: "✓", wait: "⚠", bad: "✗" };

export function showVerdict(view, act) {
  const { glance, tasks } = view, verdict = tasks.verdict;
  const here = find("glance"), everywhere = find("verdict");
  here.className = !glance.complete || glance.contradicts ? "bad" : glance.coarse.length ? "wait" : "good";
  here.textContent = `${MARKS[here.className]} ${glance.words}`;
  const done = verdict.state === "done";
  everywhere.className = !done ? "wait" : !verdict.well_posed ? "bad" : here.className === "wait" ? "" : "good";
  everywhere.dataset.state = verdict.state;
  everywhere.textContent = verdict.state === "failed" ? `verdict: ${verdict.failed}` : !done ? "… checking 24 random postures"
    : `${verdict.well_posed ? "✓" : "✗"} ${verdict.status} at almost every posture (${verdict.samples} tried, median condition ${digits(verdict.condition)})`;
  const drops = done ? verdict.rank_drops : [];
  if (isNew("drops", drops)) find("drops").replaceChildren(...drops.map((drop, number) => {
    const button = make("button", { type: "button" }, "Show");
    button.onclick = () => act.drop(number);
    return make("p", { className: "wait" }, `⚠ ${plural(drop.lost, "more direction")} ${drop.lost === 1 ? "is" : "are"} unseen ${drop.where} `, button);
  }));
  if (isNew("unseen", done && verdict.unseen)) find("unseen").replaceChildren(...(done ? verdict.unseen : []).map((words) => make("li", {}, words)));
  find("verdict-details").hidden = !done;
  find("verdict-text").textContent = done ? verdict.text : "";
  const pill = find("headline"), known = glance.torques.filter((t) => !t.open).length;
  pill.className = `pill ${here.className}`;
  const [worst, ...more] = glance.coarse;
  const how = worst ? `, but ${worst.what}${more.length ? ` and ${more.length} more` : ""}` : `: all ${known} torques`;
  pill.textContent = glance.contradicts ? "contradiction" : glance.complete ? `${MARKS[here.className]} determined${how}` : `✗ ${glance.torques.length - known} of ${glance.torques.length} torques undetermined`;
}

export function showSuggestions(view, act) {
  const { verdict, suggest } = view.tasks, box = find("repairs"), coarse = view.glance.coarse.length > 0;
  if (!isNew("suggestions", verdict, suggest, coarse)) return;
  box.replaceChildren();
  if (verdict.state === "done" && verdict.well_posed) box.append(coarse ? make("span", {}, "Nothing is undetermined; less noise or another sensor makes it finer.") : make("span", { className: "good" }, "✓ nothing to repair"));
  else if (verdict.state === "done" && !verdict.repairs.length) box.append(make("span", {}, "No addition of the usual sensors repairs it."));
  else if (verdict.state === "done") {
    box.append(make("span", {}, verdict.repairs.length > 1 ? "Any one of these makes everything determined:" : "This makes everything determined:"));
    verdict.repairs.slice(0, 5).forEach((repair, number) => {
      const button = make("button", { type: "button" }, `+ ${repair.words}`);
      button.dataset.repair = number;
      button.onclick = () => act.repair(number);
      box.append(button);
    });
  } else box.append(make("span", { className: "quiet" }, "… looking for repairs"));
  const found = find("suggested");
  found.replaceChildren();
  if (suggest.state === "pending") found.append(make("span", { className: "wait" }, "… searching"));
  if (suggest.state === "failed") found.append(make("span", { className: "bad" }, suggest.failed));
  if (suggest.state !== "done") return;
  if (!suggest.sensors.length) { found.append("No sensor within that budget helps."); return; }
  const before = suggest.std_before === null ? `${suggest.open_before} undetermined` : `rms ± ${digits(suggest.std_before)}`;
  const after = suggest.std_after === null ? `${suggest.open_after} undetermined` : `rms ± ${digits(suggest.std_after)}`;
  const button = make("button", { type: "button", id: "adopt" }, `+ ${suggest.sensors.map((s) => s.name.replace("added_", "")).join(", ")}`);
  button.onclick = () => act.adopt();
  found.append(make("div", {}, `${before} → ${after}, compared at one random posture with readings of unit deviation`), button);
}

export function showTorques(view, scale, act) {
  const estimate = view.estimate;
  if (!isNew("torques", view.glance.torques, scale, estimate && estimate.torques)) return;
  const rows = view.glance.torques.map((torque, k) => {
    const bar = make("span", {});
    bar.style.width = torque.open ? "100%" : `${Math.max(3, 100 * scale.part(torque.std || 1e-300))}%`;
    if (torque.open) bar.className = "hatched"; else if (torque.std === 0) bar.className = "exact"; else bar.style.background = colour(scale.part(torque.std));
    const std = torque.open ? "undetermined" : torque.std === 0 ? "exact" : `± ${digits(torque.std)} ${torque.unit}`;
    const estimated = estimate && estimate.torques[k] !== null && !torque.open && torque.std !== 0;
    const row = make("tr", {}, make("th", { scope: "row", title: torque.joint }, torque.joint), make("td", { className: "meter" }, bar),
      make("td", { className: torque.open ? "value bad" : "value" }, estimated ? `${measured(estimate.torques[k], torque.std)} ${torque.unit}` : std));
    row.dataset.joint = torque.joint;
    return linked(row, `body:${torque.body}`, act);
  });
  find("torques").tBodies[0].replaceChildren(...rows);
}

export function showWrenches(view, act) {
  if (!isNew("wrenches", view.glance.wrenches.map((w) => [w.frame, w.std]))) return;
  const rows = view.glance.wrenches.map((wrench) => {
    const open = wrench.open.some(Boolean);
    const row = make("tr", {}, make("th", { scope: "row", title: `moments about ${wrench.frame}` }, wrench.frame), make("td", { className: open ? "value bad" : "value" }, wrenchWords(wrench)));
    return linked(row, `body:${wrench.body}`, act);
  });
  if (!rows.length) rows.push(make("tr", {}, make("td", { className: "quiet" }, "Nothing touches the robot: every contact wrench is known to be zero.")));
  find("wrenches").tBodies[0].replaceChildren(...rows);
}

function linked(row, key, act) {
  row.dataset.key = key;
  row.onmouseenter = () => act.hover(key);
  row.onmouseleave = () => act.hover(null);
  row.onclick = () => act.select(key);
  return row;
}

export function showCost(view) {
  const { cost, price, compile } = view.tasks;
  find("cost").textContent = cost.state === "done"
    ? `${cost.method === "dense" ? "dense, about " : "sparse, "}${thousands(cost.operations)} operations · ${time(cost.microseconds)} by ${cost.method} (${cost.unknowns} unknowns, ${cost.readings} readings)`
    : cost.state === "failed" ? cost.failed : "… timing";
  find("cost").dataset.state = cost.state;
  find("price").textContent = compile.state === "done" || !view.glance.complete ? "" : price.state === "done" && !price.refused
    ? `Compiling ${thousands(price.operations)} operations to machine code takes about ${seconds(price.seconds)}, once; a solve then takes about ${time(price.microseconds)}.`
    : price.refused || price.failed || "… what would compiling cost?";
  find("compiled").textContent = compile.state === "done"
    ? compile.refused || `Machine code${compile.searched ? " of the order found" : ""}: ${thousands(compile.operations)} operations · ${time(compile.microseconds)} a solve · compiled in ${seconds(compile.seconds)}`
    : compile.state === "pending" ? "… compiling" : compile.state === "failed" ? compile.failed : "";
  find("compile").hidden = compile.state === "pending" || compile.state === "done";
  find("compile").disabled = !view.glance.complete;
  showSearch(view);
}

const seconds = (s) => (s < 10 ? `${Math.max(s, 0.1).toFixed(1)} s` : `${s.toFixed(0)} s`);

function showSearch(view) {
  const { search } = view.tasks, running = search.state === "pending";
  find("search").hidden = running;
  find("search-go").disabled = !view.glance.complete;
  find("searching").hidden = !running;
  if (running) {
    const begun = search.wanted !== undefined;
    if (begun) find("search-bar").value = Math.min(1, search.seconds / search.wanted); else find("search-bar").removeAttribute("value");
    find("search-words").textContent = begun
      ? `${thousands(search.operations)} operations, was ${thousands(search.before)} · ${search.tried ? `${thousands(search.tried)} orders tried · ` : ""}${search.seconds.toFixed(0)} of ${search.wanted} s`
      : "… getting ready (the first search on a machine compiles itself: 10 s)";
  }
  const gain = 100 * (1 - search.operations / search.before);
  find("searched").textContent = search.state === "done"
    ? search.refused || (gain > 0.05 ? `Found an order of ${thousands(search.operations)} operations, ${gain.toFixed(1)} % fewer than ${thousands(search.before)}. It is compiled from now on, and saved beside the layout.`
      : `No order with fewer than ${thousands(search.before)} operations found in ${seconds(search.seconds)}.`)
    : search.state === "failed" ? search.failed : "";
}

export function showLooks(looks) {
  const box = find("show-meshes"), label = box.parentElement;
  label.hidden = !looks.meshes && !looks.missing;
  box.disabled = !looks.meshes;
  label.title = looks.missing || (looks.notes && looks.notes.length ? `left out: ${looks.notes.join("; ")}` : "the meshes of the robot's file");
  label.classList.toggle("quiet", !looks.meshes);
  if (looks.missing) box.checked = false; else if (box.shown !== looks.meshes) box.checked = Boolean(box.shown = looks.meshes);
}

export function showLegend(scale, view, act) {
  if (!isNew("legend", scale, Boolean(view.estimate))) return;
  const legend = find("legend"), held = legend.querySelector("details");
  const bar = make("div", { className: "bar" });
  bar.style.background = `linear-gradient(90deg in oklab, ${Array.from({ length: 9 }, (_, k) => colour(k / 8)).join(", ")})`;
  const ticks = [];
  const sign = (k) => (k === scale.low ? "≤ " : k === scale.high ? "≥ " : "");
  for (let k = scale.low; k <= scale.high; k++) ticks.push(make("span", {}, sign(k) + (k < -3 ? `1e${k}` : String(10 ** k).slice(0, 6))));
  const refit = make("button", { type: "button", id: "refit", title: "Colours keep their meaning while sensors come and go; this fits them to the deviations shown now" }, "fit");
  refit.onclick = () => act.refit();
  const item = (mark, words) => [mark, make("span", {}, words)];
  const swatch = (kind) => make("span", { className: kind });
  legend.replaceChildren(make("div", { className: "row" }, make("span", { className: "grow" }, "deviation of a joint's torque (N m, N)"), refit), bar, make("div", { className: "ticks" }, ...ticks),
    make("details", { open: held ? held.open : find("stage").clientHeight > 700 && find("stage").clientWidth > 640 }, make("summary", {}, "signs"), make("div", { className: "items" },
      ...item(swatch("swatch hatched"), "torque undetermined (also marked ?)"), ...item(swatch("swatch exact"), "torque known exactly, or none"),
      ...item(swatch("dash"), "force or moment that no sensor sees"),
      ...item(swatch("solid-line"), view.estimate ? "estimated contact force" : "deviation of a contact force"),
      ...(view.estimate ? item(swatch("dot-line"), "estimated contact moment") : []),
      ...item(icon("imu", "motion"), "measures motion"), ...item(icon("force_torque", "force"), "measures force"))));
}

export function showSliders(scene, move) {
  find("sliders").replaceChildren(...scene.sliders.map((slider, k) => {
    const input = make("input", { type: "range", id: `slider-${k}`, min: slider.lower, max: slider.upper, step: "any" });
    const shown = make("output", {});
    shown.setAttribute("for", `slider-${k}`);
    input.oninput = move;
    return make("div", { className: "slider" }, make("label", { htmlFor: `slider-${k}` }, slider.label), shown, input);
  }));
}

export function setSliders(scene, values, busy) {
  values.forEach((value, k) => {
    const input = find(`slider-${k}`);
    if (!input) return;
    if (document.activeElement !== input || !busy) input.value = value;
    input.previousElementSibling.textContent = `${value.toFixed(3)} ${scene.sliders[k].unit}`;
  });
}

export function showFiles(files) {
  const fill = (id, names, none) => {
    if (!isNew(id, names)) return;
    find(id).replaceChildren(...(names.length ? names : [none]).map((name) => make("option", { value: names.length ? name : "" }, name)));
    find(id).disabled = find(id).form.querySelector("button").disabled = !names.length;
  };
  fill("open-name", files.layouts, "no .yaml file in the folder");
  fill("log-name", files.logs, "no log in the folder");
}
