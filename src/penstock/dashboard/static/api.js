// Requests to the admin port. What fails is a Problem: cause, details by field, and what to do.

export class Problem extends Error {
  constructor(message, { status = 0, problems = [], hint = "" } = {}) {
    super(message);
    Object.assign(this, { status, problems, hint });
  }
}

const AWAY = "`penstock status` says what runs; `penstock up` starts it";

async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(`The controller at ${location.origin} does not answer`, { hint: AWAY });
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Problem(told.error || `${url} answered ${answer.status}`, { status: answer.status,
    problems: told.problems || [], hint: told.hint || "" });
}

const body = (value) => ({ body: JSON.stringify(value), headers: { "Content-Type": "application/json" } });

export const get = async (url, signal) => (await ask(url, { signal })).json();
export const post = async (url, value, signal) => (await ask(url, { method: "POST", signal, ...body(value) })).json();
export const put = async (url, value) => (await ask(url, { method: "PUT", ...body(value) })).json();
export const remove = async (url) => (await ask(url, { method: "DELETE" })).json();

/** Calls `take` with each JSON line as it comes; `value` makes it a POST. Aborting `signal` ends the work at the other end too. */
export async function lines(url, { value, signal, take }) {
  const answer = await ask(url, value === undefined ? { signal } : { method: "POST", signal, ...body(value) });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value: text } = await reader.read();
    if (done) break;
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    for (const line of parts) if (line.trim()) take(JSON.parse(line));
  }
  if (rest.trim()) take(JSON.parse(rest));
}

/** Asks now and then every `seconds` while the page is looked at; returns a function that ends it. */
export function every(seconds, url, take, failed = () => {}) {
  const stop = new AbortController();
  let timer;
  const once = async () => {
    if (!document.hidden) {
      try {
        const found = await get(typeof url === "function" ? url() : url, stop.signal);
        if (!stop.signal.aborted) take(found);
      } catch (error) {
        if (!stop.signal.aborted) failed(error);
      }
    }
    if (!stop.signal.aborted) timer = setTimeout(once, seconds * 1000);
  };
  once();
  return () => { stop.abort(); clearTimeout(timer); };
}

// The kinds of resources, as the API has them.
export const KINDS = {
  Broker: ["eventing.knative.dev/v1", "brokers"],
  Trigger: ["eventing.knative.dev/v1", "triggers"],
  KafkaChannel: ["messaging.knative.dev/v1beta1", "kafkachannels"],
  Subscription: ["messaging.knative.dev/v1", "subscriptions"],
  KafkaSource: ["sources.knative.dev/v1", "kafkasources"],
  KafkaSink: ["eventing.knative.dev/v1alpha1", "kafkasinks"],
  Service: ["v1", "services"],
  ConfigMap: ["v1", "configmaps"],
  Secret: ["v1", "secrets"],
};

const root = (version) => (version.includes("/") ? "apis/" : "api/") + version;
export const listUrl = (kind) => `${root(KINDS[kind][0])}/${KINDS[kind][1]}`;
export const oneUrl = (kind, namespace, name) =>
  `${root(KINDS[kind][0])}/namespaces/${encodeURIComponent(namespace)}/${KINDS[kind][1]}/${encodeURIComponent(name)}`;
