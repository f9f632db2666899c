"use strict";
let drawn, listed, page = 0, opened = null, palette = "verdict";
const MOST_RUNS = 60;
const VERDICTS = ["certified", "inconclusive", "violated"];
const FILTERS = ["verdict", "source", "dataset", "run", "dim", "temperature", "tier", "binding"];
const JOINT = { verdict: { "not certified": each => each !== "certified" } };
const verdictOf = row => word("verdict", row);
const headroomWords = h => h === -1 ? "unbounded" : h === null ? "none" : number(h);
const original = new Map();

const remember = () => keepAddress(FILTERS, { colour: palette === D.palette ? null : palette, page: page ? page + 1 : null, state: opened === null ? null : D.id[opened] });
function recall() {
  const kept = takeAddress(FILTERS);
  palette = choose(byId("f-colour"), kept.get("colour"), D.palette);
  page = (parseInt(kept.get("page"), 10) || 1) - 1;
  const row = kept.has("state") ? D.id.indexOf(kept.get("state")) : -1;
  render();
  if (row >= 0) explain(row); else if (byId("state").open) byId("state").close();
}

/* Points in their colours; the shape is always the verdict. In turns of some rows, each with another colour on top. */
const IN_TURN = 64;
function groups(rows, x, y) {
  const codes = D.coded[palette].codes, verdicts = D.coded.verdict, found = new Map();
  rows.forEach((row, i) => {
    const turn = Math.floor(i / IN_TURN), key = `${turn}|${codes[row]}|${verdicts.codes[row]}`;
    if (!found.has(key)) {
      const shape = verdicts.words[verdicts.codes[row]];
      found.set(key, { name: String(word(palette, row)), colour: colourOf(palette, codes[row]), shape, x: [], y: [], rows: [], code: codes[row], turn });
    }
    const group = found.get(key);
    group.x.push(x(row)); group.y.push(y(row)); group.rows.push(row);
  });
  // what is certified lies below what is not
  return [...found.values()].sort((a, b) => VERDICTS.indexOf(a.shape) - VERDICTS.indexOf(b.shape) || a.turn - b.turn || (a.code + a.turn) % 8 - (b.code + b.turn) % 8);
}
function colourOf(name, code) {
  return name === "verdict" ? `var(--${D.coded.verdict.words[code]})` : `var(--c${code % 8})`;
}
function legendOf(made) {
  const seen = new Map();
  for (const g of made) if (!seen.has(g.name)) seen.set(g.name, { name: palette === "dim" ? `p = ${g.name}` : palette === "temperature" ? `τ = ${number(Number(g.name))}` : g.name, colour: g.colour, shape: palette === "verdict" ? g.shape : "certified", code: g.code });
  return [...seen.values()].sort((a, b) => a.code - b.code).slice(0, 24);
}
const pointWords = row => [D.id[row], `${verdictOf(row)}${word("tier", row) === "none" ? "" : `, decided by ${word("tier", row)}`}`,
  `b* = ${number(num("b", row))}, ${word("binding", row)} binds`, `headroom ${headroomWords(num("headroom", row))} by the ${D.contract} contract`];
const points = (id, rows, x, y, what) => {
  const made = groups(rows, x, y);
  chart(id, { ...what, points: made, legend: legendOf(made), words: pointWords, open: explain });
};

function render() {
  const chosen = chosenBy(FILTERS), match = matcher(chosen, JOINT), filtered = isFiltered(chosen);
  const rows = [];
  for (let row = 0; row < drawn; row++) if (match(row)) rows.push(row);
  listed = D.list.filter(match);
  byId("shown").textContent = `${whole(rows.length)} of ${whole(drawn)} states shown`;
  byId("sampled").hidden = !(filtered && D.stride > 1);
  renderTiles(rows, filtered);
  renderList(filtered);
  const bounded = rows.filter(row => word("status", row) === "bounded" && num("b", row) > 0).sort((a, b) => num("b", a) - num("b", b));
  renderTolerances(rows, bounded);
  renderTable(rows, bounded, filtered);
  renderRuns(bounded);
  renderHeadroom(rows);
  renderOrders(rows);
  renderRungs(rows, filtered);
  renderHardest(bounded);
  remember();
}

