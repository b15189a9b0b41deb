"""The Java library: all vectors that it supports, and what changed rules do to them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.java import SOURCES, compile_client, compile_java, java

VECTORS = Path(__file__).parents[2] / "spec/vectors/1"
FIXED = {"family": "affine32", "hash": "xxh64", "sketch": "minhash"}
COMPUTED = ("mix", "blake2b", "normalise", "units")

# A rule of the library, and what it is changed to.
MUTANTS = [
    ("Xxh64", "rotateLeft(acc + lane * P2, 31)", "rotateLeft(acc + lane * P2, 29)"),
    ("Xxh64", "((int) INTS.get(data, at) & 0xFFFFFFFFL) * P1", "(int) INTS.get(data, at) * P1"),
    ("Xxh3", "(x >> 63 & y) + (y >> 63 & x)", "0"),
    ("Blake2b", "v[14] = ~v[14]", "v[15] = ~v[15]"),
    ("NormalForm", "before < combining ?", "before <= combining ?"),
    ("NormalForm", "(first - SYLLABLES) % 28 == 0", "(first - SYLLABLES) % 28 >= 0"),
    ("UnicodeData", "parts.length == 2 && !never[whole]", "parts.length == 2"),
    ("CharacterTable", "case 'W', 'N' -> WORD", "case 'W' -> WORD"),
    ("UnitCutter", "kind == MARK && open == 0", "kind == MARK"),
    ("UnitCutter", "words += open & (within ^ 1 | alone)", "words += open & (within ^ 1)"),
    ("UnitCutter", "gap = written > begin", "gap = true"),
    ("Sketcher", "Xxh64.mix(sum + size * PER_UNIT)", "Xxh64.mix(sum + spec.size() * PER_UNIT)"),
    ("Sketcher", "Xxh64.hash(data, 0, data.length, 2)", "Xxh64.hash(data, 0, data.length, 0)"),
    ("Permutations", 'Xxh64.hash("a:" + slot, seed) | 1', 'Xxh64.hash("a:" + slot, seed)'),
    ("Permutations", "least[slot] ^= Integer.MIN_VALUE", "least[slot] ^= 0"),
    ("Sketch", "slot * SPREAD >>> 32", "slot >>> 32"),
    ("Sketch", "at, 4 * table[1], band)", "at, 4 * table[1], 0)"),
    ("Sketch", "end - at != 4 * spec.slots()", "end - at < 4 * spec.slots()"),
]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_client(tmp_path_factory.mktemp("java"))


def supported(line: dict[str, Any]) -> bool:
    """Whether the library computes what a line of the vectors expects."""
    given, expected = line["given"], line["expected"]
    if line["kind"] in COMPUTED:
        return True
    if line["kind"] == "hash":
        return given["function"] in ("xxh64", "xxh3")
    if line["kind"] == "bands":
        return bool(given["width"] == 32)
    if line["kind"] == "read":
        return "refused" in expected or computed(expected["spec"])
    return "tokens" not in given and "spec" in given and computed(given["spec"])


def computed(canonical: str) -> bool:
    spec = json.loads(canonical)
    others = {"strip", "ignored", "key", "weights", "vectors"} & set(spec)
    return FIXED.items() <= spec.items() and spec["unit"] in ("word", "char", "line") and not others


def test_code_of_the_readme(classes: Path, tmp_path: Path) -> None:
    page = (SOURCES.parent / "README.md").read_text("utf-8")
    code = page.partition("```java\n")[2].partition("```")[0]
    made, asked = code.split("ServiceClient client", 1)
    (tmp_path / "Readme.java").write_text(f"""
        import neardup.*;
        class Readme {{
            public static void main(String[] none) {{
                {made}
                System.out.println(similarity + " " + keys.length + " " + new String(bytes, 0, 4));
            }}
            static void ask(String text) throws Exception {{ ServiceClient client{asked} }}
        }}""")
    compile_java(tmp_path / "out", tmp_path / "Readme.java", classpath=str(classes))
    assert java(f"{tmp_path}/out:{classes}", "Readme") == "1.0 21 nds1\n"


def test_vectors(classes: Path) -> None:
    files = sorted(VECTORS.glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    wanted = Counter(line["kind"] for line in lines if supported(line))
    printed = java(classes, "neardup.VectorCheck", *files)
    assert {k: int(v) for k, v in map(str.split, printed.splitlines())} == wanted
    kinds = {"shingles", "document", "sketch", "similarity", "bands", "read"}
    assert set(wanted) == {"hash", *COMPUTED, *kinds}


def test_changed_rules_are_found(classes: Path, tmp_path: Path) -> None:
    for number, (name, rule, changed) in enumerate(MUTANTS):
        source = (SOURCES / f"main/java/neardup/{name}.java").read_text()
        assert source.count(rule) == 1, f"{name}: {rule}"
        folder = tmp_path / f"{number:02}"
        folder.mkdir()
        (folder / f"{name}.java").write_text(source.replace(rule, changed))
    printed = java(classes, "neardup.MutantCheck", classes, VECTORS, tmp_path)
    counts = dict(line.split("\t") for line in printed.splitlines())
    missed = [MUTANTS[int(n)] for n, count in counts.items() if not count.isdigit() or count == "0"]
    assert len(counts) == len(MUTANTS) and not missed
