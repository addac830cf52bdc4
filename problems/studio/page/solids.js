// Meshes of the robot, drawn with a depth buffer of our own: no graphics card, nothing to load,
// the same picture everywhere. Every pixel knows its body: clicks, outlines and stripes need it.

const LIGHT = [-0.38, 0.56, 0.74]; // to the right, up, towards the eye; unit length
const CREASE = 0.74; // cosine of the angle between faces that still look like one
const FINE = 2, COARSE = 1; // pixels of the buffer per pixel of the page, at rest and in motion

// Unit normals (9 per triangle): of a corner, the mean of the faces around that bend little.
function normals(points, triangles) {
  const faces = new Float32Array(triangles.length), around = new Map();
  for (let t = 0; t < triangles.length; t += 3) {
    const [a, b, c] = [0, 1, 2].map((k) => 3 * triangles[t + k]);
    const u = [0, 1, 2].map((k) => points[b + k] - points[a + k]), v = [0, 1, 2].map((k) => points[c + k] - points[a + k]);
    const n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    for (let k = 0; k < 3; k++) {
      faces[t + k] = n[k]; // as long as twice the area: large faces count more
      const corner = triangles[t + k];
      if (!around.has(corner)) around.set(corner, []);
      around.get(corner).push(t);
    }
  }
  const found = new Float32Array(3 * triangles.length);
  for (let t = 0; t < triangles.length; t += 3) {
    const own = Math.hypot(faces[t], faces[t + 1], faces[t + 2]) || 1;
    for (let k = 0; k < 3; k++) {
      const sum = [0, 0, 0];
      for (const f of around.get(triangles[t + k])) {
        const dot = faces[t] * faces[f] + faces[t + 1] * faces[f + 1] + faces[t + 2] * faces[f + 2];
        if (dot < CREASE * own * Math.hypot(faces[f], faces[f + 1], faces[f + 2])) continue;
        for (let i = 0; i < 3; i++) sum[i] += faces[f + i];
      }
      const size = Math.hypot(...sum) || 1;
      for (let i = 0; i < 3; i++) found[3 * t + 3 * k + i] = sum[i] / size;
    }
  }
  return found;
}

const known = new Map();
const probe = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
// Red, green, blue of a colour of the style sheet, or any other.
export function rgb(colour) {
  const name = /^var\((.*)\)$/.exec(colour);
  const css = name ? getComputedStyle(document.documentElement).getPropertyValue(name[1]).trim() : colour;
  if (!known.has(css)) {
    probe.fillStyle = css;
    probe.fillRect(0, 0, 1, 1);
    known.set(css, probe.getImageData(0, 0, 1, 1).data.slice(0, 3));
  }
  return known.get(css);
}

export class Solids {
  constructor(canvas) {
    this.canvas = canvas;
    this.shapes = [];
  }

  load(shapes, grain) {
    this.shapes = shapes.map(({ body, points, triangles }) => {
      const corners = Float32Array.from(points, (x) => x * grain);
      const low = [Infinity, Infinity, Infinity], high = low.map((x) => -x);
      corners.forEach((x, k) => { low[k % 3] = Math.min(low[k % 3], x); high[k % 3] = Math.max(high[k % 3], x); });
      const box = Array.from({ length: 8 }, (_, k) => low.map((x, i) => (k & (1 << i) ? high[i] : x)));
      return { body, box, corners, triangles: Uint32Array.from(triangles), normals: normals(corners, triangles), seen: new Float32Array(corners.length) };
    });
    this.bodies = new Set(this.shapes.map((shape) => shape.body));
    this.canvas.hidden = !shapes.length;
    this.canvas.dataset.triangles = String(shapes.reduce((sum, shape) => sum + shape.triangles.length / 3, 0));
  }

  get isEmpty() { return !this.shapes.length; }

  // Number of the body at a place of the picture, -1 for the base, null for nothing.
  bodyAt(x, y) {
    if (!this.ids) return null;
    const i = Math.floor(x * this.sharp), j = Math.floor(y * this.sharp);
    if (i < 0 || j < 0 || i >= this.width || j >= this.height) return null;
    const id = this.ids[j * this.width + i];
    return id ? id - 2 : null;
  }

