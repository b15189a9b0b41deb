// The types of neardup in JavaScript, and what each parameter is.

export type Profile = "conservative" | "standard" | "plain" | "aggressive" | "look-alikes";
export type Unit = "word" | "char" | "line";
export type Hash = "xxh64" | "siphash";
export type Bits = 1 | 2 | 4 | 8 | 16 | 32;

/** The fields of a specification that can differ from the defaults. */
export interface SpecFields {
  /** How texts are normalised; `standard` by default. */
  profile?: Profile;
  /** The unit of a shingle; `word` by default. */
  unit?: Unit;
  /** The number of units in a shingle, 1 to 1,000; 5 by default. */
  size?: number;
  /** The hash of units; `xxh64` by default, `siphash` with a key. */
  hash?: Hash;
  /** The id of the key, with `siphash`. */
  key?: string;
  /** The seed of all hashes, from 0 to 2^64 - 1; a BigInt, or its decimal digits, from 2^53 on. */
  seed?: number | bigint | string;
  /** The number of slots of a signature, 1 to 65,536; 128 by default. */
  slots?: number;
  /** The bits of a slot that are stored; 32 by default, all of them. */
  bits?: Bits;
}

/**
 * Everything that decides a text's shingles and signature. Two signatures may be compared only if
 * their specifications have the same fingerprint, here and in neardup itself.
 */
export class Spec {
  /** @param fields What differs from the defaults. */
  constructor(fields?: SpecFields);

  /**
   * Return a specification by the name of its shingles, as options of neardup write it.
   *
   * @param shingle The unit and size: `word:5`, `char:24` or `line:1`.
   * @param fields What else differs from the defaults.
   */
  static of(shingle?: string, fields?: Omit<SpecFields, "unit" | "size">): Spec;

  /**
   * Return the specification of a canonical form.
   *
   * @param text What `canonical` or `neardup spec` has. One that needs what this library does not
   *   have, such as another sketch, is a `ParameterError`.
   */
  static fromJSON(text: string): Spec;

  readonly profile: Profile;
  readonly unit: Unit;
  readonly size: number;
  readonly hash: Hash;
  /** The id of the key; empty without one. */
  readonly key: string;
  readonly seed: bigint;
  readonly sketch: "minhash";
  readonly family: "affine32";
  readonly slots: number;
  readonly bits: Bits;
  readonly unicode: "14.0.0";
  readonly version: 1;

  /** The unit and size of a shingle: `word:5`. */
  readonly shingle: string;
  /** The JSON whose BLAKE2b is the fingerprint: sorted keys, no spaces. */
  readonly canonical: string;
  /** 32 hexadecimal digits, equal if and only if the specifications are equal. */
  readonly fingerprint: string;
  /** This specification with all bits of a slot. */
  readonly whole: Spec;

  /**
   * Return this specification with other bits of a slot.
   *
   * @param bits The bits to store of a slot.
   */
  withBits(bits: Bits): Spec;

  /**
   * Throw a `SpecMismatch` that names the fields unless both specifications are equal.
   *
   * @param other The specification to compare with.
   * @param mine What this one belongs to, for the message.
   * @param theirs What the other one belongs to.
   */
  requireSame(other: Spec, mine: string, theirs: string): void;
}

/**
 * A secret key of hash `siphash`: who does not have it can't make a signature of a text, and so can't
 * try out which text a signature is of.
 */
export class Key {
  /** @param secret Its 16 bytes, or 32 hexadecimal digits, as in a key file of neardup. */
  constructor(secret: Uint8Array | string);

  /** The name of the key in specifications, 16 digits, from which it can't be derived. */
  readonly id: string;
}

/** Makes signatures of texts. One is quicker than many: it keeps its tables and buffers. */
export class Sketcher {
  /**
   * @param spec The specification; the default one without it.
   * @param key The key of a specification with hash `siphash`.
   */
  constructor(spec?: Spec, key?: Key | null);

  readonly spec: Spec;

  /**
   * Return the signature of a text, with its content hash. A text without anything visible is an
   * `EmptyText`, one with half a surrogate pair a `ParameterError`.
   *
   * @param text The text as it is: it is normalised here.
   */
  sketch(text: string): MinHash;

  /**
   * Return the set of the shingles of a text: their hashes, 16 hexadecimal digits each, ascending.
   *
   * @param text The text as it is.
   */
  shingles(text: string): string[];
}

/** The signature of a text: slots of 32 bits, which estimate its similarity to others. */
export class MinHash {
  /**
   * @param spec The specification, with all 32 bits of a slot.
   * @param slots One value for each slot.
   * @param content The content hash of the text, if it is known.
   */
  constructor(spec: Spec, slots: Uint32Array, content?: string | null);

  readonly spec: Spec;
  readonly slots: Uint32Array;
  /** 32 hexadecimal digits, equal for texts of the same units; null of a union or of bytes. */
  readonly content: string | null;
  /** The slots as bytes, little-endian. */
  readonly slotBytes: Uint8Array;

  /**
   * Estimate the Jaccard similarity of the two sets of shingles: the share of equal slots.
   *
   * @param other A signature of the same specification.
   */
  jaccard(other: MinHash): number;

  /**
   * Return the signature of the union of both sets.
   *
   * @param other A signature of the same specification.
   */
  merge(other: MinHash): MinHash;

