// The robot in three dimensions: every link and every sensor is an element of an SVG. Rounded
// links are drawn by it too; meshes, on the canvas behind it.

import { rgb, Solids } from "./solids.js";

const NS = "http://www.w3.org/2000/svg";
const CIRCLE = Array.from({ length: 20 }, (_, k) => [Math.cos((k * Math.PI) / 10), Math.sin((k * Math.PI) / 10)]);
const VIEWS = { home: [0.62, 0.2], front: [0, 0.03], side: [-Math.PI / 2, 0.03], top: [0, 1.45] };
const FIELD = 0.27; // tangent of half the field of view

export const GLYPHS = {
  joint_torque: "joint_torque", motor_torque: "joint_torque",
  joint_acceleration: "joint_acceleration", motor_acceleration: "joint_acceleration",
  force_torque: "force_torque", imu: "imu", accelerometer: "imu",
  gyroscope: "turn", angular_accelerometer: "turn", external_wrench: "wrench",
  load_cell_plate: "plate", five_axis_plate: "plate", no_contact: "statement",
  pure_force: "wrench", force_along_direction: "wrench",
  rigid_contact: "tie", loop_closure: "tie", action_reaction: "tie", mimic_constraint: "tie",
};
const MOTION = new Set(["imu", "accelerometer", "gyroscope", "angular_accelerometer",
  "joint_acceleration", "motor_acceleration", "centre_of_mass_acceleration"]);

export function glyphOf(sensor) {
  if (sensor.statement && (sensor.kind === "external_wrench" || sensor.kind === "joint_torque")) return "statement";
  return GLYPHS[sensor.kind] || "other";
}

export function familyOf(sensor) {
  return sensor.statement ? "stated" : MOTION.has(sensor.kind) ? "motion" : "force";
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Colours between which equal steps look equal: lightness rises evenly in the OKLab space.
export function colour(part) {
  const t = Math.min(1, Math.max(0, part));
  const lightness = 0.4 + 0.47 * t, chroma = 0.115 + 0.045 * t, hue = 285 - 190 * t;
  return `oklch(${lightness.toFixed(3)} ${chroma.toFixed(3)} ${hue.toFixed(1)})`;
}

const ROOM = 0.3; // decades above the largest deviation at least: a factor of two

export class Scale {
  // Whole decades around the deviations that were seen first. They stay while sensors come and
  // go, so that a colour means what it meant before; what lies beyond has the colour of the end.
  constructor() { this.low = 0; this.high = -1; }

  get isEmpty() { return this.high < this.low; }

  // Take the decades of these deviations, if there are none yet.
  settle(values) {
    const known = values.filter((value) => value > 0).map(Math.log10);
    if (!this.isEmpty || !known.length) return;
    this.low = Math.floor(Math.min(...known));
    this.high = Math.max(Math.ceil(Math.max(...known) + ROOM), this.low + 2);
    this.low = Math.max(this.low, this.high - 4);
  }

  part(value) {
    if (this.isEmpty) return 0;
    return Math.min(1, Math.max(0, (Math.log10(value) - this.low) / (this.high - this.low)));
  }
}

function hull(points) {
  points.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (list) => {
    const chain = [];
    for (const p of list) {
      while (chain.length > 1) {
        const [a, b] = chain.slice(-2);
        if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0) break;
        chain.pop();
      }
      chain.push(p);
    }
    chain.pop();
    return chain;
  };
  return [...half(points), ...half(points.slice().reverse())];
}

const pathOf = (points, close = "Z") => "M" + points.map((p) => `${p[0].toFixed(1)} ${p[1].toFixed(1)}`).join("L") + close;

