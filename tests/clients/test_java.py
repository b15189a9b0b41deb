"""The Java library: all vectors that it supports, and what changed rules do to them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.java import SOURCES, TABLES, java, java_blocks, jdk, run_snippet

from neardup.spec import Spec

VECTORS = Path(__file__).parents[2] / "spec/vectors/1"
FIXED = {"family": "affine32", "sketch": "minhash"}
COMPUTED = ("mix", "blake2b", "normalise", "units")

# A rule of the library, and what it is changed to.
MUTANTS = [
    ("Xxh64", "rotateLeft(acc + lane * P2, 31)", "rotateLeft(acc + lane * P2, 29)"),
    ("Xxh64", "((int) INTS.get(data, at) & 0xFFFFFFFFL) * P1", "(int) INTS.get(data, at) * P1"),
    ("Xxh3", "(x >> 63 & y) + (y >> 63 & x)", "0"),
    ("Blake2b", "v[14] = ~v[14]", "v[15] = ~v[15]"),
    ("NormalForm", "before < combining ?", "before <= combining ?"),
    ("NormalForm", "(first - SYLLABLES) % 28 == 0", "(first - SYLLABLES) % 28 >= 0"),
    ("NormalForm", "second < TAILS + 28", "second <= TAILS + 28"),
    ("UnicodeData", "parts.length == 2 && !never[whole]", "parts.length == 2"),
    ("CharacterTable", "case 'W', 'N' -> WORD", "case 'W' -> WORD"),
    ("CharacterTable", "combining != 0 && combining < before", "false"),
    ("Profile", "{0x08D3, 0x08E1}", "{0x08D3, 0x08E0}"),
    ("UnitCutter", "code < 0x10000", "code <= 0x10000"),
    ("UnitCutter", "kind == MARK && open == 0", "kind == MARK"),
    ("UnitCutter", "words += open & (within ^ 1 | alone)", "words += open & (within ^ 1)"),
    ("UnitCutter", "gap = written > begin", "gap = true"),
    ("Sketcher", "Xxh64.mix(sum + size * PER_UNIT)", "Xxh64.mix(sum + spec.size() * PER_UNIT)"),
    ("Sketcher", "Xxh64.hash(data, 0, data.length, 2)", "Xxh64.hash(data, 0, data.length, 0)"),
    ("SecretKey", "round < 4", "round < 3"),
    ("SecretKey", "(long) length << 56", "(long) length << 48"),
    ("Permutations", 'Xxh64.hash("a:" + slot, seed) | 1', 'Xxh64.hash("a:" + slot, seed)'),
    ("Permutations", "least[slot] ^= Integer.MIN_VALUE", "least[slot] ^= 0"),
    ("Sketch", "(share - chance) / (1 - chance)", "share"),
    ("Sketch", "slot * SPREAD >>> 32", "slot >>> 32"),
    ("Sketch", "at, 4 * table[1], band)", "at, 4 * table[1], 0)"),
    ("Sketch", "end - at != 4 * spec.slots()", "end - at < 4 * spec.slots()"),
]


def supported(line: dict[str, Any]) -> bool:
    """Whether the library computes what a line of the vectors expects."""
    given, expected = line["given"], line["expected"]
    if line["kind"] in COMPUTED:
        return True
    if line["kind"] == "hash":
        return given["function"] in ("xxh64", "xxh3", "siphash")
    if line["kind"] == "bands":
        return bool(given["width"] == 32)
    if line["kind"] == "read":
        return "refused" in expected or computed(expected["spec"])
    sketched = line["kind"] in ("shingles", "document", "sketch", "similarity")
    return sketched and "tokens" not in given and computed(given["spec"])


def computed(canonical: str) -> bool:
    spec = json.loads(canonical)
    others = set(spec) - {*Spec().stated, "key"}
    hashed = spec["hash"] in ("xxh64", "siphash") and spec["unit"] in ("word", "char", "line")
    return FIXED.items() <= spec.items() and hashed and not others


@pytest.mark.parametrize("page", ["clients/java/README.md", "docs/clients.md"])
def test_code_of_pages(page: str, classes: Path, tmp_path: Path) -> None:
    printed, promised = run_snippet(java_blocks(page)[0], classes, tmp_path)
    assert printed == promised and promised


def test_missing_jdk_names_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="no javac: make setup installs the JDK"):
        jdk("javac")


def test_pom_names_the_tables_and_no_address() -> None:
    pom = SOURCES.parent / "pom.xml"
    names = {"m": "http://maven.apache.org/POM/4.0.0"}
    project = ElementTree.parse(pom)
    folder = project.findtext(".//m:resource/m:directory", namespaces=names)
    tables = project.findall(".//m:resource//m:include", names)
    assert folder and {str(table.text) for table in tables} == {
        path.name for path in TABLES.iterdir() if path.suffix == ".txt"
    }
    assert (pom.parent / folder).resolve() == TABLES
    tags = {element.tag.partition("}")[2] for element in project.iter()}
    assert not tags & {"repository", "repositories", "url", "distributionManagement", "dependency"}


THREADS = """
Sketcher sketcher = new Sketcher(Spec.of("word:2"));
java.util.List<String> texts = java.util.stream.IntStream.range(0, 3000)
        .mapToObj(n -> "Größe ".repeat(n % 97) + n + (n == 7 ? " x".repeat(40000) : "")).toList();
