// The frame around the pages: navigation, routes, theme, keys, and the banner when the feed is lost or a part is away.
//
// A page is a module in pages/ with `export default {title, match, render(container, params, feed) → dispose}`; `match` is
// a pattern or a list of them ("/subscriptions/:kind/:namespace/:name"), `params` holds what they name and `query`.
// It stands in PAGES below with the first part of its paths.

import { bind } from "./keys.js";
import { h, icon, render } from "./dom.js";
import { makeFeed } from "./feed.js";
import { plural } from "./format.js";
import { fits, href, path, query } from "./route.js";
import { command, fault, heading, withCode } from "./widgets.js";

const PAGES = [
  ["", "Overview", "overview"],
  ["map", "Map", "map"],
  ["brokers", "Brokers and channels", "brokers"],
  ["subscriptions", "Subscriptions", "subscriptions"],
  ["events", "Events", "events"],
  ["deadletters", "Dead letters", "dead"],
  ["jobs", "Jobs", "jobs"],
  ["topics", "Topics", "topics"],
  ["resources", "Resources", "resources"],
  ["playground", "Filter playground", "playground"],
];
const HELP = [
  ["/", "search on this page"], ["j  k", "next and previous row"], ["Enter", "open the row"],
    ["p", "pause or resume the subscription"],
  ["r", "redrive the dead letter or the group"], ["t", "tail the broker or channel"],
    ["Esc", "close, or let go of the row"], ["?", "these keys"],
];

const feed = makeFeed();
const [top, nav, main, view, banner] = ["top", "nav", "main", "view",
  "banner"].map((id) => document.getElementById(id));
let dispose = null, shownPath = null, turn = 0, isSignedOut = false;

const first = () => path().split("/")[1] || "";

async function show() {
  const mine = ++turn;
  const at = path();
  document.body.classList.remove("menu");
  try { dispose?.(); } catch (error) { console.error(error); }
  dispose = null;
  drawFrame();
  if (isSignedOut) return signedOut();
  const known = PAGES.find(([base]) => base === first());
  if (!known) return lost("There is no such page", h("p", {}, h("code", {}, "#" + at),
    " is not an address of this dashboard."));
  let page;
  try {
    page = (await import(`./pages/${known[0] || "overview"}.js`)).default;
  } catch (error) {
    if (mine === turn) failedToLoad(known[1], error);
    return;
  }
  if (mine !== turn) return; // somebody went on meanwhile
  const params = [page.match].flat().map((pattern) => fits(pattern, at)).find(Boolean);
  if (!params) return lost("There is no such page", h("p", {}, h("code", {}, "#" + at), " is not an address of ",
    known[1], "."));
  document.title = `${page.title} · Penstock`;
  const container = h("div", { class: "page page-" + (known[0] || "overview") });
  view.replaceChildren(container);
  if (shownPath !== null && shownPath !== at) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
  shownPath = at;
  try {
    dispose = page.render(container, { ...params, query: query() }, feed);
  } catch (error) {
    console.error(error);
    failedToLoad(known[1], error);
  }
}

function signedOut() {
  document.title = "Sign in · Penstock";
  view.replaceChildren(h("div", { class: "page page-signed-out" }, heading("You are not signed in"),
    h("p", {}, "This browser has no session, or its session has ended: a session lasts for twelve hours, and ends when the controller is started again."),
    h("p", {}, "On the machine where Penstock runs, this command prints a link that signs in this browser:"),
    command("penstock dashboard"),
    h("p", { class: "dim" }, "Open the link here. This page goes on by itself as soon as there is a session.")));
}

/** Shows the sign-in page instead of the present one, and the present one again after signing in. */
function signInChanged() {
  if (isSignedOut === feed.isSignedOut) return;
  isSignedOut = feed.isSignedOut;
  show();
}

function lost(title, ...more) {
  document.title = title + " · Penstock";
  view.replaceChildren(h("div", { class: "page" }, heading(title), more, h("p", {}, "Go to ",
    h("a", { href: "#/" }, "the overview"), ", or choose a page from the menu.")));
}

function failedToLoad(title, error) {
  view.replaceChildren(h("div", { class: "page" }, heading(title),
    fault({ cause: "This page could not be shown: " + error.message, address: location.origin,
      remedy: "Reload when the controller is back; `penstock status` tells what runs." }),
    h("p", {}, h("button", { type: "button", onclick: show }, "Try again"))));
}

