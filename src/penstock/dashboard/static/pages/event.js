// One event: what it is, where it stands, and what became of it at every subscription. Shown in a drawer and as a page.

import { get, lines } from "../api.js";
import { curl, masked, textOf } from "../curl.js";
import { h, icon } from "../dom.js";
import { bytes, clock, count, plural, seconds } from "../format.js";
import { ofKey } from "../route.js";
import { said, timeline } from "../timeline.js";
import { copy, facts, fault, section, status, when } from "../widgets.js";

const ACTIVE = ["PENDING", "IN FLIGHT", "RETRYING", "HELD"];
const AGAIN_SECONDS = 2;

/** `changed()` is called when there is more to show; `nodes()` gives it. */
export function makeEvent({ place, partition, offset }, feed, changed) {
  const stop = new AbortController();
  let event = null, found = null, progress = null, problem = null, explainProblem = null, timer = null;

  const where = new URLSearchParams({ place, partition, offset });
  async function load() {
    try {
      event = await get("api/penstock/event?" + where, stop.signal);
    } catch (error) {
      if (!stop.signal.aborted) { problem = error; changed(); }
      return;
    }
    changed();
    explain();
  }

  async function explain() {
    const asked = new URLSearchParams({ id: event.id, source: event.source, place, partition, offset });
    try {
      await lines("api/penstock/explain?" + asked, { signal: stop.signal, take: (line) => {
        if (line.error) throw Object.assign(new Error(line.error), { hint: line.hint });
        if (line.progress) progress = line.progress;
        if (line.found) found = line.found.find((each) => String(each.partition) === String(partition) && String(each.offset) === String(offset)) || line.found[0];
        changed();
      } });
      explainProblem = null;
    } catch (error) {
      if (stop.signal.aborted) return;
      explainProblem = error;
    }
    progress = null;
    changed();
    if ((found?.subscriptions || []).some((s) => ACTIVE.includes(s.outcome))) timer = setTimeout(explain, AGAIN_SECONDS * 1000);
  }

  function nodes() {
    if (problem) return fault(problem);
    if (!event) return h("p", { class: "dim" }, "Loading …");
    const text = textOf(event.data_base64);
    const pretty = event.data !== null && event.data !== undefined ? JSON.stringify(event.data, null, 2) : text;
    const address = feed.ingress(event.of)?.address;
    const whole = () => JSON.stringify({ ...event.attributes, ...(event.data !== null && event.data !== undefined ? { data: event.data } : event.data_base64 ? { data_base64: event.data_base64 } : {}) }, null, 2);
    return [
      h("div", { class: "filters" },
        copy(() => curl(address || "http://127.0.0.1:8080/" + (event.of || "").split("/").slice(1).join("/"), event.attributes, event.data_base64), "Copy as curl"),
        copy(whole, "Copy as JSON"), copy(event.id, "Copy id")),
      facts([
        ["Type", event.type], ["Source", event.source], ["Subject", event.subject], ["Received", when(event.received)],
        ["At", event.of ? h("a", { href: ofKey("/brokers", event.of) }, event.of) : event.topic],
        ["Partition and offset", `${event.partition} · ${count(event.offset)}`], ["Size", bytes(event.size)],
      ]),
      verdicts(),
      section("Attributes", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attributes" }, h("table", { class: "attributes" }, h("tbody", {},
        Object.entries(event.attributes).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, String(value)))))))),
      section(["Data ", h("span", { class: "dim" }, event.datacontenttype || "")], pretty ? h("pre", { class: "code data", tabindex: "0" }, pretty)
        : h("p", { class: "dim" }, event.data_base64 ? `${bytes(event.size)} that are no text` : "none")),
    ];
  }

  function verdicts() {
    const head = (...more) => section("What became of it", more);
    const looking = progress ? h("p", { class: "dim" }, `Looking at deliveries: ${count(progress.scanned)} of ${count(progress.of)}, ${seconds(progress.seconds)}`) : null;
    if (!found) return head(explainProblem ? fault(explainProblem) : looking || h("p", { class: "dim" }, "Asking each subscription's filter and the log of deliveries …"));
    const rows = [...found.subscriptions].sort((a, b) => Number(b.matched) - Number(a.matched) || a.key.localeCompare(b.key));
    const matched = rows.filter((s) => s.matched).length;
    return head(h("p", { class: "dim" }, rows.length ? `${matched} of ${plural(rows.length, "subscription")} wanted it.` : "Nobody has subscribed here.", looking), explainProblem ? fault(explainProblem) : null,
      (found.notes || []).map((note) => h("p", { class: "warning" }, icon("warn"), h("span", {}, note))),
      h("ul", { class: "verdicts" }, rows.map(verdict)));
  }

  function verdict(s) {
    const subscriber = masked(feed.subscription(s.key)?.subscriber);
    const failures = s.attempts.filter((a) => a.ended !== "delivered");
    const last = failures[failures.length - 1];
    const placed = { ...event.attributes, knativekafkapartition: String(event.partition), knativekafkaoffset: String(event.offset) };
    return h("li", { class: "verdict", "data-key": s.key, "data-outcome": s.outcome, key: s.key },
      h("div", { class: "who" }, status(s.outcome), h("a", { href: ofKey("/subscriptions", s.key) }, s.name), h("span", { class: "dim" }, s.kind),
        s.matched && subscriber ? [h("code", { class: "dim" }, subscriber), copy(() => curl(subscriber, placed, event.data_base64), "curl")] : null),
      s.because ? h("p", { class: s.matched ? "dim" : "because" }, s.because) : null,
      s.matched ? timeline(s.attempts, s.next_try, s.max_attempts) : null,
      s.attempts.length ? h("p", { class: "dim" }, `${s.attempts.length}${s.max_attempts ? " of at most " + s.max_attempts : ""} attempt${s.attempts.length === 1 ? "" : "s"}, the first at ${clock(s.attempts[0].time)}`,
        last ? `; the last failure: ${last.error || said(last)}` : "", s.next_try ? `; next at ${clock(s.next_try)}` : "") : null,
      (s.notes || []).map((note) => h("p", { class: "dim" }, note)),
      s.dead_letter ? h("p", {}, h("a", { href: "#/deadletters?open=" + encodeURIComponent(`${s.uid}/${event.partition}/${event.offset}`) }, "Its dead letter")) : null);
  }

  load();
  return { nodes, title: () => event?.id || `partition ${partition}, offset ${offset}`, dispose() { stop.abort(); clearTimeout(timer); } };
}
