// A sketch as bytes, which neardup and this library read from each other:
//
//   0    4  "nds1"
//   4    4  length n of the specification
//   8    n  the specification's canonical JSON
//   8+n  m  the content
//   ...  8  XXH3-64 of everything before

import { FormatError } from "./errors.js";
import { Spec } from "./spec.js";
import { xxh3 } from "./xxh3.js";

const MAGIC = "nds1";
const HEAD = 8;
const CHECKSUM = 8;
const LEAST = 128;

/** @param {Spec} spec @param {Uint8Array} content */
export function writeSketch(spec, content) {
  const json = new TextEncoder().encode(spec.canonical);
  const bytes = new Uint8Array(HEAD + json.length + content.length + CHECKSUM);
  const view = new DataView(bytes.buffer);
  bytes.set(new TextEncoder().encode(MAGIC));
  view.setUint32(4, json.length, true);
  bytes.set(json, HEAD);
  bytes.set(content, HEAD + json.length);
  const end = bytes.length - CHECKSUM;
  view.setBigUint64(end, xxh3(bytes.subarray(0, end)), true);
  return bytes;
}

/** Return the specification and the content of a sketch's bytes. @param {Uint8Array} bytes */
export function readSketch(bytes) {
  if (!(bytes instanceof Uint8Array)) {
    throw new FormatError("a sketch is read from a Uint8Array");
  }
  const magic = String.fromCharCode(...bytes.subarray(0, 4));
  if (magic !== MAGIC) {
    throw new FormatError("these bytes are not a sketch of neardup: they begin with other letters");
  }
  const end = bytes.length - CHECKSUM;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  if (end <= LEAST || view.getBigUint64(end, true) !== xxh3(bytes.subarray(0, end))) {
    throw new FormatError("the sketch is truncated or altered: make it again, or fetch it again");
  }
  const start = HEAD + view.getUint32(4, true);
  const json = new TextDecoder().decode(bytes.subarray(HEAD, start));
  return { spec: Spec.fromJSON(json), content: bytes.subarray(start, end) };
}

export function requireSize(content, size) {
  if (content.length !== size) {
    throw new FormatError(
      `the sketch has ${content.length} bytes, its specification requires ${size}: make it again, ` +
        "or fetch it again",
    );
  }
}
