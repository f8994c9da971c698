// Topics: partitions and groups, as Kafka has them.

import { every } from "../api.js";
import { h, render } from "../dom.js";
import { bytes, count, seconds } from "../format.js";
import { ofKey, query } from "../route.js";
import { makeTable } from "../table.js";
import { drawer, empty, facts, fault, heading, search, section, status } from "../widgets.js";

const sum = (list, of) => list.reduce((all, each) => all + (of(each) || 0), 0);
const ill = (topic) => topic.partitions.filter((p) => p.leader === null || p.leader < 0 || p.in_sync.length < p.replicas.length);
const lagOf = (group) => sum(group.positions, (p) => p.lag);

export default {
  title: "Topics",
  match: "/topics",
  render(container) {
    let topics = null, problem = null;
    const host = h("div", { class: "contents" });
    const panel = drawer("open", draw);
    const table = makeTable({
      name: "topics", label: "Topics", sort: "topic", key: (t) => t.place, open: (t) => panel.open(t.place),
      columns: [
        { title: "Topic", cell: (t) => t.place, sort: (t) => t.place, class: "name long" },
        { title: "Health", cell: (t) => (ill(t).length ? status(`${ill(t).length} ill`, { tone: "bad",
          title: "partitions without a leader, or with copies that are behind" }) : status("well", { tone: "good" })),
          sort: (t) => -ill(t).length },
        { title: "Partitions", cell: (t) => count(t.partitions.length), sort: (t) => t.partitions.length,
          number: true, minor: true },
        { title: "Events", cell: (t) => count(sum(t.partitions, (p) => p.end - p.begin)),
          sort: (t) => sum(t.partitions, (p) => p.end - p.begin), number: true },
        { title: "Size", cell: (t) => bytes(t.bytes), sort: (t) => t.bytes, number: true, minor: true },
        { title: "Kept for", cell: (t) => (t.retention_ms === null || t.retention_ms < 0 ? "ever" : seconds(t.retention_ms / 1000)), sort: (t) => t.retention_ms, number: true, minor: true },
        { title: "Groups", cell: (t) => count(t.groups.length), sort: (t) => t.groups.length, number: true },
        { title: "Largest lag", cell: (t) => count(Math.max(0, ...t.groups.map(lagOf))), sort: (t) => Math.max(0,
          ...t.groups.map(lagOf)), number: true },
      ],
      empty: () => topics === null ? empty(problem ? "Kafka's topics are not known." : "Loading …") : topics.length ? empty("Nothing fits the search.", h("p", {}, `Without it there are ${topics.length}.`)) : empty("No topic is in use yet."),
    });

    function draw(place) {
      const topic = topics?.find((each) => each.place === place);
      if (!topic) return { title: place, nodes: h("p", {}, topics ? "It is not in use (any more)." : "Loading …") };
      return { title: place, nodes: [
        facts([["Kept for", topic.retention_ms === null || topic.retention_ms < 0 ? "ever" : seconds(topic.retention_ms / 1000)], ["Size", bytes(topic.bytes)], ["Groups", count(topic.groups.length)]]),
        section("Partitions", h("div", { class: "card" }, grid("Partitions",
          ["Partition", "Leader", "Copies", "In sync", "Begin", "End", "Events"], topic.partitions.map((p) =>
          [p.partition, p.leader === null || p.leader < 0 ? "none" : p.leader, p.replicas.join(", "),
            p.in_sync.join(", "), count(p.begin), count(p.end), count(p.end - p.begin)])))),
        topic.groups.length ? section("Groups",
          topic.groups.map((group) => h("details", { class: "card", key: group.group },
          h("summary", {}, h("code", {}, group.group), h("b", {}, `lag ${count(lagOf(group))}`)),
          group.subscription ? h("a", { href: ofKey("/subscriptions", group.subscription) },
            group.subscription) : null,
          grid(`Positions of ${group.group}`, ["Partition", "Position", "End", "Lag"],
            group.positions.map((p) => [p.partition, count(p.position), count(p.end), count(p.lag)]))))) : null,
      ] };
    }

    const grid = (label, heads,
      rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: "number" }, head)))),
      h("tbody", {}, rows.map((row) => h("tr", { key: row[0] },
        row.map((cell) => h("td", { class: "number" }, String(cell))))))));

    function show() {
      const text = (query().q || "").toLowerCase();
      render(host, problem ? fault(problem) : null);
      table.update((topics || []).filter((t) => t.place.toLowerCase().includes(text) || t.groups.some((g) => g.group.toLowerCase().includes(text))));
      panel.update();
    }
    container.append(heading("Topics", search("q", { label: "Search by topic or group", onchange: show })), host,
      table.element, panel.element);
    show();
    const stop = every(3, "api/penstock/topics", (found) => { topics = found; problem = null; show(); },
      (error) => { problem = error; show(); });
    return () => { stop(); table.dispose(); panel.dispose(); };
  },
};
