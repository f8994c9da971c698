// Resources: every kind with what it says of itself, one as YAML with its conditions in a drawer.

import { get, KINDS, listUrl } from "../api.js";
import { h, render } from "../dom.js";
import { makeTable } from "../table.js";
import { choice, copy, drawer, empty, fault, heading, ready, search, section, status, when } from "../widgets.js";
import { query } from "../route.js";
import { toYaml } from "../yaml.js";

const keyOf = (each) => `${each.kind}/${each.metadata.namespace}/${each.metadata.name}`;
const conditions = (each) => each.status?.conditions || [];
const readyOf = (each) => conditions(each).find((c) => c.type === "Ready");
const hasStatus = (each) => !["Service", "ConfigMap", "Secret"].includes(each.kind);

export default {
  title: "Resources",
  match: "/resources",
  render(container) {
    let items = [], problem = null, loaded = false;
    const host = h("div", {});
    const panel = drawer("open", draw);
    const table = makeTable({
      name: "resources", label: "Resources", sort: "name", key: keyOf, open: (row) => panel.open(keyOf(row)),
      columns: [
        { title: "Name", cell: (r) => r.metadata.name, sort: (r) => r.metadata.name, class: "name" },
        { title: "Kind", cell: (r) => r.kind, sort: (r) => r.kind },
        { title: "Namespace", cell: (r) => r.metadata.namespace, sort: (r) => r.metadata.namespace, minor: true },
        { title: "Ready", cell: (r) => (hasStatus(r) ? ready(readyOf(r)?.status) : "–"),
          sort: (r) => readyOf(r)?.status || "" },
        { title: "Why", cell: (r) => readyOf(r)?.message || readyOf(r)?.reason || "", class: "wide dim" },
        { title: "Generation", cell: (r) => r.metadata.generation ?? 1, number: true, minor: true },
        { title: "Created", cell: (r) => when(r.metadata.creationTimestamp),
          sort: (r) => r.metadata.creationTimestamp || "", minor: true },
      ],
      empty: () => !loaded ? empty("Loading …") : query().q || query().kind
        ? empty("Nothing fits the filter.",
          h("p", {}, `Without it there are ${items.length}.`)) : empty("Nothing was applied yet.", h("p", {},
          h("code", {}, "penstock apply -f FILE"))),
    });

    function draw(key) {
      const found = items.find((each) => keyOf(each) === key);
      if (!found) return { title: key, nodes: loaded ? h("p", {}, "It does not exist (any more).") : h("p", {},
        "Loading …") };
      const yaml = toYaml(found);
      const rows = conditions(found);
      return {
        title: key,
        nodes: [
          rows.length ? section("Conditions", h("ul", { class: "conditions" }, rows.map((c) => h("li", {},
            status(c.status === "True" ? "True" : c.status === "False" ? "False" : "Unknown"), h("strong", {},
              c.type), h("span", {}, c.message || c.reason || ""), h("span", { class: "dim" },
              when(c.lastTransitionTime)))))) : null,
          section(["YAML ", copy(() => yaml, "Copy YAML")], h("pre", { class: "code", tabindex: "0" }, yaml)),
        ],
      };
    }

    function show() {
      const asked = query(), text = (asked.q || "").toLowerCase();
      table.update(items.filter((r) => (!asked.kind || r.kind === asked.kind) && (!text || keyOf(r).toLowerCase().includes(text))));
      render(host, problem ? fault(problem) : null);
      panel.update();
    }

    const stop = new AbortController();
    async function load() {
      try {
        const lists = await Promise.all(Object.keys(KINDS).map((kind) => get(listUrl(kind), stop.signal)));
        items = lists.flatMap((list) => list.items);
        problem = null;
        loaded = true;
      } catch (error) {
        if (stop.signal.aborted) return;
        problem = error;
      }
      show();
    }
    container.append(
      heading("Resources", search("q", { label: "Search by name", onchange: show }),
        choice("kind", { label: "Kind", options: [["", "all"], ...Object.keys(KINDS).map((kind) => [kind, kind])],
          onchange: show })),
      host, table.element, panel.element);
    show();
    load();
    const timer = setInterval(() => { if (!document.hidden) load(); }, 3000);
    return () => { stop.abort(); clearInterval(timer); table.dispose(); panel.dispose(); };
  },
};
