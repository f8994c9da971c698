// Numbers and times as people read them. Unknown is always "–".

export const NONE = "–";
const unknown = (n) => n === null || n === undefined || Number.isNaN(n);

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 12,345 up to a million, then 1.23 M. */
export function count(n) {
  if (unknown(n)) return NONE;
  for (const [unit, size] of [["G", 1e9],
    ["M", 1e6]]) if (Math.abs(n) >= size) return (n / size).toFixed(2) + " " + unit;
  return grouped.format(n);
}

/** Events per second: 0, 0.4, 12.5, 1,250, 12.4 k. */
export function rate(n) {
  if (unknown(n)) return NONE;
  if (n === 0) return "0";
  if (n < 0.05) return "< 0.1";
  if (n < 100) return n.toFixed(1).replace(/\.0$/, "");
  return n < 100000 ? grouped.format(n) : (n / 1000).toFixed(0) + " k";
}

/** Milliseconds: 2.1 ms, 45 ms, 1.3 s, 4 m. */
export function millis(n) {
  if (unknown(n)) return NONE;
  if (n < 10) return n.toFixed(1) + " ms";
  return n < 1000 ? n.toFixed(0) + " ms" : seconds(n / 1000);
}

/** A length of time: 0 s, 1.3 s, 45 s, 12 m, 3 h 5 m, 2 d 4 h. */
export function seconds(n) {
  if (unknown(n)) return NONE;
  if (n < 0.05) return "0 s";
  if (n < 10) return n.toFixed(1).replace(/\.0$/, "") + " s";
  if (n < 60) return Math.floor(n) + " s";
  if (n < 3600) return Math.floor(n / 60) + " m" + (n < 600 && n % 60 >= 1 ? " " + Math.floor(n % 60) + " s" : "");
  if (n < 86400) return Math.floor(n / 3600) + " h " + Math.floor((n % 3600) / 60) + " m";
  return Math.floor(n / 86400) + " d " + Math.floor((n % 86400) / 3600) + " h";
}

export function percent(n) {
  if (unknown(n)) return NONE;
  if (n === 1 || n === 0) return n * 100 + " %";
  return (n > 0.999 ? Math.floor(n * 1e5) / 1e3 : (n * 100).toFixed(1)) + " %"; // 99.996 is not 100
}

export function bytes(n) {
  if (unknown(n)) return NONE;
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (n >= size) return (n / size).toFixed(n / size < 10 ? 1 : 0) + " " + unit;
  }
  return n + " B";
}

const pad = (n, digits = 2) => String(n).padStart(digits, "0");

/** 14:02:11.482, with the date in front when it is not today's. Takes seconds since the epoch, or an ISO text. */
export function clock(when) {
  const date = toDate(when);
  if (!date) return NONE;
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${time}`;
}

/** "3 m ago", or "in 12 s". */
export function ago(when) {
  const date = toDate(when);
  if (!date) return NONE;
  const past = (Date.now() - date) / 1000;
  if (Math.abs(past) < 1) return "now";
  return past < 0 ? "in " + seconds(-past) : rough(past) + " ago";
}

const rough = (n) => (n < 60 ? Math.floor(n) + " s" : n < 3600 ? Math.floor(n / 60) + " m" : seconds(n));

/** "3 m ago · 14:02:11.482" */
export const time = (when) => (toDate(when) ? `${ago(when)} · ${clock(when)}` : NONE);

export function toDate(when) {
  if (when === null || when === undefined || when === "" || when === 0) return null;
  const date = typeof when === "number" ? new Date(when * 1000) : new Date(when);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** "3 events", "1 event". */
export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

/** A duration of ISO 8601 in seconds: PT0.2S, PT1H. */
export function isoSeconds(text) {
  const found = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/.exec(text || "");
  if (!found) return null;
  const [d, hours, minutes, secs] = found.slice(1).map((x) => Number(x || 0));
  return d * 86400 + hours * 3600 + minutes * 60 + secs;
}
