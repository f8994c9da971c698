// What several pages show: statuses, faults, drawers, questions, things to copy, filters.

import { bind } from "./keys.js";
import { h, icon, render } from "./dom.js";
import { ago, clock, toDate } from "./format.js";
import { query, setQuery } from "./route.js";

// A status is word, icon and colour.
const STATUSES = {
  good: ["ready", "running", "delivering", "delivered", "true", "done", "matched"],
  calm: ["idle", "filtered", "cancelled", "gone", "before", "deleting"],
  busy: ["pending", "in flight", "starting", "unknown"],
  warn: ["retrying", "paused", "held", "parked", "hanging"],
  bad: ["failing", "not ready", "dead", "false", "not answering", "failed", "offline"],
};
const STATUS_ICONS = {
  delivering: "run", running: "ok", idle: "idle", retrying: "retry", failing: "bad", parked: "park", paused: "pause",
    held: "pause", hanging: "wait",
  gone: "gone", dead: "dead", filtered: "playground", cancelled: "gone", before: "wait",
};
const TONE_ICONS = { good: "ok", calm: "idle", busy: "wait", warn: "warn", bad: "bad" };

export function toneOf(word) {
  const lowered = String(word).toLowerCase();
  return Object.keys(STATUSES).find((tone) => STATUSES[tone].includes(lowered)) || "busy";
}

export function status(word, { title, tone = toneOf(word) } = {}) {
  return h("span", { class: "status " + tone, title },
    icon(STATUS_ICONS[String(word).toLowerCase()] || TONE_ICONS[tone]), h("span", {}, word));
}

/** Of a resource's Ready condition: "True", "False", "Unknown". */
export const ready = (value, title) =>
  status({ True: "Ready", False: "Not ready" }[value] || "Unknown", { title });

/** "3 m ago · 14:02:11.482"; the age is drawn anew with everything else. */
export const when = (value) =>
  toDate(value) ? h("time", { datetime: toDate(value).toISOString(), class: "when" }, h("span", {}, ago(value)),
    h("span", { class: "dim" }, " · " + clock(value))) : "–";

/** What is wrong, where, and what to do. Takes a Problem or {cause, address, remedy}. */
export function fault(problem) {
  const cause = problem.cause || problem.message;
  const details = (problem.problems || []).map((p) => h("li", {}, p.field ? h("code", {}, p.field) : null,
    p.field ? ": " : "", p.message));
  return h("div", { class: "fault", role: "alert" }, icon("warn"),
    h("div", {}, h("strong", {}, cause), problem.address ? h("div", {}, "at ", h("code", {}, problem.address)) : null,
      details.length ? h("ul", {}, details) : null, problem.remedy || problem.hint ? h("div", {},
        withCode(problem.remedy || problem.hint)) : null));
}

/** Text in which `commands` stand between backticks. */
export const withCode = (text) => String(text).split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

export const empty = (title, ...more) => h("div", { class: "empty" }, h("p", { class: "lead" }, title), more);

export function copy(text, label = "Copy") {
  return h("button", {
    type: "button", class: "quiet copy", "aria-label": label, title: label,
    onclick: async (event) => {
      event.stopPropagation();
      await toClipboard(typeof text === "function" ? text() : text);
      toast("Copied");
    },
  }, icon("copy"), label === "Copy" ? null : h("span", {}, label));
}

async function toClipboard(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = h("textarea", { class: "offscreen", "aria-hidden": "true" }); // plain HTTP elsewhere than on localhost
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export const command = (text) => h("div", { class: "command" }, h("code", { tabindex: "0" }, text), copy(text));

/** A line that goes away by itself; `undo` gives it a button. Returns a function that takes it away. */
export function toast(text, { tone = "", undo, seconds = 4 } = {}) {
  const place = document.getElementById("toasts");
  const element = h("div", { class: "toast " + tone }, h("span", {}, text),
    undo ? h("button", { type: "button", onclick: () => { close(); undo(); } }, "Undo") : null);
  const close = () => element.remove();
  place.append(element);
  setTimeout(close, seconds * 1000);
  return close;
}

export const failed = (error) => toast(error.message + (error.hint ? " · " + error.hint : ""), { tone: "bad",
  seconds: 8 });

/** A question with a button that says what it does. Resolves to true or false. */
export function ask({ title, body, yes = "Do it", danger = false }) {
  return new Promise((resolve) => {
    const end = (answer) => { dialog.close(); dialog.remove(); resolve(answer); };
    const dialog = h("dialog", { class: "question", "aria-labelledby": "question", oncancel: (e) => { e.preventDefault(); end(false); } },
      h("h2", { id: "question" }, title), h("div", {}, body),
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => end(false) }, "Cancel"),
        h("button", { type: "button", class: danger ? "danger" : "main", autofocus: true, onclick: () => end(true) },
          yes)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A panel at the side that is in the URL under `name`. `draw(value)` gives its title and nodes, and may be called again. */
export function drawer(name, draw) {
  const host = h("aside", { class: "drawer", hidden: true, "aria-label": name });
  let opener = null;
  const close = () => { setQuery({ [name]: "" }); update(); opener?.focus?.(); };
  let unbind = null; // bound when it opens, so that Escape is its own before anybody else's
  function update() {
    const value = query()[name];
    document.body.classList.toggle("with-drawer", !!value);
    if (!value) { host.hidden = true; unbind = void unbind?.(); return; }
    const was = host.hidden;
    host.hidden = false;
    unbind ||= bind({ Escape: close });
    const { title, nodes } = draw(value);
    render(host, h("header", {}, h("h2", {}, title),
      h("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: close }, icon("bad"))),
      h("div", { class: "inside", tabindex: "0" }, nodes));
    if (was) host.querySelector(".close").focus({ preventScroll: true });
  }
  return {
    element: host, update, close,
    open(value) { opener = document.activeElement; setQuery({ [name]: value }, { push: !query()[name] }); update(); },
    dispose() { unbind?.(); document.body.classList.remove("with-drawer"); },
  };
}

/** A text field that is in the URL under `name`; the key / goes to the first one of a page. */
export function search(name, { label, placeholder = label, onchange, width }) {
  return h("label", { class: "field search" + (width ? " " + width : "") }, h("span", { class: "hidden" }, label),
    icon("search"),
    h("input", { type: "search", placeholder, "data-search": "", autocomplete: "off", spellcheck: "false", value: query()[name] || "",
      oninput: (e) => { setQuery({ [name]: e.target.value }); onchange?.(e.target.value); } }));
}

/** A choice that is in the URL; `options` are [value, text] pairs, the first of which is the default. */
export function choice(name, { label, options, onchange }) {
  const value = query()[name] || options[0][0];
  return h("label", { class: "field" }, h("span", {}, label),
    h("select", { value, "aria-label": label, onchange: (e) => { setQuery({ [name]: e.target.value === options[0][0] ? "" : e.target.value }); onchange?.(e.target.value); } },
      options.map(([v, text]) => h("option", { value: v, selected: v === value }, text))));
}

/** A title, with filters and what can be done in the same line: rows begin further up. */
export const heading = (title, ...more) => h("div", { class: "heading" }, h("h1", {}, title), more);

export const facts = (pairs) =>
  h("dl", { class: "facts" },
    pairs.filter(([, v]) => v !== null && v !== undefined && v !== "").map(([k, v]) => h("div", {}, h("dt", {}, k),
    h("dd", {}, v))));

export const section = (title, ...nodes) => h("section", { class: "block" }, h("h2", {}, title), nodes);

export const card = (title, ...nodes) => h("section", { class: "card" }, h("h2", {}, title), nodes);
