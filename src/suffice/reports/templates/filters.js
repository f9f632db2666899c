"use strict";
/* Filters over columns that repeat themselves, ids that are searched, lists by the page, and an address that keeps it all. */
let D;
const PER_PAGE = 20;
const word = (name, row) => D.coded[name].words[D.coded[name].codes[row]];
const num = (name, row) => D.numbers[name][row];
const compare = (a, b) => a === b ? 0 : typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
const sorted = values => values.sort((a, b) => a - b);
const whole = n => n.toLocaleString("en");
const groupName = (dim, tau) => tau === null ? `p = ${dim}` : `p = ${dim}, τ = ${number(tau, 6)}`;
const cells = values => make("tr", {}, values.map(value => make("td", {}, String(value))));

function fillFilters(names, extra = {}) {
  for (const name of names) {
    const select = byId(`f-${name}`), words = [...D.coded[name].words].sort(compare);
    for (const value of ["all", ...(extra[name] || []), ...words]) select.add(new Option(value === null ? "none" : typeof value === "number" && !Number.isInteger(value) ? number(value, 6) : value, String(value)));
    // with one value there is nothing to choose
    select.parentElement.hidden = words.length < 2 && !(name in extra);
  }
}
/* What is chosen: the filters' own words, and the text that ids must contain. */
function chosenBy(names) {
  const wanted = {};
  for (const name of names) { const value = byId(`f-${name}`).value; if (value !== "all") wanted[name] = value; }
  return { wanted, text: byId("f-id").value.trim().toLowerCase() };
}
/* A test of a row; `joint` has words that stand for several: { name: { word: each => boolean } }. */
function matcher({ wanted, text }, joint = {}) {
  const tests = Object.entries(wanted).map(([name, value]) => {
    const { words, codes } = D.coded[name], several = (joint[name] || {})[value];
    const yes = words.map(each => several ? several(each) : String(each) === value);
    return row => yes[codes[row]];
  });
  if (text) tests.push(row => D.id[row].toLowerCase().includes(text));
  return row => tests.every(test => test(row));
}
const isFiltered = ({ wanted, text }) => text !== "" || Object.keys(wanted).length > 0;

/* The fragment of the address keeps what is chosen, so that a view can be shared. */
function keepAddress(names, more) {
  const { wanted, text } = chosenBy(names), kept = new URLSearchParams(wanted);
  if (text) kept.set("id", byId("f-id").value.trim());
  for (const [key, value] of Object.entries(more)) if (value !== null) kept.set(key, value);
  const wish = kept.toString();
  if (wish !== location.hash.slice(1)) history.replaceState(null, "", `#${wish}`);
}
function takeAddress(names) {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const name of names) choose(byId(`f-${name}`), kept.get(name), "all");
  byId("f-id").value = kept.get("id") || "";
  return kept;
}
/* An option if there is such a one. */
function choose(select, value, otherwise) {
  select.value = [...select.options].some(option => option.value === value) ? value : otherwise;
  return select.value;
}
/* Whatever changes the form calls `changed`, typing after a moment. */
function listen(changed, reset) {
  byId("filters").addEventListener("change", changed);
  byId("filters").addEventListener("reset", () => setTimeout(reset));
  let later = 0;
  byId("f-id").addEventListener("input", () => { clearTimeout(later); later = setTimeout(changed, 120); });
}
/* One page of a list, and where it is; returns the page that there is. */
function turnTo(wish, rows, body, line) {
  const pages = Math.max(1, Math.ceil(rows.length / PER_PAGE)), page = Math.max(0, Math.min(wish, pages - 1));
  const some = rows.slice(page * PER_PAGE, (page + 1) * PER_PAGE);
  body.replaceChildren(...some.map(line));
  byId("pager").hidden = rows.length <= PER_PAGE;
  byId("where").textContent = `${whole(page * PER_PAGE + 1)} to ${whole(page * PER_PAGE + some.length)} of ${whole(rows.length)}`;
  byId("before").disabled = page === 0;
  byId("after").disabled = page >= pages - 1;
  return page;
}
