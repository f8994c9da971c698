// Subscriptions: triggers, subscriptions and sources. Ready is not delivering, so both are shown; what waits longest is first.

import { h, render } from "../dom.js";
import { millis, rate, seconds } from "../format.js";
import { ofKey, query } from "../route.js";
import { lagOf, makeSubscription, pauseButton, stateOf, switchPause } from "../subscription.js";
import { makeTable } from "../table.js";
import { choice, drawer, empty, heading, ready, search, withCode } from "../widgets.js";

const STATES = ["delivering", "idle", "retrying", "failing", "parked", "hanging", "paused", "not ready", "gone"];
const READY = [["", "any"], ["True", "ready"], ["False", "not ready"], ["Unknown", "unknown"]];

export default {
  title: "Subscriptions",
  match: ["/subscriptions", "/subscriptions/:kind/:namespace/:name"],
  render: (container, params, feed) => (params.name ? one(container, params, feed) : list(container, feed)),
};

function list(container, feed) {
  let view = null, viewed = null;
  const panel = drawer("open", (key) => {
    if (viewed !== key) {
      view?.dispose();
      view = makeSubscription(key, feed, () => panel.update());
      viewed = key;
    }
    return { title: h("a", { href: ofKey("/subscriptions", key), title: "On a page of its own" }, key),
      nodes: view.nodes() };
  });
  const table = makeTable({
    name: "subscriptions", label: "Subscriptions", sort: "-oldest", key: (row) => row.key,
      open: (row) => panel.open(row.key),
    keys: { p: switchPause }, acts: { pause: switchPause },
    columns: [
      { title: "Name", cell: (r) => h("a", { href: ofKey("/subscriptions", r.key) }, r.name), sort: (r) => r.name },
      { title: "From", cell: (r) => (r.from || r.topic || "").split("/").slice(-1)[0], sort: (r) => r.from,
        minor: true },
      { title: "Ready", cell: (r) => ready(r.ready, r.reason), sort: (r) => r.ready, minor: true },
      { title: "Delivering", cell: stateOf, sort: (r) => r.state },
      { title: "Oldest", hint: "age of the oldest waiting event", cell: (r) => seconds(r.oldest_waiting_seconds),
        sort: (r) => r.oldest_waiting_seconds, number: true },
      { title: "Lag", hint: "events that wait, and whether they become more", cell: lagOf, sort: (r) => r.lag,
        number: true },
      { title: "Delivered/s", cell: (r) => rate(r.delivered_per_second), sort: (r) => r.delivered_per_second,
        number: true },
      { title: "p95", hint: "whole way, from receipt to answer", cell: (r) => millis(r.p95_ms), sort: (r) => r.p95_ms,
        number: true, minor: true },
      { title: "", cell: (r) => pauseButton(r, { "data-act": "pause", class: "quiet" }), class: "act" },
    ],
    empty: () => !feed.isReady ? empty(feed.isLost ? "No updates." : "Waiting for the controller …") : feed.state.subscriptions.length
      ? empty("Nothing fits the filters.", h("p", {}, `Without them there are ${feed.state.subscriptions.length}.`))
      : empty("There are no triggers, subscriptions or sources yet.", h("p", {},
        withCode("`penstock apply -f docs/first-event.yaml` makes a first one."))),
  });
  const controls = h("div", { class: "contents" });

  function show() {
    const asked = query(), text = (asked.q || "").toLowerCase(), rows = feed.state?.subscriptions || [];
    const froms = [...new Set(rows.map((r) => r.from || "").filter(Boolean))].sort();
    const spaces = [...new Set(rows.map((r) => r.namespace))].sort();
    if (asked.from && !froms.includes(asked.from)) froms.push(asked.from);
    if (asked.namespace && !spaces.includes(asked.namespace)) spaces.push(asked.namespace);
    render(controls, heading("Subscriptions", search("q", { label: "Search by name or address", onchange: show }),
      choice("state", { label: "Delivering", options: [["", "any"], ...STATES.map((s) => [s, s])], onchange: show }),
      choice("ready", { label: "Ready", options: READY, onchange: show }),
      choice("from", { label: "From",
        options: [["", "all"], ...froms.map((f) => [f, f.split("/").slice(1).join("/")])], onchange: show }),
      spaces.length > 1 || asked.namespace ? choice("namespace", { label: "Namespace",
        options: [["", "all"], ...spaces.map((s) => [s, s])], onchange: show }) : null));
    table.update(rows.filter((r) => (!asked.state || r.state === asked.state) && (!asked.ready || r.ready === asked.ready) && (!asked.from || r.from === asked.from)
      && (!asked.namespace || r.namespace === asked.namespace) && (!text || (r.key + " " + r.subscriber).toLowerCase().includes(text))));
    panel.update();
    if (!query().open && view) { view.dispose(); view = viewed = null; }
  }
  container.append(controls, table.element, panel.element);
  const end = feed.listen(show);
  show();
  return () => { end(); view?.dispose(); table.dispose(); panel.dispose(); };
}

function one(container, { kind, namespace, name }, feed) {
  const key = `${kind}/${namespace}/${name}`;
  const view = makeSubscription(key, feed, draw);
  function draw() {
    render(container, heading(name, h("span", { class: "dim" }, `${kind} in ${namespace}`),
      h("a", { class: "push", href: "#/subscriptions" }, "All subscriptions")), view.nodes());
  }
  const end = feed.listen(draw);
  draw();
  return () => { end(); view.dispose(); };
}
