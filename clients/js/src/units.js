// A text to the hashes of its units: words, characters or lines.

import {
  ALONE, CLASS_BITS, DROPPED, MARK, SPACE, WORD, characterTable,
} from "./characters.js";
import { halves } from "./arithmetic.js";
import { halvesOf } from "./key.js";
import { codePoint, normalForm } from "./normal-form.js";
import { siphash } from "./siphash.js";
import { xxh64 } from "./xxh64.js";

const BLANK = 0x20;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const FIRST_SIZE = 1 << 12;

/** Makes the hashes of the units of one text after the other. */
export class UnitHasher {
  /**
   * @param {import("./spec.js").Spec} spec
   * @param {import("./key.js").Key | null} key of keyed hashes
   */
  constructor(spec, key = null) {
    this.spec = spec;
    this.halves = key === null ? null : halvesOf(key);
    this.table = characterTable(spec.profile);
    /** What a word character of ASCII is folded to; 0 for all others. */
    this.asciiWords = new Uint8Array(128);
    for (let code = 0; code < 128; code++) {
      const entry = this.table.entry(code);
      this.asciiWords[code] =
        (entry & CLASS_BITS) === WORD ? this.table.folded(code, entry) : 0;
    }
    [this.seedLow, this.seedHigh] = halves(spec.seed);
    this.bytes = new Uint8Array(FIRST_SIZE);
    /** The hashes of the last text's units, low and high half by turns. */
    this.hashes = new Int32Array(FIRST_SIZE);
    this.count = 0;
  }

  /** Put the hashes of a text's units into `hashes`; return how many units there are. */
  hashUnits(text) {
    const normal = normalForm(text, this.spec.profile);
    this.count = 0;
    this.#reserve(normal.length);
    if (this.spec.unit === "word") {
      this.#hashWords(normal);
      if (this.count === 0) {
        this.#hashUnit(this.#squeeze(normal, 0, normal.length));
      }
    } else if (this.spec.unit === "char") {
      this.#hashCharacters(this.#squeeze(normal, 0, normal.length));
    } else {
      this.#hashLines(normal);
    }
    return this.count;
  }

  /** Make room for the units of a text: a character has three bytes of UTF-8, or two times two. */
  #reserve(length) {
    if (this.bytes.length < 3 * length) {
      this.bytes = new Uint8Array(4 * length);
    }
    if (this.hashes.length < 2 * length + 2) {
      this.hashes = new Int32Array(3 * length);
    }
  }

  #hashUnit(end, start = 0) {
    if (end > start) {
      const { bytes, hashes } = this;
      const place = 2 * this.count++;
      if (this.halves === null) {
        xxh64(bytes, start, end, this.seedLow, this.seedHigh, hashes, place);
      } else {
        siphash(bytes, start, end, this.halves, hashes, place);
      }
    }
  }

  #hashWords(text) {
    const { asciiWords, bytes, table } = this;
    let end = 0; // of the bytes of the word that has begun
    let alone = false; // whether this word is a character of a script without spaces
    for (let at = 0; at < text.length; at++) {
      let code = text.charCodeAt(at);
      if (code < 128) {
        const folded = asciiWords[code];
        if (folded === 0 || alone) {
          this.#hashUnit(end);
          end = 0;
          alone = false;
        }
        if (folded !== 0) {
          bytes[end++] = folded;
        }
        continue;
      }
      if ((code & 0xf800) === 0xd800) {
        code = codePoint(text, at);
        at++;
      }
      const entry = table.entry(code);
      const kind = entry & CLASS_BITS;
      if (kind === DROPPED) {
        continue;
      }
      const goesOn = end > 0 && (kind === MARK || (kind === WORD && !alone));
      if (!goesOn) {
        this.#hashUnit(end);
        end = 0;
        alone = kind === ALONE;
      }
      if (goesOn || kind === WORD || kind === ALONE) {
        end = writeUtf8(bytes, end, table.folded(code, entry));
      }
    }
    this.#hashUnit(end);
  }

  /** Write the squeezed text as UTF-8; return its end. */
  #squeeze(text, from, to) {
    const { bytes, table } = this;
    let end = 0;
    let blank = false;
    for (let at = from; at < to; at++) {
      let code = text.charCodeAt(at);
      if ((code & 0xf800) === 0xd800) {
        code = codePoint(text, at);
        at++;
      }
      const entry = table.entry(code);
      const kind = entry & CLASS_BITS;
      if (kind === SPACE) {
        blank = end > 0;
      } else if (kind !== DROPPED) {
        if (blank) {
          bytes[end++] = BLANK;
          blank = false;
        }
        end = writeUtf8(bytes, end, table.folded(code, entry));
      }
    }
    return end;
  }

  #hashCharacters(end) {
    for (let at = 0; at < end; ) {
      const start = at++;
      while (at < end && (this.bytes[at] & 0xc0) === 0x80) {
        at++;
      }
      this.#hashUnit(at, start);
    }
  }

  #hashLines(text) {
    let start = 0;
    for (let at = 0; at <= text.length; at++) {
      const code = at < text.length ? text.charCodeAt(at) : LINE_FEED;
      if (code === LINE_FEED || code === CARRIAGE_RETURN) {
        this.#hashUnit(this.#squeeze(text, start, at));
        start = at + 1;
      }
    }
  }
}

function writeUtf8(bytes, end, code) {
  if (code < 0x80) {
    bytes[end++] = code;
  } else if (code < 0x800) {
    bytes[end++] = 0xc0 | (code >> 6);
    bytes[end++] = 0x80 | (code & 0x3f);
  } else {
    if (code < 0x10000) {
      bytes[end++] = 0xe0 | (code >> 12);
    } else {
      bytes[end++] = 0xf0 | (code >> 18);
      bytes[end++] = 0x80 | ((code >> 12) & 0x3f);
    }
    bytes[end++] = 0x80 | ((code >> 6) & 0x3f);
    bytes[end++] = 0x80 | (code & 0x3f);
  }
  return end;
}
