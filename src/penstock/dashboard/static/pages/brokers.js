// Brokers and channels: what takes events. The list, and one with its numbers over time and who reads it.

import { every, KINDS, oneUrl } from "../api.js";
import { bars, begun, chart } from "../charts.js";
import { h, icon, render } from "../dom.js";
import { count, millis, plural, rate, seconds } from "../format.js";
import { href, ofKey, query } from "../route.js";
import { lagOf, stateOf } from "../subscription.js";
import { makeTable } from "../table.js";
import { card, choice, command, copy, empty, facts, fault, heading, ready, search, status, when,
  withCode } from "../widgets.js";

const INGRESS = ["Broker", "KafkaChannel", "KafkaSink"];

export default {
  title: "Brokers and channels",
  match: ["/brokers", "/brokers/:kind/:namespace/:name"],
  render: (container, params, feed) => (params.name ? one(container, params, feed) : list(container, feed)),
};

const tail = (row) => { location.hash = href("/events", { of: row.key, tail: "1" }); };

function list(container, feed) {
  const table = makeTable({
    name: "brokers", label: "Brokers and channels", sort: "-in/s", key: (row) => row.key,
      href: (row) => ofKey("/brokers", row.key),
    open: (row) => { location.hash = ofKey("/brokers", row.key); }, keys: { t: tail },
    columns: [
      { title: "Name", cell: (r) => r.name, sort: (r) => r.name },
      { title: "Kind", cell: (r) => r.kind, sort: (r) => r.kind, minor: true },
      { title: "Ready", cell: (r) => ready(r.ready, r.reason), sort: (r) => r.ready },
      { title: "Address", cell: (r) => r.address || "–", minor: true, class: "wide dim" },
      { title: "Partitions", cell: (r) => count(r.partitions), sort: (r) => r.partitions, number: true, minor: true },
      { title: "Readers", hint: "subscriptions that read it", cell: (r) => count(r.subscriptions),
        sort: (r) => r.subscriptions, number: true },
      { title: "In/s", cell: (r) => rate(r.in_per_second), sort: (r) => r.in_per_second, number: true },
      { title: "Rejected/s", cell: (r) => rate(r.rejected_per_second), sort: (r) => r.rejected_per_second,
        number: true, minor: true },
      { title: "p95", hint: "from request to answer", cell: (r) => millis(r.p95_ms), sort: (r) => r.p95_ms,
        number: true },
    ],
    empty: () => !feed.isReady ? empty(feed.isLost ? "No updates." : "Waiting for the controller …") : feed.state.ingresses.length
      ? empty("Nothing fits the filters.", h("p", {}, `Without them there are ${feed.state.ingresses.length}.`))
      : empty("There is no broker, channel or sink yet.", h("p", {},
        withCode("`penstock apply -f docs/first-event.yaml` makes a first one."))),
  });
  function show() {
    const asked = query(), text = (asked.q || "").toLowerCase();
    table.update((feed.state?.ingresses || []).filter((r) => (!asked.kind || r.kind === asked.kind) && (!asked.ready || r.ready === asked.ready) && (!text || (r.key + " " + r.address).toLowerCase().includes(text))));
  }
  container.append(heading("Brokers and channels",
    search("q", { label: "Search by name or address", onchange: show }),
    choice("kind", { label: "Kind", options: [["", "all"], ...INGRESS.map((kind) => [kind, kind])], onchange: show }),
    choice("ready", { label: "Ready", options: [["", "any"], ["True", "ready"], ["False", "not ready"],
      ["Unknown", "unknown"]], onchange: show })), table.element);
  const end = feed.listen(show);
  show();
  return () => { end(); table.dispose(); };
}

