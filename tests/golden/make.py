"""Make the golden files of a version: one small file of every format that users have on disk.

    python tests/golden/make.py tests/golden/0.2.0

with the version that the files are of. Only public names and the command line are used, so that
this runs with every version. `test_golden_files.py` reads the files of all versions with today's
code.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import neardup

Row = dict[str, Any]
KEY = bytes(range(16))
NEAR: Row = {"threshold": 0.6, "shingle": "word:2"}
"""An operating point by which the short documents of the corpus meet."""

# -- the corpus ---------------------------------------------------------------------------------


def corpus() -> list[Row]:
    """Chains of edits, copies, empty and short texts, markup, repeated lines, many scripts."""
    chance = random.Random(20_260_101)
    vocabulary = [f"word{number}" for number in range(200)]
    texts: list[str] = []
    for number in range(60):
        if number % 3:
            words = chance.choice(texts).split()
            for _ in range(chance.randrange(4)):
                words[chance.randrange(len(words))] = chance.choice(vocabulary)
        else:
            words = chance.choices(vocabulary, k=chance.choice([8, 20, 40]))
        texts.append(" ".join(words))
    greek = "Ένα μικρό βήμα για τον άνθρωπο, ένα μεγάλο άλμα για την ανθρωπότητα είπε κάποτε"
    menu = "home news contact imprint\n"
    texts += [
        *(texts[4].upper() + "!", texts[4], "", " \t", "🎉🎉", "short", "Short!"),
        *(greek, greek + " εκείνος", greek.upper()),
        "漢字かな交じり文のテキストは単語の間に空白がありません",
        "<p>" + texts[7] + "</p><script>skip()</script>",
        *(menu + text for text in texts[9:15]),
        "one line\none line\nanother line",
        texts[0] + "\n\n" + texts[3],
    ]
    return [
        {
            "id": f"doc-{number}",
            "text": text,
            "score": [None, 0.5, 1.0, 2.0][number % 4],
            "lang": ["en", "el", None][number % 3],
        }
        for number, text in enumerate(texts)
    ]


def write_jsonl(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def command(*arguments: object) -> str:
    """Run the command line in this process; what it prints."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["neardup", *map(str, arguments)]
    terminate = signal.getsignal(signal.SIGTERM)
    from neardup.cli import main

    with mock.patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{' '.join(argv)}: {end.code}: {err.getvalue()}") from None
        finally:
            signal.signal(signal.SIGTERM, terminate)
    return out.getvalue()


