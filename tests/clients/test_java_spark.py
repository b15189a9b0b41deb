"""The example of the Java library on Spark: a real session, by the jars of pyspark."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path

import pyspark
from support.java import ROOT, compile_java, jdk, run
from support.serving import text

from neardup.reference import band_keys, estimate, shingles, signature, unit_hashes, units
from neardup.spec import Spec

SPARK = Path(pyspark.__file__).parent
QUICK = (
    "spark.ui.enabled=false",
    "spark.driver.host=127.0.0.1",
    "spark.sql.shuffle.partitions=2",
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)


def documents() -> dict[str, str]:
    """Twelve texts of 60 words, some with up to five words changed; and nothing visible."""
    rng = random.Random(21)
    found = {f"{seed}-0": text(seed) for seed in range(5)}
    for name, original in [*found.items()]:
        for changes in range(1, 4):
            words = original.split()
            for place in rng.sample(range(60), changes - 1):
                words[place] = "changed"
            found[f"{name[0]}-{changes}"] = " ".join(words)
    return found | {"nothing": " \u200d "}


def expected(texts: dict[str, str]) -> dict[tuple[str, str], float]:
    """Return the pairs that share a band and are similar, by the reference."""
    spec, found = Spec(), {}
    signatures = {
        id: signature(shingles(unit_hashes(units(text, spec), spec), spec.size), spec)
        for id, text in texts.items()
        if units(text, spec)
    }
    keys = {id: band_keys(slots, 21, 6) for id, slots in signatures.items()}
    for a, b in combinations(sorted(signatures), 2):
        similarity = estimate(signatures[a], signatures[b])
        shared = any(x == y for x, y in zip(keys[a], keys[b], strict=True))
        if shared and similarity >= 0.8:
            found[a, b] = similarity
    return found


def test_example(classes: Path, tmp_path: Path) -> None:
    jars, texts = tmp_path / "jars", documents()
    jars.mkdir()
    run(jdk("jar"), "--create", "--file", jars / "neardup-client.jar", "-C", classes, ".")
    example = ROOT / "clients/java/examples/NearDuplicates.java"
    compile_java(tmp_path / "example", example, classpath=f"{jars}/*:{SPARK}/jars/*")
    run(jdk("jar"), "--create", "--file", jars / "example.jar", "-C", tmp_path / "example", ".")
    rows = [{"id": id, "text": text} for id, text in texts.items()]
    (tmp_path / "input.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = [part for setting in QUICK for part in ("--conf", setting)]
    run(
        *(SPARK / "bin/spark-submit", "--master", "local[2]", *settings, "--driver-memory", "1g"),
        *("--class", "NearDuplicates", "--jars", jars / "neardup-client.jar", jars / "example.jar"),
        *(tmp_path / "input.jsonl", tmp_path / "output"),
    )
    lines = [line for part in (tmp_path / "output").glob("*.json") for line in part.open()]
    pairs = {(row["a"], row["b"]): row["similarity"] for row in map(json.loads, lines)}
    wanted = expected(texts)
    assert len(lines) == len(pairs) and pairs == wanted and len(wanted) >= 5
