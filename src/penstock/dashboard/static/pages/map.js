// Map: senders → brokers and channels → subscriptions → subscribers → dead letters, with rates on the lines; and its twin, a table.
// Width is the rate, colour the errors, the label rate and p95.

import { h, icon, render, s } from "../dom.js";
import { count, millis, rate } from "../format.js";
import { ofKey, query, setQuery } from "../route.js";
import { stateOf } from "../subscription.js";
import { makeTable } from "../table.js";
import { empty, heading, search, toneOf, withCode } from "../widgets.js";

const COLUMNS = ["Senders", "Brokers, channels, topics", "Subscriptions", "Subscribers", "Dead letters"];
const NARROWEST = 1000, TOP = 34;
const WIDTHS = [0.08, 0.14, 0.17, 0.2, 0.08], GAPS = [0.11, 0.07, 0.11,
  0.04]; // of boxes and of the lines between them
const sum = (list) => list.reduce((all, each) => all + each, 0);
const compare = (a, b) => a.localeCompare(b, "en", { numeric: true });

export default {
  title: "Map",
  match: "/map",
  render(container, _params, feed) {
    const host = h("div", { class: "contents" });
    let width = NARROWEST;
    const sized = new ResizeObserver(() => { width = Math.max(container.clientWidth - 72, NARROWEST); show(); });
    const table = makeTable({
      name: "map", label: "The map as a table", sort: "from", key: (r) => r.key, href: (r) => ofKey("/subscriptions",
        r.key), open: (r) => { location.hash = ofKey("/subscriptions", r.key); },
      columns: [
        { title: "Subscription", cell: (r) => r.name, sort: (r) => r.name },
        { title: "From", cell: (r) => fromOf(r).split("/").at(-1), sort: fromOf },
        { title: "In/s", cell: (r) => rate(feed.ingress(r.from)?.in_per_second),
          sort: (r) => feed.ingress(r.from)?.in_per_second, number: true, minor: true },
        { title: "Delivering", cell: stateOf, sort: (r) => r.state },
        { title: "Subscriber", cell: (r) => r.subscriber || "–", class: "wide dim", minor: true },
        { title: "Delivered/s", cell: (r) => rate(r.delivered_per_second), sort: (r) => r.delivered_per_second,
          number: true },
        { title: "Failed/s", cell: (r) => rate(r.failed_per_second), sort: (r) => r.failed_per_second, number: true },
        { title: "p95", cell: (r) => millis(r.p95_ms), sort: (r) => r.p95_ms, number: true },
        { title: "Dead letters", cell: (r) => count(r.dead_letters), sort: (r) => r.dead_letters, number: true,
          minor: true },
      ],
    });
    const isTable = () => (query().view || (innerWidth < 700 ? "table" : "map")) === "table";
    const tab = (name, text) => h("button", { type: "button", "aria-pressed": String(isTable() === (name === "table")), onclick: () => { setQuery({ view: name }); show(); } }, text);

    function show() {
      const state = feed.state, text = (query().q || "").toLowerCase();
      const title = heading("Map", search("q", { label: "Search by name or address", onchange: show }),
        h("div", { class: "tabs push", role: "group", "aria-label": "Shown as" }, tab("map", "Map"), tab("table",
        "Table")));
      const fits = (row) => !text || (row.key + " " + (row.subscriber || row.address) + " " + (row.from || "")).toLowerCase().includes(text);
      const subscriptions = (state?.subscriptions || []).filter(fits);
      const wanted = new Set(subscriptions.map((row) => row.from));
      const ingresses = (state?.ingresses || []).filter((row) => fits(row) || wanted.has(row.key));
      const isEmpty = !subscriptions.length && !ingresses.length;
      const nothing = !feed.isReady ? empty(feed.isLost ? "No updates." : "Waiting for the controller …") : text ? empty("Nothing fits the search.") : empty("Nothing is connected yet.", h("p", {}, withCode("`penstock apply -f docs/first-event.yaml` makes a broker and a trigger.")));
      render(host, title, isEmpty ? h("div", { class: "card" },
        nothing) : isTable() ? h("div", { "data-own": "table" })
        : h("div", { class: "card flow", key: "flow" },
          h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Map; the table beside it says the same" }, draw(ingresses, subscriptions, width))));
      table.update(subscriptions);
      host.querySelector("[data-own=table]")?.replaceChildren(table.element);
    }
    container.append(host);
    sized.observe(container);
    const end = feed.listen(show);
    show();
    return () => { end(); sized.disconnect(); table.dispose(); };
  },
};

const fromOf = (row) => row.from || "topic/" + row.place;

function draw(ingresses, subscriptions, width) {
  const wide = WIDTHS.map((part) => part * width),
    x = WIDTHS.map((_, i) => width * (sum(WIDTHS.slice(0, i)) + sum(GAPS.slice(0, i))));
  const isMany = subscriptions.length > 25, step = isMany ? 28 : 42, tall = isMany ? 20 : 28;
  const plan = layout(ingresses, subscriptions, step);
  const most = Math.max(...ingresses.map((r) => r.in_per_second), ...subscriptions.map((r) => r.delivered_per_second),
    1);
  const thick = (r) => (r > 0 ? 1.5 + (isMany ? 5 : 9) * Math.sqrt(r / most) : 1);
  const lines = [], labels = [], nodes = [];

  const say = (key, className, column, y,
    text) => labels.push(s("text", { key, class: className, x: x[column] + wide[column] + (x[column + 1] - x[column] - wide[column]) / 2, y, "text-anchor": "middle" }, text));
  function link(column, y1, y2, { perSecond, tone, label, trouble, dashed, key }) {
    const a = x[column] + wide[column], b = x[column + 1], middle = (a + b) / 2;
    lines.push(s("path", { key, class: `flow-line ${tone}${dashed ? " dashed" : ""}`,
      d: `M${a} ${y1}C${middle} ${y1} ${middle} ${y2} ${b} ${y2}`, "stroke-width": thick(perSecond).toFixed(1) }));
    const half = thick(perSecond) / 2, rises = y2 < y1 - 1; // the label keeps clear of a line that rises
    if (label) say("l" + key, "flow-label", column, rises ? y1 + 11 + half : y1 - 4 - half, label);
    if (trouble) say("t" + key, "flow-label trouble", column, y1 + (rises ? 22 : 11) + half, trouble);
  }
  function box(column, y, { text, tone, href, sign, title, key }) {
    nodes.push(s(href ? "a" : "g", { key, href, class: "flow-node " + tone },
      s("title", {}, title || text),
        s("rect", { x: x[column], y: y - tall / 2, width: wide[column], height: tall, rx: 5 }),
      sign ? s("g", { transform: `translate(${x[column] + 8} ${y - 6.5}) scale(.8)` }, icon(sign).firstChild) : null,
      s("text", { x: x[column] + (sign ? 27 : 9), y: y + 4 }, cut(text, (wide[column] - (sign ? 34 : 14)) / 7.6))));
  }

  for (const { row, y } of plan.ingresses) {
    const refused = row.rejected_per_second || 0;
    if (row.topicOnly) {
      box(1, y, { key: row.key, text: row.name, tone: "calm", title: `topic ${row.name}`, sign: "topics" });
      continue;
    }
    box(0, y, { key: "from" + row.key, text: "senders", tone: "calm", title: `senders to ${row.address}` });
    link(0, y, y, { key: "in" + row.key, perSecond: row.in_per_second,
      tone: refused ? "warn" : row.in_per_second ? "accent" : "calm",
      label: `${rate(row.in_per_second)}/s · ${millis(row.p95_ms)}`,
      trouble: refused ? `${rate(refused)}/s refused` : "" });
    box(1, y, { key: row.key, text: row.name, href: ofKey("/brokers", row.key),
      tone: row.ready === "True" ? "calm" : "bad", sign: "brokers",
      title: `${row.kind} ${row.namespace}/${row.name}${row.reason ? ": " + row.reason : ""}` });
  }
  for (const { row, y, group, to } of plan.subscriptions) {
    const tone = toneOfFlow(row), isHeld = row.state === "paused";
    link(1, group.y, y, { key: "m" + row.key, perSecond: row.matched_per_second,
      tone: row.matched_per_second ? "accent" : "calm", dashed: isHeld });
    box(2, y, { key: row.key, text: row.name, href: ofKey("/subscriptions", row.key), tone: toneOf(row.state),
      sign: SIGNS[row.state] || "idle",
      title: `${row.kind} ${row.namespace}/${row.name}: ${row.state}${row.last_error ? ", " + row.last_error : ""}` });
    link(2, y, to.y, { key: "d" + row.key, perSecond: row.delivered_per_second, tone, dashed: isHeld,
      label: isHeld ? `held ${count(row.lag)}` : `${rate(row.delivered_per_second)}/s · ${millis(row.p95_ms)}`,
      trouble: row.failed_per_second ? `${rate(row.failed_per_second)}/s fail` : "" });
    to.tone = worse(to.tone, tone === "accent" ? "calm" : tone);
  }
  for (const each of plan.subscribers) {
    box(3, each.y, { key: "to" + each.key, text: each.name, tone: each.tone, title: [...each.urls].join("\n") });
    if (each.dead) link(3, each.y, plan.deadY, { key: "x" + each.key, perSecond: 0, tone: "bad" });
  }
  if (plan.dead) box(4, plan.deadY, { key: "dead", text: count(plan.dead), href: "#/deadletters", tone: "bad",
    sign: "dead", title: "dead letters" });
  else nodes.push(s("text", { key: "none", class: "flow-none", x: x[4], y: plan.deadY + 4 }, "none"));

  return s("svg", { width, height: plan.height, viewBox: `0 0 ${width} ${plan.height}`, role: "group",
    "aria-label": "Map of the flow" },
    COLUMNS.map((title, i) => s("text", { class: "flow-title", x: x[i], y: 14 }, title)), lines, labels, nodes);
}

const SIGNS = { delivering: "run", retrying: "retry", failing: "bad", parked: "park", hanging: "wait", paused: "pause",
  "not ready": "bad", gone: "gone" };
const cut = (text, most) => (text.length > most ? text.slice(0, Math.max(1, Math.floor(most) - 1)) + "…" : text);
const RANK = ["calm", "accent", "warn", "bad"];
const worse = (a, b) => (RANK.indexOf(a) > RANK.indexOf(b) ? a : b);

function toneOfFlow(row) {
  if (row.state === "failing" || row.state === "not ready") return "bad";
  const all = row.delivered_per_second + row.failed_per_second;
  if (row.failed_per_second && row.failed_per_second / all > 0.1) return "bad";
  if (row.failed_per_second || ["retrying", "parked", "hanging", "paused"].includes(row.state)) return "warn";
  return row.delivered_per_second ? "accent" : "calm";
}

/** The address without what is the same for all. */
const hostOf = (row) => (row.subscriber || "nobody").replace(/^https?:\/\//, "").replace(/(?<![/?#])[/?#]+$/, "");

/** Rows top down: subscriptions in the order of what they read from, each of the others in the middle of its own. No lines cross. */
function layout(ingresses, subscriptions, step) {
  const by = new Map([...ingresses].sort((a, b) => compare(a.key, b.key)).map((row) => [row.key, { row, of: [] }]));
  const ordered = subscriptions.map((row) => ({ row, host: hostOf(row) })).sort((a, b) => compare(a.host,
    b.host) || compare(a.row.key, b.row.key));
  for (const each of ordered) {
    const from = fromOf(each.row);
    if (!by.has(from)) by.set(from, { row: { key: from, name: from.split("/").at(-1), topicOnly: true }, of: [] });
    by.get(from).of.push(each);
  }
  const plan = { ingresses: [], subscriptions: [], subscribers: [], dead: 0 };
  let y = TOP + step / 2;
  for (const group of by.values()) {
    let to = null;
    const first = y;
    for (const { row, host } of group.of) {
      if (to?.name !== host) plan.subscribers.push(to = { key: row.key, name: host, ys: [], urls: new Set(), dead: 0,
        tone: "calm" });
      to.ys.push(y);
      to.urls.add(row.subscriber);
      to.dead += row.dead_letters || 0;
      plan.subscriptions.push({ row, y, group, to });
      y += step;
    }
    if (!group.of.length) y += step;
    group.y = (first + y - step) / 2;
    plan.ingresses.push({ row: group.row, y: group.y });
    y += step * 0.4;
  }
  for (const each of plan.subscribers) each.y = sum(each.ys) / each.ys.length;
  const dying = plan.subscribers.filter((each) => each.dead);
  plan.dead = sum(dying.map((each) => each.dead));
  plan.deadY = dying.length ? sum(dying.map((each) => each.y)) / dying.length : TOP + step / 2;
  plan.height = y - step * 0.75;
  return plan;
}
