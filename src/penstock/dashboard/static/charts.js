// Charts as SVG that fill the width they get: lines are stretched, their strokes and the labels are not.
//
//   sparkline(values, {label})                                a small line without axes
//   chart({label, times, series: [{name, values, tone, area}], format, stacked, height})
//   bars([{name, value, tone}], {label, format})              horizontal, with their numbers: also readable as a table

import { h, s } from "./dom.js";
import { clock } from "./format.js";

const known = (values) => values.filter((v) => v !== null && v !== undefined);

/** A history from where it begins: a system that has just started shows what there is, not a quarter of an hour of nothing. */
export function begun(history) {
  const all = Object.values(history.series);
  const from = history.times.findIndex((_, i) => all.some((values) => values[i] !== null && values[i] !== undefined));
  const start = Math.max(0, Math.min(from < 0 ? 0 : from, history.times.length - 30));
  return { ...history, times: history.times.slice(start),
    series: Object.fromEntries(Object.entries(history.series).map(([name, values]) => [name, values.slice(start)])) };
}

/** Pieces of a path through what is known; unknown is a gap. */
function pathOf(values, x, y) {
  let d = "", pen = false;
  values.forEach((v, i) => {
    if (v === null || v === undefined) { pen = false; return; }
    d += `${pen ? "L" : "M"}${x(i).toFixed(2)} ${y(v).toFixed(2)}`;
    if (!pen && (values[i + 1] === null || values[i + 1] === undefined)) d += "h.01"; // a point alone
    pen = true;
  });
  return d;
}

/** The band between two lines. */
function bandOf(upper, lower, x, y) {
  let d = "", from = -1;
  for (let i = 0; i <= upper.length; i++) {
    const has = i < upper.length && upper[i] !== null && upper[i] !== undefined;
    if (has && from < 0) from = i;
    if (!has && from >= 0) {
      const there = [], back = [];
      for (let j = from; j < i; j++) {
        there.push(`${x(j).toFixed(2)} ${y(upper[j]).toFixed(2)}`);
        back.unshift(`${x(j).toFixed(2)} ${y(lower ? lower[j] || 0 : 0).toFixed(2)}`);
      }
      d += "M" + there.join("L") + "L" + back.join("L") + "Z";
      from = -1;
    }
  }
  return d;
}

export function sparkline(values, { label = "", tone = "accent" } = {}) {
  const most = Math.max(...known(values), 1e-9);
  const x = (i) => (i / Math.max(values.length - 1, 1)) * 100, y = (v) => 23 - (v / most) * 21;
  return s("svg", { class: "spark " + tone, viewBox: "0 0 100 24", preserveAspectRatio: "none", role: "img", "aria-label": label || "over the last minutes" },
    s("path", { class: "fill", d: bandOf(values, null, x, y) }),
      s("path", { class: "line", d: pathOf(values, x, y) }));
}

/** The next round number above. */
export function roundUp(n) {
  if (!(n > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(n));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((m) => m * size).find((m) => m >= n * 0.999);
}

export function chart({ label, times, series, format = String, stacked = false, height = 160, top: least = 0 }) {
  const sums = stacked ? stack(series) : series.map((one) => ({ ...one, upper: one.values, lower: null }));
  const most = roundUp(Math.max(...sums.flatMap((one) => known(one.upper)), least));
  const n = times.length;
  const x = (i) => (i / Math.max(n - 1, 1)) * 100, y = (v) => 100 - (v / most) * 100;
  const lines = [0.25, 0.5, 0.75,
    1].map((part) => s("line", { class: "grid", x1: 0, x2: 100, y1: 100 - part * 100, y2: 100 - part * 100 }));
  const marks = sums.map((one, i) => [
    stacked || one.area ? s("path", { class: `fill tone-${one.tone || i}`, d: bandOf(one.upper, one.lower, x,
      y) }) : null,
    s("path", { class: `line tone-${one.tone || i}`,
      d: pathOf(stacked && i ? one.upper.map((v, at) => (one.values[at] ? v : null)) : one.upper, x, y) }),
  ]);
  const legend = h("div", { class: "legend" },
    series.map((one, i) => h("span", { class: `tone-${one.tone || i}` }, h("i", {}), one.name,
    h("b", {}, format(lastKnown(one.values))))));
  const plot = h("div", { class: "plot", style: { height: height + "px" }, onpointermove: (e) => point(e,
    { times, series, format }), onpointerleave: unpoint },
    s("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${series.map((one) => `${one.name} ${format(lastKnown(one.values))}`).join(", ")}` }, lines, marks),
    [1, 0.5].map((part) => h("span", { class: "y", style: { bottom: part * 100 + "%" } }, format(most * part))),
    h("div", { class: "tip", "data-own": "tip", hidden: true }));
  const axis = h("div", { class: "x" }, n > 1 ? [0, 1, 2, 3].map((i) => h("span", {}, clock(times[Math.round((i / 3) * (n - 1))]).replace(/^.* /, "").slice(0, 8))) : h("span", {}, "no data yet"));
  return h("figure", { class: "chart" }, h("figcaption", {}, h("span", {}, label), legend), plot, axis);
}

const lastKnown = (values) => known(values).at(-1);

function stack(series) {
  let below = null;
  return series.map((one) => {
    const lower = below, upper = one.values.map((v,
      i) => (v === null || v === undefined ? null : v + (lower?.[i] || 0)));
    below = upper.map((v, i) => v ?? lower?.[i] ?? 0);
    return { ...one, upper, lower };
  });
}

function point(event, { times, series, format }) {
  const plot = event.currentTarget, tip = plot.querySelector(".tip"), box = plot.getBoundingClientRect();
  if (!times.length) return;
  const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1),
    i = Math.round(part * (times.length - 1));
  tip.hidden = false;
  tip.style.left = part * 100 + "%";
  tip.classList.toggle("left", part > 0.6);
  tip.replaceChildren(h("span", {}, clock(times[i])),
    ...series.map((one, at) => h("span", { class: `tone-${one.tone || at}` }, h("i", {}), one.name, h("b", {},
    format(one.values[i])))));
}

function unpoint(event) { event.currentTarget.querySelector(".tip").hidden = true; }

export function bars(rows, { label, format = String } = {}) {
  const most = Math.max(...rows.map((row) => row.value), 1e-9);
  return h("ul", { class: "bars", "aria-label": label },
    rows.map((row) => h("li", {}, h("span", { class: "name" }, row.name),
    h("span", { class: "bar" },
      h("i", { class: "tone-" + (row.tone || "accent"), style: { width: (row.value / most) * 100 + "%" } })),
      h("b", {}, format(row.value)))));
}
