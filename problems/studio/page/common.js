// What pages share: elements, numbers as words, messages with the token, light and dark.

export const find = (id) => document.getElementById(id);

export const make = (name, settings = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(settings)) {
    if (key in made && key !== "list") made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
};

export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
export const digits = (x) => (x === 0 ? "0" : Math.abs(x) >= 1000 ? x.toFixed(0) : Number(x.toPrecision(3)).toString());
// A value with its deviation, both to two digits of the deviation.
export const measured = (value, std) => {
  const places = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(std))));
  return `${value.toFixed(places)} ± ${std.toFixed(places)}`;
};
export const time = (us) => (us < 1000 ? `${us.toPrecision(3)} µs` : `${(us / 1000).toPrecision(3)} ms`);
export const thousands = (n) => n.toLocaleString("en-US");

// Lists are made anew only when what they show is new: focus and open details stay.
export function isNew(id, ...shown) {
  const text = JSON.stringify(shown), box = find(id);
  if (box.shown === text) return false;
  box.shown = text;
  return true;
}

// ---- messages --------------------------------------------------------------------------------

const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) { sessionStorage.setItem("token", given); history.replaceState(null, "", "/"); }
const token = sessionStorage.getItem("token") || "";

export function ask(door, message, more = {}) {
  const headers = { "Content-Type": "application/json", "X-Dynsys-Studio": "1" };
  if (token) headers["X-Dynsys-Token"] = token;
  return fetch(door, { method: "POST", headers, body: JSON.stringify(message), ...more });
}

// ---- light and dark --------------------------------------------------------------------------

export function followTheme(button, redraw) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = (on) => { document.documentElement.classList.toggle("dark", on); redraw(); };
  paint(dark.matches);
  dark.onchange = (event) => paint(event.matches);
  button.onclick = () => paint(!document.documentElement.classList.contains("dark"));
}
