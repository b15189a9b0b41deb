// The normal form of a text that a profile compares, by the shipped tables: what a browser or Node
// has is of another version of Unicode.

import {
  CCC_BITS, CCC_SHIFT, UNIFYING, UNSETTLED, characterTable, classLetter, isDropped, readItems,
} from "./characters.js";
import { ParameterError } from "./errors.js";
import { CANONICAL, COMPATIBLE } from "./unicode-14.0.0.js";

const HANGUL = { first: 0xac00, count: 11172, lead: 0x1100, vowel: 0x1161, tail: 0x11a7 };
const VOWELS = 21;
const TAILS = 28;
const FIRST_UNSETTLED = 0x300;

/** Return the text in the profile's normal form, before case and digits are folded. */
export function normalForm(text, profile) {
  const table = characterTable(profile);
  if (UNIFYING.includes(profile)) {
    return isAscii(text) ? text : unified(codePoints(text), profile);
  }
  return isSettled(text, table) ? text : settle(text, table);
}

function isAscii(text) {
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) > 0x7f) {
      return false;
    }
  }
  return true;
}

/** Whether a text is in normal form C by its quick check. */
function isSettled(text, table) {
  let before = 0;
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at);
    if (code < FIRST_UNSETTLED) {
      before = 0;
      continue;
    }
    if ((code & 0xf800) === 0xd800) {
      code = codePoint(text, at);
      at++;
    }
    const entry = table.entry(code);
    const ccc = (entry >> CCC_SHIFT) & CCC_BITS;
    if (entry & UNSETTLED || (ccc !== 0 && ccc < before)) {
      return false;
    }
    before = ccc;
  }
  return true;
}

/** The character of a surrogate pair. */
export function codePoint(text, at) {
  const code = text.codePointAt(at);
  if (code < 0x10000) {
    throw new ParameterError(
      `the text has half a surrogate pair at ${at}, which is no character: replace it, for ` +
        "example by toWellFormed()",
    );
  }
  return code;
}

function codePoints(text) {
  const found = [];
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at);
    if ((code & 0xf800) === 0xd800) {
      code = codePoint(text, at);
      at++;
    }
    found.push(code);
  }
  return found;
}

function asText(codes) {
  let text = "";
  for (let at = 0; at < codes.length; at += 4096) {
    text += String.fromCodePoint(...codes.slice(at, at + 4096));
  }
  return text;
}

/** Normalise the stretches that are not in normal form; nothing reaches beyond their ends. */
function settle(text, table) {
  const codes = codePoints(text);
  const entries = codes.map((code) => table.entry(code));
  const begins = (at) => (entries[at] & (UNSETTLED | (CCC_BITS << CCC_SHIFT))) === 0;
  const pieces = [];
  let done = 0;
  for (let at = 0; at < codes.length; at++) {
    if (begins(at)) {
      continue;
    }
    const start = Math.max(at - 1, done);
    while (at < codes.length && !begins(at)) {
      at++;
    }
    pieces.push(asText(codes.slice(done, start)));
    pieces.push(asText(composed(decomposed(codes.slice(start, at), false, table), table)));
    done = at;
  }
  pieces.push(asText(codes.slice(done)));
  return pieces.join("");
}

/** NFKD without accents, then NFC; `look-alikes` drops characters in between. */
function unified(codes, profile) {
  const table = characterTable(profile);
  const unwanted = profile === "look-alikes" ? "AD" : "A";
  let kept = decomposed(codes, true, table).filter((code) => !unwanted.includes(classLetter(code)));
  if (profile === "look-alikes") {
    kept = kept.filter((code) => !isDropped(code, profile));
  }
  return asText(composed(decomposed(kept, false, table), table));
}

let canonical;
let compatible;
let composites;

function readDecompositions(items) {
  const found = new Map();
  let code = 0;
  for (const [gap, ...parts] of readItems(items)) {
    code += gap;
    found.set(code, parts);
  }
  return found;
}

function canonicals() {
  canonical ??= readDecompositions(CANONICAL);
  return canonical;
}

function decompose(code, compatibly, out) {
  const syllable = code - HANGUL.first;
  if (syllable >= 0 && syllable < HANGUL.count) {
    out.push(HANGUL.lead + Math.floor(syllable / (VOWELS * TAILS)));
    out.push(HANGUL.vowel + Math.floor((syllable % (VOWELS * TAILS)) / TAILS));
    if (syllable % TAILS !== 0) {
      out.push(HANGUL.tail + (syllable % TAILS));
    }
    return;
  }
  let parts = canonicals().get(code);
  if (parts === undefined && compatibly) {
    compatible ??= readDecompositions(COMPATIBLE);
    parts = compatible.get(code);
  }
  if (parts === undefined) {
    out.push(code);
  } else {
    parts.forEach((part) => decompose(part, compatibly, out));
  }
}

/** NFD or NFKD: decompose, then sort each run of marks by their combining classes. */
function decomposed(codes, compatibly, table) {
  const out = [];
  codes.forEach((code) => decompose(code, compatibly, out));
  const cccOf = (code) => (table.entry(code) >> CCC_SHIFT) & CCC_BITS;
  let start = 0;
  for (let end = 0; end <= out.length; end++) {
    if (end === out.length || cccOf(out[end]) === 0) {
      if (end - start > 1) {
        const run = out.slice(start, end).sort((a, b) => cccOf(a) - cccOf(b));
        run.forEach((code, n) => (out[start + n] = code));
      }
      start = end + 1;
    }
  }
  return out;
}

/** Canonical composition of decomposed text. */
function composed(codes, table) {
  const out = [];
  let starter = -1;
  let before = -1;
  for (const code of codes) {
    const ccc = (table.entry(code) >> CCC_SHIFT) & CCC_BITS;
    const both = starter >= 0 && before < ccc ? composite(out[starter], code) : undefined;
    if (both !== undefined) {
      out[starter] = both;
      continue;
    }
    out.push(code);
    if (ccc === 0) {
      [starter, before] = [out.length - 1, -1];
    } else {
      before = ccc;
    }
  }
  return out;
}

function composite(first, second) {
  const lead = first - HANGUL.lead;
  const vowel = second - HANGUL.vowel;
  if (lead >= 0 && lead < 19 && vowel >= 0 && vowel < VOWELS) {
    return HANGUL.first + (lead * VOWELS + vowel) * TAILS;
  }
  const syllable = first - HANGUL.first;
  const tail = second - HANGUL.tail;
  const open = syllable >= 0 && syllable < HANGUL.count && syllable % TAILS === 0;
  if (open && tail > 0 && tail < TAILS) {
    return first + tail;
  }
  composites ??= readComposites();
  return composites.get(first)?.get(second);
}

/** The pairs that compose: canonical decompositions that are allowed in normal form C. */
function readComposites() {
  const table = characterTable("conservative");
  const found = new Map();
  for (const [code, parts] of canonicals()) {
    // Of characters with two parts those that the quick check forbids are never composed.
    if (parts.length === 2 && !(table.entry(code) & UNSETTLED)) {
      if (!found.has(parts[0])) {
        found.set(parts[0], new Map());
      }
      found.get(parts[0]).set(parts[1], code);
    }
  }
  return found;
}
