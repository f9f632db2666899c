"use strict";
let page = 0, listed = [];
const FILTERS = ["change", "before_verdict", "after_verdict", "source", "dataset", "run", "dim", "temperature"];
/* What changed lies above what did not. */
const CHANGES = { kept: ["var(--certified)", "certified"], never: ["var(--soft)", "inconclusive"], gained: ["var(--c3)", "inconclusive"], lost: ["var(--violated)", "violated"] };
const remember = () => keepAddress(FILTERS, { page: page ? page + 1 : null });
function recall() {
  page = (parseInt(takeAddress(FILTERS).get("page"), 10) || 1) - 1;
  render();
}
function render() {
  const match = matcher(chosenBy(FILTERS)), rows = [];
  for (let row = 0; row < D.drawn; row++) if (match(row)) rows.push(row);
  listed = D.list.filter(match);
  byId("shown").textContent = `${whole(rows.length)} of ${whole(D.drawn)} states shown`;
  renderList();
  scatter("c-b", rows, "b", "b*", false);
  scatter("c-headroom", rows, "headroom", "headroom", true);
  remember();
}
const moved = (row, name) => `${number(num(`before_${name}`, row))} to ${number(num(`after_${name}`, row))}`;
const verdict = (row, when) => make("td", { class: `v-${word(`${when}_verdict`, row)}` }, word(`${when}_verdict`, row));
function renderList() {
  page = turnTo(page, listed, byId("t-changed"), row => make("tr", {}, [make("td", {}, D.id[row]), verdict(row, "before"), verdict(row, "after"),
    make("td", {}, moved(row, "b")), make("td", {}, moved(row, "headroom"))]));
  byId("changed-table").hidden = !listed.length;
  byId("changed-none").hidden = listed.length > 0;
}
function scatter(id, rows, name, title, one) {
  const x = row => num(`before_${name}`, row), y = row => num(`after_${name}`, row);
  const both = rows.filter(row => x(row) > 0 && y(row) > 0);
  const range = domain([...both.map(x), ...both.map(y), ...(one ? [1] : [])], true, 1);
  const points = Object.entries(CHANGES).map(([change, [colour, shape]]) => {
    const some = both.filter(row => word("change", row) === change);
    return { name: change, colour, shape, x: some.map(x), y: some.map(y), rows: some };
  }).filter(group => group.rows.length);
  const lines = [{ xy: [[range[0], range[0]], [range[1], range[1]]], colour: "var(--line)" }];
  if (one) lines.push({ xy: [[1, range[0]], [1, range[1]]], colour: "var(--soft)", dash: true, width: 1 }, { xy: [[range[0], 1], [range[1], 1]], colour: "var(--soft)", dash: true, width: 1 });
  chart(id, { height: 420, x: { type: "log", title: `${title}, before`, domain: range }, y: { type: "log", title: `${title}, after`, domain: range }, points, lines, legend: points,
    words: row => [D.id[row], `${word("before_verdict", row)}, then ${word("after_verdict", row)}`, `b* ${moved(row, "b")}`, `headroom ${moved(row, "headroom")}`],
    open: row => { byId("f-id").value = D.id[row]; page = 0; render(); } });
}
async function start() {
  D = await unfold("data");
  fillFilters(FILTERS);
  listen(() => { page = 0; render(); }, () => { page = 0; render(); });
  byId("filters").addEventListener("submit", event => event.preventDefault());
  const turn = by => { page += by; renderList(); remember(); };
  byId("before").addEventListener("click", () => turn(-1));
  byId("after").addEventListener("click", () => turn(1));
  addEventListener("hashchange", recall);
  recall();
  document.body.dataset.ready = "yes";
}
start();