def pack(folder: Path, file: Path) -> None:
    """A folder as a zip file; reports are left out, since no version reads them."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name not in ("report.html", "evaluation.html", "lock"):
                name = zipfile.ZipInfo(path.relative_to(folder).as_posix(), (2026, 1, 1, 0, 0, 0))
                name.compress_type = zipfile.ZIP_LZMA
                archive.writestr(name, path.read_bytes())


def unpack(file: Path, folder: Path) -> Path:
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    return folder


# -- sketches and specifications ----------------------------------------------------------------

ELEMENTS = [f"element {number}" for number in range(40)]
OTHERS = [*ELEMENTS[10:], "ένα", "🎉", ""]


def _minhash(elements: list[str], **options: Any) -> Any:
    sketch = neardup.MinHash(spec=neardup.Spec.of(**options)) if options else neardup.MinHash()
    sketch.update_batch(elements)
    return sketch


def _filled(sketch: Any, elements: list[str]) -> Any:
    sketch.update_batch(elements)
    return sketch


def _removed(sketch: Any, elements: list[str]) -> Any:
    sketch.update_batch(elements)
    sketch.remove(elements[3])
    return sketch


SKETCHES: dict[str, Callable[[list[str]], Any]] = {
    "minhash": _minhash,
    "minhash seed": lambda of: _filled(neardup.MinHash(16, 7), of),
    "minhash empty": lambda of: neardup.MinHash(16),
    "minhash affine-m61": lambda of: _minhash(of, family="affine-m61", slots=16),
    "minhash oneperm": lambda of: _minhash(of, sketch="oneperm", slots=64),
    "minhash murmur3": lambda of: _filled(neardup.MinHash(16, hash="murmur3"), of),
    "minhash fnv1a": lambda of: _filled(neardup.MinHash(16, hash="fnv1a"), of),
    "minhash siphash": lambda of: _filled(neardup.MinHash(16, hash="siphash", key=KEY), of),
    "bbit 1": lambda of: _minhash(of).b_bit(1),
    "bbit 8": lambda of: _minhash(of).b_bit(8),
    "bottomk": lambda of: _filled(neardup.BottomK(16, 4), of),
    "bottomk removed": lambda of: _removed(neardup.BottomK(64, 4), of),
    "hyperloglog": lambda of: _filled(neardup.HyperLogLog(256), of),
    "removable": lambda of: _filled(neardup.RemovableMinHash(16, 4), of),
    "removable removed": lambda of: _removed(neardup.RemovableMinHash(16, 4), of),
    "simhash": lambda of: _filled(neardup.SimHash(), of),
    "simhash 128": lambda of: _filled(neardup.SimHash(128, 7), of),
    "weighted": lambda of: _filled(
        neardup.WeightedMinHash(16), {element: 0.5 + n for n, element in enumerate(of)}
    ),
}


def figures(sketch: Any, other: Any) -> Row:
    """Every estimate that a sketch gives, alone and of another one."""
    alone = {name: getattr(sketch, name)() for name in ("count", "total") if hasattr(sketch, name)}
    names = ("jaccard", "containment", "cosine", "hamming")
    both = {name: getattr(sketch, name)(other) for name in names if hasattr(sketch, name)}
    return alone | both


def sketch_files() -> Row:
    """By name: the bytes of a sketch and of another one, and the estimates of the two."""
    made: Row = {}
    for name, make in SKETCHES.items():
        one, other = make(ELEMENTS), make(OTHERS)
        made[name] = {
            "bytes": one.to_bytes().hex(),
            "other": other.to_bytes().hex(),
            "figures": figures(one, other),
        }
    return made


SPECS = [
    "",
    *(f"--shingle {shingle}" for shingle in ("word:1", "char:24", "line:1", "token:5")),
    *(f"--text-profile {profile}" for profile in ("conservative", "standard", "aggressive")),
    *(f"--sketch {sketch}" for sketch in ("minhash", "oneperm", "weighted", "simhash")),
    "--sketch simhash --slots 128",
    *(f"--family {family}" for family in ("affine32", "affine-m61")),
    *(f"--bits {bits}" for bits in (1, 2, 4, 8, 16)),
    *(f"--hash {name}" for name in ("xxh64", "murmur3", "fnv1a")),
    "--seed 7 --slots 64",
]


def specifications() -> list[Row]:
    """Options, the canonical JSON of their specification, its fingerprint."""
    made = [(of, command("spec", *of.split(), "--json").strip()) for of in SPECS]
    return [
        {"options": of, "json": text, "fingerprint": neardup.Spec.from_json(text).fingerprint}
        for of, text in made
    ]


# -- filters ------------------------------------------------------------------------------------

FILTERS: dict[str, Callable[[], Any]] = {
    "set": lambda: neardup.ExactSet(40, seed=7),
    "set64": lambda: neardup.ExactSet(40, bits=64),
    "bloom": lambda: neardup.BloomFilter(40, 0.01, seed=7),
    "counting": lambda: neardup.CountingBloomFilter(40, 0.01, seed=7),
    "cuckoo": lambda: neardup.CuckooFilter(40, seed=7),
    "scalable": lambda: neardup.ScalableBloomFilter(10, 0.01, seed=7),
}


def write_filters(folder: Path) -> None:
    folder.mkdir()
    for name, make in FILTERS.items():
        made = make()
        made.insert_many(ELEMENTS)
        neardup.save_filter(made, folder / name)


# -- answers of the library ---------------------------------------------------------------------

QUESTIONS: dict[str, Row] = {
    "defaults": {},
    "near": NEAR,
    "bands": {"threshold": 0.5, "shingle": "word:1", "slots": 12, "bands": 6, "rows": 2},
    "limit": {
        "threshold": 0.3,
        "shingle": "word:1",
        "slots": 12,
        "bands": 12,
        "rows": 1,
        "limit": 2,
    },
    "longest": NEAR | {"keep": "longest"},
    "max": NEAR | {"keep": "max:score"},
    "within": NEAR | {"within": "lang", "keep": "min:score"},
    "estimate": NEAR | {"verify": "estimate", "bits": 8},
    "none": NEAR | {"verify": "none"},
    "containment": NEAR | {"measure": "containment", "keep": "longest"},
    "components": NEAR | {"cluster": "components"},
    "tables": NEAR | {"slots": 256, "tables": "20x5,10x8"},
    "oneperm": NEAR | {"sketch": "oneperm", "slots": 256, "seed": 7},
    "affine-m61": NEAR | {"family": "affine-m61", "hash": "murmur3"},
    "weighted": NEAR | {"sketch": "weighted"},
    "tf-idf": NEAR | {"sketch": "weighted", "weights": "tf-idf"},
    "simhash": {"sketch": "simhash", "hamming": 8, "shingle": "word:1"},
    "characters": {"shingle": "char:5", "threshold": 0.7, "text_profile": "aggressive"},
    "lines": {"shingle": "line:1", "threshold": 0.5, "text_profile": "conservative"},
    "siphash": NEAR | {"hash": "siphash", "key": KEY},
    "stripped": NEAR | {"strip": ["html", "lines:5%"]},
    "fineweb": {"preset": "fineweb"},
}


def decisions(rows: list[Row], options: Row) -> Row:
    """Everything that a result says of the documents."""
    result = neardup.dedup(rows, **options)
    return {
        "fingerprint": result.options.spec.fingerprint,
        "kept": result.kept,
        "removed": [[r.id, r.witness, r.similarity, r.exact] for r in result.removed],
        "rejected": [[r.id, r.reason] for r in result.rejected],
        "clusters": [[c.id, c.size] for c in result.clusters],
        "ignored": [[line.text, line.documents] for line in result.ignored_lines],
    }


# -- runs ---------------------------------------------------------------------------------------

NEAR_OPTIONS = ["--shingle", "word:2", "--threshold", "0.6"]
RUNS: dict[str, list[str]] = {
    "dedup": ["dedup", *NEAR_OPTIONS, "--pairs", "--save-sketches"],
    "narrow": ["dedup", *NEAR_OPTIONS, "--bits", "8", "--verify", "estimate", "--save-sketches"],
    "lines": ["dedup", *NEAR_OPTIONS, "--strip", "lines:5%", "--save-sketches"],
    "tf-idf": ["dedup", *NEAR_OPTIONS, "--sketch", "weighted", "--weights", "tf-idf"],
    "components": ["dedup", *NEAR_OPTIONS, "--cluster", "components", "--keep", "longest"],
    "exact": ["exact"],
    "exact-lines": ["exact", "--unit", "line"],
    "exact-filter": ["exact", "--filter", "bloom"],
}


def run_into(out: Path, name: str, source: Path) -> None:
    what, *options = RUNS[name]
    with chdir(source.parent):  # tables name the inputs as they were given
        command(what, source.name, "-o", out.absolute(), "--id", "id", "--quiet", *options)


# -- indexes ------------------------------------------------------------------------------------

SMALL: Row = NEAR | {"slots": 32, "bands": 16, "rows": 2}
INDEXES: dict[str, Row] = {
    "plain": SMALL,
    "texts": SMALL | {"keep_texts": True},
    "cold": SMALL | {"memory": 1},
    "narrow": SMALL,
    "simhash": {"sketch": "simhash", "hamming": 8, "shingle": "word:1"},
    "siphash": SMALL | {"hash": "siphash", "key": KEY},
}
REMOVED = ["doc-0", "doc-30", "doc-4"]
ASKED = ["nothing like it at all in here", "word1 word2"]


def index_key(name: str) -> Row:
    return {"key": KEY} if name == "siphash" else {}


def make_index(folder: Path, name: str, rows: list[Row]) -> None:
    """Documents in two batches, some of which are removed; half of it in a snapshot."""
    half = len(rows) // 2
    with neardup.Index.open(folder, clock=lambda: 1_767_225_600.0, **INDEXES[name]) as index:
        for some in (rows[:half], rows[half:]):
            index.add_batch(
                [row["id"] for row in some],
                [row["text"] for row in some],
                metadata=[{"score": row["score"]} for row in some],
            )
            if some[0] is rows[0]:
                for id in REMOVED:
                    index.remove(id)
                index.snapshot()
    if name == "narrow":
        command("index", "convert", folder, "--bits", "8", "--quiet")


ANSWER = ("status", "duplicate_of", "similarity", "exact", "cluster", "reason")
DOCUMENT = (
    "number",
    "status",
    "duplicate_of",
    "similarity",
    "exact",
    "cluster",
    "metadata",
    "added",
)


def fields(value: Any, names: tuple[str, ...]) -> list[Any] | None:
    return None if value is None else [getattr(value, name) for name in names]


def index_answers(folder: Path, rows: list[Row], **options: Any) -> Row:
    """What an index says of every document, and of texts."""
    with neardup.Index.open(folder, **options) as index:
        asked = index.query_batch([row["text"] for row in rows] + ASKED)
        return {
            "fingerprint": index.spec.fingerprint,
            "documents": [fields(index.get(row["id"]), DOCUMENT) for row in rows],
            "answers": [fields(answer, ANSWER) for answer in asked],
            "problems": index.verify(),
            "similar": [[one.id, one.similarity] for one in index.similar(rows[1]["text"], 5)],
        }


GROUPED: Row = SMALL | {"slots": 16, "bands": 8, "within": "lang"}
APART: dict[str, Row] = {"groups": GROUPED, "numbers": GROUPED | {"distinguish": "numbers"}}
"""Indexes whose stores have format versions 2 and 3, with groups and numbers; of few documents."""
MEMBERS = 18


def make_groups(folder: Path, rows: list[Row], options: Row) -> None:
    """Documents of three groups, one of them of those without a value; half in a snapshot."""
    half, rows = MEMBERS // 2, rows[:MEMBERS]
    with neardup.Index.open(folder, clock=lambda: 1_767_225_600.0, **options) as index:
        for some in (rows[:half], rows[half:]):
            texts, groups = ([row[name] for row in some] for name in ("text", "lang"))
            index.add_batch([row["id"] for row in some], texts, within=groups)
            if some[0] is rows[0]:
                index.remove("doc-0")
                index.snapshot()


def group_answers(folder: Path, rows: list[Row], **options: Any) -> Row:
    """What an index with groups says of its documents, and of all texts in each group."""
    with neardup.Index.open(folder, **options) as index:
        texts = [row["text"] for row in rows]
        asked = {
            str(group): index.query_batch(texts, within=[group] * len(texts))
            for group in ("en", "el", None, "other")
        }
        return {
            "fingerprint": index.spec.fingerprint,
            "within": index.settings.within,
            "documents": [fields(index.get(row["id"]), DOCUMENT) for row in rows[:MEMBERS]],
            "answers": {
                group: [fields(answer, ANSWER) for answer in answers]
                for group, answers in asked.items()
            },
            "problems": index.verify(),
        }


# -- the service --------------------------------------------------------------------------------


def requests(rows: list[Row]) -> list[tuple[str, str, Any]]:
    """Method, path, body: each kind of question, and of mistake."""
    documents = [{"id": row["id"], "text": row["text"]} for row in rows]
    return [
        ("GET", "/healthz", None),
        ("POST", "/v1/documents", documents[0]),
        ("POST", "/v1/documents", documents[0]),
        ("POST", "/v1/documents", {"id": "doc-0", "text": "another text"}),
        (
            "POST",
            "/v1/documents",
            {"id": 7, "text": "an id that is a number", "metadata": {"a": 1}},
        ),
        ("POST", "/v1/documents", {"documents": documents[1:]}),
        ("POST", "/v1/documents", {"id": "doc-1", "text": "replaced text", "replace": True}),
        ("POST", "/v1/documents", {"text": "without id", "unknown": 1}),
        ("POST", "/v1/documents", {"id": "", "text": "an empty id"}),
        ("POST", "/v1/check", {"text": rows[4]["text"]}),
        ("POST", "/v1/check", {"texts": [row["text"] for row in rows[-20:]]}),
        ("POST", "/v1/check", {}),
        ("POST", "/v1/check", b"not JSON"),
        ("POST", "/v1/explain", {"text": rows[4]["text"]}),
        ("GET", "/v1/documents/doc-5", None),
        ("GET", "/v1/documents/7", None),
        ("GET", "/v1/documents/nobody", None),
        ("DELETE", "/v1/documents/doc-0", None),
        ("DELETE", "/v1/documents/doc-0", None),
        ("GET", "/v1/clusters/6", None),
        ("GET", "/v1/clusters/100000", None),
        ("POST", "/v1/shadow/start", {"threshold": 0.9}),
        ("GET", "/v1/shadow/report", None),
        ("POST", "/v1/shadow/drop", None),
        ("POST", "/v1/shadow/start", {"threshold": 7}),
        ("GET", "/v1/stats", None),
        ("GET", "/metrics", None),
        ("GET", "/openapi.json", None),
        ("GET", "/nowhere", None),
        ("PUT", "/v1/check", None),
    ]


@contextmanager
def service(data: Path, *options: object) -> Iterator[str]:
    """A service as a process of its own; its URL."""
    log = data.parent / f"{data.name}.log"
    arguments = ["serve", "--data", data, "--port", 0, *options]
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "neardup", *map(str, arguments)],
            stderr=file,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
    try:
        ends = time.monotonic() + 300
        while time.monotonic() < ends and process.poll() is None:
            lines = [json.loads(one) for one in log.read_text().splitlines(True) if one[-1] == "\n"]
            urls = [line["url"] for line in lines if "url" in line]
            if urls and ask(urls[0], "GET", "/readyz", None)["status"] == 200:
                yield urls[0]
                return
            time.sleep(0.05)
        raise RuntimeError(log.read_text())
    finally:
        process.terminate()
        process.wait(60)


def ask(url: str, method: str, path: str, body: Any, **headers: str) -> Row:
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | headers
    question = urllib.request.Request(url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(question) as answer:
            status, kind, content = answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        status, kind, content = error.code, error.headers["Content-Type"], error.read()
    if kind and "json" in kind:
        return {"status": status, "json": json.loads(content)}
    return {"status": status}


PASSING = ("message", "request_id", "added", "seconds")
"""What is of the moment, or for people."""


def steady(value: Any) -> Any:
    """An answer without what differs from one request to the next."""
    if isinstance(value, dict):
        return {
            name: steady(one)
            for name, one in value.items()
            if not any(part in name for part in PASSING)
        }
    return [steady(one) for one in value] if isinstance(value, list) else value


def shape(value: Any) -> Any:
    """The names in an answer whose figures are those of a machine."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in sorted(value.items())}
    return None


