// Elements in one call, and views that are drawn anew as often as one likes.
//
// h("a", {href: "#/", class: "x", onclick: f}, "text", child) makes an element; s(...) the same in SVG.
// render(container, ...nodes) makes the container look like the nodes and keeps what is the same: focus, selection and
// half-typed input survive, and a click is never lost. Children with the attribute `key` are found again by it.

const SVG = "http://www.w3.org/2000/svg";

export const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") element.penstockKey = value;
    else if (name.startsWith("on")) (element.penstockOn ||= {})[name] = element[name] = value;
    else if (name === "style") for (const [property, v] of Object.entries(value)) element.style.setProperty(property,
      v);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === true) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

export function render(container, ...nodes) {
  const wanted = document.createDocumentFragment();
  append(wanted, nodes);
  morphChildren(container, wanted);
}

function morph(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.dataset?.own !== undefined && fresh.dataset?.own === old.dataset.own) return; // draws itself
  for (const { name } of [...old.attributes]) {
    if (name !== "style" && name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText; // CSP: no setAttribute
  for (const name of Object.keys(old.penstockOn || {})) if (!fresh.penstockOn?.[name]) old[name] = null;
  Object.assign(old, fresh.penstockOn);
  old.penstockOn = fresh.penstockOn;
  old.penstockKey = fresh.penstockKey;
  morphChildren(old, fresh);
  if ("value" in fresh && old.value !== fresh.value && old !== document.activeElement && (old.defaultValue !== undefined || old.tagName === "SELECT")) {
    old.value = fresh.value;
  }
  if ("checked" in fresh && old !== document.activeElement) old.checked = fresh.checked;
}

const alike = (old, fresh) =>
  old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && old.penstockKey === fresh.penstockKey;

function morphChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.childNodes) if (child.penstockKey !== undefined) keyed.set(child.penstockKey, child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = wanted.penstockKey === undefined ? null : keyed.get(wanted.penstockKey);
    if (known && alike(known, wanted)) {
      if (known === at) at = at.nextSibling;
      else old.insertBefore(known, at);
      keyed.delete(wanted.penstockKey);
      morph(known, wanted);
    } else if (at && at.penstockKey === undefined && alike(at, wanted)) {
      const next = at.nextSibling;
      morph(at, wanted);
      at = next;
    } else {
      old.insertBefore(wanted, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Icons of 16 × 16, drawn with strokes in the colour of the text around them.
const ICONS = {
  overview: "M2 14V9M6 14V4M10 14V7M14 14V2",
  map: "M2 4h4M2 12h4M10 8h4M6 4c3 0 1 4 4 4M6 12c3 0 1-4 4-4",
  brokers: "M3 3h10v4H3zM3 9h10v4H3z",
  subscriptions: "M2 8h8M7 4l4 4-4 4M14 3v10",
  events: "M3 3h10v10H3zM5.500 6.500h5M5.500 9.500h3",
  dead: "M8 2 14 13H2zM8 6.500v3M8 11.400v.2",
  jobs: "M8 2a6 6 0 1 0 6 6M8 5v3l2 2",
  topics: "M2 4h12M2 8h12M2 12h12",
  resources: "M8 2 14 5v6l-6 3-6-3V5zM2 5l6 3 6-3M8 8v6",
  playground: "M2 3h12L9.500 8.500V13l-3-1.500v-3z",
  ok: "M3 8.500l3.500 3.500L13 4.500",
  run: "M4 3l9 5-9 5z",
  idle: "M3 8h10",
  retry: "M13 8a5 5 0 1 1-1.500-3.500M13 2v3h-3",
  bad: "M4 4l8 8M12 4l-8 8",
  warn: "M8 3v6.500M8 12.500v.2",
  pause: "M5 3v10M11 3v10",
  park: "M5 14V3h4a3 3 0 0 1 0 6H5",
  wait: "M8 3v5l3 2M8 1.500a6.500 6.500 0 1 0 .01 0",
  gone: "M3 13 13 3M8 2a6 6 0 1 0 .01 0",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  flat: "M3 8h10M10 5l3 3-3 3",
  copy: "M6 6h8v8H6zM4 10H2V2h8v2",
  search: "M7 2a5 5 0 1 0 .01 0M10.500 10.500 14 14",
  theme: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  menu: "M2 4h12M2 8h12M2 12h12",
  help: "M6 6a2 2 0 1 1 2.500 2c-.5.200-.5.500-.5 1.500M8 12v.2M8 1.500a6.500 6.500 0 1 0 .01 0",
};

export const icon = (name, label) =>
  s("svg", { viewBox: "0 0 16 16", class: "icon icon-" + name, ...(label ? { role: "img",
    "aria-label": label } : { "aria-hidden": "true" }) },
    s("path", { d: ICONS[name] || ICONS.idle }));
