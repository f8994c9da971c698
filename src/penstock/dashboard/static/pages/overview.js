// Overview: is it flowing, how far behind is it, what needs somebody.

import { every } from "../api.js";
import { begun, chart, sparkline } from "../charts.js";
import { h, icon, render } from "../dom.js";
import { bytes, count, millis, percent, plural, rate, seconds } from "../format.js";
import { ofKey, query } from "../route.js";
import { card, choice, command, heading, status, toneOf } from "../widgets.js";

const FIRST = [
  ["Apply a broker, and a trigger that wants its events", "penstock apply -f docs/first-event.yaml"],
  ["Start something that listens", "python docs/listen.py 3000"],
  ["Send an event", "penstock send broker/shop --type order.created --source /checkout --data '{\"order\": 1}'"],
];
const SHOWN = 8, WORST = 5;

export default {
  title: "Overview",
  match: "/",
  render(container, _params, feed) {
    let history = null;
    const asked = () => `api/penstock/history?of=total&minutes=${Number(query().minutes) || 15}`;
    let stop = () => {};
    const load = () => { stop(); stop = every(4, asked, (found) => { history = begun(found); draw(); }); };

    function draw() {
      const state = feed.state;
      const range = choice("minutes",
        { label: "Last", options: [["15", "15 minutes"], ["5", "5 minutes"], ["60", "hour"]], onchange: load });
      if (!feed.isReady) return render(container, heading("Overview"), h("p", { class: "dim" },
        feed.isLost ? "No updates." : "Waiting for numbers …"));
      const isEmpty = !state.ingresses.length && !state.subscriptions.length;
      render(container, heading("Overview", h("span", { class: "push" }, isEmpty ? null : range)),
        isEmpty ? first() : [tiles(state, history), attention(state), charts(history), lists(state)]);
    }
    const end = feed.listen(draw);
    draw();
    load();
    return () => { end(); stop(); };
  },
};

const first = () =>
  h("div", { class: "card first" },
    h("p", { class: "lead" }, "Nothing flows yet. Three commands make a first event flow:"),
    h("ol", {}, FIRST.map(([what, text]) => h("li", {}, h("span", {}, what), command(text)))));

function tiles(state, history) {
  const t = state.totals, series = history?.series || {};
  const success = (series.delivered || []).map((d, i) => {
    const failed = series.failed?.[i];
    return d === null || failed === null || !(d + failed) ? null : d / (d + failed);
  });
  const dead = state.subscriptions.filter((s) => s.dead_letters), oldest = Math.max(0,
    ...dead.map((s) => s.oldest_dead_letter_seconds || 0));
  const paused = state.subscriptions.filter((s) => s.state === "paused");
  const kafka = state.kafka || {};
  const spark = (values, label, tone) => (values?.length ? sparkline(values, { label, tone }) : null);
  return h("div", { class: "tiles" },
    tile("In", rate(t.in_per_second), "/s", spark(series.in, "events in per second"), "#/brokers"),
    tile("Delivered", rate(t.delivered_per_second), "/s", spark(series.delivered, "deliveries per second"),
      "#/subscriptions"),
    tile("Success", percent(t.success), "", spark(success, "part of deliveries that worked"),
      "#/subscriptions?sort=-failed%2Fs", t.success !== null && t.success < 0.99 ? "bad" : ""),
    tile("p95, whole way", ...unit(millis(t.p95_ms)), spark(series.p95_ms, "95th percentile from receipt to answer"),
      "#/subscriptions?sort=-p95"),
    tile("Oldest waiting", ...unit(seconds(t.oldest_waiting_seconds)), spark(series.oldest_waiting_seconds,
      "age of the oldest waiting event", "warn"), "#/subscriptions", t.oldest_waiting_seconds > 60 ? "warn" : ""),
    tile("Dead letters", count(t.dead_letters), "", h("p", { class: "dim" },
      t.dead_letters ? [plural(dead.length, "subscription"), oldest ? ", oldest " + seconds(oldest) : ""] : "none"),
      "#/deadletters", t.dead_letters ? "bad" : ""),
    tile("Paused", count(t.paused), "", h("p", { class: "dim" },
      paused.length ? paused.map((s) => s.name).join(", ") : kafka.disk_free_bytes ? `disk: ${bytes(kafka.disk_bytes)}, ${bytes(kafka.disk_free_bytes)} free` : "none"), "#/subscriptions?state=paused", t.paused ? "warn" : ""));
}