def service_answers(data: Path, rows: list[Row]) -> list[Row]:
    """Each request with its status and what is steady of its answer."""
    found: list[Row] = []
    with service(data, "--threshold", "0.6") as url:
        for method, path, body in requests(rows):
            answer = ask(url, method, path, body)
            if path == "/openapi.json":
                answer["json"] = {at: sorted(one) for at, one in answer["json"]["paths"].items()}
            elif path == "/v1/stats" or (answer["status"] == 200 and "/shadow/" in path):
                # figures of a machine, or of the moment: a shadow catches up beside the requests
                answer["json"] = shape(answer["json"])
            found.append({"request": [method, path], **steady(answer)})
    return found


# -- labels -------------------------------------------------------------------------------------

LABELS = [
    ("doc-4", "doc-60", 1),
    ("doc-4", "doc-61", 1),
    ("doc-0", "doc-3", 0),
    ("doc-67", "doc-68", 1),
]


def write_labels(path: Path) -> Path:
    lines = [("a", "b", "same"), *LABELS]
    path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
    return path


EVALUATED = ["--pairs", "a,b,same", "--id", "id", *NEAR_OPTIONS, "--quiet"]


def main(folder: Path) -> None:
    folder = folder.absolute()
    folder.mkdir(parents=True)
    work = folder / "work"
    work.mkdir()
    rows = corpus()
    source = write_jsonl(folder / "corpus.jsonl", rows)
    write_json(folder / "sketches.json", sketch_files())
    write_json(folder / "specs.json", specifications())
    write_filters(folder / "filters")
    write_json(
        folder / "answers.json", {name: decisions(rows, of) for name, of in QUESTIONS.items()}
    )
    for name in RUNS:
        run_into(work / name, name, source)
        pack(work / name, folder / f"run-{name}.zip")
    indexes: Row = {}
    for name in INDEXES:
        make_index(work / f"index-{name}", name, rows)
        pack(work / f"index-{name}", folder / f"index-{name}.zip")
        indexes[name] = index_answers(work / f"index-{name}", rows, **index_key(name))
    write_json(folder / "index-answers.json", indexes)
    for name, options in APART.items():
        make_groups(work / name, rows, options)
        pack(work / name, folder / f"index-{name}.zip")
        write_json(folder / f"index-{name}.json", group_answers(work / name, rows))
    command("index", "export", work / "index-texts", folder / "index.export")
    (folder / "key").write_text(
        command("keys", "add", "reader", "--data", work / "index-plain", "--scope", "read")
    )
    shutil.copy(work / "index-plain" / "api-keys.json", folder / "api-keys.json")
    command(
        *("plan", "--documents", "1M", "--shingles", "100", "--bytes", "1KB", "--no-calibrate"),
        *("--memory", "4GB", "--disk", "100GB", "--cores", "2", "--out", folder / "config.toml"),
    )
    golden = write_labels(folder / "labels.tsv")
    command("evaluate", golden, "--corpus", source, *EVALUATED, "--out", work / "evaluation")
    shutil.copy(work / "evaluation" / "evaluation.json", folder / "evaluation.json")
    write_json(folder / "service.json", service_answers(work / "service", rows))
    shutil.rmtree(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
