// Filter playground: a filter as it is typed, and what it says to the last 20 events of a broker, by the evaluator that delivers.

import { post } from "../api.js";
import { h, icon, render } from "../dom.js";
import { plural } from "../format.js";
import { href, query, setQuery } from "../route.js";
import { makeTable } from "../table.js";
import { choice, copy, empty, fault, heading, status, when } from "../widgets.js";
import { toYaml } from "../yaml.js";

const DATA = "penstock.dev/cesql-data";
const DIALECTS = [["exact", "is exactly"], ["prefix", "begins with"], ["suffix", "ends with"], ["cesql", "CESQL"], [DATA, "CESQL, data too"]];
const isExpression = (dialect) => dialect === "cesql" || dialect === DATA;
const TYPING_MS = 250;
const FIRST = [{ dialect: "cesql", value: "type LIKE 'order.%'" }];
const short = (key) => (key || "").split("/").slice(1).join("/").replace(/^default\//, "");

/** The filters list that the rows mean. */
export function filtersOf({ join, rows, json }) {
  if (join === "json") return JSON.parse(json || "[]");
  const each = rows.map(({ dialect, attribute, value }) => ({ [dialect]: isExpression(dialect) ? value : { [attribute || ""]: value } }));
  if (join === "any") return [{ any: each }];
  return join === "not" ? [{ not: each.length === 1 ? each[0] : { any: each } }] : each;
}

/** Which row a problem is about: the innermost index, or the only one there is. */
const rowOf = (field, rows) => { const found = [...field.matchAll(/\[(\d+)\]/g)].map((m) => Number(m[1])); const at = found.length ? found[found.length - 1] : 0; return at < rows.length ? at : 0; };

export default {
  title: "Filter playground",
  match: "/playground",
  render(container, _params, feed) {
    let state = fromUrl(), verdicts = null, problem = null, problems = [], timer = null, running = null, isOld = false;
    const form = h("div", { class: "card builder" }), result = h("div", { class: "block" }), yaml = h("div", {});
    const table = makeTable({
      name: "verdicts", label: "Verdicts", key: (v) => v.key, href: (v) => (v.event.place ? href(`/events/${encodeURIComponent(v.event.place)}/${v.event.partition}/${v.event.offset}`) : "#/events"),
      columns: [
        { title: "Event", cell: (v) => v.id, class: "name" },
        { title: "Verdict", cell: (v) => status(v.matched ? "matches" : "does not", { tone: v.matched ? "good" : "calm" }) },
        { title: "Because", cell: (v) => (v.matched ? h("span", { class: "dim" }, v.because) : v.because || ""), class: "wide" },
        { title: "Type", cell: (v) => v.event.type },
        { title: "Source", cell: (v) => v.event.source, minor: true },
        { title: "Subject", cell: (v) => v.event.subject || "–", minor: true },
        { title: "Received", cell: (v) => when(v.event.received), minor: true },
      ],
      empty: () => verdicts === null ? empty(problem ? "There is no result yet." : "Asking …") : empty("There are no events to try it on.", h("p", {}, "Choose another broker, or send one.")),
    });

    function fromUrl() {
      const q = query();
      let rows = FIRST;
      try { rows = q.rows ? JSON.parse(q.rows) : FIRST; } catch { /* as if there were none */ }
      return { join: q.join || "all", rows, json: q.json || JSON.stringify([{ any: [{ exact: { type: "order.created" } }, { not: { prefix: { source: "/test" } } }] }], null, 2) };
    }

    function changed(now) {
      state = now;
      setQuery({ join: state.join === "all" ? "" : state.join, rows: state.join === "json" ? "" : JSON.stringify(state.rows), json: state.join === "json" ? state.json : "" });
      clearTimeout(timer);
      timer = setTimeout(run, TYPING_MS);
      draw();
    }
    const setRow = (i, change) => changed({ ...state, rows: state.rows.map((row, at) => (at === i ? { ...row, ...change } : row)) });

    async function run() {
      running?.abort();
      const mine = (running = new AbortController());
      let filters;
      try {
        filters = filtersOf(state);
      } catch (error) {
        return wrong([{ field: "filters", message: "this is not JSON: " + error.message }]);
      }
      const of = query().of || feed.state?.ingresses[0]?.key;
      if (!of) return;
      try {
        const found = await post("api/penstock/trial?problems=1", { filters, of, latest: 20 }, mine.signal);
        if (found.problems) return wrong(found.problems);
        verdicts = found.map((v, i) => ({ ...v, key: v.event?.place ? `${v.event.place}|${v.event.partition}|${v.event.offset}` : `${i}|${v.id}` }));
        problem = null;
        problems = [];
        isOld = false;
      } catch (error) {
        if (mine.signal.aborted) return;
        problem = error;
        isOld = verdicts !== null;
      }
      draw();
    }

    function wrong(found) { problems = found; problem = null; isOld = verdicts !== null; draw(); }

    function pointer(text, p) {
      if (!p) return null;
      const lines = p.column ? text.split("\n") : [];
      let at = (p.column || 1) - 1, line = lines[0] || "";
      for (const each of lines) { if (at <= each.length) { line = each; break; } at -= each.length + 1; }
      return h("div", { class: "pointed", role: "alert" }, p.column ? h("pre", { "aria-hidden": "true" }, line + "\n" + " ".repeat(at) + "^") : null,
        h("p", {}, p.column ? `Column ${p.column}: ` : "", p.message.split("\n")[0]));
    }

    function rowNode(row, i) {
      const p = problems.find((each) => rowOf(each.field, state.rows) === i);
      return h("li", { key: "row" + i, class: p ? "wrong" : null },
        h("select", { "aria-label": "Dialect " + (i + 1), value: row.dialect, onchange: (e) => setRow(i, { dialect: e.target.value }) }, DIALECTS.map(([v, text]) => h("option", { value: v, selected: v === row.dialect }, text))),
        isExpression(row.dialect) ? h("textarea", { rows: "2", "aria-label": "Expression " + (i + 1), "data-search": i ? null : "", spellcheck: "false", "aria-invalid": p ? "true" : null, value: row.value || "", oninput: (e) => setRow(i, { value: e.target.value }) })
          : [h("input", { "aria-label": "Attribute " + (i + 1), placeholder: "attribute, such as type", value: row.attribute || "", spellcheck: "false", oninput: (e) => setRow(i, { attribute: e.target.value }) }),
            h("input", { "aria-label": "Value " + (i + 1), placeholder: "value", value: row.value || "", spellcheck: "false", "aria-invalid": p ? "true" : null, oninput: (e) => setRow(i, { value: e.target.value }) })],
        h("button", { type: "button", class: "quiet", "aria-label": "Remove condition " + (i + 1), disabled: state.rows.length === 1, onclick: () => changed({ ...state, rows: state.rows.filter((_, at) => at !== i) }) }, icon("bad")),
        pointer(row.value || "", p));
    }

    function draw() {
      const keys = (feed.state?.ingresses || []).map((row) => row.key).sort();
      const joined = h("label", { class: "field" }, h("span", {}, "Events match when"),
        h("select", { value: state.join, onchange: (e) => changed({ ...state, join: e.target.value }) },
          [["all", "all of these hold"], ["any", "any of these holds"], ["not", "none of these holds"], ["json", "filters as JSON (nested)"]].map(([v, text]) => h("option", { value: v, selected: v === state.join }, text))));
      render(form,
        h("div", { class: "filters" }, keys.length ? choice("of", { label: "Events of", options: keys.map((key) => [key, short(key)]), onchange: run }) : h("span", { class: "dim" }, "There is no broker or channel yet."), joined),
        state.join === "json"
          ? [h("textarea", { rows: "8", "aria-label": "Filters as JSON", spellcheck: "false", value: state.json, oninput: (e) => changed({ ...state, json: e.target.value }) }), problems.map((p) => h("div", { class: "pointed", role: "alert" }, h("p", {}, h("code", {}, p.field), " ", p.column ? `column ${p.column}: ` : "", p.message.split("\n")[0])))]
          : [h("ul", { class: "conditions-rows" }, state.rows.map(rowNode)),
            h("div", {}, h("button", { type: "button", onclick: () => changed({ ...state, rows: [...state.rows, { dialect: "exact", attribute: "type", value: "" }] }) }, "Add a condition"))]);
      let text = "";
      try { text = toYaml({ filters: filtersOf(state) }); } catch { /* it is told above */ }
      render(yaml, text ? h("section", { class: "card" }, h("h2", {}, "For a trigger's spec ", copy(() => text, "Copy YAML")), h("pre", { class: "code", tabindex: "0" }, text)) : null);
      const matching = (verdicts || []).filter((v) => v.matched).length;
      render(result, problem ? fault(problem) : null,
        verdicts?.length ? h("p", { class: "state-line", role: "status" }, h("strong", {}, `${matching} of ${plural(verdicts.length, "event")} match.`), isOld ? h("span", { class: "old" }, icon("warn"), "This is the result of the last filter that could be read.") : null) : null);
      table.element.classList.toggle("stale", isOld);
      table.update(verdicts || [], { anew: true });
    }

    container.append(heading("Filter playground", h("span", { class: "dim" }, "tried on the last 20 events, by the evaluator that delivers")),
      h("div", { class: "play" }, form, yaml), result, table.element);
    let known = null;
    const end = feed.listen(() => {
      const now = (feed.state?.ingresses || []).map((row) => row.key).join();
      if (now !== known) { known = now; draw(); if (verdicts === null) run(); }
    });
    draw();
    run();
    return () => { end(); clearTimeout(timer); running?.abort(); table.dispose(); };
  },
};
