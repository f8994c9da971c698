// Attempts as a timeline: a bar for each, as long as its request took; gaps with the time waited; long gaps folded; a ghost
// for the next one.

import { h } from "./dom.js";
import { clock, millis, toDate } from "./format.js";

const LEAST = 26, MOST = 170; // pixels of a bar or a gap
const FOLDED = 4; // a gap so many times as long as usual

/** [{kind: "bar" | "gap" | "ghost", ms, folded, …}] from attempts and the time of the next. Pure. */
export function pieces(attempts, nextTry) {
  const found = [];
  let end = null;
  const gap = (begin) => { if (end !== null) found.push({ kind: "gap", ms: Math.max(0, begin - end) }); };
  for (const attempt of attempts) {
    const begin = toDate(attempt.time).getTime();
    gap(begin);
    found.push({ kind: "bar", ms: attempt.took_ms, attempt });
    end = begin + attempt.took_ms;
  }
  if (nextTry) {
    gap(toDate(nextTry).getTime());
    found.push({ kind: "ghost", ms: 0, at: nextTry });
  }
  const usual = (kind) => { // bars and gaps have scales of their own: a request takes milliseconds, a backoff seconds
    const lengths = found.filter((p) => p.kind === kind).map((p) => p.ms).sort((a, b) => a - b);
    return Math.max(lengths[Math.floor((lengths.length - 1) / 2)] || 0, 1);
  };
  const sizes = { bar: usual("bar"), gap: usual("gap"), ghost: 1 };
  for (const piece of found) {
    piece.folded = piece.kind === "gap" && piece.ms > sizes.gap * FOLDED;
    piece.pixels = piece.folded ? 64 : Math.round(Math.min(MOST, Math.max(LEAST, (piece.ms / sizes[piece.kind]) * 60)));
  }
  return found;
}

const took = (attempt) => (attempt.took_ms < 1 ? "< 1 ms" : millis(attempt.took_ms));
const isGood = (attempt) => attempt.ended === "delivered";
export const said = (attempt) => (attempt.status ? String(attempt.status) : "no answer");

export function timeline(attempts, nextTry, maxAttempts) {
  if (!attempts.length && !nextTry) return null;
  let n = 0;
  return h("ol", { class: "timeline", "aria-label": "Attempts" }, pieces(attempts, nextTry).map((piece) => {
    const style = { "min-width": piece.pixels + "px" };
    if (piece.kind === "gap") {
      return h("li", { class: "gap" + (piece.folded ? " folded" : ""), style, "data-ms": String(Math.round(piece.ms)), title: `waited ${millis(piece.ms)}` }, h("span", {}, millis(piece.ms)));
    }
    if (piece.kind === "ghost") return h("li", { class: "ghost", style, title: clock(piece.at) }, h("i", {}), h("span", {}, `next at ${clock(piece.at).slice(0, 8)}`));
    const { attempt } = piece;
    n += 1;
    const title = `attempt ${n}${maxAttempts ? " of " + maxAttempts : ""} at ${clock(attempt.time)}: ${said(attempt)}, took ${took(attempt)}${attempt.error ? ", " + attempt.error : ""}`;
    return h("li", { class: "bar " + (isGood(attempt) ? "good" : "bad"), style, title, "aria-label": title, "data-status": String(attempt.status), "data-ms": String(attempt.took_ms) },
      h("i", {}), h("span", {}, h("b", {}, said(attempt)), " " + took(attempt)));
  }));
}
