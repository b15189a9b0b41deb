// A client of neardup's HTTP service that sends signatures: texts never leave this process.

import { EmptyText, FormatError, ServiceError, SpecMismatch } from "./errors.js";
import { Sketcher } from "./sketcher.js";
import { Spec, parseWithSeeds } from "./spec.js";

const SECONDS = 60;
/** What the service answers about a text without anything visible. */
const EMPTY = {
  status: "rejected", duplicate_of: null, similarity: null, exact: true, cluster: null,
  reason: "empty", again: false,
};

export class Service {
  #base;
  #headers;
  #seconds;
  #sketcher;

  /** Use `open`, which asks the service for its specification. */
  constructor(address, { apiKey, seconds = SECONDS }) {
    this.#base = new URL(`${address}`.replace(/\/*$/, "/"));
    this.#headers = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
    this.#seconds = seconds;
  }

  static async open(address, options = {}) {
    const service = new Service(address, options);
    await service.#learnSpec(options.key ?? null);
    return service;
  }

  get spec() {
    return this.#sketcher.spec;
  }

  async check(text, { within } = {}) {
    const [signature] = this.#signatures([text]);
    return signature === null
      ? { id: null, ...EMPTY }
      : this.#post("v1/check", { signature, ...given({ within }) });
  }

  async add(document, { replace = false } = {}) {
    const [answer] = await this.addAll([document], { replace });
    return answer;
  }

  async addAll(documents, { replace = false } = {}) {
    const signatures = this.#signatures(documents.map(({ text }) => text));
    const sent = documents.flatMap(({ id, metadata, within }, n) =>
      signatures[n] === null ? [] : [given({ id, metadata, within, signature: signatures[n] })],
    );
    const found = sent.length === 0
      ? []
      : (await this.#post("v1/documents", { documents: sent, replace })).answers;
    let next = 0;
    return documents.map(({ id }, n) =>
      signatures[n] === null ? { id: id === undefined ? null : `${id}`, ...EMPTY } : found[next++],
    );
  }

  async document(id) {
    return this.#ask("GET", `v1/documents/${encodeURIComponent(id)}`);
  }

  async remove(id) {
    await this.#ask("DELETE", `v1/documents/${encodeURIComponent(id)}`);
  }

  async #learnSpec(key) {
    const { fingerprint, spec } = parseWithSeeds(await this.#fetch("GET", "v1/stats"));
    if (typeof spec !== "object" || spec === null) {
      throw new FormatError("the service names no specification: is this neardup?");
    }
    const found = new Spec(spec);
    if (found.fingerprint !== fingerprint) {
      throw new SpecMismatch(
        `the specification of the service has the fingerprint ${fingerprint}, here it is ` +
          `${found.fingerprint}: use the version of this library that goes with the service`,
      );
    }
    this.#sketcher = new Sketcher(found, key);
  }

  /** The signatures of texts, as the service takes them; null for a text that is empty. */
  #signatures(texts) {
    const { fingerprint } = this.spec;
    return texts.map((text) => {
      try {
        const { slotBytes, content } = this.#sketcher.sketch(text);
        return { fingerprint, slots: toBase64(slotBytes), content };
      } catch (error) {
        if (error instanceof EmptyText) {
          return null;
        }
        throw error;
      }
    });
  }

  async #post(path, body) {
    return this.#ask("POST", path, JSON.stringify(body));
  }

  async #ask(method, path, body) {
    const text = await this.#fetch(method, path, body);
    return text === "" ? null : JSON.parse(text);
  }

  async #fetch(method, path, body) {
    const type = body === undefined ? {} : { "Content-Type": "application/json" };
    const response = await fetch(new URL(path, this.#base), {
      method,
      body,
      headers: { ...this.#headers, ...type },
      signal: AbortSignal.timeout(1000 * this.#seconds),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new ServiceError(response.status, parsed(text), retryAfter(response));
    }
    return text;
  }
}

function toBase64(bytes) {
  let letters = "";
  for (const byte of bytes) {
    letters += String.fromCharCode(byte);
  }
  return btoa(letters);
}

/** The fields that have a value. */
function given(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** The body of an error; that of a proxy in front of the service may be anything. */
function parsed(text) {
  try {
    const body = JSON.parse(text);
    return typeof body === "object" && body !== null ? body : {};
  } catch {
    return {};
  }
}

function retryAfter(response) {
  const seconds = Number.parseFloat(response.headers.get("Retry-After") ?? "");
  return Number.isNaN(seconds) ? null : seconds;
}
