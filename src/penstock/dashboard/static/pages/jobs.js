// Jobs: work in the background, how far it is, and its end.

import { every, post } from "../api.js";
import { h, render } from "../dom.js";
import { clock, count, rate } from "../format.js";
import { ofKey } from "../route.js";
import { makeTable } from "../table.js";
import { ask, copy, drawer, empty, facts, failed, fault, heading, section, status, when } from "../widgets.js";

const TONES = { waiting: "busy", running: "busy", done: "good", cancelled: "calm", failed: "bad" };
const isActive = (job) => job.state === "waiting" || job.state === "running";
const targets = (job) => job.plan.target.map((t) => t.key.split("/").slice(1).join("/").replace(/^default\//, "")).join(", ");

function bar(job) {
  const done = job.sent + job.passed_by, all = job.plan.count;
  return h("span", { class: "progress" }, h("progress", { max: String(Math.max(all, 1)), value: String(done), "aria-label": `${done} of ${all}` }), h("span", {}, `${count(job.sent)} of ${count(all)}`));
}

export default {
  title: "Jobs",
  match: "/jobs",
  render(container) {
    let jobs = null, problem = null;
    const host = h("div", {});
    const panel = drawer("open", detail);
    const table = makeTable({
      name: "jobs", label: "Jobs", sort: "-created", key: (job) => job.id, open: (job) => panel.open(job.id),
      acts: { cancel: (job) => cancel(job) },
      columns: [
        { title: "Job", cell: (job) => job.id, class: "name" },
        { title: "State", cell: (job) => status(job.state, { tone: TONES[job.state], title: job.error || undefined }), sort: (job) => job.state },
        { title: "What", cell: (job) => `redrive to ${targets(job) || "nobody"}`, sort: targets },
        { title: "Progress", cell: bar },
        { title: "Reached", cell: (job) => (job.event_time ? clock(job.event_time) : "–"), hint: "the time at which the last one had failed", minor: true },
        { title: "Rate", cell: (job) => (job.plan.rate ? rate(job.plan.rate) + "/s" : "no limit"), number: true, minor: true },
        { title: "Created", cell: (job) => when(job.created), sort: (job) => job.created, minor: true },
        { title: "", class: "act", cell: (job) => (isActive(job) ? h("button", { type: "button", "data-act": "cancel", "aria-label": "Cancel " + job.id }, "Cancel") : "") },
      ],
      empty: () => jobs === null ? empty("Loading …") : empty("There are no jobs.", h("p", {}, "Sending ", h("a", { href: "#/deadletters" }, "dead letters"), " again starts one. The list begins anew when the controller does; what was sent stays marked.")),
    });

    async function cancel(job) {
      if (job.state === "running" && !(await ask({ title: `Cancel job ${job.id}?`, body: h("p", {}, `${count(job.sent)} of ${count(job.plan.count)} are sent and stay sent. The others stay dead letters.`), yes: "Cancel the job", danger: true }))) return;
      try { await post(`api/penstock/jobs/${job.id}/cancel`, {}); again(); } catch (error) { failed(error); }
    }

    function detail(id) {
      const job = (jobs || []).find((each) => each.id === id);
      if (!job) return { title: "Job " + id, nodes: h("p", {}, jobs === null ? "Loading …" : "There is no such job. A restart of the controller ends jobs; what was sent stays marked, so the same can be started again.") };
      return {
        title: "Job " + job.id,
        nodes: [
          h("div", { class: "filters" }, status(job.state, { tone: TONES[job.state] }), bar(job), isActive(job) ? h("button", { type: "button", onclick: () => cancel(job) }, "Cancel") : null, copy(() => JSON.stringify(job, null, 2), "Copy JSON")),
          job.error ? fault({ cause: job.error, remedy: "Start the same again: what was sent is marked." }) : null,
          section("Plan", facts([
            ["Count", count(job.plan.count)], ["Rate", job.plan.rate ? rate(job.plan.rate) + " a second" : "no limit"],
            ["Failed between", job.plan.first ? [when(job.plan.first), " and ", when(job.plan.last)] : null], ["Warning", job.plan.warning],
          ])),
          section("Targets", h("ul", {}, job.plan.target.map((t) => h("li", {}, h("a", { href: ofKey("/subscriptions", t.key) }, t.key), ` ${count(t.count)} to `, h("code", {}, t.subscriber || "nobody"))))),
          section("Run", facts([["Created", when(job.created)], ["Started", job.started ? when(job.started) : null], ["Starts", job.started ? null : when(job.starts)], ["Reached, as event time", job.event_time ? when(job.event_time) : null],
            ["Sent by others meanwhile", job.passed_by || null], ["Ended", job.ended ? when(job.ended) : null]])),
          job.problems.length ? section("Not sent", h("ul", {}, job.problems.map((p) => h("li", {}, h("code", {}, p.id), " ", p.message)))) : null,
        ],
      };
    }

    function show() {
      table.update(jobs || []);
      render(host, problem ? fault(problem) : null);
      panel.update();
    }
    let stop = () => {};
    function again() {
      stop();
      stop = every(1, "api/penstock/jobs", (found) => { jobs = found; problem = null; show(); }, (error) => { problem = error; show(); });
    }
    container.append(heading("Jobs"), host, table.element, panel.element);
    show();
    again();
    return () => { stop(); table.dispose(); panel.dispose(); };
  },
};
