// axios with its defaults. Arguments: URL, file.
const { createReadStream, readFileSync } = require("node:fs");
const axios = require("axios");

const [url, file] = process.argv.slice(2);
const bodies = [readFileSync(file), createReadStream(file)]; // the second one in chunks

async function main() {
  for (const [at, body] of bodies.entries()) {
    const headers = {
      "ce-specversion": "1.0", "ce-id": `${at + 1}`, "ce-source": "/axios", "ce-type": "test.sent",
      "content-type": "application/octet-stream",
    };
    const response = await axios.post(url, body, { headers });
    console.log(`${at + 1} ${response.status}`);
  }
}

main();
