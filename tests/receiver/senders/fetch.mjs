// Node's fetch with its defaults. Arguments: URL, file.
import { readFileSync } from "node:fs";

const [url, file] = process.argv.slice(2);
const data = readFileSync(file);
const bodies = [data, new Blob([data]).stream()]; // the second one in chunks
for (const [at, body] of bodies.entries()) {
  const headers = {
    "ce-specversion": "1.0", "ce-id": `${at + 1}`, "ce-source": "/fetch", "ce-type": "test.sent",
    "content-type": "application/octet-stream",
  };
  const response = await fetch(url, { method: "POST", headers, body, duplex: "half" });
  console.log(`${at + 1} ${response.status}`);
}
