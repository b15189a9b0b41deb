// What the vectors don't say: arguments that can't be, unions, texts that hold each other up.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import * as neardup from "../index.js";

const {
  BBitMinHash, EmptyText, FormatError, Key, MinHash, ParameterError, Sketcher, Spec, SpecMismatch,
} = neardup;

const FOX = "The quick brown Fox jumps over the lazy dog.";

test("the values of docs/format.md", () => {
  const sketcher = new Sketcher();
  const found = sketcher.sketch(FOX);
  assert.equal(sketcher.spec.fingerprint, "37b127fd1f8600cb62b51e38922ffc38");
  assert.deepEqual([...found.slots.slice(0, 3)], [0x2cddcbe9, 0x14f1ae15, 0x26adc211]);
  assert.deepEqual(found.bandKeys([21, 6]).slice(0, 2), ["b20ebb44ee40a5c2", "fa82b396b455cfd7"]);
  assert.ok(sketcher.shingles(FOX).includes("dc69584826e6b86a"));
});

test("a sketcher remembers nothing of the text before", () => {
  const sketcher = new Sketcher();
  const texts = ["one", FOX, "x ".repeat(10_000), "日本語の文章です", "e\u0301".repeat(5_000), FOX];
  for (const text of texts) {
    assert.deepEqual(sketcher.sketch(text), new Sketcher().sketch(text));
  }
});

test("the merge is the signature of the union", () => {
  for (const slots of [1, 3, 128]) {
    const sketcher = new Sketcher(Spec.of("word:1", { slots }));
    const both = sketcher.sketch("a").merge(sketcher.sketch("b c"));
    assert.deepEqual(both.slots, sketcher.sketch("c a b").slots);
    assert.equal(both.content, null);
    assert.equal(both.jaccard(sketcher.sketch("b a c")), 1);
  }
});

test("a union read from bytes is what was written", () => {
  const made = new Sketcher(Spec.of("char:5", { seed: (1n << 64n) - 1n })).sketch(FOX);
  const inside = new Uint8Array([9, ...made.toBytes(), 9]).subarray(1, -1);
  const read = MinHash.fromBytes(inside);
  assert.deepEqual(read.slots, made.slots);
  assert.equal(read.spec.seed, 2n ** 64n - 1n);
  for (const bits of [1, 2, 4, 8, 16]) {
    const cut = made.bBit(bits);
    assert.deepEqual(BBitMinHash.fromBytes(cut.toBytes()), cut);
    assert.equal(cut.jaccard(cut), 1);
  }
});

test("cut slots are the highest bits of a product, and chance is subtracted", () => {
  const sketcher = new Sketcher(Spec.of("word:1", { slots: 100 }));
  const [a, b] = [sketcher.sketch(FOX), sketcher.sketch(FOX.replace("brown", "red"))];
  for (const bits of [1, 2, 4, 8, 16]) {
    const cut = (sketch) => [...sketch.slots].map((slot) =>
      Number(((BigInt(slot) * 0x9e3779b1n) % 2n ** 32n) >> BigInt(32 - bits)));
    assert.deepEqual([...a.bBit(bits).slots], cut(a));
    const share = cut(a).filter((slot, n) => slot === cut(b)[n]).length / 100;
    const chance = 1 / 2 ** bits;
    assert.equal(a.bBit(bits).jaccard(b.bBit(bits)), (share - chance) / (1 - chance));
    assert.equal(a.bBit(bits).jaccard(a.bBit(bits)), 1);
  }
  const far = ["one", "two", "three", "four"].map((text) => sketcher.sketch(text).bBit(1));
  assert.equal(Math.min(...far.map((other) => a.bBit(1).jaccard(other))), 0);
});

test("marks are sorted at the beginning of a text, and if all pass the quick check", () => {
  const sketcher = new Sketcher(Spec.of("char:2"));
  for (const [one, other] of [["\u0323\u0301 a", "\u0301\u0323 a"], ["x\u0316\u031a", "x\u031a\u0316"]]) {
    assert.deepEqual(sketcher.sketch(one), sketcher.sketch(other));
  }
});

test("each changed byte of a sketch is noticed", () => {
  const bytes = new Sketcher().sketch(FOX).toBytes();
  for (let at = 0; at < bytes.length; at += 7) {
    const altered = bytes.slice();
    altered[at] ^= 4;
    assert.throws(() => MinHash.fromBytes(altered), FormatError, `byte ${at}`);
  }
  for (const length of [0, 3, 11, 100, bytes.length - 1]) {
    assert.throws(() => MinHash.fromBytes(bytes.subarray(0, length)), FormatError);
  }
});