export class Picture {
  constructor(svg, ground, canvas) {
    this.svg = svg;
    this.solids = new Solids(canvas);
    this.meshes = true; // shown where there are some
    this.moving = false; // then drawn coarsely
    this.turn = VIEWS.home.slice();
    this.target = [0, 0, 0];
    this.distance = 3;
    this.links = [];
    this.glyphs = new Map();
    this.hovered = this.selected = null;
    this.names = this.statements = false;
    this.aside = [0, 0];
    this.layers = {};
    svg.append(this.definitions());
    for (const name of ["floor", "solids", "arrows", "marks", "sensors", "notes"]) {
      (name === "floor" ? ground : svg).append((this.layers[name] = element("g", { id: `layer-${name}` })));
    }
    new ResizeObserver(() => this.draw()).observe(svg);
  }

  definitions() {
    const stop = (offset, colour, opacity) => element("stop", { offset, "stop-color": colour, "stop-opacity": opacity });
    const stripes = element("pattern", { id: "hatch", width: 9, height: 9, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      element("rect", { width: 9, height: 9, class: "hatch-a" }), element("rect", { width: 3, height: 9, class: "hatch-b" }));
    for (const [kind, name] of [["a", "--hatch-a"], ["b", "--hatch-b"]]) {
      stripes.querySelector(`.hatch-${kind}`).style.fill = `var(${name})`;
    }
    return element("defs", {},
      element("linearGradient", { id: "shade", x1: 0.15, y1: 0, x2: 0.85, y2: 1 },
        stop(0, "#fff", 0.42), stop(0.42, "#fff", 0), stop(0.62, "#000", 0), stop(1, "#000", 0.34)), stripes);
  }

  // ---- content ---------------------------------------------------------------------------

  show(scene) {
    this.scene = scene;
    this.spread = 0;
    this.solids.load([], scene.grain);
    for (const layer of Object.values(this.layers)) layer.replaceChildren();
    this.glyphs.clear();
    this.links = scene.bodies.map((body, number) => {
      const parts = { solid: element("path", { class: "solid" }), shade: element("path", { class: "shade" }), ring: element("path", { class: "ring" }) };
      const group = element("g", { class: "link", tabindex: 0, role: "button", "data-body": number, id: `link-${number}` }, ...Object.values(parts));
      this.layers.solids.append(group);
      return { group, ...parts, body };
    });
    this.needsFit = true;
  }

  update(view, scale) {
    this.view = view;
    const torques = new Map(view.glance.torques.map((t) => [t.body, t]));
    this.links.forEach(({ group, solid, body }, number) => {
      const torque = torques.get(number), link = this.links[number];
      link.colour = !torque || torque.std === 0 ? "var(--exact)" : colour(scale.part(torque.std));
      link.open = Boolean(torque && torque.open);
      solid.style.fill = link.open ? "url(#hatch)" : link.colour;
      const state = !torque ? "no torque of its own" : torque.open ? "torque undetermined"
        : torque.std === 0 ? "torque known exactly" : `torque to within ${torque.std} ${torque.unit}`;
      group.setAttribute("aria-label", `body ${body.name}, joint ${body.joint}: ${state}`);
      group.dataset.open = String(Boolean(torque && torque.open));
    });
    this.keepGlyphs(view.sensors);
    if (this.needsFit || this.isAway()) this.fit();
    this.draw();
  }

  keepGlyphs(sensors) {
    const gone = new Set(this.glyphs.keys());
    for (const sensor of sensors) {
      gone.delete(sensor.name);
      let entry = this.glyphs.get(sensor.name);
      const look = `${glyphOf(sensor)} ${familyOf(sensor)}`;
      if (!entry || entry.look !== look) {
        if (entry) { entry.group.remove(); entry.leader.remove(); }
        const radius = sensor.kind === "joint_acceleration" ? 5.5 : sensor.statement ? 7 : sensor.kind === "joint_torque" ? 9.5 : 12;
        const inner = 1.3 * radius;
        const group = element("g", { class: `sensor ${familyOf(sensor)}`, tabindex: 0, role: "button", "data-sensor": sensor.name },
          element("circle", { class: "disc", r: radius }),
          element("use", { href: `#g-${glyphOf(sensor)}`, x: -inner / 2, y: -inner / 2, width: inner, height: inner }));
        const leader = element("line", { class: "leader" });
        this.layers.sensors.append(leader, group);
        entry = { group, leader, look, radius };
        this.glyphs.set(sensor.name, entry);
      }
      entry.group.setAttribute("aria-label", `sensor ${sensor.name}, ${sensor.kind.replaceAll("_", " ")}, on ${sensor.place || "the robot"}`);
      entry.sensor = sensor;
    }
    for (const name of gone) {
      const entry = this.glyphs.get(name);
      entry.group.remove(); entry.leader.remove();
      this.glyphs.delete(name);
    }
  }

  showMeshes(shapes) {
    this.solids.load(shapes, this.scene.grain);
    this.needsFit = true;
    this.fit();
    this.draw();
  }

  get isMeshed() { return this.meshes && !this.solids.isEmpty; }

  // Key of the body at a place of the window: of the meshes if they are shown.
  bodyAt(x, y, under) {
    const link = under && under.closest("[data-body]"), number = link ? Number(link.dataset.body) : null;
    if (!this.isMeshed) return number;
    const box = this.svg.getBoundingClientRect(), body = this.solids.bodyAt(x - box.left, y - box.top);
    if (body !== null) return body < 0 ? null : body;
    return number !== null && !this.solids.bodies.has(number) ? number : null;
  }

  // ---- camera ----------------------------------------------------------------------------

  look(name) { this.turn = VIEWS[name].slice(); this.fit(); this.draw(); }

  // Turn by a drag of so many pixels, or shift.
  drag(dx, dy, shift) {
    if (shift) {
      const { right, up, focal } = this.camera, s = this.distance / focal;
      this.target = this.target.map((x, k) => x - s * (dx * right[k] - dy * up[k]));
    } else {
      this.rotate(-0.008 * dx, 0.008 * dy);
    }
    this.moving = true;
    this.draw();
  }

  rotate(aside, up) {
    this.turn[0] += aside;
    this.turn[1] = Math.min(1.5, Math.max(-1.5, this.turn[1] + up));
  }

  wheel(event) {
    event.preventDefault();
    this.distance *= Math.exp(0.0012 * event.deltaY);
    this.moving = true;
    this.draw();
  }

  // True if a key turned or zoomed.
  steer(event) {
    const step = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, 0.12], ArrowDown: [0, -0.12] }[event.key];
    const zoom = { "+": 1 / 1.15, "=": 1 / 1.15, "-": 1.15 }[event.key];
    if (!step && !zoom) return false;
    if (step) this.rotate(...step); else this.distance *= zoom;
    event.preventDefault();
    this.draw();
    return true;
  }

  points() {
    if (this.isMeshed) return this.solids.shapes.flatMap(({ body, box }) => (body < 0 ? box : box.map((p) => this.world(body, p))));
    const found = [];
    this.links.forEach(({ body }, number) => {
      for (const ball of body.balls) found.push(this.world(number, ball));
    });
    for (const ball of this.scene.base) found.push(ball.slice(0, 3));
    return found;
  }

  extent() {
    const points = this.points(), of = (pick, k) => pick(...points.map((p) => p[k]));
    const low = [0, 1, 2].map((k) => of(Math.min, k)), high = [0, 1, 2].map((k) => of(Math.max, k));
    return { points, low, centre: low.map((x, k) => (x + high[k]) / 2) };
  }

  // True if the robot has moved away from where the view was fitted to it.
  isAway() {
    const { centre } = this.extent();
    return Math.hypot(...centre.map((x, k) => x - this.fitted[k])) > 0.3 * this.scene.size;
  }

  fit() {
    if (!this.view) return;
    const { points, low, centre } = this.extent();
    this.target = centre;
    this.fitted = centre.slice();
    this.ground = low[2] - 0.015 * this.scene.size;
    const reach = Math.max(...points.map((p) => Math.hypot(...p.map((x, k) => x - this.target[k])))) || this.scene.size;
    this.distance = (1.22 * reach) / FIELD;
    this.needsFit = false;
  }

  frame() {
    const [azimuth, elevation] = this.turn;
    const ca = Math.cos(azimuth), sa = Math.sin(azimuth), ce = Math.cos(elevation), se = Math.sin(elevation);
    const out = [ca * ce, sa * ce, se], right = [-sa, ca, 0], up = [-ca * se, -sa * se, ce];
    const width = this.svg.clientWidth || 800, height = this.svg.clientHeight || 600;
    const narrow = width < 600;
    this.aside = narrow ? [0, -8] : [Math.min(90, 0.1 * width), 8]; // out of the legend's way
    this.small = narrow ? 0.68 : 1; // of glyphs
    const middle = [width / 2 + this.aside[0], height / 2 - this.aside[1]];
    this.camera = { out, right, up, width, height, middle, target: this.target, distance: this.distance, focal: (narrow ? 0.86 : 1) * Math.min(width, height) / (2 * FIELD) };
  }

  project(p) {
    const { out, right, up, middle, focal } = this.camera;
    const d = [p[0] - this.target[0], p[1] - this.target[1], p[2] - this.target[2]];
    const dot = (a) => a[0] * d[0] + a[1] * d[1] + a[2] * d[2];
    const depth = Math.max(this.distance - dot(out), 0.05 * this.distance), s = focal / depth;
    return [middle[0] + s * dot(right), middle[1] - s * dot(up), depth, s];
  }

  world(number, p) {
    const m = this.view.poses[number];
    return [0, 1, 2].map((k) => m[9 + k] + m[3 * k] * p[0] + m[3 * k + 1] * p[1] + m[3 * k + 2] * p[2]);
  }

  // ---- drawing ---------------------------------------------------------------------------

  draw() {
    if (!this.view || !this.scene) return;
    this.frame();
    this.svg.classList.toggle("meshed", this.isMeshed);
    this.drawFloor();
    this.drawLinks();
    this.drawMeshes();
    this.layers.arrows.replaceChildren();
    this.layers.notes.replaceChildren();
    this.noted = [];
    this.drawWrenches();
    this.drawSensors();
    if (this.names) this.links.forEach((link) => this.note(link.middle, link.body.name));
  }

  drawFloor() {
    const step = this.scene.size / 4, n = 5, z = this.ground, lines = [];
    const [x0, y0] = this.target;
    for (let k = -n; k <= n; k++) {
      lines.push(pathOf([this.project([x0 + k * step, y0 - n * step, z]), this.project([x0 + k * step, y0 + n * step, z])], ""));
      lines.push(pathOf([this.project([x0 - n * step, y0 + k * step, z]), this.project([x0 + n * step, y0 + k * step, z])], ""));
    }
    const base = this.scene.base.length && !this.isMeshed ? [element("path", { class: "base", d: this.outline(this.scene.base).path })] : [];
    this.layers.floor.replaceChildren(element("path", { class: "floor", d: lines.join("") }), element("g", { class: "shadow" }, ...this.shadows()), ...base);
  }

  // The robot as light from above leaves it on the floor.
  shadows() {
    const solids = this.links.map(({ body }, number) => body.balls.map((ball) => [...this.world(number, ball), ball[3]]));
    return [...solids, this.scene.base].filter((balls) => balls.length).map((balls) => {
      const edge = balls.flatMap(([x, y, , radius]) => CIRCLE.map(([c, s]) => this.project([x + radius * c, y + radius * s, this.ground])));
      return element("path", { d: pathOf(hull(edge)) });
    });
  }

  drawMeshes() {
    const { canvas } = this.solids;
    canvas.hidden = !this.isMeshed;
    if (!this.isMeshed || this.queued) return;
    this.queued = requestAnimationFrame(() => {
      this.queued = 0;
      const [plain, striped, ground] = ["var(--hatch-a)", "var(--hatch-b)", "var(--floor-line)"].map(rgb);
      const ringed = { [`${this.selected}`]: rgb("var(--accent)"), [`${this.hovered}`]: rgb("var(--hover)") };
      const paint = (body) => body < 0 ? { colour: ground } : this.links[body].open ? { colour: plain, striped } : { colour: rgb(this.links[body].colour) };
      this.solids.draw(this.camera, this.view.poses, paint, (body) => ringed[`body:${body}`] || null, this.moving);
      clearTimeout(this.settling);
      if (this.moving) this.settling = setTimeout(() => { this.moving = false; this.draw(); }, 140);
    });
  }

  // Path, depth and middle of the hull of balls, given in base coordinates.
  outline(balls) {
    const edge = [], middle = [0, 0];
    let depth = 0;
    for (const ball of balls) {
      const [x, y, far, s] = this.project(ball);
      for (const [c, n] of CIRCLE) edge.push([x + ball[3] * s * c, y + ball[3] * s * n]);
      depth += far / balls.length;
      middle[0] += x / balls.length; middle[1] += y / balls.length;
    }
    return { path: pathOf(hull(edge)), depth, middle };
  }

  drawLinks() {
    const order = [], marks = [];
    this.links.forEach((link, number) => {
      const { path, depth, middle } = this.outline(link.body.balls.map((ball) => [...this.world(number, ball), ball[3]]));
      link.solid.setAttribute("d", path);
      link.shade.setAttribute("d", path);
      link.ring.setAttribute("d", this.ring(number, link.body));
      link.middle = middle;
      link.origin = this.project(this.world(number, [0, 0, 0]));
      link.group.classList.toggle("hover", this.hovered === `body:${number}`);
      link.group.classList.toggle("selected", this.selected === `body:${number}`);
      order.push([depth, link.group]);
      if (link.group.dataset.open === "true") {
        marks.push(element("g", { class: "mark", transform: `translate(${link.origin[0].toFixed(1)} ${link.origin[1].toFixed(1)})` },
          element("circle", { r: 7.5 }), element("text", {}, "?")));
      }
    });
    order.sort((a, b) => b[0] - a[0]);
    const parent = this.layers.solids;
    order.forEach(([, group], k) => { if (parent.children[k] !== group) parent.insertBefore(group, parent.children[k] || null); });
    this.layers.marks.replaceChildren(...marks);
  }

  ring(number, body) {
    const [x, y, z] = body.axis;
    if (!x && !y && !z) return "";
    const other = Math.abs(x) < 0.8 ? [1, 0, 0] : [0, 1, 0];
    const u = [y * other[2] - z * other[1], z * other[0] - x * other[2], x * other[1] - y * other[0]];
    const size = Math.hypot(...u), radius = 0.82 * body.balls[0][3];
    const a = u.map((c) => c / size), b = [y * a[2] - z * a[1], z * a[0] - x * a[2], x * a[1] - y * a[0]];
    return pathOf(CIRCLE.map(([c, s]) => this.project(this.world(number, a.map((ak, k) => radius * (c * ak + s * b[k]))))));
  }

  drawSensors() {
    const taken = new Map();
    for (const entry of this.glyphs.values()) {
      const { sensor, group, leader } = entry;
      const hidden = sensor.statement && !this.statements;
      group.style.display = leader.style.display = hidden ? "none" : "";
      if (hidden) continue;
      const point = sensor.body < 0 ? this.target : this.world(sensor.body, sensor.at);
      const [x, y] = this.project(point);
      const start = { joint_acceleration: 0.5, joint_torque: 2.6 }[sensor.kind] ?? -0.9;
      const key = `${Math.round(x / 12)},${Math.round(y / 12)},${start}`;
      const used = taken.get(key) || 0;
      taken.set(key, used + 1);
      const angle = start + 1.9 * used, away = this.small * (entry.radius + 6 + 4 * Math.floor(used / 3));
      const gx = x + away * Math.cos(angle), gy = y + away * Math.sin(angle);
      group.setAttribute("transform", `translate(${gx.toFixed(1)} ${gy.toFixed(1)}) scale(${this.small})`);
      for (const [key2, value] of [["x1", x], ["y1", y], ["x2", gx], ["y2", gy]]) leader.setAttribute(key2, value.toFixed(1));
      group.classList.toggle("hover", this.hovered === `sensor:${sensor.name}`);
      group.classList.toggle("selected", this.selected === `sensor:${sensor.name}`);
    }
  }

  // ---- arrows ----------------------------------------------------------------------------

  drawWrenches() {
    const size = this.scene.size, estimate = this.view.estimate;
    if (estimate) {
      this.forceScale = Math.max(this.forceScale || 0, ...estimate.wrenches.map((w) => Math.hypot(...w.force)), 1);
      this.momentScale = Math.max(this.momentScale || 0, ...estimate.wrenches.map((w) => Math.hypot(...w.moment)), 1);
      for (const w of estimate.wrenches) {
        this.drawForce(w, (0.42 * size) / this.forceScale);
        this.arrow(this.project(w.point), this.project(w.point.map((x, k) => x + ((0.2 * size) / this.momentScale) * w.moment[k])), "moment-arrow", "head");
      }
    }
    const wrenches = this.view.glance.wrenches;
    // arrows keep their scale, too: the first deviations seen are 0.11 of the robot long
    if (!this.spread) this.spread = Math.max(0, ...wrenches.flatMap((w) => w.axes.map((a) => Math.hypot(...a))));
    const lengthOf = (std) => size * Math.min(0.3, 0.11 * Math.sqrt(std / this.spread));
    for (const w of wrenches) {
      if (!estimate) {
        for (const axis of w.axes) {
          const std = Math.hypot(...axis);
          if (std > 1e-9) this.double(w.point, axis, lengthOf(std) / std, "spread");
        }
      }
      w.open_forces.forEach((axis) => this.double(w.point, axis, 0.17 * size, "unseen", "force ?"));
      if (!w.open_forces.length) w.open_moments.forEach((axis) => this.double(w.point, axis, 0.12 * size, "unseen", "moment ?"));
    }
  }

  drawForce(w, factor) {
    const tip = this.project(w.point.map((x, k) => x + factor * w.force[k])), tail = this.project(w.point);
    const force = Math.hypot(...w.force);
    this.arrow(tail, tip, "force-arrow", "head");
    if (force > 0.02 * this.forceScale) this.note(tip, `${w.frame} ${force.toPrecision(3)} N${w.whole ? "" : " (part)"}`);
  }

  double(point, axis, factor, name, label) {
    const ends = [1, -1].map((sign) => this.project(point.map((x, k) => x + sign * factor * axis[k])));
    const middle = this.project(point), head = name === "unseen" ? "head unseen-head" : "head";
    for (const end of ends) this.arrow(middle, end, name, head);
    if (label) this.note(ends[0][1] < ends[1][1] ? ends[0] : ends[1], label, "bad-note");
  }

  arrow(tail, tip, line, head) {
    const dx = tip[0] - tail[0], dy = tip[1] - tail[1], length = Math.hypot(dx, dy);
    if (length < 1) return;
    const h = Math.min(8, length), ux = dx / length, uy = dy / length, base = [tip[0] - h * ux, tip[1] - h * uy];
    this.layers.arrows.append(
      element("path", { class: line, d: pathOf([tail, base], "") }),
      element("path", { class: head, d: pathOf([tip, [base[0] - 0.5 * h * uy, base[1] + 0.5 * h * ux], [base[0] + 0.5 * h * uy, base[1] - 0.5 * h * ux]]) }));
  }

  // Words beside a place, moved down until they cover no others, and into the picture.
  note(place, words, kind = "") {
    const wide = 6.4 * words.length, x = Math.max(2, Math.min(place[0] + 6, this.camera.width - wide - 4));
    let y = place[1] - 5;
    while (this.noted.some(([left, right, row]) => left < x + wide && x < right && Math.abs(row - y) < 13)) y += 13;
    this.noted.push([x, x + wide, y]);
    this.layers.notes.append(element("text", { class: `note ${kind}`, x: x.toFixed(1), y: y.toFixed(1) }, words));
  }
}
