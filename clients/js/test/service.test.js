// The client of the service against a server that notes what it is sent.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";

import { FormatError, ParameterError, Service, ServiceError, Sketcher, Spec, SpecMismatch } from "../index.js";

const TEXT = "A confidential letter about the merger of two companies, not to be read by others.";
const SPEC = new Spec();
const STATS = { documents: 0, spec: JSON.parse(SPEC.canonical), fingerprint: SPEC.fingerprint };

/** Run a test with a server that answers so, and the requests that it has got. */
async function withServer(answer, use) {
  const requests = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => (body += part));
    request.on("end", () => {
      requests.push({ method: request.method, url: request.url, headers: request.headers, body });
      const [status, reply, headers] = answer(request.url, body);
      response.writeHead(status, headers);
      response.end(typeof reply === "string" ? reply : JSON.stringify(reply));
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  try {
    await use(`http://127.0.0.1:${server.address().port}`, requests);
  } finally {
    server.closeAllConnections?.();
    server.close();
  }
}

const withStats = (answer) => (url, body) => (url.endsWith("/stats") ? [200, STATS] : answer(url, body));
const accept = withStats((_, body) => {
  const { documents } = JSON.parse(body || "{}");
  return [200, documents ? { answers: documents.map(({ id }) => ({ id, status: "new" })) } : { status: "new" }];
});

test("a text is not sent, its signature is", async () => {
  await withServer(accept, async (address, requests) => {
    const service = await Service.open(`${address}/dedup/`, { apiKey: "secret" });
    assert.deepEqual(service.spec, SPEC);
    await service.check(TEXT, { within: "mail" });
    await service.add({ id: "a/b", text: TEXT, metadata: { year: 2024 } }, { replace: true });
    await service.document("a/b");
    const [, check, add, get] = requests;
    const made = new Sketcher().sketch(TEXT);
    const signature = {
      fingerprint: SPEC.fingerprint,
      slots: Buffer.from(made.slotBytes).toString("base64"),
      content: made.content,
    };
    assert.deepEqual(JSON.parse(check.body), { signature, within: "mail" });
    assert.deepEqual(JSON.parse(add.body), {
      documents: [{ id: "a/b", metadata: { year: 2024 }, signature }], replace: true,
    });
    assert.equal(get.url, "/dedup/v1/documents/a%2Fb");
    for (const { headers, body, url } of requests) {
      assert.equal(headers.authorization, "Bearer secret");
      for (const word of TEXT.split(/\W+/).filter((each) => each.length > 5)) {
        assert.ok(!(JSON.stringify(headers) + url + body).includes(word), word);
      }
    }
  });
});

test("empty texts are rejected here, in their places", async () => {
  await withServer(accept, async (address, requests) => {
    const service = await Service.open(address);
    const found = await service.addAll([
      { id: "a", text: "one" }, { id: 7, text: " " }, { text: "" }, { id: "d", text: "two" },
    ]);
    assert.deepEqual(found.map(({ id, status }) => [id, status]), [
      ["a", "new"], ["7", "rejected"], [null, "rejected"], ["d", "new"],
    ]);
    assert.equal((await service.check("\n")).reason, "empty");
    assert.equal(requests.length, 2);
    await assert.rejects(service.addAll([{ text: "one" }, { id: "b" }]), ParameterError);
    assert.equal(requests.length, 2);
  });
});

test("errors of the service, and of a proxy before it", async () => {
  const errors = [
    [429, { error: "too_many_requests", message: "later", request_id: "r1" }, { "Retry-After": "3" }],
    [502, "<html>Bad gateway</html>", {}],
  ];
  await withServer(withStats(() => errors.shift()), async (address) => {
    const service = await Service.open(address);
    await assert.rejects(service.check("one"), (error) => {
      assert.ok(error instanceof ServiceError && error.name === "ServiceError");
      assert.deepEqual(
        [error.status, error.code, error.message, error.requestId, error.retryAfter],
        [429, "too_many_requests", "later", "r1", 3],
      );
      return true;
    });
    await assert.rejects(service.check("one"), { status: 502, code: "", retryAfter: null });
  });
});

test("a service with another specification is refused before a text is sketched", async () => {
  const keyed = Spec.of("word:5", { hash: "siphash", key: "616a7e8911622fde" });
  const specs = [
    [{ ...STATS, fingerprint: "0".repeat(32) }, SpecMismatch],
    [{ ...STATS, spec: { ...STATS.spec, strip: "html" } }, ParameterError],
    [{ spec: JSON.parse(keyed.canonical), fingerprint: keyed.fingerprint }, ParameterError],
    [{ documents: 3 }, FormatError],
  ];
  for (const [stats, error] of specs) {
    await withServer(() => [200, stats], (address) =>
      assert.rejects(Service.open(address), error));
  }
  await withServer(() => [401, { error: "unauthorized", message: "no key" }], (address) =>
    assert.rejects(Service.open(address), { code: "unauthorized" }));
});

test("the seed of a service is read to its last digit, and cut slots are sent whole", async () => {
  const spec = Spec.of("char:5", { seed: 2n ** 64n - 3n, bits: 8, slots: 64 });
  const stats = `{"fingerprint": "${spec.fingerprint}", "spec": ${spec.canonical}}`;
  const answer = (url) => [200, url.endsWith("/stats") ? stats : { status: "new" }];
  await withServer(answer, async (address, requests) => {
    const service = await Service.open(address);
    await service.check(TEXT);
    const { signature } = JSON.parse(requests[1].body);
    assert.equal(signature.fingerprint, spec.fingerprint);
    assert.equal(Buffer.from(signature.slots, "base64").length, 4 * 64);
  });
});

test("an answer that does not come is not waited for longer than asked", async () => {
  const server = createServer(() => {});
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const address = `http://127.0.0.1:${server.address().port}`;
  await assert.rejects(Service.open(address, { seconds: 0.1 }), { name: "TimeoutError" });
  server.closeAllConnections?.();
  server.close();
});
