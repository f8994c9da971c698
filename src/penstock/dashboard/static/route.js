// The address: `#/path?query`. Filters and open drawers are in its query, so that a link brings back what was seen.

const parse = () => {
  const [path, search] = location.hash.replace(/^#/, "").split(/\?(.*)/s);
  return { path: path || "/", query: Object.fromEntries(new URLSearchParams(search || "")) };
};

export const path = () => parse().path;
export const query = () => parse().query;

/** The address of a page: href("/events", {id: "1"}); what is empty is left out. */
export function href(to, asked = {}) {
  const kept = Object.entries(asked).filter(([, v]) => v !== "" && v !== null && v !== undefined && v !== false);
  const search = new URLSearchParams(kept).toString();
  return "#" + to + (search ? "?" + search : "");
}

/** Changes some of the query without drawing the page anew; `push` when Back should undo it (an opened drawer). */
export function setQuery(changes, { push = false } = {}) {
  const to = href(path(), { ...query(), ...changes });
  if (to === location.hash) return;
  history[push ? "pushState" : "replaceState"](null, "", to);
}

export const go = (to, asked) => { location.hash = href(to, asked); };

/** What of the path fits the pattern "/subscriptions/:kind/:namespace/:name", or null. */
export function fits(pattern, at) {
  const wanted = pattern.split("/"), found = at.split("/");
  if (wanted.length !== found.length) return null;
  const params = {};
  for (let i = 0; i < wanted.length; i++) {
    if (wanted[i].startsWith(":")) {
      try { params[wanted[i].slice(1)] = decodeURIComponent(found[i]); } catch { return null; }
    } else if (wanted[i] !== found[i]) return null;
  }
  return params;
}

/** `#/subscriptions/Trigger/default/x` for the key "Trigger/default/x". */
export const ofKey = (base, key) => "#" + base + "/" + key.split("/").map(encodeURIComponent).join("/");