function renderTiles(rows, filtered) {
  const set = (id, text) => { const node = byId(id); if (!node) return; if (!original.has(id)) original.set(id, node.textContent); node.textContent = filtered ? text : original.get(id); };
  const count = name => rows.filter(row => verdictOf(row) === name).length;
  const b = sorted(rows.filter(row => word("status", row) === "bounded" && num("b", row) > 0).map(row => num("b", row)));
  const room = sorted(rows.map(row => num("headroom", row)).filter(h => h !== null && h > 0));
  set("n-states", whole(rows.length));
  for (const name of VERDICTS) set(`n-${name}`, whole(count(name)));
  set("n-median", b.length ? number(quantile(b, 0.5)) : "none");
  set("n-span", b.length ? Math.log10(b[b.length - 1] / b[0]).toFixed(2) : "none");
  set("n-headroom", room.length ? number(quantile(room, 0.5)) : "none");
  const all = rows.reduce((mask, row) => mask & num("orders", row), 63);
  const order = rows.length ? D.orders.find(n => all >> (n - 1) & 1) : undefined;
  set("n-order", order === undefined ? "none" : String(order));
  set("n-linear", whole(rows.filter(row => num("off", row) !== null && num("off", row) <= 0.01).length));
  set("n-below", whole(rows.filter(row => verdictOf(row) === "certified" && num("headroom", row) !== null && num("headroom", row) >= 0 && num("headroom", row) < 1).length));
}

/* The states that are not certified, page by page. */
const openButton = row => make("button", { type: "button", class: "open", onclick: () => explain(row) }, D.id[row]);
const verdictMark = row => make("span", { class: `verdict v-${verdictOf(row)}` }, [glyph(verdictOf(row), `var(--${verdictOf(row)})`), verdictOf(row)]);
function howFar(row) {
  const name = word("missed", row), factor = num("factor", row), what = verdictOf(row) === "violated" ? "error" : "bound";
  if (name === "prediction") return verdictOf(row) === "violated" ? "another class is predicted" : factor === -1 ? "prediction: no margin" : `prediction: ${number(factor)} times the margin`;
  return factor === -1 ? `${name}: no finite bound` : `${name} ${what} ${number(factor)} times the budget`;
}
function renderList(filtered) {
  page = turnTo(page, listed, byId("t-open"), row => make("tr", {}, [make("td", {}, openButton(row)), make("td", {}, verdictMark(row)),
    make("td", { class: "how" }, howFar(row)), make("td", {}, word("next", row))]));
  byId("open-table").hidden = !listed.length;
  byId("open-none").hidden = listed.length > 0;
  if (!listed.length) byId("open-none").textContent = filtered && D.list.length ? "None of the chosen states is open or violated." : byId("open-none").dataset.words;
}

