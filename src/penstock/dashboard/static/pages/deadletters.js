// Dead letters: groups that failed in the same way first, then rows. Sending them again is a job; one alone can be undone.

import { every, get, post } from "../api.js";
import { h, icon, render } from "../dom.js";
import { count, plural, seconds } from "../format.js";
import { href, ofKey, query, setQuery } from "../route.js";
import { makeTable } from "../table.js";
import { ask, choice, copy, drawer, empty, facts, failed, fault, heading, search, section, status, toast, when } from "../widgets.js";

const UNDO_SECONDS = 5;
const errorOf = (row) => (row.code && (row.code < 200 || row.code > 299) ? `answered ${row.code}` : row.reason);
const short = (key) => key.split("/").slice(1).join("/").replace(/^default\//, "");

export default {
  title: "Dead letters",
  match: "/deadletters",
  render(container) {
    let groups = null, rows = null, isMore = false, problem = null;
    const leaving = new Map(); // letters that are about to be sent, by key: the job that can be undone
    const texts = h("div", {}), rowsTitle = h("div", { class: "rows-title" });
    const panel = drawer("open", detail);

    const groupTable = makeTable({
      name: "groups", label: "Groups of dead letters", sortName: "groups", sort: "-count", key: (g) => g.group,
      open: (g) => { setQuery({ group: query().group === g.group ? "" : g.group }); again(); },
      keys: { r: (g) => redriveGroup(g) }, acts: { redrive: (g) => redriveGroup(g) },
      rowClass: (g) => (query().group === g.group ? "selected" : ""),
      columns: [
        { title: "Subscription", cell: (g) => h("a", { href: ofKey("/subscriptions", g.key) }, short(g.key)), sort: (g) => g.key, class: "name" },
        { title: "Error", cell: (g) => status(g.reason_kind, { tone: "bad" }), sort: (g) => g.reason_kind },
        { title: "Count", cell: (g) => count(g.count), sort: (g) => g.count, number: true },
        { title: "First", cell: (g) => when(g.first), sort: (g) => g.first, minor: true },
        { title: "Last", cell: (g) => when(g.last), sort: (g) => g.last, minor: true },
        { title: "Now", minor: true, cell: (g) => (!g.subscribed ? status("gone", { title: "its subscription is no more: they cannot be sent" }) : g.still_failing ? status("still failing", { tone: "warn", title: "its subscriber failed a moment ago" }) : h("span", { class: "dim" }, "–")) },
        { title: "Sample", cell: (g) => [g.sample.reason, g.sample.body].filter(Boolean).join(" · "), class: "wide dim", minor: true },
        { title: "", cell: (g) => h("button", { type: "button", "data-act": "redrive", disabled: !g.subscribed, "aria-label": `Redrive ${plural(g.count, "letter")} of ${g.key}, ${g.reason_kind}` }, icon("retry"), `Redrive ${count(g.count)}`), class: "act" },
      ],
      empty: () => groups === null ? empty("Loading …") : query().q || query().of
        ? empty("No group fits the filter.", h("button", { type: "button", onclick: clear }, "Show all"))
        : empty("There are no dead letters.", h("p", {}, "What no subscriber takes after all its retries shows up here, with the reason.")),
    });

    const rowTable = makeTable({
      name: "letters", label: "Dead letters", sort: "-failed", key: (r) => r.key, open: (r) => panel.open(r.key),
      keys: { r: (r) => redriveOne(r) }, acts: { redrive: (r) => redriveOne(r), undo: (r) => undo(r.key) },
      rowClass: (r) => (leaving.has(r.key) ? "leaving" : ""),
      columns: [
        { title: "Event", cell: (r) => r.id, sort: (r) => r.id, class: "name" },
        { title: "Type", cell: (r) => r.type, sort: (r) => r.type },
        { title: "Subscription", cell: (r) => short(r.of), sort: (r) => r.subscription, minor: true },
        { title: "Error", cell: errorOf, sort: errorOf },
        { title: "Attempts", cell: (r) => r.attempts, number: true, minor: true },
        { title: "Outcome", cell: (r) => r.outcome, minor: true },
        { title: "Failed", cell: (r) => when(r.time), sort: (r) => r.time },
        { title: "", class: "act", cell: (r) => isLost(r) ? "" : leaving.has(r.key) ? h("button", { type: "button", "data-act": "undo" }, "Undo")
          : h("button", { type: "button", "data-act": "redrive", "aria-label": `Redrive ${r.id}` }, "Redrive") },
      ],
      empty: () => rows === null ? empty("Loading …") : empty("No dead letter fits.", query().group ? h("button", { type: "button", onclick: clear }, "Show those of all groups") : null),
    });

    const isLost = (row) => (groups || []).some((g) => g.group === row.group && !g.subscribed);
    function clear() { location.hash = href("/deadletters"); }

    function fitsText(...words) {
      const text = (query().q || "").toLowerCase();
      return !text || words.some((word) => String(word).toLowerCase().includes(text));
    }

    function show() {
      const asked = query();
      const chosen = (groups || []).filter((g) => (!asked.of || g.key === asked.of));
      groupTable.update(chosen.filter((g) => fitsText(g.key, g.reason_kind, g.sample.reason, g.sample.body)));
      const letters = (rows || []).filter((r) => fitsText(r.id, r.type, r.source, r.subscription, r.reason, r.answer));
      rowTable.update(letters);
      const group = chosen.find((g) => g.group === asked.group);
      const note = isMore ? ` The newest ${count((rows || []).length)} are shown.` : "";
      render(rowsTitle, h("h2", {}, group ? `${plural(group.count, "letter")}: ${short(group.key)}, ${group.reason_kind}` : "All dead letters"), h("span", { class: "dim" }, note),
        asked.group ? h("button", { type: "button", class: "small", onclick: clear }, "Show all") : null);
      render(texts, problem ? fault(problem) : null);
      panel.update();
    }

    const groupsUrl = () => "api/penstock/deadletters/groups";
    const rowsUrl = () => {
      const asked = query(), [kind, namespace, name] = (asked.of || "").split("/");
      return "api/penstock/deadletters?" + new URLSearchParams(Object.entries({ group: asked.group, kind, namespace, name }).filter(([, v]) => v));
    };
    let stops = [];
    function again() {
      for (const stop of stops) stop();
      const wrong = (error) => { problem = error; show(); };
      stops = [
        every(2, groupsUrl, (found) => { groups = found; problem = null; show(); }, wrong),
        every(2, rowsUrl, (found) => { rows = found.items; isMore = found.more; refresh(query().open); show(); }, wrong),
      ];
      show();
    }

    // ── sending again ──

    async function redriveOne(row) {
      if (leaving.has(row.key)) return;
      if (isLost(row)) return void toast("Its subscription is no more: it cannot be sent", { tone: "bad" });
      try {
        const job = await post("api/penstock/jobs", { kind: "redrive", keys: [row.key], delaySeconds: UNDO_SECONDS });
        const close = toast(`${row.id} is sent again in ${UNDO_SECONDS} s`, { undo: () => undo(row.key), seconds: UNDO_SECONDS });
        leaving.set(row.key, { id: job.id, close });
        setTimeout(() => { leaving.delete(row.key); again(); }, UNDO_SECONDS * 1000 + 700);
        show();
      } catch (error) { failed(error); }
    }

    async function undo(key) {
      const job = leaving.get(key);
      if (!job) return;
      job.close();
      try {
        const ended = await post(`api/penstock/jobs/${job.id}/cancel`, {});
        toast(ended.sent ? "It was too late: it is sent" : "Undone: nothing was sent");
      } catch (error) { failed(error); }
      leaving.delete(key);
      show();
    }

    const redriveGroup = (group) => redriveMany({ group: group.group }, `Redrive ${short(group.key)}, ${group.reason_kind}?`);
    const redriveSince = (row) => redriveMany({ of: row.of, since: row.time }, `Redrive all of ${short(row.of)} since ${row.id}?`);

    async function redriveMany(chosen, title) {
      try {
        const { plan } = await post("api/penstock/jobs", { kind: "redrive", ...chosen, dryRun: true });
        if (!plan.count) return void toast(plan.warning, { tone: "bad", seconds: 6 });
        const pace = h("input", { type: "number", min: "0", step: "1", value: String(plan.rate ?? 0), "aria-label": "Events per second" });
        const body = [
          plan.warning ? h("p", { class: "warning" }, icon("warn"), h("span", {}, plan.warning)) : null,
          facts([
            ["Count", plural(plan.count, "event")],
            ["Target", plan.target.map((t) => h("div", {}, h("strong", {}, short(t.key)), " at ", h("code", {}, t.subscriber || "nobody")))],
            ["Failed between", [when(plan.first), " and ", when(plan.last)]],
            ["Rate", h("span", { class: "field" }, pace, "events a second (0: no limit)")],
            ["Takes about", plan.seconds === null ? null : seconds(Math.max(plan.seconds, 0.1))],
          ]),
        ];
        if (!(await ask({ title, body, yes: `Redrive ${count(plan.count)}` }))) return;
        const job = await post("api/penstock/jobs", { kind: "redrive", ...chosen, rate: Number(pace.value) });
        toast([`Sending ${plural(plan.count, "event")} again. `, h("a", { href: href("/jobs", { open: job.id }) }, "Watch it")], { seconds: 8 });
        again();
      } catch (error) { failed(error); }
    }

    // ── one letter ──

    const details = new Map();
    function detail(key) {
      const row = (rows || []).find((each) => each.key === key) || details.get(key)?.row;
      if (!details.has(key)) load(key);
      const found = details.get(key);
      if (!row) return { title: "Dead letter", nodes: found?.error ? fault(found.error) : h("p", {}, rows === null || found?.loading ? "Loading …" : "It was sent again, or retention has taken it.") };
      const event = found?.row?.event, text = event ? JSON.stringify(event, null, 2) : "";
      return {
        title: row.id,
        nodes: [
          h("div", { class: "filters" },
            row.redriven ? status("sent again", { tone: "good" }) : h("button", { type: "button", class: "main", onclick: () => redriveOne(row) }, icon("retry"), "Redrive"),
            row.redriven ? null : h("button", { type: "button", onclick: () => redriveSince(row) }, "Redrive all since this one"),
            h("a", { class: "button", href: href(`/events/${encodeURIComponent(row.place)}/${row.partition}/${row.offset}`) }, "What happened to it"),
            copy(row.id, "Copy id")),
          section("Failure", facts([
            ["Error", status(errorOf(row), { tone: "bad" })], ["Reason", row.reason], ["Attempts", row.attempts], ["Outcome", row.outcome], ["When", when(row.time)],
            ["Subscription", h("a", { href: ofKey("/subscriptions", row.of) }, row.of)],
            ["Topic", `${row.topic}, partition ${row.partition}, offset ${row.offset}`], ["Sent again", row.redriven ? when(row.redriven) : null],
          ]), row.answer ? [h("h3", {}, "Answer"), h("pre", { class: "code", tabindex: "0" }, row.answer)] : null),
          section(["Event ", text ? copy(() => text, "Copy JSON") : null], text ? h("pre", { class: "code", tabindex: "0" }, text) : h("p", { class: "dim" }, found?.error ? found.error.message : "Loading …")),
        ],
      };
    }

    /** One that is open and not among the others any more was sent again. */
    function refresh(key) {
      const known = details.get(key)?.row;
      if (known && !known.redriven && !rows.some((each) => each.key === key)) load(key);
    }

    async function load(key) {
      const row = details.get(key)?.row;
      details.clear(); // one at a time is enough
      details.set(key, { loading: true, row });
      try {
        const found = await get("api/penstock/deadletters?" + new URLSearchParams({ keys: key, event: "1", redriven: "1" }));
        details.set(key, { row: found.items[0] });
      } catch (error) { details.set(key, { error }); }
      show();
    }

    const ofs = h("span", {});
    container.append(heading("Dead letters", search("q", { label: "Search by id, type, reason", onchange: show }), ofs), texts, groupTable.element, rowsTitle, rowTable.element, panel.element);
    get("api/penstock/deadletters/groups").then((found) => {
      const keys = [...new Set(found.map((g) => g.key))].sort();
      render(ofs, choice("of", { label: "Subscription", options: [["", "all"], ...keys.map((key) => [key, short(key)])], onchange: again }));
    }).catch(() => {});
    again();
    return () => { for (const stop of stops) stop(); groupTable.dispose(); rowTable.dispose(); panel.dispose(); };
  },
};