java.util.List<Sketch> alone = texts.stream().map(text -> sketcher.sketch(text).get()).toList();
java.util.List<Sketch> together =
        texts.parallelStream().map(text -> sketcher.sketch(text).get()).toList();
System.out.println(alone.equals(together) + " " + alone.stream().distinct().count()); // true 3000
"""


def test_threads(classes: Path, tmp_path: Path) -> None:
    printed, promised = run_snippet(THREADS, classes, tmp_path)
    assert printed == promised


UNION = """
Sketcher sketcher = new Sketcher(Spec.DEFAULT.withSlots(64));
Sketch a = sketcher.sketch(new long[] {1, 1L << 40 | 5, -3});
Sketch b = sketcher.sketch(new long[] {-3, 9});
System.out.println(a.union(b).equals(sketcher.sketch(new long[] {-3, 9, 1, 1L << 40 | 5}))); // true
System.out.println(a.union(sketcher.sketch(new long[0])).equals(a)); // true
System.out.println(a.equals(b) + " " + a.union(b).content().isPresent()); // false false
"""


def test_union(classes: Path, tmp_path: Path) -> None:
    printed, promised = run_snippet(UNION, classes, tmp_path)
    assert printed == promised


REFUSALS = {
    'Spec.of("word5");': "write word:5, char:24 or line:1",
    'Spec.of("token:5");': "this library has word, char and line",
    "Spec.DEFAULT.withBits(3);": "3 bits of a slot: use one of",
    "Spec.DEFAULT.withSlots(0);": "0 slots: use 1 to 65536",
    'Spec.parse("[]");': "a specification is not a JSON object",
    'new Sketcher(Spec.DEFAULT, SecretKey.parse("00".repeat(16)));': "use it without one",
    'SecretKey.parse("secret");': "a key has 32 hexadecimal digits",
    "new Sketcher(Spec.DEFAULT).sketch(new long[1]).bandKeys(22, 6);": "need 132 slots",
    "new Sketcher(Spec.DEFAULT).sketch(new long[1]).bandKeys(0, 6);": "number of bands",
    "new Sketcher(Spec.DEFAULT).sketch(new long[1]).similarity("
    "new Sketcher(Spec.DEFAULT.withSeed(1)).sketch(new long[1]));": "make both with the same one",
    "Sketch.fromBytes(new byte[3]);": "its bytes begin with nds1",
}


def test_refusals(classes: Path, tmp_path: Path) -> None:
    tried = "".join(
        f"try {{ {code} System.out.println(); }} catch (IllegalArgumentException refused) "
        "{ System.out.println(refused.getMessage()); }\n"
        for code in REFUSALS
    )
    printed, _ = run_snippet(tried, classes, tmp_path)
    for said, (code, wanted) in zip(printed, REFUSALS.items(), strict=True):
        assert wanted in said, code


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