test("texts that are none", () => {
  const sketcher = new Sketcher();
  for (const text of ["", " \n\u00a0", "\u00ad\u200d"]) {
    assert.throws(() => sketcher.sketch(text), EmptyText);
  }
  for (const text of ["a \ud800", "\udc00 b", "\ud800\ud800\udc00", "e\u0301\ud800"]) {
    assert.throws(() => sketcher.sketch(text), /half a surrogate pair/);
  }
  for (const text of [null, undefined, 7, new Uint8Array(3)]) {
    assert.throws(() => sketcher.sketch(text), /a text is a string/);
  }
});

test("specifications that can't be, or not here", () => {
  const wrong = [
    { size: 0 }, { size: 1001 }, { size: 2.5 }, { slots: 65_537 }, { bits: 3 }, { unit: "token" },
    { profile: "Standard" }, { seed: -1 }, { seed: 2 ** 60 }, { seed: 1n << 64n }, { seed: "0x1" },
    { hash: "siphash" }, { hash: "murmur3" }, { key: "616a7e8911622fde" }, { sketch: "oneperm", family: "rounds" },
    { family: "affine-m61", bits: 64 }, { strip: "html" }, { unicode: "15.0.0" }, { colour: 1 },
  ];
  for (const fields of wrong) {
    assert.throws(() => new Spec(fields), ParameterError, JSON.stringify(Object.keys(fields)));
  }
  for (const shingle of ["word", "word:", ":5", "word:5.0", "word:-1", "token:5"]) {
    assert.throws(() => Spec.of(shingle), ParameterError, shingle);
  }
  for (const text of ["", "[]", "null", "{}", '{"size": 5}']) {
    assert.throws(() => Spec.fromJSON(text), FormatError, text);
  }
  assert.equal(new Spec({ size: 1000, slots: 65_536 }).slots, 65_536);
  assert.equal(new Spec({ strip: "", key: "" }).fingerprint, new Spec().fingerprint);
});

test("without the key of a specification nothing is made", () => {
  const key = new Key("000102030405060708090a0b0c0d0e0f\n");
  assert.equal(key.id, "616a7e8911622fde");
  assert.equal(new Key(Uint8Array.from({ length: 16 }, (_, n) => n)).id, key.id);
  assert.ok(!JSON.stringify(key).includes("0001") && Object.keys(key).join() === "id");
  const spec = Spec.of("word:5", { hash: "siphash", key: key.id });
  assert.notDeepEqual(new Sketcher(spec, key).sketch(FOX).slots, new Sketcher().sketch(FOX).slots);
  for (const [given, other] of [[spec, null], [spec, new Key("f".repeat(32))], [spec, "0".repeat(32)],
    [new Spec(), key]]) {
    assert.throws(() => new Sketcher(given, other), ParameterError);
  }
  for (const secret of [undefined, null, "", "00", new Uint8Array(15), [1, 2]]) {
    assert.throws(() => new Key(secret), /16 bytes/);
  }
});

test("what is not comparable is not compared", () => {
  const one = new Sketcher().sketch(FOX);
  const other = new Sketcher(Spec.of("word:3", { seed: 7 })).sketch(FOX);
  assert.throws(() => one.jaccard(other), (error) =>
    error instanceof SpecMismatch && /size 5 against 3/.test(error.message) &&
    /seed 0 against 7/.test(error.message));
  assert.throws(() => one.merge(other), SpecMismatch);
  assert.throws(() => one.bBit(8).jaccard(one.bBit(4)), SpecMismatch);
  assert.throws(() => one.jaccard(one.bBit(8)), ParameterError);
  assert.throws(() => one.bandKeys([22, 6]), /need 132 slots, there are 128/);
  assert.throws(() => MinHash.fromBytes(one.bBit(8).toBytes()), /BBitMinHash/);
  assert.throws(() => BBitMinHash.fromBytes(one.toBytes()), /with MinHash/);
});

test("every public name has its types, and every type its name", () => {
  const types = readFileSync(new URL("../index.d.ts", import.meta.url), "utf8");
  const declared = [...types.matchAll(/export class (\w+)/g)].map((found) => found[1]);
  assert.deepEqual(declared.sort(), Object.keys(neardup).sort());
  for (const name of declared) {
    const body = new RegExp(`export class ${name}[^{]*\\{([^]*?)\\n?\\}\\n`).exec(types)[1];
    const kind = neardup[name];
    const members = [kind.prototype, kind].flatMap((part) =>
      Object.getOwnPropertyNames(part).filter(
        (member) => !["constructor", "length", "name", "prototype"].includes(member),
      ));
    for (const member of members) {
      assert.match(body, new RegExp(`\\b${member}\\b`), `${name}.${member}`);
    }
  }
});
