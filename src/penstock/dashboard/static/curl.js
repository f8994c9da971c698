// An event as a command that sends it: the same attributes as ce- headers and the same bytes, in any POSIX shell.

const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
const PLAIN = /^[!#$&-~]*$/; // visible ASCII without quotes and percent signs

/** As the HTTP binding wants values: space, quote, percent and all beyond visible ASCII encoded. */
function headerValue(value) {
  const text = String(value);
  if (PLAIN.test(text)) return text;
  const plain = (code) => code > 0x20 && code < 0x7f && code !== 0x22 && code !== 0x25;
  return [...new TextEncoder().encode(text)].map((code) => (plain(code) ? String.fromCharCode(code) : "%" + code.toString(16).toUpperCase().padStart(2, "0"))).join("");
}

export const bytesOf = (base64) => Uint8Array.from(atob(base64 || ""), (c) => c.charCodeAt(0));

/** The data as text, or null when it is none. */
export function textOf(base64) {
  try { return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytesOf(base64)); } catch { return null; }
}

/** A password in an address is never shown. */
export const masked = (url) => String(url || "").replace(/^([a-z]+:\/\/)[^/@]*@/i, "$1***@");

export function curl(url, attributes, base64) {
  const { datacontenttype, ...others } = attributes;
  const headers = Object.entries(others).map(([name, value]) => (value === "" ? `ce-${name};` : `ce-${name}: ${headerValue(value)}`));
  headers.push(datacontenttype ? `Content-Type: ${datacontenttype}` : "Content-Type:");
  const parts = [`curl -X POST ${quoted(masked(url))}`, ...headers.map((line) => `-H ${quoted(line)}`)];
  const text = textOf(base64);
  // Text stands as it is; other bytes, and what curl or a shell would take for something else, come through base64.
  if (text !== null && !/[\0\r]|^@/.test(text)) return [...parts, `--data-binary ${quoted(text)}`].join(" \\\n  ");
  return `printf %s ${quoted(base64 || "")} | base64 -d | ` + [...parts, "--data-binary @-"].join(" \\\n  ");
}