function renderTolerances(rows, bounded) {
  const b = row => num("b", row), rank = new Map(bounded.map((row, i) => [row, i + 1]));
  const y = { type: "log", title: "b*", domain: domain(bounded.map(b), true, 1) };
  points("c-ordered", bounded, row => rank.get(row), b, { x: { type: "linear", title: "states, in order", domain: [0, bounded.length + 1] }, y });

  const keys = new Map();
  for (const row of bounded) { const key = `${word("dim", row)}|${word("temperature", row)}`; if (!keys.has(key)) keys.set(key, []); keys.get(key).push(row); }
  const order = [...keys.values()].sort((p, q) => compare(word("dim", p[0]), word("dim", q[0])) || compare(word("temperature", p[0]), word("temperature", q[0])));
  const x = new Map(), lines = [];
  order.forEach((some, i) => {
    // spread sideways by rank, the same in every drawing
    some.forEach((row, j) => x.set(row, i + 0.7 * ((j * 0.618034) % 1) - 0.35));
    const median = quantile(some.map(b), 0.5);
    lines.push({ xy: [[i - 0.4, median], [i + 0.4, median]], colour: "var(--ink)", width: 3 });
  });
  const every = Math.ceil(order.length / Math.max(1, Math.floor(byId("c-groups").clientWidth / 66)));
  const ticks = order.map((some, i) => [i, `p = ${word("dim", some[0])}\n${word("temperature", some[0]) === null ? "" : `τ = ${number(word("temperature", some[0]))}`}`]).filter((_, i) => i % every === 0);
  points("c-groups", bounded, row => x.get(row), b, { x: { type: "linear", domain: [-0.6, order.length - 0.4], ticks, lines: 2 }, y, lines });

  const known = bounded.filter(row => num("rest", row) !== null);
  const saturated = D.saturated, share = row => saturated ? num("rest", row) : 1 - 10 ** num("rest", row);
  const low = known.reduce((m, row) => Math.min(m, num("rest", row)), -1);
  points("c-target", known, share, b, { y, x: saturated ? { type: "logged", title: "1 − π: what the target leaves to all other classes", domain: [low * 1.03 - 0.1, 0.1] } : { type: "linear", title: "probability of the target", domain: [-0.02, 1.02] } });

  const off = bounded.filter(row => num("off", row) !== null);
  points("c-first", off, b, row => num("off", row), { x: { ...y, title: "b*" }, y: { type: "log", title: "first order off by", domain: domain(off.map(row => num("off", row)), true, 1) } });
}

function renderTable(rows, bounded, filtered) {
  const body = byId("t-groups");
  if (!original.has(body)) original.set(body, [...body.children]);
  if (!filtered) { body.replaceChildren(...original.get(body)); return; }
  const found = new Map();
  for (const row of rows) { const key = `${word("dim", row)}|${word("temperature", row)}`; if (!found.has(key)) found.set(key, []); found.get(key).push(row); }
  const order = [...found.values()].sort((p, q) => compare(word("dim", p[0]), word("dim", q[0])) || compare(word("temperature", p[0]), word("temperature", q[0])));
  const inside = new Set(bounded);
  body.replaceChildren(...order.map(some => {
    const b = sorted(some.filter(row => inside.has(row)).map(row => num("b", row))), count = name => some.filter(row => verdictOf(row) === name).length;
    return cells([groupName(word("dim", some[0]), word("temperature", some[0])), some.length, count("certified"), count("violated"), count("inconclusive"),
      ...[0.05, 0.5, 0.95].map(q => b.length ? quantile(b, q).toExponential(2) : "-"), b.length ? Math.log10(b[b.length - 1] / b[0]).toFixed(2) : "-"]);
  }));
}

/* Tolerance against step, run by run: the median, and the band from 5% to 95%. */
function renderRuns(bounded) {
  const runs = new Map();
  for (const row of bounded) {
    const run = word("run", row), step = num("step", row);
    if (!runs.has(run)) runs.set(run, new Map());
    if (!runs.get(run).has(step)) runs.get(run).set(step, []);
    runs.get(run).get(step).push(num("b", row));
  }
  const long = [...runs].filter(([, steps]) => steps.size > 1).sort((p, q) => compare(p[0], q[0]));
  byId("runs").hidden = !long.length;
  if (!long.length) return;
  const made = long.map(([run, steps]) => [run, [...steps].sort((p, q) => p[0] - q[0]).map(([step, b]) => { sorted(b); return [step, ...[0.05, 0.5, 0.95].map(q => quantile(b, q)), b.length]; })]);
  const last = steps => steps[steps.length - 1];
  const rose = made.filter(([, steps]) => last(steps)[2] > steps[0][2]).length;
  const change = quantile(sorted(made.map(([, steps]) => last(steps)[2] / steps[0][2])), 0.5);
  byId("runs-words").textContent = (made.length === 1 ? `From the first step of the run to the last the median tolerance changes by a factor of ${number(change)}.`
    : `From its first step to its last the median tolerance rises in ${rose} of ${made.length} runs, by a factor of ${number(change)} in the middle one.`) +
    (made.length > MOST_RUNS ? ` The first ${MOST_RUNS} runs are drawn; choose a run for another.` : "");
  const y = { type: "log", domain: domain(made.flatMap(([, steps]) => steps.flatMap(([, low, , high]) => [low, high])), true, 1) };
  const shown = made.slice(0, MOST_RUNS);
  byId("c-runs").replaceChildren(...shown.map(([run], i) => make("div", { class: "one" }, [make("h3", { title: run }, run), make("div", { class: "small", id: `c-run-${i}`, role: "img", "aria-label": `Tolerance against step of run ${run}` })])));
  shown.forEach(([run, steps], i) => chart(`c-run-${i}`, { small: true, height: shown.length < 3 ? 240 : 150, x: { type: "linear", domain: [steps[0][0], last(steps)[0]], ticks: runTicks(steps) }, y,
    bands: [{ xyy: steps.map(([step, low, , high]) => [step, low, high]), colour: "var(--c0)" }],
    lines: [{ xy: steps.map(([step, , mid]) => [step, mid]), colour: "var(--c0)" }],
    points: [{ colour: "var(--c0)", shape: "certified", x: steps.map(s => s[0]), y: steps.map(s => s[2]), rows: steps.map((_, j) => j) }],
    words: j => [run, `step ${steps[j][0]}, ${steps[j][4]} states`, `b* ${number(steps[j][2])}, 5% ${number(steps[j][1])}, 95% ${number(steps[j][3])}`],
    open: () => { if (byId("f-run").value !== run) { byId("f-run").value = run; page = 0; render(); } } }));
}
function runTicks(steps) {
  const every = Math.ceil(steps.length / 4);
  return steps.filter((_, i) => i % every === 0 || i === steps.length - 1).map(([step]) => [step, String(step)]);
}

