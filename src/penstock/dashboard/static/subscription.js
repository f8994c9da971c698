// One subscription with all about it: drawn in the drawer of the list and on a page of its own.
//
//   const view = makeSubscription(key, feed, redraw); view.nodes(); view.dispose();

import { every, get, KINDS, oneUrl, post, remove } from "./api.js";
import { bars, begun, chart } from "./charts.js";
import { h, icon } from "./dom.js";
import { count, isoSeconds, millis, plural, rate, seconds } from "./format.js";
import { go, href, ofKey } from "./route.js";
import { ask, card, copy, facts, failed, fault, ready, status, toast, toneOf, when } from "./widgets.js";
import { toYaml } from "./yaml.js";

/** Pauses or resumes; the feed shows it here and in every other tab. */
export async function switchPause(row) {
  const verb = row.state === "paused" || row.state === "gone" ? "resume" : "pause";
  const [kind, namespace, name] = row.key.split("/");
  try {
    await post(`api/penstock/${KINDS[kind][1]}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/${verb}`,
      { reason: "paused on the dashboard" });
    toast(verb === "pause" ? `${name} is paused: events wait, none is lost` : `${name} goes on` + (row.lag ? `: ${plural(row.lag, "event")} to catch up` : ""));
  } catch (error) {
    failed(error);
  }
}

export const pauseButton = (row, options = {}) => {
  const held = row.state === "paused" || row.state === "gone";
  return h("button", { type: "button", ...options, "aria-label": `${held ? "Resume" : "Pause"} ${row.name}` },
    icon(held ? "run" : "pause"), held ? "Resume" : "Pause");
};

const soon = (at) => { const left = Math.ceil(at - Date.now() / 1000); return left > 0 ? "in " + seconds(left) : "now"; };

/** The state, and for one that retries how often it has failed and when it tries again. */
export function stateOf(row) {
  const left = row.next_try ? row.next_try - Date.now() / 1000 : 0;
  const isTrying = row.retrying && ["retrying", "failing", "parked"].includes(row.state);
  return h("span", { class: "state" },
    status(row.state, { tone: toneOf(row.state), title: row.last_error || row.reason }),
    isTrying ? h("span", { class: "dim" }, ` ${row.failures} of ${row.max_retries}`,
      left > 0 ? ` · in ${seconds(Math.ceil(left))}` : "") : null,
    row.state === "paused" && row.lag ? h("span", { class: "dim" }, ` held ${count(row.lag)}`) : null);
}

export const lagOf = (row) =>
  h("span", { class: "lag" },
    row.lag ? h("span", { class: row.lag_trend > 0 ? "bad" : row.lag_trend < 0 ? "good" : "calm" },
    icon(row.lag_trend > 0 ? "up" : row.lag_trend < 0 ? "down" : "flat",
    row.lag_trend > 0 ? "growing" : row.lag_trend < 0 ? "shrinking" : "steady")) : null, count(row.lag));

