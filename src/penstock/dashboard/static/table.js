// A table of rows of 32 px: sorted by its headings, moved through with j, k and Enter, quiet under the cursor.
//
//   const rows = makeTable({
//     name: "subscriptions",                        // of its state in the URL (?sort=), and its label
//     columns: [{ title, cell(row), number, sort(row), minor, class }],   // minor ones are not shown on small screens
//     key: (row) => row.key,
//     sort: "-age"                                  // the title of a column in small letters, - for the largest first
//     open(row),  keys: { p(row) },  acts: { pause(row) },   // Enter or click; further keys; <button data-act="pause">
//     href(row),                                    // makes the first cell a link
//     empty: () => node,
//   });
//   container.append(rows.element); rows.update(list); rows.dispose();
//
// While the pointer is over it or a row is chosen, rows stay where they are; what is new waits behind "12 new".

import { bind } from "./keys.js";
import { h, icon, render } from "./dom.js";
import { plural } from "./format.js";
import { query, setQuery } from "./route.js";

const AT_ONCE = 250;
const word = (column) => column.title.toLowerCase();

export function makeTable(spec) {
  const element = h("div", { class: "table" });
  let rows = [], order = [], held = new Set(), pointer = false, chosen = null, limit = AT_ONCE;
  const isHeld = () => pointer || chosen !== null;
  const sorting = () => query()[spec.sortName || "sort"] || spec.sort || "";

  function sorted(list) {
    const asked = sorting(), down = asked.startsWith("-");
    const column = spec.columns.find((c) => word(c) === asked.replace(/^-/, ""));
    if (!column) return list;
    const of = column.sort || column.cell;
    const compare = (a, b) => {
      const [x, y] = [of(a), of(b)];
      const none = (v) => v === null || v === undefined;
      if (none(x) || none(y)) return none(x) - none(y); // unknown ones last, either way
      const by = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
      return down ? -by : by;
    };
    return [...list].sort((a, b) => compare(a, b) || String(spec.key(a)).localeCompare(String(spec.key(b)), "en",
      { numeric: true }));
  }

  function update(list, { anew = false } = {}) {
    rows = list;
    const fresh = sorted(list).map(spec.key);
    if (anew || !isHeld() || !order.length) {
      order = fresh;
      held = new Set();
    } else {
      const known = new Set(order), now = new Set(fresh);
      held = new Set(fresh.filter((key) => !known.has(key)));
      order = order.filter((key) => now.has(key));
    }
    if (chosen !== null && !order.includes(chosen)) chosen = null;
    draw();
  }

  function draw() {
    const by = new Map(rows.map((row) => [spec.key(row), row]));
    const shown = order.slice(0, limit).map((key) => by.get(key)).filter(Boolean);
    if (!shown.length && !held.size) return render(element, spec.empty ? spec.empty() : h("div", { class: "empty" },
      h("p", {}, "Nothing here.")));
    render(element,
      held.size ? h("button", { type: "button", class: "fresh", onclick: () => update(rows, { anew: true }) },
        `${held.size} new`) : null,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": spec.label || spec.name },
        h("table", {}, h("thead", {}, h("tr", {}, spec.columns.map(head))), h("tbody", {}, shown.map(line)))),
      order.length > limit ? h("button", { type: "button", class: "more", onclick: () => { limit += 1000; draw(); } },
        `Show ${plural(order.length - limit, "more row")}`) : null);
  }

  function classes(column) {
    return [column.number && "number", column.minor && "minor", column.class].filter(Boolean).join(" ") || null;
  }

  function head(column) {
    const by = sorting(), mine = by.replace(/^-/, "") === word(column);
    const sort = mine ? (by.startsWith("-") ? "descending" : "ascending") : null;
    const flip = () => {
      setQuery({ [spec.sortName || "sort"]: mine ? (by.startsWith("-") ? word(column) : "-" + word(column)) : (column.number ? "-" : "") + word(column) });
      update(rows, { anew: true });
    };
    return h("th", { scope: "col", class: classes(column), "aria-sort": sort },
      column.title && (column.sort || column.number || column.sortable) ? h("button", { type: "button", onclick: flip, title: column.hint }, column.title, sort ? icon(sort === "ascending" ? "up" : "down") : null)
        : column.title ? h("span", { title: column.hint }, column.title) : h("span", { class: "hidden" }, "Actions"));
  }

  function line(row) {
    const key = spec.key(row);
    return h("tr", { key, "data-key": key, class: [chosen === key && "chosen", spec.open && "opens", spec.rowClass?.(row)].filter(Boolean).join(" ") || null,
      "aria-selected": chosen === key ? "true" : null },
      spec.columns.map((column, i) => {
        const found = column.cell(row);
        return h("td", { class: classes(column), title: typeof found === "string" && found.length > 24 ? found : null },
          i === 0 && spec.href ? h("a", { href: spec.href(row) }, found) : found);
      }));
  }

  const rowOf = (target) => {
    const key = target.closest("tr")?.penstockKey;
    return key === undefined ? null : rows.find((row) => spec.key(row) === key);
  };
  element.addEventListener("click", (event) => {
    const row = rowOf(event.target), act = event.target.closest("[data-act]")?.dataset.act;
    if (row && act) return void spec.acts[act](row);
    if (!row || event.target.closest("a, button, input, summary, label") || String(getSelection())) return;
    choose(spec.key(row));
    spec.open?.(row);
  });
  element.addEventListener("pointerover",
    (event) => { pointer = event.pointerType === "mouse" && !!event.target.closest("tbody"); });
  element.addEventListener("pointerleave", () => { pointer = false; if (!isHeld() && held.size) update(rows); });

  function choose(key) {
    chosen = key;
    draw();
    element.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" });
  }
  const step = (by) => () => {
    if (!order.length) return false;
    const at = chosen === null ? (by > 0 ? -1 : 0) : order.indexOf(chosen);
    choose(order[Math.min(Math.max(at + by, 0), Math.min(order.length, limit) - 1)]);
  };
  const withChosen = (f) => () => {
    const row = rows.find((each) => spec.key(each) === chosen);
    return row && f ? void f(row) : false;
  };
  const openRow = (row) => { if (spec.open) spec.open(row); else if (spec.href) location.hash = spec.href(row); };
  const unbind = bind({
    j: step(1), k: step(-1), Enter: withChosen(spec.open || spec.href ? openRow : null),
    Escape: () => { if (chosen === null) return false; chosen = null; update(rows); },
    ...Object.fromEntries(Object.entries(spec.keys || {}).map(([key, f]) => [key, withChosen(f)])),
  });

  return { element, update, dispose: unbind, chosen: () => rows.find((row) => spec.key(row) === chosen) };
}