function stacked(rows, value, bins) {
  const counts = bins.map(() => VERDICTS.map(() => 0));
  for (const row of rows) { const i = value(row); if (i >= 0 && i < bins.length) counts[i][VERDICTS.indexOf(verdictOf(row))] += 1; }
  return counts;
}
function renderHeadroom(rows) {
  const finite = rows.filter(row => num("headroom", row) > 0), per = 4;
  const logs = finite.map(row => Math.log10(num("headroom", row)));
  const low = logs.reduce((m, v) => Math.min(m, v), -1), high = logs.reduce((m, v) => Math.max(m, v), 1);
  const first = Math.floor(low * per), bins = Array.from({ length: Math.floor(high * per) - first + 1 }, (_, i) => (first + i) / per);
  const counts = stacked(finite, row => Math.floor(Math.log10(num("headroom", row)) * per) - first, bins);
  const bars = [], top = Math.max(1, ...counts.map(each => each.reduce((a, b) => a + b)));
  counts.forEach((each, i) => { let y0 = 0; each.forEach((n, v) => { if (n) bars.push({ x0: bins[i] + 0.01, x1: bins[i] + 1 / per - 0.01, y0, y1: y0 + n, colour: `var(--${VERDICTS[v]})`,
    words: [`headroom ${number(10 ** bins[i])} to ${number(10 ** (bins[i] + 1 / per))}`, `${whole(n)} ${VERDICTS[v]}`] }); y0 += n; }); });
  const used = VERDICTS.filter(v => rows.some(row => verdictOf(row) === v));
  chart("c-headroom", { x: { type: "logged", title: `headroom by the ${D.contract} contract`, domain: [bins[0] - 0.05, bins[bins.length - 1] + 1 / per + 0.05] }, y: { type: "linear", title: "states", domain: [0, top * 1.05] },
    bars, lines: [{ xy: [[0, 0], [0, top * 1.05]], colour: "var(--ink)", dash: true }], legend: used.map(name => ({ name, colour: `var(--${name})`, shape: name })) });
  const none = rows.filter(row => num("headroom", row) === -1).length, zero = rows.filter(row => num("headroom", row) === 0 || num("headroom", row) === null).length;
  byId("headroom-rest").textContent = [none ? `${whole(none)} more have no limit.` : "", zero ? `${whole(zero)} more have none at all.` : ""].join(" ");
}
function renderOrders(rows) {
  if (!D.orders.length) return;
  const yes = D.orders.map(n => rows.filter(row => num("orders", row) >> (n - 1) & 1).length), total = Math.max(1, rows.length);
  const bars = D.orders.flatMap((n, i) => [{ x0: i - 0.35, x1: i + 0.35, y0: 0, y1: yes[i], colour: "var(--certified)", words: [D.order_names[i], `${whole(yes[i])} of ${whole(rows.length)} certified`] },
    { x0: i - 0.35, x1: i + 0.35, y0: yes[i], y1: rows.length, colour: "var(--line)", words: [D.order_names[i], `${whole((rows.length - yes[i]))} not certified`] }]);
  chart("c-orders", { height: 240, x: { type: "linear", domain: [-0.6, D.orders.length - 0.4], ticks: D.orders.map((_, i) => [i, D.order_names[i]]) }, y: { type: "linear", title: "states", domain: [0, total] }, bars });
}
function renderHardest(bounded) {
  byId("t-hardest").replaceChildren(...bounded.slice(0, 10).map(row => make("tr", {}, [make("td", {}, openButton(row)), make("td", {}, verdictMark(row)),
    make("td", { class: "how" }, `b* = ${number(num("b", row))}, ${word("binding", row)} binds`), make("td", {}, groupName(word("dim", row), word("temperature", row)) + `, ${whole(num("classes", row))} classes`)])));
}
/* States by their cheapest rung; those of all are the summary's own numbers. */
function renderRungs(rows, filtered) {
  const budgets = Object.keys(D.rungs), names = D.rung_names;
  if (!budgets.length) return;
  // light to dark within a dtype, green bfloat16 inputs, blue float32, orange float64, grey where no rung is certified
  const shades = ["#74c476", "#9ecae1", "#4292c6", "#084594", "#fdd0a2", "#f16913", "#8c2d04", "#999999"];
  const counts = budgets.map(budget => names.map((name, k) => filtered ? rows.filter(row => D.rungs[budget][row] === k).length : D.rung_counts[budget][name]));
  byId("rungs-body").replaceChildren(...budgets.map((budget, i) => cells([budget, ...counts[i]])));
  const bars = [], total = Math.max(1, counts[0].reduce((a, b) => a + b));
  counts.forEach((each, i) => { let y0 = 0; each.forEach((n, k) => { if (n) bars.push({ x0: i - 0.38, x1: i + 0.38, y0, y1: y0 + n, colour: shades[k % shades.length], words: [`joint budget ${budgets[i]}`, `${names[k]}: ${whole(n)} states`] }); y0 += n; }); });
  chart("c-rungs", { x: { type: "linear", title: "joint budget", domain: [-0.6, budgets.length - 0.4], ticks: budgets.map((b, i) => [i, b]) }, y: { type: "linear", title: "states", domain: [0, total] },
    bars, legend: names.map((name, k) => ({ name, colour: shades[k % shades.length] })) });
}