function one(container, { kind, namespace, name }, feed) {
  const key = `${kind}/${namespace}/${name}`;
  let history = null, resource = null, problem = null;
  const stops = !INGRESS.includes(kind) ? [] : [
    every(4, `api/penstock/history?of=${encodeURIComponent(key)}&minutes=15`,
      (found) => { history = begun(found); draw(); }),
    every(5, oneUrl(kind, namespace, name), (found) => { resource = found; problem = null; draw(); },
      (error) => { problem = error; draw(); }),
  ];
  const readers = makeTable({
    name: "readers", label: "Subscriptions that read it", sort: "-oldest", key: (row) => row.key,
      href: (row) => ofKey("/subscriptions", row.key),
    open: (row) => { location.hash = ofKey("/subscriptions", row.key); }, keys: { t: () => tail({ key }) },
    columns: [
      { title: "Name", cell: (r) => r.name, sort: (r) => r.name },
      { title: "Ready", cell: (r) => ready(r.ready, r.reason), sort: (r) => r.ready, minor: true },
      { title: "Delivering", cell: stateOf, sort: (r) => r.state },
      { title: "Subscriber", cell: (r) => r.subscriber || "–", class: "wide dim", minor: true },
      { title: "Oldest", cell: (r) => seconds(r.oldest_waiting_seconds), sort: (r) => r.oldest_waiting_seconds,
        number: true },
      { title: "Lag", cell: lagOf, sort: (r) => r.lag, number: true },
      { title: "Delivered/s", cell: (r) => rate(r.delivered_per_second), sort: (r) => r.delivered_per_second,
        number: true },
      { title: "p95", cell: (r) => millis(r.p95_ms), sort: (r) => r.p95_ms, number: true, minor: true },
    ],
    empty: () => empty("Nobody reads it: events are kept, and delivered to nobody."),
  });
  const above = h("div", { class: "detail" }), below = h("div", { class: "detail" });

  function draw() {
    const row = feed.ingress(key);
    const title = heading(name, h("span", { class: "dim" }, `${kind} in ${namespace}`),
      h("a", { class: "push", href: "#/brokers" }, "All brokers and channels"));
    if (!KINDS[kind] || !INGRESS.includes(kind)) return render(above, title,
      fault({ message: `${kind} takes no events`, hint: `${INGRESS.join(", ")} do` }));
    if (problem?.status === 404) { readers.element.remove(); return render(above, title, fault(problem)); }
    render(above, title, problem ? fault(problem) : null, row ? [facing(row), charts()] : h("p", { class: "dim" },
      feed.state ? "Nothing is known of it yet." : "Waiting for numbers …"), h("h2", {}, "Who reads it"));
    readers.update((feed.state?.subscriptions || []).filter((each) => each.from === key));
    render(below, row ? rejections(row) : null, conditions());
  }

  const facing = (row) => h("div", { class: "card" },
    facts([["Ready", ready(row.ready, row.reason)],
      ["Address", row.address ? h("span", {}, h("code", {}, row.address), copy(row.address)) : "–"],
      ["Topic", h("a", { href: href("/topics", { open: row.place || row.topic }) }, row.topic)],
      ["Partitions", count(row.partitions)],
        ["In", h("span", { class: "live-number" }, rate(row.in_per_second) + " /s")],
        ["Accepted", h("span", { class: "live-number" }, count(row.accepted_total))],
        ["p95 to the answer", millis(row.p95_ms)]]),
    row.reason && row.ready !== "True" ? h("p", { class: "bad-text" }, row.reason) : null,
    row.address ? command(`curl -i ${row.address} -H 'ce-specversion: 1.0' -H 'ce-id: 1' -H 'ce-source: /me' -H 'ce-type: test' -H 'content-type: application/json' -d '{}'`) : null,
    h("div", { class: "filters" }, h("a", { class: "button main", href: href("/events", { of: key }) },
      icon("events"), "Events"), h("a", { class: "button", href: href("/events", { of: key, tail: "1" }) }, "Tail"),
      h("a", { class: "button", href: href("/subscriptions", { from: key }) }, plural(row.subscriptions,
        "subscription")), h("a", { class: "button", href: href("/resources", { open: key }) }, "YAML")));

  function charts() {
    if (!history) return null;
    const { times, series } = history;
    return h("div", { class: "two" },
      h("div", { class: "card" },
        chart({ label: "In per second", times, format: rate, top: 1, height: 120,
        series: [{ name: "accepted", values: series.in, tone: "accent", area: true }] })),
      h("div", { class: "card" },
        chart({ label: "From request to answer", times, format: millis, top: 1, height: 120,
        series: [{ name: "p50", values: series.p50_ms, tone: "calm" }, { name: "p95", values: series.p95_ms,
        tone: "accent" }, { name: "p99", values: series.p99_ms, tone: "warn" }] })));
  }

  const rejections = (row) => {
    const found = Object.entries(row.rejected_total || {}).filter(([, n]) => n);
    return found.length ? card("Rejected", bars(found.map(([why, value]) => ({ name: why, value, tone: "bad" })),
      { label: "Rejected by reason", format: count })) : null;
  };

  const conditions = () => resource?.status?.conditions ? card("Conditions", h("ul", { class: "conditions" },
    resource.status.conditions.map((c) => h("li", {},
    status(c.status), h("strong", {}, c.type), h("span", {}, c.message || c.reason || ""), h("span", { class: "dim" },
      when(c.lastTransitionTime)))))) : null;

  container.append(above, readers.element, below);
  const end = feed.listen(draw);
  draw();
  return () => { end(); for (const stop of stops) stop(); readers.dispose(); };
}
