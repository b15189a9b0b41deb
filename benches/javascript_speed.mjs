// How fast one thread sketches: FILE SHINGLE ROUNDS. Reads JSON lines with a `text`, and prints the
// processor's seconds of each round over all of them.

import { readFileSync } from "node:fs";

import { EmptyText, Sketcher, Spec } from "../clients/js/index.js";

const [file, shingle, rounds] = process.argv.slice(2);
const lines = readFileSync(file, "utf8").split("\n").filter((line) => line !== "");
const texts = lines.map((line) => JSON.parse(line).text);
const sketcher = new Sketcher(Spec.of(shingle));
const seconds = [];
let documents = 0;
for (let round = 0; round < Number(rounds); round++) {
  const start = process.cpuUsage();
  documents = 0;
  for (const text of texts) {
    try {
      sketcher.sketch(text);
      documents++;
    } catch (error) {
      if (!(error instanceof EmptyText)) {
        throw error;
      }
    }
  }
  const { user, system } = process.cpuUsage(start);
  seconds.push((user + system) / 1e6);
}
const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
console.log(JSON.stringify({ documents, bytes, seconds }));