/* One state, explained: what was found, what binds, which classes matter, and what to do. */
function explain(row) {
  opened = row;
  const say = (...parts) => make("p", {}, parts), target = num("rest", row);
  const limits = Object.entries(D.budgets).map(([name, limit]) => {
    const bound = num(`${name}_bound`, row), low = num(`${name}_low`, row);
    return cells([name, low ? `at least ${number(low)}` : "", bound === null ? "no finite bound" : `at most ${number(bound)}`, number(limit)]);
  });
  const body = [
    make("h2", { id: "state-id" }, D.id[row]),
    say(verdictMark(row), word("tier", row) === "none" ? "" : `, decided by ${word("tier", row)}`, verdictOf(row) === "certified" ? "." : `: ${howFar(row)}.`),
    ...(word("next", row) ? [say(make("strong", {}, "Next: "), word("next", row), ".")] : []),
    say(`${word("source", row)} on ${word("dataset", row)}, run ${word("run", row)}, step ${num("step", row)}. ${groupName(word("dim", row), word("temperature", row))}, ${whole(num("classes", row))} classes, ${num("label", row) < 0 ? "no label" : `label ${num("label", row)}`}` +
      (target === null ? "." : target < -2 ? `, the target leaves ${number(target < -300 ? 0 : 10 ** target)} to all others${target < -300 ? ` (10${raised(Math.round(target))})` : ""}.` : `, target probability ${number(1 - 10 ** target)}.`)),
    say(word("status", row) === "bounded" ? `b* = ${number(num("b", row), 4)}: any ${D.unit} up to that is certified to keep the budgets; ${word("binding", row)} binds.` : word("status", row) === "unbounded" ? "No error, however large, breaks a budget." : "Not even b = 0 is accepted."),
    say(`Headroom ${headroomWords(num("headroom", row))} by the ${D.contract} contract` + (verdictOf(row) === "certified" && num("headroom", row) !== null && num("headroom", row) >= 0 && num("headroom", row) < 1 ? ": the contract alone would leave it open, an enclosure of its true error certifies it." : ".")),
    ...(limits.length ? [make("div", { class: "scroll" }, make("table", {}, [make("thead", {}, make("tr", {}, ["error", "", "", "budget"].map(t => make("th", {}, t)))), make("tbody", {}, limits)]))] : []),
    ...weights(row),
    say(make("code", {}, `suffice inspect ${quoted(D.audit)} ${quoted(D.id[row])}`)),
  ];
  byId("state-body").replaceChildren(...body);
  if (!byId("state").open) byId("state").showModal();
  remember();
}
const quoted = text => /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
function weights(row) {
  const from = row * D.shown, found = [];
  for (let k = from; k < from + D.shown; k++) if (D.classes.class[k] >= 0) found.push(k);
  if (!found.length) return [];
  const largest = Math.max(...found.map(k => D.classes.allowance[k] || 0)) || 1;
  const covered = found.reduce((sum, k) => sum + D.classes.share[k], 0);
  const lines = found.flatMap(k => {
    const at = D.classes.allowance[k] / largest * 100;
    return [make("span", {}, `class ${D.classes.class[k]}${D.classes.class[k] === num("label", row) ? " (target)" : ""}`),
      make("span", { class: "track" }, [make("span", { class: "share", style: { width: `${D.classes.share[k] / 10}%` } }), make("span", { class: "error", style: { left: `calc(${at}% - ${at / 100 * 3}px)` } })]),
      make("span", { class: "figures" }, `${(D.classes.share[k] / 10).toFixed(1)}%, π ${number(D.classes.probability[k], 2)}, error ≤ ${number(D.classes.allowance[k], 2)}`)];
  });
  return [make("h3", {}, `Which classes matter: shares of the ${word("missed", row)} bound`), make("div", { class: "weights" }, lines),
    make("p", { class: "note" }, `Bars are a class's share of the first-order bound, these ${found.length} together ${(covered / 10).toFixed(1)}%; marks are its score's allowed error, the largest of them at the right end.`)];
}

