"""The test vectors notice a broken rule: the JavaScript without it does not pass them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.javascript import CLIENT, run_node

VECTORS = Path(__file__).parents[2] / "spec/vectors/1"

MUTATIONS = {
    # the rule that is broken: vectors, module, what is replaced, by what
    "a sum carries": ("hashes", "arithmetic.js", "? 1 : 0", "? 0 : 0"),
    "xxHash64 counts the bytes": ("hashes", "xxh64.js", "low = (low + length) | 0;", ""),
    "SipHash ends with four rounds": ("hashes", "siphash.js", "rounds(4)", "rounds(3)"),
    "slots of a key are secret": ("sketches", "key.js", "neardup seed", "neardup sead"),
    "marks go on a word": ("texts", "units.js", "kind === MARK || ", ""),
    "joiners separate nothing": ("texts", "units.js", "if (kind === DROPPED)", "if (false)"),
    "Han characters are words": ("texts", "units.js", "kind === WORD && !alone", "kind !== 0"),
    "U+000D ends a line": ("texts", "units.js", " || code === CARRIAGE_RETURN", ""),
    "marks are sorted": ("texts", "normal-form.js", "cccOf(a) - cccOf(b)", "0"),
    "marks block marks": (
        "texts",
        "normal-form.js",
        "starter >= 0 && before < ccc",
        "starter >= 0",
    ),
    "some pairs never compose": (
        "texts",
        "normal-form.js",
        " && !(table.entry(code) & UNSETTLED)",
        "",
    ),
    "digits are one": ("texts", "characters.js", "? 0x30 :", "? code :"),
    "a shingle has its length": ("shingles", "shingles.js", "product([size, 0], LENGTH)", "[0, 0]"),
    "a short text has a shingle": (
        "shingles",
        "shingles.js",
        "Math.max(count - this.size, 0) + 1",
        "count",
    ),
    "content has two seeds": (
        "shingles",
        "sketcher.js",
        "bytes.length, 2, 0",
        "bytes.length, 1, 0",
    ),
    "multipliers are odd": ("documents", "permutations.js", "hash[0] | 1", "hash[0]"),
    "slots are unsigned": ("documents", "permutations.js", "(hash[0] + TURN) | 0", "hash[0]"),
    "the highest bits are stored": (
        "sketches",
        "minhash.js",
        ">>> (WIDTH - bits)",
        "& ((1 << bits) - 1)",
    ),
    "keys of JSON are sorted": ("documents", "spec.js", ".sort().map", ".map"),
    "bands are numbered": ("bands", "minhash.js", "keys.length, 0, hash", "0, 0, hash"),
    "bytes have a checksum": ("bands", "sketch-bytes.js", "!== xxh3(", "=== -xxh3("),
}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("mutated") / "js"
    shutil.copytree(CLIENT, copy)
    return copy


def vectors_pass(client: Path, vectors: str) -> bool:
    arguments = ("--test-reporter=tap", f"--test-name-pattern={vectors}")
    script = client / "test/vectors.test.js"
    run = run_node(*arguments, script, NEARDUP_VECTORS=f"{VECTORS.as_uri()}/")
    ran = re.search(f"^(not )?ok .* {vectors}.jsonl$", run.stdout, re.MULTILINE)
    assert run.returncode in (0, 1) and ran, run.stdout + run.stderr
    return run.returncode == 0


@pytest.mark.parametrize("vectors", sorted({vectors for vectors, *_ in MUTATIONS.values()}))
def test_unchanged_rules_pass(copied: Path, vectors: str) -> None:
    assert vectors_pass(copied, vectors)


@pytest.mark.parametrize("rule", MUTATIONS)
def test_broken_rule_fails(copied: Path, rule: str) -> None:
    vectors, name, old, new = MUTATIONS[rule]
    source = copied / "src" / name
    text = source.read_text()
    assert text.count(old) == 1, f"{old!r} is not once in {name}"
    source.write_text(text.replace(old, new))
    try:
        assert not vectors_pass(copied, vectors)
    finally:
        source.write_text(text)
