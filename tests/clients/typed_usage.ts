// How users' type checkers see the JavaScript client: each line after an `expect-error` is refused.

import {
  BBitMinHash, EmptyText, Key, MinHash, NeardupError, Service, ServiceError, Sketcher, Spec,
} from "neardup";

const spec: Spec = Spec.of("char:5", { slots: 256, seed: 2n ** 63n });
const sketcher = new Sketcher(spec);
const whole: MinHash = sketcher.sketch("a text");
const keys: string[] = whole.merge(whole).bandKeys([21, 6], [5, 2]);
const small: BBitMinHash = BBitMinHash.fromBytes(whole.bBit(8).toBytes());
const similarity: number = small.jaccard(small);
const content: string | null = MinHash.fromBytes(whole.toBytes()).content;

async function ask(key: Key): Promise<string | null> {
  const service = await Service.open("http://127.0.0.1:8080", { apiKey: "k", key, seconds: 3 });
  const answer = await service.check("a text", { within: 3 });
  try {
    await service.addAll([{ id: 1, text: "a text", metadata: { page: 1 } }], { replace: true });
  } catch (error) {
    if (error instanceof ServiceError && error.retryAfter !== null) {
      return error.code;
    }
    const refused: NeardupError = new EmptyText();
    throw refused;
  }
  return answer.status === "duplicate" ? answer.duplicate_of : null;
}

// @ts-expect-error
whole.bBit(32);
// @ts-expect-error
new Spec({ profile: "other" });
// @ts-expect-error
sketcher.sketch(7);
// @ts-expect-error
whole.jaccard(small);
// @ts-expect-error
new Service("http://127.0.0.1:8080");
// @ts-expect-error
spec.size = 3;

export { ask, content, keys, similarity };