function drawFrame() {
  const state = isSignedOut ? null : feed.state, here = first(), totals = state?.totals || {};
  const badges = {
    deadletters: [totals.dead_letters, "bad", plural(totals.dead_letters, "dead letter")],
    subscriptions: [totals.paused, "warn", totals.paused + " paused"],
  };
  render(top,
    h("button", { type: "button", class: "quiet menu", "aria-label": "Menu", "aria-controls": "nav", "aria-expanded": String(document.body.classList.contains("menu")), onclick: () => { document.body.classList.toggle("menu"); drawFrame(); } }, icon("menu")),
    h("a", { class: "brand", href: "#/" }, h("img", { src: "static/icon.svg", alt: "", width: "22", height: "22" }),
      "Penstock"),
    h("span", { class: "live", title: feed.isLost || isSignedOut ? "no updates" : "updated every second" },
      h("i", { class: "dot" }), isSignedOut ? h("span", { class: "hidden" }, "signed out") : feed.isLost ? "no feed" : state ? h("span", { class: "hidden" }, "live") : "…"),
    h("button", { type: "button", class: "quiet", "aria-label": "Light or dark", title: "Light or dark", onclick: switchTheme }, icon("theme")),
    h("button", { type: "button", class: "quiet", "aria-label": "Keys", title: "Keys (?)", onclick: help },
      icon("help")));
  render(nav,
    h("ul", {}, PAGES.map(([base, title, sign]) => {
      const [number, tone, said] = badges[base] || [];
      return h("li", {}, h("a", { href: "#/" + base, "aria-current": base === here ? "page" : null }, icon(sign),
        h("span", {}, title),
        number ? h("span", { class: "badge " + tone, title: said }, number > 999 ? "999+" : String(number)) : null));
    })),
    state ? h("ul", { class: "parts", "aria-label": "Parts" }, state.parts.map(part)) : null);
  document.body.dataset.feed = isSignedOut ? "signed-out" : feed.isLost ? "lost" : state ? "live" : "first";
  drawBanner();
}

const part = (each) =>
  h("li", { class: each.state === "running" ? "good" : "bad", title: [each.state, each.reason, each.address].filter(Boolean).join(" · ") },
    icon(each.state === "running" ? "ok" : "bad"), h("span", {}, each.name), h("span", { class: "dim" },
      each.state === "running" ? "" : each.state));

const REMEDIES = {
  kafka: "`penstock logs kafka` tells why. What was acknowledged is in its log; senders get 503 and may try again.",
  receiver: "Senders get no answer meanwhile. `penstock logs receiver` tells why; `penstock up` starts it again by itself.",
  dispatcher: "Events are kept and delivered when it is back. `penstock logs dispatcher` tells why.",
};

function drawBanner() {
  const away = feed.isLost || isSignedOut ? [] : (feed.state?.parts || []).filter((each) => each.state !== "running");
  const kafka = away.find((each) => each.name === "kafka"); // the cause of what else is away
  const shown = kafka ? [kafka] : away, others = away.filter((each) => !shown.includes(each));
  const said = feed.isLost && feed.problem && !isSignedOut ? [{ ...feed.problem,
    lead: feed.state ? "The numbers stand still. " : "" }] : shown.map((each) => ({
    cause: `${each.name === "kafka" ? "Kafka" : "The " + each.name} is ${each.state}${each.reason ? ": " + each.reason : ""}`,
    address: each.reason.includes(each.address) ? "" : each.address,
    remedy: (REMEDIES[each.name] || "`penstock status` tells more.") + (others.length ? ` Besides: ${others.map((part) => `${part.name} ${part.state}`).join(", ")}.` : ""),
  }));
  render(banner, said.map((each) => h("p", {}, icon("warn"), h("span", {}, each.lead || "",
    h("strong", {}, each.cause), each.address ? [" at ", h("code", {}, each.address)] : "", ". ",
    withCode(each.remedy)))));
}

function switchTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("penstock-theme", next); } catch { /* not kept then */ }
}

function help() {
  const end = () => { dialog.close(); dialog.remove(); };
  const dialog = h("dialog", { class: "help", "aria-labelledby": "keys", oncancel: end, onclick: (e) => { if (e.target === dialog) end(); } },
    h("h2", { id: "keys" }, "Keys"),
    h("dl", {}, HELP.map(([keys, what]) => h("div", {}, h("dt", {}, keys.split("  ").map((key) => h("kbd", {}, key))),
      h("dd", {}, what)))),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "main", autofocus: true, onclick: end },
      "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

bind({
  "?": help,
  "/": () => {
    const field = view.querySelector("[data-search]");
    if (!field) return false;
    field.focus();
    field.select();
  },
  t: () => { location.hash = href("/events", { tail: "1" }); },
});
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", show);
feed.listen(() => { signInChanged(); drawFrame(); });
show();
