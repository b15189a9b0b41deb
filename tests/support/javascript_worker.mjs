// Does for tests in Python what they ask for: a JSON line in, a JSON line out.

import { createInterface } from "node:readline";

import { Service, Sketcher, Spec } from "../../clients/js/index.js";

const sketchers = new Map();
let service;

function sketcherOf(spec) {
  if (!sketchers.has(spec)) {
    sketchers.set(spec, new Sketcher(Spec.fromJSON(spec)));
  }
  return sketchers.get(spec);
}

const TASKS = {
  sketch({ spec, text, tables }) {
    const found = sketcherOf(spec).sketch(text);
    const { bits } = sketcherOf(spec).spec;
    return {
      fingerprint: sketcherOf(spec).spec.fingerprint,
      slots: [...found.slots],
      content: found.content,
      shingles: sketcherOf(spec).shingles(text),
      keys: found.bandKeys(...tables),
      bytes: Buffer.from((bits === 32 ? found : found.bBit(bits)).toBytes()).toString("hex"),
    };
  },
  async open({ address, options }) {
    service = await Service.open(address, options);
    return service.spec.canonical;
  },
  check: ({ text, options }) => service.check(text, options),
  addAll: ({ documents, options }) => service.addAll(documents, options),
  document: ({ id }) => service.document(id),
  remove: ({ id }) => service.remove(id),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { task, ...given } = JSON.parse(line);
  let answer;
  try {
    answer = (await TASKS[task](given)) ?? null;
  } catch (error) {
    answer = { error: error.name, message: error.message, code: error.code ?? null };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
