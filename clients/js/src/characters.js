// What each character is to a text profile, by the shipped Unicode tables.
//
// An entry packs the class of a character (bits 0 to 2), whether the character may not be in normal
// form C (bit 3), its canonical combining class (bits 4 to 11) and a number that leads to what the
// profile folds it to (bits 12 to 31): a place in `folds`, of what is to be added.

import { LOOK_ALIKES, PROPERTIES, RANGES } from "./unicode-14.0.0.js";

export const OTHER = 0;
export const WORD = 1;
export const ALONE = 2;
export const MARK = 3;
export const DROPPED = 4;
export const SPACE = 5;
export const CLASS_BITS = 7;
export const UNSETTLED = 8;
export const CCC_SHIFT = 4;
export const CCC_BITS = 255;
const FOLD_SHIFT = 12;

const CLASSES = {
  "-": OTHER, U: OTHER, W: WORD, N: WORD, S: ALONE, M: MARK, A: MARK, D: DROPPED, _: SPACE,
};
const CODES = 0x110000;
const BLOCK = 128;

const HIDDEN = [
  [0x061c, 0x061c], [0x200b, 0x200b], [0x200e, 0x200f], [0x202a, 0x202e], [0x2061, 0x2064],
  [0x2066, 0x206f], [0x3164, 0x3164], [0xffa0, 0xffa0], [0xfff9, 0xfffb], [0xe0001, 0xe0001],
  [0xe0020, 0xe007f],
];
const VOWEL_MARKS = [
  [0x0591, 0x05bd], [0x05bf, 0x05bf], [0x05c1, 0x05c2], [0x05c4, 0x05c5], [0x05c7, 0x05c7],
  [0x0610, 0x061a], [0x0640, 0x0640], [0x064b, 0x0652], [0x0656, 0x065f], [0x0670, 0x0670],
  [0x06d6, 0x06dc], [0x06df, 0x06e4], [0x06e7, 0x06e8], [0x06ea, 0x06ed], [0x08d3, 0x08e1],
  [0x08e3, 0x08ff],
];
const FILLERS = [[0x115f, 0x1160], [0x17b4, 0x17b5], [0x1d173, 0x1d17a]];

/** Profile -> the characters that it drops besides those that every profile does. */
const DROPPED_BY = {
  plain: [...HIDDEN, ...VOWEL_MARKS],
  "look-alikes": [...HIDDEN, ...FILLERS, ...VOWEL_MARKS],
};

/** Profiles that unify compatibility forms, and fold accents and digits. */
export const UNIFYING = ["aggressive", "look-alikes"];

/** Numbers of base 36, separated by commas, of each item of a shipped table. */
export function* readItems(table) {
  for (const item of table.trim().split(/\s+/)) {
    yield item.split(",").map((number) => parseInt(number, 36));
  }
}

/** The ranges of the tables: first and last code point, class letter, and other properties. */
let ranges;

function readRanges() {
  if (ranges === undefined) {
    const kinds = PROPERTIES.trim().split(/\s+/).map((kind) => {
      const [letter, ccc, check, lower] = kind.split(",");
      return { letter, ccc: Number(ccc), settled: check === "Y", lower: Number(lower) };
    });
    let end = 0;
    ranges = [];
    for (const [gap, length, place] of readItems(RANGES)) {
      const first = end + gap;
      end = first + length;
      ranges.push({ first, last: end - 1, ...kinds[place] });
    }
  }
  return ranges;
}

/** Whether a profile drops a character that others keep. */
export function isDropped(code, profile) {
  return (DROPPED_BY[profile] ?? []).some(([first, last]) => first <= code && code <= last);
}

/** The letter of a character's class, as the tables' source has it. */
export function classLetter(code) {
  const found = readRanges();
  let [low, high] = [0, found.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (found[middle].last < code) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < found.length && found[low].first <= code ? found[low].letter : "-";
}

/** The characters of a profile: `entry` of each code point, and what it is folded to. */
export class CharacterTable {
  constructor(profile) {
    this.packed = new Uint32Array(CODES);
    this.folds = [0];
    const digits = UNIFYING.includes(profile);
    for (const range of readRanges()) {
      const folded = (digits && range.letter === "N") || range.lower !== 0;
      if (folded && profile !== "conservative") {
        this.#foldRange(range, digits);
      } else {
        this.packed.fill(pack(range.letter, range), range.first, range.last + 1);
      }
    }
    if (profile === "look-alikes") {
      this.#foldLookAlikes();
    }
    for (const [first, last] of DROPPED_BY[profile] ?? []) {
      for (let code = first; code <= last; code++) {
        this.packed[code] = (this.packed[code] & ~CLASS_BITS) | DROPPED;
      }
    }
    this.#compress();
  }

  /** The entry of a code point. */
  entry(code) {
    return this.blocks[(this.places[code >> 7] << 7) | (code & 127)];
  }

  /** What a code point of this entry is folded to. */
  folded(code, entry) {
    return code + this.folds[entry >>> FOLD_SHIFT];
  }

  #foldRange(range, digits) {
    for (let code = range.first; code <= range.last; code++) {
      const folded = digits && range.letter === "N" ? 0x30 : code + range.lower;
      const place = this.#placeOf(folded - code);
      this.packed[code] = pack(classLetter(folded), range) | (place << FOLD_SHIFT);
    }
  }

  /** Make the characters whose lower case passes for a Latin letter that letter. */
  #foldLookAlikes() {
    const found = readLookAlikes();
    for (let code = 0; code < CODES; code++) {
      const letter = found.get(this.folded(code, this.packed[code]));
      if (letter !== undefined) {
        const kept = this.packed[code] & ((1 << FOLD_SHIFT) - 1) & ~CLASS_BITS;
        this.packed[code] = kept | WORD | (this.#placeOf(letter - code) << FOLD_SHIFT);
      }
    }
  }

  /** The place in `folds` of a difference between a character and what it is folded to. */
  #placeOf(difference) {
    const place = this.folds.indexOf(difference);
    return place >= 0 ? place : this.folds.push(difference) - 1;
  }

  /** Keep blocks of equal entries once. */
  #compress() {
    const numbers = new Map();
    const blocks = [];
    this.places = new Uint16Array(CODES / BLOCK);
    for (let n = 0; n < this.places.length; n++) {
      const block = this.packed.subarray(BLOCK * n, BLOCK * (n + 1));
      const key = isUniform(block) ? block[0] : block.join();
      if (!numbers.has(key)) {
        numbers.set(key, numbers.size);
        blocks.push(...block);
      }
      this.places[n] = numbers.get(key);
    }
    this.blocks = Uint32Array.from(blocks);
    this.folds = Int32Array.from(this.folds);
    delete this.packed;
  }
}

function isUniform(block) {
  let at = 1;
  while (at < block.length && block[at] === block[0]) {
    at++;
  }
  return at === block.length;
}

function pack(letter, range) {
  return CLASSES[letter] | (range.settled ? 0 : UNSETTLED) | (range.ccc << CCC_SHIFT);
}

function readLookAlikes() {
  const found = new Map();
  let code = 0;
  for (const item of LOOK_ALIKES.trim().split(/\s+/)) {
    const [gap, letter] = item.split(",");
    code += parseInt(gap, 36);
    found.set(code, letter.charCodeAt(0));
  }
  return found;
}

const tables = new Map();

/** The table of a profile, made when it is first asked for. */
export function characterTable(profile) {
  if (!tables.has(profile)) {
    tables.set(profile, new CharacterTable(profile));
  }
  return tables.get(profile);
}
