"use strict";
/* Small charts as SVG: axes, points, lines, bands and bars. Points of one kind are one path, so that thousands cost little. */
const byId = id => document.getElementById(id);
const SPACE = byId("blank").namespaceURI;

/* An element with attributes and children; strings become text, never markup. */
function make(name, attributes = {}, children = []) {
  const node = name.startsWith("svg:") ? document.createElementNS(SPACE, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...[children].flat());
  return node;
}

/* The data of the page: gzip in base 64, unfolded by the browser itself. */
async function unfold(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const raised = n => (n < 0 ? "⁻" : "") + [...String(Math.abs(n))].map(d => RAISED[d]).join("");
const power = n => n === 0 ? "1" : n === 1 ? "10" : "10" + raised(n);
/* Three digits, as everything else here writes them: 1.2e-07. */
function number(x, digits = 3) {
  if (x === null || x === undefined || Number.isNaN(x)) return "none";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e-3 && size < 1e5) return Number(x.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 8 });
  return x.toExponential(digits - 1).replace(/\.?0+e/, "e").replace(/e([+-])(\d)$/, "e$10$2");
}
const quantile = (sorted, q) => sorted[Math.round(q * (sorted.length - 1))];

/* Where things are drawn: a scale has a place for a value, ticks, and their words. */
function scale(axis, from, to) {
  // "logged" values are logarithms already: 1e-400 is no number
  const log = axis.type === "log", powers = log || axis.type === "logged", forward = log ? Math.log10 : x => x;
  let [low, high] = axis.domain.map(forward);
  if (!(high > low)) { low -= 0.5; high += 0.5; }
  const at = x => from + (forward(x) - low) / (high - low) * (to - from);
  if (axis.ticks) return { at, ticks: axis.ticks.map(([x, words]) => [at(x), words]) };
  const room = Math.max(2, Math.floor(Math.abs(to - from) / (powers ? 36 : 70)));
  const ticks = [];
  if (powers && high - low >= 1.5) {
    const every = Math.ceil((Math.floor(high) - Math.ceil(low) + 1) / room);
    for (let n = Math.ceil(low / every) * every; n <= high; n += every) ticks.push([from + (n - low) / (high - low) * (to - from), power(n)]);
  } else {
    const [a, b] = log ? [10 ** low, 10 ** high] : [low, high];
    const rough = (b - a) / room, unit = 10 ** Math.floor(Math.log10(rough));
    const step = unit * [1, 2, 5, 10].find(m => unit * m >= rough);
    for (let x = Math.ceil(a / step - 1e-9) * step; x <= b + step * 1e-9; x += step) ticks.push([at(x), number(Math.abs(x) < step / 1e6 ? 0 : powers && !log ? 10 ** x : x)]);
  }
  // words must not touch: those of x lie side by side, those of y one above the other
  let last = -Infinity;
  const apart = from < to ? 40 : 15;
  return { at, ticks: ticks.filter(([place]) => { const kept = Math.abs(place - last) >= apart; if (kept) last = place; return kept; }) };
}
/* A domain that holds all values, with a little air. */
function domain(values, log, least = 0) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (v !== null && (!log || v > 0)) { if (v < low) low = v; if (v > high) high = v; }
  if (low > high) return log ? [0.1, 1] : [0, 1];
  if (!log) { const air = (high - low) * 0.03 || 0.5; return [low - air, high + air]; }
  const air = Math.max(10 ** (0.04 * Math.log10(high / low)), 1.1);
  const spread = Math.max(1, 10 ** ((least - Math.log10(high / low)) / 2));
  return [low / air / spread, high * air * spread];
}

