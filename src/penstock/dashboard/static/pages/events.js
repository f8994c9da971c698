// Events: search with progress and Stop, a live tail that says what it skips, and one event with what became of it.

import { lines } from "../api.js";
import { h, icon, render } from "../dom.js";
import { bytes, clock, count, plural, seconds } from "../format.js";
import { bind } from "../keys.js";
import { href, query, setQuery } from "../route.js";
import { makeTable } from "../table.js";
import { drawer, empty, fault, heading, toast, when } from "../widgets.js";
import { makeEvent } from "./event.js";

const FIELDS = [["id", "Id"], ["type", "Type (order.*)"], ["source", "Source"], ["subject", "Subject"], ["text", "Text in the data"]];
const LAST = [["", "any time"], ["300", "last 5 minutes"], ["900", "last 15 minutes"], ["3600", "last hour"], ["86400", "last day"]];
const MOST_ROWS = 500; // of a tail
const short = (key) => (key || "").split("/").slice(1).join("/").replace(/^default\//, "");
const keyOf = (row) => `${row.place}|${row.partition}|${row.offset}`;
const parts = (key) => { const [place, partition, offset] = key.split("|"); return { place, partition, offset }; };
const pageOf = (row) => `/events/${encodeURIComponent(row.place)}/${row.partition}/${row.offset}`;

export default {
  title: "Events",
  match: ["/events", "/events/:place/:partition/:offset"],
  render: (container, params, feed) => (params.place ? renderOne(container, params, feed) : renderSearch(container, feed)),
};

function renderOne(container, params, feed) {
  const shown = makeEvent(params, feed, draw);
  function draw() {
    render(container, heading(shown.title(), h("a", { class: "button small", href: "#/events" }, "All events")), h("div", { class: "card" }, shown.nodes()));
  }
  draw();
  const end = feed.listen(draw);
  return () => { end(); shown.dispose(); };
}

function renderSearch(container, feed) {
  let rows = [], progress = null, done = null, problem = null, running = null;
  let tail = null, counted = { rows: 0, skipped: 0, since: 0 };
  let opened = null;

  const form = h("form", { class: "filters search-form", role: "search", "aria-label": "Search events", onsubmit: (e) => { e.preventDefault(); begin(); } });
  const state = h("div", { class: "state-line", role: "status" }), trouble = h("div", {});
  const panel = drawer("open", (key) => {
    if (opened?.key !== key) {
      opened?.event.dispose();
      opened = { key };
      opened.event = makeEvent(parts(key), feed, () => panel.update());
    }
    return { title: h("a", { href: href(pageOf(parts(key))), title: "Open as a page" }, opened.event.title()), nodes: opened.event.nodes() };
  });
  const table = makeTable({
    name: "events", label: "Events", key: keyOf, open: (row) => panel.open(keyOf(row)), href: (row) => href(pageOf(row)),
    columns: [
      { title: "Event", cell: (r) => r.id, class: "name" },
      { title: "Received", cell: (r) => when(r.received) },
      { title: "Type", cell: (r) => r.type },
      { title: "Source", cell: (r) => r.source, minor: true },
      { title: "Subject", cell: (r) => r.subject || "–", minor: true },
      { title: "At", cell: (r) => short(r.of) || r.topic, minor: true },
      { title: "Partition", cell: (r) => r.partition, class: "number", minor: true },
      { title: "Offset", cell: (r) => count(r.offset), class: "number", minor: true },
      { title: "Size", cell: (r) => bytes(r.size), class: "number", minor: true },
    ],
    empty: nothing,
  });

  // ── what is asked ──

  const asked = () => {
    const q = query();
    const time = (text) => (text ? new Date(text).toISOString() : null);
    const since = q.last ? new Date(Date.now() - Number(q.last) * 1000).toISOString() : time(q.since);
    const words = Object.fromEntries(FIELDS.map(([name]) => [name, q[name] || null]));
    return { of: q.of || null, ...words, since, until: time(q.until), latest: Number(q.latest) || 50 };
  };
  const isFiltered = () => { const { of, latest, ...filters } = asked(); return Object.values(filters).some(Boolean); };

  function drawForm() {
    const q = query(), keys = (feed.state?.ingresses || []).map((row) => row.key).sort();
    if (q.of && !keys.includes(q.of)) keys.push(q.of);
    const set = (name) => (e) => setQuery({ [name]: e.target.value });
    const input = (name, label, type = "text") => h("label", { class: "field" }, h("span", { class: type === "text" ? "hidden" : null }, label),
      h("input", { type, name, value: q[name] || "", placeholder: label, "aria-label": label, autocomplete: "off", spellcheck: "false", step: type === "text" ? null : "1", "data-search": name === "id" ? "" : null, oninput: set(name) }));
    const select = (name, label, options) => h("label", { class: "field" }, h("span", {}, label),
      h("select", { name, "aria-label": label, value: q[name] || "", onchange: (e) => { set(name)(e); begin(); } }, options.map(([v, text]) => h("option", { value: v, selected: v === (q[name] || "") }, text))));
    render(form,
      select("of", "In", [["", "all brokers and channels"], ...keys.map((key) => [key, short(key)])]),
      FIELDS.map(([name, label]) => input(name, label)),
      select("last", "Received", LAST), q.last ? null : [input("since", "from", "datetime-local"), input("until", "to", "datetime-local")],
      running ? h("button", { type: "button", class: "danger", onclick: stop }, "Stop") : h("button", { type: "submit", class: "main", disabled: !!tail }, icon("search"), "Search"),
      h("button", { type: "button", "aria-pressed": String(!!tail), title: "Live tail (t)", onclick: toggleTail }, icon(tail ? "pause" : "run"), tail ? "Stop the tail" : "Tail"),
      isFiltered() || q.of ? h("button", { type: "button", class: "quiet", onclick: () => { location.hash = "#/events"; } }, "Clear") : null);
  }

  // ── searching ──

  function stop() { running?.abort(); }

  async function begin() {
    if (query().tail) return beginTail();
    stop();
    const mine = (running = new AbortController());
    const found = [], started = performance.now();
    progress = { scanned: 0, of: 0, matched: 0, seconds: 0 };
    done = problem = null;
    drawAll();
    const clockwork = setInterval(() => { progress.seconds = (performance.now() - started) / 1000; drawState(); }, 200);
    try {
      await lines("api/penstock/search", { value: asked(), signal: mine.signal, take: (line) => {
        if (line.error) throw Object.assign(new Error(line.error), { hint: line.hint });
        if (line.progress) progress = line.progress;
        if (line.event) found.push(line.event);
        if (line.done) done = line.done;
        drawState();
      } });
      if (mine === running) rows = found;
    } catch (error) {
      if (mine.signal.aborted && mine === running) { done = { ...progress, stopped: true }; rows = found; }
      else if (!mine.signal.aborted) problem = error; // the last result stays
    }
    clearInterval(clockwork);
    if (mine === running) { running = null; drawAll(); }
  }

  function nothing() {
    if (running) return empty("Searching …");
    if (tail) return empty("Waiting for events …", h("p", {}, "They show up here as they are received."));
    if (problem) return empty("There is no result.");
    if (!done) return empty("…");
    const { since, until } = asked(), oldest = done.oldest ? new Date(done.oldest).getTime() : null;
    if (done.stopped) return empty("Stopped before anything was found.", h("p", {}, `${count(done.scanned)} of ${count(done.of)} records were looked at.`));
    if (oldest && until && new Date(until).getTime() < oldest) return empty("That is older than what is kept.", h("p", {}, `The oldest record that retention has left is of ${clock(done.oldest)}.`));
    if (done.scanned && isFiltered()) {
      return empty("No event fits.", h("p", {}, `The filter hid ${plural(done.scanned, "event")}.`, oldest && since && new Date(since).getTime() < oldest ? ` Older ones are gone: what is kept begins at ${clock(done.oldest)}.` : oldest ? ` What is kept begins at ${clock(done.oldest)}; older ones are gone.` : ""),
        h("button", { type: "button", onclick: () => { location.hash = href("/events", { of: query().of }); } }, "Search without it"));
    }
    return empty(isFiltered() ? "There is nothing to search." : "There are no events yet.", h("p", {}, "Nothing is kept in ", query().of ? short(query().of) : "any broker or channel", "."), h("code", {}, `penstock send ${query().of ? "broker/" + query().of.split("/")[2] : "broker/NAME"} --type order.created --source /shop`));
  }

  function drawState() {
    if (tail) {
      render(state, h("span", { class: "live-mark" }, h("i", { class: "dot" }), tail.begun ? "Live" : "Connecting"), h("span", {}, "Tail of ", h("strong", {}, short(tail.of) || "everything")),
        h("span", { class: "tail-counts", "data-rows": String(counted.rows), "data-skipped": String(counted.skipped) }, `${plural(counted.rows + counted.skipped, "event")} since ${clock(counted.since / 1000)}: ${plural(counted.rows, "row")}, ${count(counted.skipped)} skipped`),
        rows.length < counted.rows ? h("span", { class: "dim" }, `the newest ${count(rows.length)} are listed`) : null);
      return;
    }
    const told = running ? progress : done;
    render(state, told ? [
      running ? h("progress", { max: String(Math.max(told.of || 0, 1)), ...(told.of ? { value: String(told.scanned) } : {}), "aria-label": "Searched" }) : null,
      h("span", {}, `${count(told.scanned)}${running && told.of ? " of " + count(told.of) : ""} scanned`), h("span", {}, `${count(told.matched)} matched`), h("span", {}, seconds(told.seconds)),
      done?.stopped ? h("span", {}, "stopped") : done?.more ? h("span", {}, `the newest ${count(rows.length)} are shown `, h("button", { type: "button", class: "small", onclick: () => { setQuery({ latest: String(asked().latest * 4) }); begin(); } }, "Show more")) : null,
    ] : null);
  }

  function drawAll() {
    drawForm();
    drawState();
    render(trouble, problem ? fault(problem) : null);
    table.update(rows, { anew: !tail });
    panel.update();
  }

  // ── tail ──

  function toggleTail() {
    if (tail) { endTail(); setQuery({ tail: "" }); drawAll(); } else { setQuery({ tail: "1" }); beginTail(); }
  }

  function endTail() { tail?.close(); tail = null; }

  function beginTail() {
    stop();
    endTail();
    const q = query(), of = q.of || feed.state?.ingresses[0]?.key || "";
    if (!of) { toast("There is no broker or channel to tail yet"); return; }
    counted = { rows: 0, skipped: 0, since: Date.now() };
    rows = [];
    problem = done = null;
    tail = new EventSource("api/penstock/tail?" + new URLSearchParams(Object.entries({ of, type: q.type, source: q.source, filter: q.filter }).filter(([, v]) => v)));
    tail.of = of;
    tail.addEventListener("event", (message) => {
      counted.rows += 1;
      rows = [JSON.parse(message.data), ...rows].slice(0, MOST_ROWS);
      soon();
    });
    tail.addEventListener("skipped", (message) => { counted.skipped += JSON.parse(message.data).count; soon(); });
    tail.addEventListener("begun", () => { tail.begun = true; drawState(); });
    tail.addEventListener("problem", (message) => {
      const { error, hint } = JSON.parse(message.data);
      endTail();
      problem = Object.assign(new Error(error), { hint });
      drawAll();
    });
    tail.onerror = async () => {
      if (!tail) return;
      tail.begun = false; // it begins anew by itself, unless it was refused
      if (tail.readyState !== EventSource.CLOSED) return drawState();
      const url = tail.url;
      endTail();
      try { await lines(url, { take() {} }); problem = new Error("The tail has ended"); } catch (error) { problem = error; }
      drawAll();
    };
    drawAll();
  }

  let due = 0;
  function soon() { if (!due) due = requestAnimationFrame(() => { due = 0; drawState(); table.update(rows); }); }

  const unbind = bind({ t: toggleTail });
  container.append(heading("Events"), form, state, trouble, table.element, panel.element);
  let known = "";
  const end = feed.listen(() => {
    const now = (feed.state?.ingresses || []).map((row) => row.key).join();
    if (now !== known) { known = now; drawForm(); if (query().tail && !tail) beginTail(); }
    if (tail) drawState();
  });
  drawAll();
  begin();
  return () => { end(); unbind(); stop(); endTail(); cancelAnimationFrame(due); opened?.event.dispose(); table.dispose(); panel.dispose(); };
}
