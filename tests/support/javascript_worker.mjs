// Does for tests in Python what they ask for: a JSON line in, a JSON line out.

import { createInterface } from "node:readline";

import { Key, Service, Sketcher, Spec } from "../../clients/js/index.js";

const sketchers = new Map();
let service;

const keyOf = (secret) => (secret === undefined ? null : new Key(secret));

function sketcherOf(spec, secret) {
  if (!sketchers.has(spec)) {
    sketchers.set(spec, new Sketcher(Spec.fromJSON(spec), keyOf(secret)));
  }
  return sketchers.get(spec);
}

const TASKS = {
  sketch({ spec, secret, text, tables }) {
    const sketcher = sketcherOf(spec, secret);
    const found = sketcher.sketch(text);
    const { bits, fingerprint } = sketcher.spec;
    return {
      fingerprint,
      slots: [...found.slots],
      content: found.content,
      shingles: sketcher.shingles(text),
      keys: found.bandKeys(...tables),
      bytes: Buffer.from((bits === 32 ? found : found.bBit(bits)).toBytes()).toString("hex"),
    };
  },
  async open({ address, secret }) {
    service = await Service.open(address, { key: keyOf(secret) });
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