async function start() {
  D = await unfold("data");
  drawn = D.drawn;
  fillFilters(FILTERS, { verdict: ["not certified"] });
  for (const [value, text] of [["verdict", "verdict"], ["dim", "dimension"], ["temperature", "temperature"], ["source", "source"], ["binding", "what binds"], ["tier", "decided by"]]) byId("f-colour").add(new Option(text, value));
  listen(() => { palette = byId("f-colour").value; page = 0; render(); }, () => { palette = byId("f-colour").value = D.palette; page = 0; render(); });
  // Enter in the search opens the first state that is found
  byId("filters").addEventListener("submit", event => {
    event.preventDefault();
    const text = byId("f-id").value.trim(), match = matcher(chosenBy(FILTERS), JOINT), row = D.id.includes(text) ? D.id.indexOf(text) : D.id.findIndex((_, i) => match(i));
    if (text && row >= 0) explain(row);
  });
  const turn = by => { page += by; renderList(isFiltered(chosenBy(FILTERS))); remember(); };
  byId("before").addEventListener("click", () => turn(-1));
  byId("after").addEventListener("click", () => turn(1));
  byId("state").addEventListener("close", () => { opened = null; remember(); });
  byId("state").addEventListener("click", event => { if (event.target === byId("state")) byId("state").close(); });
  byId("close").addEventListener("click", () => byId("state").close());
  addEventListener("hashchange", recall);
  recall();
  document.body.dataset.ready = "yes";
}
start();