export function makeSubscription(key, feed, redraw) {
  const [kind, namespace, name] = key.split("/");
  let history = null, resource = null, upstream = null, lanes = null, letters = [], problem = null;
  const known = KINDS[kind];
  const stops = !known ? [] : [
    every(4, `api/penstock/history?of=${encodeURIComponent(key)}&minutes=15`,
      (found) => { history = begun(found); redraw(); }),
    every(2, `api/penstock/lag/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}?kind=${kind}`,
      (found) => { lanes = found; redraw(); }),
    every(5, oneUrl(kind, namespace, name), (found) => { resource = found; problem = null; load(); redraw(); },
      (error) => { problem = error; redraw(); }),
    every(10, `api/penstock/deadletters?namespace=${encodeURIComponent(namespace)}&kind=${kind}&name=${encodeURIComponent(name)}`, (found) => { letters = found.items.slice(0, 5); redraw(); }),
  ];

  async function load() { // the delivery settings of what it reads from, which it inherits when it has none
    const from = feed.subscription(key)?.from;
    if (!from || upstream?.key === from || resource?.spec?.delivery) return;
    upstream = { key: from, spec: {} };
    try {
      const found = await get(oneUrl(...from.split("/")));
      upstream = { key: from, spec: found.spec || {} };
      redraw();
    } catch { /* a source reads a topic that nobody here made */ }
  }

  function nodes() {
    const row = feed.subscription(key);
    if (!known) return fault({ message: `${kind} is no kind of subscription`,
      hint: "Trigger, Subscription and KafkaSource are" });
    if (problem?.status === 404) return fault(problem);
    if (!row) return h("p", { class: "dim" }, feed.state ? "Nothing is known of it yet." : "Waiting for numbers …");
    return h("div", { class: "detail" }, problem ? fault(problem) : null, top(row), numbers(row), charts(),
      h("div", { class: "two" }, codes(row), errors(row)),
      card("Retry policy", retries(row)), h("div", { class: "two" }, positions(), filters()), conditions());
  }

  const top = (row) => h("div", { class: "card" },
    facts([
      ["State", stateOf(row)], ["Ready", ready(row.ready, row.reason)],
        ["From", row.from ? h("a", { href: ofKey("/brokers", row.from) },
        row.from.split("/").slice(-1)[0]) : row.topic],
      ["Subscriber", row.subscriber ? h("span", {}, row.subscriber, copy(row.subscriber)) : "–"],
        ["Dead letter sink", row.dead_letter_sink || "kept by Penstock"], ["Gear", row.gear],
    ]),
    row.reason && row.ready !== "True" ? h("p", { class: "bad-text" }, row.reason) : null,
    h("div", { class: "filters" }, pauseButton(row, { class: "main", onclick: () => switchPause(row) }),
      h("a", { class: "button", href: href("/deadletters", { of: key }) }, "Dead letters"),
        row.from ? h("a", { class: "button", href: href("/events", { of: row.from }) }, "Events") : null,
      h("a", { class: "button", href: href("/resources", { open: key }) }, "YAML"),
        h("button", { type: "button", onclick: () => drop(row) }, "Delete …")));

  async function drop(row) {
    const lost = row.lag ? `${plural(row.lag, "waiting event")} will not be delivered to it.` : "Nothing waits for it: no event is lost.";
    if (!await ask({ title: `Delete ${kind} ${namespace}/${name}?`, body: h("p", {}, lost,
      " Its positions go too; a new one of the same name begins with new events."), yes: "Delete",
      danger: true })) return;
    try {
      await remove(oneUrl(kind, namespace, name));
      toast(`${name} is deleted`);
      go("/subscriptions");
    } catch (error) { failed(error); }
  }

  const numbers = (row) => h("div", { class: "numbers card" }, [
    ["Matched", rate(row.matched_per_second) + " /s", count(row.totals.matched) + " in all"],
    ["Delivered", rate(row.delivered_per_second) + " /s", count(row.totals.delivered) + " in all"],
    ["Failed attempts", rate(row.failed_per_second) + " /s", count(row.totals.failed_attempts) + " in all"],
    ["Oldest waiting", seconds(row.oldest_waiting_seconds), ""],
    ["Lag", lagOf(row), row.lag_seconds ? seconds(row.lag_seconds) + " behind" : ""],
    ["p95 whole way", millis(row.p95_ms), `${millis(row.p50_ms)} p50, ${millis(row.p99_ms)} p99`],
    ["In flight", count(row.in_flight), plural(row.unfinished, "event") + " open"],
    ["Dead letters", count(row.dead_letters),
      row.oldest_dead_letter_seconds ? "oldest " + seconds(row.oldest_dead_letter_seconds) : ""],
  ].map(([title, number, more]) => h("div", {}, h("span", { class: "dim" }, title), h("b", { class: "live-number" },
    number), h("span", { class: "dim" }, more))));

  function charts() {
    if (!history) return null;
    const { times, series } = history;
    return h("div", { class: "two" },
      h("div", { class: "card" },
        chart({ label: "Latency, p95", times, format: millis, stacked: true, top: 1, height: 130,
        series: [{ name: "waiting", values: series.waiting_p95_ms, tone: "warn" }, { name: "subscriber",
          values: series.subscriber_p95_ms, tone: "accent" }] })),
      h("div", { class: "card" },
        chart({ label: "Per second", times, format: rate, top: 1, height: 130, stacked: true,
        series: [{ name: "delivered", values: series.delivered, tone: "accent" }, { name: "failed",
          values: series.failed, tone: "bad" }] })),
      h("div", { class: "card" },
        chart({ label: "Lag", times, format: count, top: 10, height: 90,
        series: [{ name: "events", values: series.lag, tone: "busy", area: true }] })),
      h("div", { class: "card" },
        chart({ label: "Oldest waiting", times, format: seconds, top: 1, height: 90,
        series: [{ name: "age", values: series.oldest_waiting_seconds, tone: "warn", area: true }] })));
  }

  const codes = (row) => {
    const found = Object.entries(row.attempts || {}).filter(([, n]) => n);
    return card("Answers", found.length ? bars(found.map(([code, value]) => ({ name: code, value,
      tone: code.startsWith("2") ? "good" : code.startsWith("4") ? "warn" : "bad" })), { label: "Attempts by answer",
      format: count }) : h("p", { class: "dim" }, "No attempt yet."));
  };

  const errors = (row) => card("Last errors",
    row.last_error ? h("p", {}, status("failing", { tone: "bad" }), " ", row.last_error,
      row.next_try ? h("span", { class: "dim" },
      ` · try ${row.failures + 1} of ${row.max_retries + 1} ${soon(row.next_try)}`) : null) : null,
    letters.length ? h("ul", { class: "errors" },
      letters.map((each) => h("li", { key: each.partition + "/" + each.offset }, h("code", {}, each.id),
      h("span", { title: each.reason }, each.reason), when(each.time)))) : null,
    !row.last_error && !letters.length ? h("p", { class: "dim" }, "None.") : null);

  function retries(row) {
    const delivery = resource?.spec?.delivery || upstream?.spec?.delivery || {};
    const tries = Number(delivery.retry || 0), delay = isoSeconds(delivery.backoffDelay) ?? 0.2,
      isLinear = delivery.backoffPolicy === "linear";
    const waits = Array.from({ length: Math.min(tries, 200) }, (_, i) => Math.min(isLinear ? delay : delay * 2 ** i,
      600));
    const shown = waits.length > 9 ? [...waits.slice(0, 6), null, ...waits.slice(-2)] : waits; // the middle is folded
    const total = waits.reduce((a, b) => a + b, 0);
    const end = row.dead_letter_sink ? "dead letter sink" : "dead letters";
    let n = 1;
    const nodes = [point("try 1", row, 1)];
    for (const wait of shown) {
      n = wait === null ? tries - 1 : n + 1;
      nodes.push(h("li", { class: "gap", style: { "flex-grow": String(wait === null ? 1 : 1 + Math.log2(1 + wait / delay)) } }, h("span", {}, wait === null ? "…" : seconds(wait))));
      if (wait !== null) nodes.push(point(`try ${n}`, row, n));
    }
    nodes.push(h("li", { class: "gap last" }, h("span", {})), h("li", { class: "point end" }, h("i", {}),
      h("span", {}, end)));
    return [h("ol", { class: "axis", "aria-label": "Attempts and the waits between them" }, nodes),
      h("p", { class: "dim" }, tries ? `${plural(tries, "retry", "retries")}, ${isLinear ? "linear" : "exponential"} from ${seconds(delay)}, ${seconds(total)} of waiting in all` : "No retries",
        `; each attempt may take ${seconds(isoSeconds(delivery.timeout) ?? 30)}. 404, 408, 409, 429, 5xx, timeouts and refused connections are tried again.`)];
  }

  const point = (text, row,
    n) => h("li", { class: "point" + (row.failures && n <= row.failures ? " failed" : row.failures && n === row.failures + 1 ? " next" : "") }, h("i", {}), h("span", {}, text));

  function positions() {
    const rows = lanes?.partitions || [];
    return card("Positions", rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Positions" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["Partition", "Position", "End",
        "Lag"].map((head) => h("th", { scope: "col", class: "number" }, head)))),
      h("tbody", {}, rows.map((lane) => h("tr", { key: lane.topic + lane.partition }, [lane.partition, lane.position,
        lane.end, lane.lag].map((n) => h("td", { class: "number" }, count(n)))))))) : h("p", { class: "dim" },
        "Not known yet."));
  }

  function filters() {
    const spec = resource?.spec || {}, attributes = spec.filter?.attributes;
    const wanted = spec.filters?.length ? spec.filters : attributes ? [{ exact: attributes }] : null;
    return card(["Filter ", wanted ? h("a", { class: "button small", href: href("/playground", { of: feed.subscription(key)?.from, join: "json", json: JSON.stringify(wanted, null, 2) }) }, "Try it on the last 20 events") : null],
      wanted ? h("pre", { class: "code", tabindex: "0" },
        toYaml(spec.filters?.length ? spec.filters : spec.filter)) : h("p", { class: "dim" },
        "None: it gets everything."));
  }

  const conditions = () => resource?.status?.conditions ? card("Conditions", h("ul", { class: "conditions" },
    resource.status.conditions.map((c) => h("li", {},
    status(c.status === "Unknown" ? "Unknown" : c.status), h("strong", {}, c.type), h("span", {},
      c.message || c.reason || ""), h("span", { class: "dim" }, when(c.lastTransitionTime)))))) : null;

  return { nodes, dispose() { for (const stop of stops) stop(); } };
}