/** "4.2 ms" → number and unit apart, so that the number can be large. */
const unit = (text) => { const at = text.lastIndexOf(" "); return /^[\d.]+ \S+$/.test(text) ? [text.slice(0, at),
  text.slice(at)] : [text, ""]; };

const tile = (title, number, suffix, below, href, tone = "") =>
  h("a", { class: "tile card " + tone, href }, h("span", { class: "dim" }, title), h("b", {}, number,
    suffix ? h("small", {}, suffix) : null), below);

function attention(state) {
  const rows = state.attention || [];
  if (!rows.length) return h("div", { class: "attention card calm-line" }, status("All well", { tone: "good" }),
    h("span", { class: "dim" }, "Nothing needs attention."));
  return h("section", { class: "attention card" }, h("h2", {}, "Needs attention"),
    h("ul", {}, rows.slice(0, WORST).map((row) => h("li", { class: row.severity, key: row.key + row.what },
      icon(row.severity === "bad" ? "bad" : "warn"),
      h("span", { class: "who" }, row.key.split("/").slice(-1)[0], h("span", { class: "dim" },
        " " + row.key.split("/")[0])), h("strong", {}, row.what), h("span", { class: "dim why", title: row.why },
        row.why),
      h("a", { class: "button small", href: row.action.href, "aria-label": `${row.action.label} ${row.key}` },
        row.action.label)))),
    rows.length > WORST ? h("a", { href: "#/subscriptions" }, `and ${rows.length - WORST} more`) : null);
}

function charts(history) {
  if (!history) return null;
  const { times, series } = history;
  return h("div", { class: "two" },
    h("div", { class: "card" }, chart({ label: "Outcomes per second", times, format: rate, stacked: true, top: 1,
      series: [{ name: "delivered", values: series.delivered, tone: "accent" }, { name: "failed",
        values: series.failed, tone: "bad" }] })),
    h("div", { class: "card" }, chart({ label: "Time, from receipt to answer", times, format: millis, top: 1,
      series: [{ name: "p50", values: series.p50_ms, tone: "calm" }, { name: "p95", values: series.p95_ms,
        tone: "accent" }, { name: "p99", values: series.p99_ms, tone: "warn" }] })));
}

function lists(state) {
  const behind = [...state.subscriptions].sort((a,
    b) => (b.oldest_waiting_seconds || 0) - (a.oldest_waiting_seconds || 0) || b.delivered_per_second - a.delivered_per_second);
  const busiest = [...state.ingresses].sort((a, b) => b.in_per_second - a.in_per_second);
  const line = (base, row, mark, ...cells) => h("tr", { key: row.key }, h("td", {},
    h("a", { href: ofKey(base, row.key) }, row.name)), h("td", {}, mark),
    cells.map((cell) => h("td", { class: "number" }, cell)));
  const table = (label, heads,
    rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", { class: "plain" },
    h("thead", {}, h("tr", {},
      heads.map((head, i) => h("th", { scope: "col", class: i > 1 ? "number" : null }, head)))), h("tbody", {},
      rows)));
  return h("div", { class: "two" },
    card("Brokers and channels", table("Brokers and channels", ["Name", "Kind", "In/s", "Rejected/s", "p95"],
      busiest.slice(0, SHOWN).map((row) => line("/brokers", row, row.kind, rate(row.in_per_second),
        rate(row.rejected_per_second), millis(row.p95_ms))))),
    card("Subscriptions, furthest behind first", table("Subscriptions",
      ["Name", "State", "Oldest", "Lag", "Delivered/s"],
      behind.slice(0, SHOWN).map((row) => line("/subscriptions", row, status(row.state, { tone: toneOf(row.state) }),
        seconds(row.oldest_waiting_seconds), count(row.lag), rate(row.delivered_per_second))))));
}
