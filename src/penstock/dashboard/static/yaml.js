// A JSON value as YAML, for reading and for `penstock apply -f`.

const PLAIN = /^[A-Za-z_/][\w./:@+-]*$/;
const MEANS_OTHER = /^(true|false|yes|no|on|off|null|~|y|n)$/i;

function scalar(value, indent) {
  if (typeof value !== "string") return JSON.stringify(value);
  if (value.includes("\n") && !/[^\n\x20-\x7e\u00a0-\ud7ff\ue000-\uffff]/.test(value) && !/^\s/.test(value)) {
    const keep = value.endsWith("\n\n") ? "+" : value.endsWith("\n") ? "" : "-";
    const lines = value.replace(/\n$/, "").split("\n");
    return "|" + keep + "\n" + lines.map((line) => (line ? indent + line : "")).join("\n");
  }
  if (PLAIN.test(value) && !MEANS_OTHER.test(value) && !value.endsWith(":") && !value.includes(": ")) return value;
  return JSON.stringify(value);
}

const isEmpty = (value) => value !== null && typeof value === "object" && !Object.keys(value).length;
const isTree = (value) => value !== null && typeof value === "object" && !isEmpty(value);

export function toYaml(value, indent = "") {
  const deeper = indent + "  ";
  if (isEmpty(value)) return Array.isArray(value) ? "[]" : "{}";
  if (!isTree(value)) return scalar(value, indent);
  if (Array.isArray(value)) {
    return value.map((item) => indent + "- " + (isTree(item) ? toYaml(item, deeper).slice(deeper.length) : leaf(item,
      deeper))).join("\n");
  }
  return Object.entries(value).map(([name, item]) =>
    indent + scalar(name, "") + ":" + (isTree(item) ? "\n" + toYaml(item,
      Array.isArray(item) ? indent : deeper) : " " + leaf(item, deeper))).join("\n");
}

const leaf = (item, indent) => (isEmpty(item) ? toYaml(item) : scalar(item, indent));
