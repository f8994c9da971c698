// The live numbers: one EventSource for the whole dashboard, kept as one state that pages read.
//
//   feed.state         the last snapshot with all changes since (see /api/penstock/live); null before the first
//   feed.listen(f)     f() after every message and when the feed is lost or back; returns a function that ends it
//   feed.isLost        nothing came for 5 s; feed.problem says why: {cause, address, remedy}
//   feed.isSignedOut  the controller requires a session, and this browser has none
//   feed.isReady       the controller has read its resources; before that, no rows means nothing
//   feed.ingress(key), feed.subscription(key)

const SILENCE_MS = 5000;
const AGAIN_MS = 1000;
const SIGNED_OUT_AGAIN_MS = 3000;
const PATIENCE_MS = 3000; // for the first message of a new connection
const AWAY = "`penstock status` tells what runs. The page goes on by itself as soon as the controller is back.";

export function makeFeed(url = "api/penstock/live") {
  const listeners = new Set();
  let source = null, last = performance.now(), connected = 0, again = null;

  const feed = {
    state: null, isLost: false, isSignedOut: false, problem: null, lastTime: null,
    get isReady() { return !!feed.state && !feed.state.parts.some((part) => part.name === "controller" && part.state !== "running"); },
    listen(f) { listeners.add(f); return () => listeners.delete(f); },
    ingress: (key) => feed.state?.ingresses.find((row) => row.key === key),
    subscription: (key) => feed.state?.subscriptions.find((row) => row.key === key),
  };
  const tell = () => { for (const f of [...listeners]) f(); };

  function alive() {
    last = performance.now();
    feed.isLost = false;
    feed.isSignedOut = false;
    feed.problem = null;
  }

  function take(message, merge) {
    const told = JSON.parse(message.data);
    alive();
    feed.lastTime = told.time;
    feed.state = merge && feed.state ? merged(feed.state, told) : told;
    tell();
  }

  function connect() {
    clearTimeout(again);
    source?.close();
    connected = performance.now();
    source = new EventSource(url);
    source.addEventListener("snapshot", (m) => take(m, false));
    source.addEventListener("change", (m) => take(m, true));
    source.onmessage = () => { last = performance.now(); };
    source.onerror = () => {
      // The browser tries again by itself after a cut, but gives up on an answer such as 503.
      if (source.readyState === EventSource.CLOSED) {
        why();
        again = setTimeout(connect, feed.isSignedOut ? SIGNED_OUT_AGAIN_MS : AGAIN_MS);
      }
    };
  }

  async function why() {
    const address = location.origin;
    try {
      const answer = await fetch("readyz", { signal: AbortSignal.timeout(2000) });
      const text = (await answer.text()).trim().replace(/^not ready: /, "");
      const refused = await refusal();
      if (feed.isSignedOut) return;
      feed.problem = refused
        ? { cause: "The controller sends no numbers: " + refused.error, address, remedy: refused.hint || AWAY }
        : answer.ok
        ? { cause: "The controller answers, but sends no numbers", address, remedy: AWAY }
        : { cause: "The controller is starting: " + text, address,
          remedy: "It goes on by itself as soon as that is there. `penstock status` tells what runs." };
    } catch {
      feed.problem = { cause: "The controller does not answer", address, remedy: AWAY };
    }
    if (!feed.state && !feed.isSignedOut) { feed.isLost = true; tell(); }
  }

  /** Why the feed is refused, as {error, hint}; null when it is not. Notes whether a missing session is the reason. */
  async function refusal() {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), 2000);
    try {
      const answer = await fetch(url, { signal: stop.signal });
      const isSignedOut = answer.status === 401;
      if (isSignedOut !== feed.isSignedOut) {
        feed.isSignedOut = isSignedOut;
        feed.problem = null;
        tell();
      }
      return answer.ok ? null : await answer.json();
    } finally {
      clearTimeout(timer);
      stop.abort(); // the stream does not end by itself
    }
  }

  let asking = false;
  setInterval(async () => {
    if (asking || feed.isSignedOut) return; // connect() tries again
    if (performance.now() - last < SILENCE_MS - 1200) return; // the banner is there within 5 s
    if (!feed.isLost) {
      feed.isLost = true;
      feed.problem ||= { cause: "Nothing came from the controller for 5 s", address: location.origin, remedy: AWAY };
      tell();
    }
    asking = true;
    await why();
    asking = false;
    if (feed.isLost && !feed.isSignedOut) {
      tell();
      if (performance.now() - connected > PATIENCE_MS) connect();
    }
  }, AGAIN_MS / 2);

  // A laptop that slept has missed messages: begin anew at once.
  document.addEventListener("visibilitychange",
    () => { if (!document.hidden && performance.now() - last > SILENCE_MS) connect(); });
  connect();
  return feed;
}

function merged(state, told) {
  const gone = new Set(told.gone || []);
  const rows = (old, fresh = []) => {
    const by = new Map(old.filter((row) => !gone.has(row.key)).map((row) => [row.key, row]));
    for (const row of fresh) by.set(row.key, row);
    return [...by.values()];
  };
  return { ...state, ...told, ingresses: rows(state.ingresses, told.ingresses),
    subscriptions: rows(state.subscriptions, told.subscriptions) };
}