  // camera: as Picture.frame makes it; poses: rotation row by row and origin of each body;
  // paint(body): {colour, striped}; ring(body): colour of its outline or null.
  draw(camera, poses, paint, ring, coarse) {
    const sharp = (this.sharp = coarse ? COARSE : FINE);
    const width = Math.round(camera.width * sharp), height = Math.round(camera.height * sharp);
    if (width < 1 || height < 1) return;
    if (this.width !== width || this.height !== height) {
      this.width = this.canvas.width = width;
      this.height = this.canvas.height = height;
      this.depth = new Float32Array(width * height);
      this.shade = new Uint8Array(width * height);
      this.ids = new Int16Array(width * height);
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.depth.fill(0);
    this.ids.fill(0);
    this.pixels.fill(0);
    for (const shape of this.shapes) this.rasterise(shape, camera, shape.body < 0 ? null : poses[shape.body], sharp);
    this.colour(paint, ring, sharp);
    this.canvas.getContext("2d").putImageData(this.image, 0, 0);
  }

  rasterise(shape, camera, pose, sharp) {
    const { corners, triangles, normals: directions, seen } = shape, { width, height, depth, shade, ids } = this;
    const { out, right, up, target, distance, focal, middle } = camera, id = shape.body + 2;
    // to the axes of the camera: M p + c
    const M = [right, up, out].flatMap((axis) => [0, 1, 2].map((k) => (pose ? axis[0] * pose[k] + axis[1] * pose[3 + k] + axis[2] * pose[6 + k] : axis[k])));
    const c = [right, up, out].map((axis) => axis.reduce((sum, a, k) => sum + a * ((pose ? pose[9 + k] : 0) - target[k]), 0));
    for (let p = 0; p < corners.length; p += 3) {
      const x = corners[p], y = corners[p + 1], z = corners[p + 2];
      const near = 1 / Math.max(distance - (M[6] * x + M[7] * y + M[8] * z + c[2]), 0.05 * distance);
      seen[p] = sharp * (middle[0] + focal * near * (M[0] * x + M[1] * y + M[2] * z + c[0]));
      seen[p + 1] = sharp * (middle[1] - focal * near * (M[3] * x + M[4] * y + M[5] * z + c[1]));
      seen[p + 2] = near; // one over the depth: straight lines stay straight
    }
    const [l0, l1, l2] = [0, 1, 2].map((k) => M[k] * LIGHT[0] + M[3 + k] * LIGHT[1] + M[6 + k] * LIGHT[2]);
    for (let t = 0, n = 0; t < triangles.length; t += 3, n += 9) {
      const a = 3 * triangles[t], b = 3 * triangles[t + 1], d = 3 * triangles[t + 2];
      const ax = seen[a], ay = seen[a + 1], bx = seen[b], by = seen[b + 1], dx = seen[d], dy = seen[d + 1];
      const area = (bx - ax) * (dy - ay) - (by - ay) * (dx - ax);
      if (area === 0) continue;
      const x0 = Math.max(0, Math.ceil(Math.min(ax, bx, dx) - 0.5)), x1 = Math.min(width - 1, Math.floor(Math.max(ax, bx, dx) - 0.5));
      const y0 = Math.max(0, Math.ceil(Math.min(ay, by, dy) - 0.5)), y1 = Math.min(height - 1, Math.floor(Math.max(ay, by, dy) - 0.5));
      if (x0 > x1 || y0 > y1) continue;
      // meshes turn their faces this way or that: the side that is seen is lit
      const away = M[6] * directions[n] + M[7] * directions[n + 1] + M[8] * directions[n + 2] < 0 ? -1 : 1;
      const sa = away * (directions[n] * l0 + directions[n + 1] * l1 + directions[n + 2] * l2);
      const sb = away * (directions[n + 3] * l0 + directions[n + 4] * l1 + directions[n + 5] * l2);
      const sd = away * (directions[n + 6] * l0 + directions[n + 7] * l1 + directions[n + 8] * l2);
      const za = seen[a + 2], zb = seen[b + 2], zd = seen[d + 2], one = 1 / area;
      for (let y = y0; y <= y1; y++) {
        const py = y + 0.5;
        for (let x = x0; x <= x1; x++) {
          const px = x + 0.5;
          const wb = ((px - ax) * (dy - ay) - (py - ay) * (dx - ax)) * one, wd = ((bx - ax) * (py - ay) - (by - ay) * (px - ax)) * one, wa = 1 - wb - wd;
          if (wa < 0 || wb < 0 || wd < 0) continue;
          const z = wa * za + wb * zb + wd * zd, i = y * width + x;
          if (z <= depth[i]) continue;
          depth[i] = z;
          ids[i] = id;
          shade[i] = Math.max(0, 255 * (wa * sa + wb * sb + wd * sd));
        }
      }
    }
  }

  colour(paint, ring, sharp) {
    const { width, height, depth, shade, ids, pixels } = this;
    const looks = [];
    for (const body of this.bodies) {
      const { colour, striped } = paint(body), edge = ring(body);
      looks[body + 2] = { colour, striped, edge, reach: edge ? Math.round(1.5 * sharp) : 1 };
    }
    const stripe = 4.5 * sharp;
    for (let y = 0, i = 0; y < height; y++) {
      for (let x = 0; x < width; x++, i++) {
        const id = ids[i];
        if (!id) continue;
        const look = looks[id], r = look.reach;
        const base = look.striped && (x + y) % (2 * stripe) < 0.7 * stripe ? look.striped : look.colour;
        const light = 0.5 + (0.62 * shade[i]) / 255, gloss = shade[i] > 225 ? 3.2 * (shade[i] - 225) : 0;
        let red = base[0] * light + gloss, green = base[1] * light + gloss, blue = base[2] * light + gloss;
        const left = x >= r ? i - r : i, right = x + r < width ? i + r : i, over = y >= r ? i - r * width : i, under = y + r < height ? i + r * width : i;
        if (ids[left] !== id || ids[right] !== id || ids[over] !== id || ids[under] !== id) {
          if (look.edge) { red = look.edge[0]; green = look.edge[1]; blue = look.edge[2]; }
          else { red *= 0.55; green *= 0.55; blue *= 0.55; }
        } else {
          const far = 0.975 * depth[i];
          if (depth[left] < far || depth[right] < far || depth[over] < far || depth[under] < far) { red *= 0.75; green *= 0.75; blue *= 0.75; }
        }
        pixels[i] = 0xff000000 | (Math.min(255, blue) << 16) | (Math.min(255, green) << 8) | Math.min(255, red);
      }
    }
  }
}
