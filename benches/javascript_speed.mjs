// How fast one thread sketches: FILE SHINGLE ROUNDS. Reads JSON lines with a `text`, and prints the
// seconds of each round over all of them.

import { readFileSync } from "node:fs";

import { EmptyText, Sketcher, Spec } from "../clients/js/index.js";

const [file, shingle, rounds] = process.argv.slice(2);
const lines = readFileSync(file, "utf8").split("\n").filter((line) => line !== "");
const texts = lines.map((line) => JSON.parse(line).text);
const sketcher = new Sketcher(Spec.of(shingle));
const seconds = [];
let documents = 0;
for (let round = 0; round < Number(rounds); round++) {
  const start = process.hrtime.bigint();
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
  seconds.push(Number(process.hrtime.bigint() - start) / 1e9);
}
const bytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
console.log(JSON.stringify({ documents, bytes, seconds }));