  /**
   * Return the band keys, 16 hexadecimal digits each: texts that share one are candidates.
   *
   * @param tables Bands and rows of each table: `bandKeys([21, 6])`.
   */
  bandKeys(...tables: [bands: number, rows: number][]): string[];

  /**
   * Return the signature cut to some bits a slot, which is small to store and can be compared.
   *
   * @param bits The bits to keep of each slot.
   */
  bBit(bits: Exclude<Bits, 32>): BBitMinHash;

  /** Return the sketch as `neardup.MinHash.from_bytes` reads it. */
  toBytes(): Uint8Array;

  /**
   * Return the sketch that `toBytes`, or `MinHash.to_bytes` of neardup, wrote.
   *
   * @param bytes The bytes; truncated, altered or other ones are a `FormatError`.
   */
  static fromBytes(bytes: Uint8Array): MinHash;
}

/** A signature cut to 1 to 16 bits a slot. */
export class BBitMinHash {
  /**
   * @param spec The specification, with the bits of a slot.
   * @param packed The bits of the slots, slot 0 in the lowest bits of byte 0.
   */
  constructor(spec: Spec, packed: Uint8Array);

  readonly spec: Spec;
  readonly packed: Uint8Array;
  /** The bits of each slot, one value a slot. */
  readonly slots: Uint16Array;

  /**
   * Estimate the Jaccard similarity of the two sets, corrected for slots that are equal by chance.
   *
   * @param other A cut signature of the same specification.
   */
  jaccard(other: BBitMinHash): number;

  /** Return the sketch as `neardup.BBitMinHash.from_bytes` reads it. */
  toBytes(): Uint8Array;

  /**
   * Return the sketch that `toBytes`, or `BBitMinHash.to_bytes` of neardup, wrote.
   *
   * @param bytes The bytes; truncated, altered or other ones are a `FormatError`.
   */
  static fromBytes(bytes: Uint8Array): BBitMinHash;
}

/** What the service answers about a document. */
export interface Answer {
  id: string | null;
  status: "new" | "duplicate" | "rejected";
  /** The kept document that it is a copy of. */
  duplicate_of: string | null;
  similarity: number | null;
  /** False if the similarity was estimated, as it is wherever a text is not there. */
  exact: boolean;
  cluster: number | null;
  /** Why it is rejected. */
  reason: string | null;
  /** Whether this id was there with the same content: nothing was added. */
  again: boolean;
}

/** A document to add. Everything but the text is sent as it is. */
export interface NewDocument {
  /** Without one, the service chooses one. */
  id?: string | number;
  text: string;
  metadata?: Record<string, unknown>;
  /** The group, if the index was made with groups. */
  within?: string | number | null;
}

export interface ServiceOptions {
  /** An API key of the service. */
  apiKey?: string;
  /** The key of hashes, if the index was made with one. It is not sent. */
  key?: Key;
  /** How long to wait for an answer, in seconds; 60 by default. */
  seconds?: number;
}

/** A service of neardup that gets signatures: texts stay here. */
export class Service {
  private constructor();

  /**
   * Ask a service for its specification, and return a client that makes signatures by it.
   *
   * @param address Where the service is: `http://127.0.0.1:8080`.
   * @param options An API key, the key of hashes, and how long to wait.
   */
  static open(address: string | URL, options?: ServiceOptions): Promise<Service>;

  /** The specification of the index. */
  readonly spec: Spec;

  /**
   * Ask whether a text is a copy of something. Nothing is added.
   *
   * @param text The text, of which only the signature is sent.
   * @param options `within` is the group, if the index was made with groups.
   */
  check(text: string, options?: { within?: string | number | null }): Promise<Answer>;

  /**
   * Add a document.
   *
   * @param document The document, of whose text only the signature is sent.
   * @param options With `replace` it takes the place of another one with its id.
   */
  add(document: NewDocument, options?: { replace?: boolean }): Promise<Answer>;

  /**
   * Add documents in order, in one request and one commit; each has an answer.
   *
   * @param documents The documents, no more than the service takes: 1,000 by default.
   * @param options With `replace` they take the places of others with their ids.
   */
  addAll(documents: NewDocument[], options?: { replace?: boolean }): Promise<Answer[]>;

  /**
   * Return what the service knows of a document.
   *
   * @param id Its id.
   */
  document(id: string | number): Promise<Record<string, unknown>>;

  /**
   * Remove a document.
   *
   * @param id Its id.
   */
  remove(id: string | number): Promise<void>;
}

/** Every error of this library. */
export class NeardupError extends Error {}
/** An argument that can't be. */
export class ParameterError extends NeardupError {}
/** Bytes that are not what they should be. */
export class FormatError extends NeardupError {}
/** Two things that were made by different specifications. */
export class SpecMismatch extends NeardupError {}
/** A text without anything visible, which neardup rejects. */
export class EmptyText extends NeardupError {}
/** A request that the service has refused. */
export class ServiceError extends NeardupError {
  /** The status of HTTP. */
  readonly status: number;
  /** The stable name of the error: `too_large`. */
  readonly code: string;
  readonly requestId: string;
  /** Seconds after which to ask again, if the service has named any. */
  readonly retryAfter: number | null;
}