const r1 = x => Math.round(x * 10) / 10;
/* The shape of a point: what is certified is a dot, what is violated a cross, what is open a ring. */
const SHAPES = {
  certified: { draw: (x, y) => `M${r1(x)} ${r1(y)}h0`, width: 4.5 },
  violated: { draw: (x, y) => `M${r1(x - 2.6)} ${r1(y - 2.6)}l5.2 5.2m0 -5.2l-5.2 5.2`, width: 1.6 },
  inconclusive: { draw: (x, y) => `M${r1(x - 3)} ${r1(y)}a3 3 0 1 1 6 0a3 3 0 1 1 -6 0`, width: 1.4 },
};
const glyph = (shape, colour) => make("svg:svg", { width: 14, height: 14, "aria-hidden": "true" },
  make("svg:path", { d: (SHAPES[shape] || SHAPES.certified).draw(7, 7), fill: "none", "stroke-linecap": "round", "stroke-width": (SHAPES[shape] || SHAPES.certified).width * 1.3, style: { stroke: colour } }));

const tip = make("div", { class: "tip", hidden: "" });
document.body.append(tip);
function showTip(lines, left, top) {
  tip.replaceChildren(...lines.map((line, i) => make("div", i ? {} : { class: "first" }, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(left + 14, innerWidth - box.width - 8)) + scrollX}px`;
  tip.style.top = `${(top + 18 + box.height > innerHeight ? top - box.height - 12 : top + 14) + scrollY}px`;
}
const hideTip = () => { tip.hidden = true; };

/* One chart in the element `id`:
   x, y      axes: { type, title, domain, ticks }
   points    [{ name, colour, shape, x: [], y: [], rows: [] }], drawn in this order
   lines     [{ xy: [[x, y], ...], colour, dash, width }]
   bands     [{ xyy: [[x, low, high], ...], colour }]
   bars      [{ x0, x1, y0, y1, colour, words }]
   legend    [{ name, colour, shape }]
   words     row -> lines of the tip;  open: row -> what a click does */
const charts = new Map();
function chart(id, what) {
  const host = byId(id);
  if (!host) return;
  if (!charts.has(id)) new ResizeObserver(() => { const made = charts.get(id); if (made && made.width !== host.clientWidth) paint(id); }).observe(host);
  charts.set(id, { ...charts.get(id), what });
  host.classList.toggle("empty", Boolean(what.points) && !what.points.length);
  paint(id);
}
function paint(id) {
  const host = byId(id), { what } = charts.get(id);
  if (host.classList.contains("empty")) {
    host.replaceChildren(make("p", { class: "note" }, "Nothing to draw: no state here has these numbers."));
    host.dataset.points = 0;
    charts.get(id).width = host.clientWidth;
    return;
  }
  const width = host.clientWidth, height = what.height || (innerWidth < 600 ? 300 : 360), small = what.small;
  const left = what.left || (small ? 40 : 58), right = 12, top = 10, bottom = what.x.title ? 48 : what.x.lines === 2 ? 40 : 26;
  const x = scale(what.x, left, width - right), y = scale(what.y, height - bottom, top);
  const parts = [];
  for (const [at, words] of y.ticks) {
    if (at < top - 1 || at > height - bottom + 1) continue;
    parts.push(make("svg:path", { class: "grid", d: `M${left} ${r1(at)}H${width - right}` }));
    parts.push(make("svg:text", { x: left - 6, y: r1(at + 4), "text-anchor": "end" }, words));
  }
  for (const [at, words] of x.ticks) {
    if (at < left - 1 || at > width - right + 1) continue;
    parts.push(make("svg:path", { class: "tick", d: `M${r1(at)} ${height - bottom}v4` }));
    String(words).split("\n").forEach((line, i) => parts.push(make("svg:text", { x: r1(at), y: height - bottom + 17 + 15 * i, "text-anchor": "middle" }, line)));
  }
  parts.push(make("svg:path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }));
  if (what.x.title) parts.push(make("svg:text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, what.x.title));
  if (what.y.title) parts.push(make("svg:text", { transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, what.y.title));
  for (const bar of what.bars || []) {
    const [x0, x1] = [x.at(bar.x0), x.at(bar.x1)], [y0, y1] = [y.at(bar.y0), y.at(bar.y1)];
    const drawn = make("svg:rect", { class: "bar", x: r1(x0), y: r1(Math.min(y0, y1)), width: r1(Math.max(0.5, x1 - x0)), height: r1(Math.abs(y1 - y0)), style: { fill: bar.colour } });
    if (bar.words) {
      drawn.addEventListener("pointermove", event => showTip(bar.words, event.clientX, event.clientY));
      drawn.addEventListener("pointerleave", hideTip);
    }
    parts.push(drawn);
  }
  for (const band of what.bands || []) {
    const there = band.xyy.map(([a, , h]) => `${r1(x.at(a))} ${r1(y.at(h))}`), back = [...band.xyy].reverse().map(([a, l]) => `${r1(x.at(a))} ${r1(y.at(l))}`);
    parts.push(make("svg:path", { class: "band", d: `M${[...there, ...back].join("L")}Z`, style: { fill: band.colour } }));
  }
  for (const line of what.lines || []) {
    const path = line.xy.map(([a, b]) => `${r1(x.at(a))} ${r1(y.at(b))}`).join("L");
    parts.push(make("svg:path", { class: "line", d: `M${path}`, "stroke-dasharray": line.dash ? "6 4" : null, "stroke-width": line.width || 2, style: { stroke: line.colour } }));
  }
  const places = [];
  for (const group of what.points || []) {
    const shape = SHAPES[group.shape] || SHAPES.certified;
    let path = "";
    group.rows.forEach((row, i) => {
      if (group.x[i] === null || group.y[i] === null) return;
      const [px, py] = [x.at(group.x[i]), y.at(group.y[i])];
      path += shape.draw(px, py);
      places.push([px, py, row]);
    });
    parts.push(make("svg:path", { class: "points", d: path, "stroke-linecap": "round", "stroke-width": shape.width, style: { stroke: group.colour } }));
  }
  const mark = make("svg:circle", { class: "mark", r: 7, visibility: "hidden" });
  const drawing = make("svg:svg", { width, height, viewBox: `0 0 ${width} ${height}` }, [...parts, mark]);
  const legend = (what.legend || []).length > 1 ? [make("div", { class: "legend" }, what.legend.map(each => make("span", {}, [glyph(each.shape || "certified", each.colour), each.name])))] : [];
  host.replaceChildren(...legend, drawing);
  host.dataset.points = places.length;
  const made = charts.get(id);
  made.width = width;
  if (places.length && what.open) follow(host, drawing, mark, places, what);
}

/* Hover shows the nearest point, a click opens it; with the keyboard arrows walk from point to point and Enter opens. */
function follow(host, drawing, mark, places, what) {
  let at = null;
  const show = place => {
    at = place;
    mark.setAttribute("cx", r1(place[0])); mark.setAttribute("cy", r1(place[1])); mark.setAttribute("visibility", "visible");
    const box = drawing.getBoundingClientRect();
    showTip(what.words(place[2]), box.left + place[0], box.top + place[1]);
  };
  const hide = () => { at = null; mark.setAttribute("visibility", "hidden"); hideTip(); };
  drawing.addEventListener("pointermove", event => {
    const box = drawing.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    let best = 900, found = null;
    for (const place of places) { const d = (place[0] - px) ** 2 + (place[1] - py) ** 2; if (d < best) { best = d; found = place; } }
    found ? show(found) : hide();
  });
  drawing.addEventListener("pointerleave", hide);
  drawing.addEventListener("click", () => { if (at) { const row = at[2]; hide(); what.open(row); } });
  host.tabIndex = 0;
  let sorted = null;
  host.onkeydown = event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      sorted = sorted || [...places].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      const next = at ? sorted.indexOf(at) + step : step > 0 ? 0 : sorted.length - 1;
      if (sorted[next]) show(sorted[next]);
      event.preventDefault();
    } else if (event.key === "Enter" && at) { const row = at[2]; hide(); what.open(row); }
    else if (event.key === "Escape") hide();
  };
  host.onblur = hide;
}
