"""Vectors that are not in a column: the answer is that of the same vectors in a column."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import batch_engine, command_line

import neardup
from neardup.corpus.read import count_rows
from neardup.corpus.shards import cut_shards
from neardup.decisions import Decision
from neardup.errors import InputError, ParameterError, UsageError
from neardup.options import Options
from neardup.pipeline.job import make_job
from neardup.pipeline.run import run_job
from neardup.pipeline.vector_inputs import place_vectors

RANDOM = np.random.default_rng(7)
TEXTS = [f"the text of number {n % 25} has some words, and {n} too" for n in range(60)]
TEXTS[5] = TEXTS[35]
MATRIX = RANDOM.normal(size=(60, 8)).astype(np.float32)
MATRIX[30:45] = MATRIX[:15] + RANDOM.normal(size=(15, 8)).astype(np.float32) * 0.05
MATRIX[35] = MATRIX[5]  # a function can't tell equal texts apart
MATRIX[50] = 0
TABLE = pa.table({"text": TEXTS, "id": [f"d{n}" for n in range(60)], "v": MATRIX.tolist()})
ROLES: list[dict[str, Any]] = [
    {"vectors": "{}", "cosine": 0.95},
    {"also": "{}:0.95", "threshold": 0.9},
    {"unless": "{}:0.5", "threshold": 0.4},
]
SOURCE = f"""
import json
import numpy as np
TEXTS = {TEXTS!r}
MATRIX = np.array({MATRIX.tolist()!r}, np.float32)
def embed(texts):
    with open(__file__ + ".asked", "a") as file:
        file.write(json.dumps(texts) + "\\n")
    return MATRIX[[TEXTS.index(text) for text in texts]]
"""


def named(role: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        key: value.format(name) if isinstance(value, str) else value for key, value in role.items()
    }


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    return [
        (one["id"], one["witness"], one["similarity"], one.get("cosine"), one.get("by"))
        for one in found
    ]


def in_memory(data: Any, **options: Any) -> list[tuple[Any, ...]]:
    result = neardup.dedup(data, id="id", **options)
    names = ("id", "witness", "similarity", "cosine", "by")
    found = [{name: getattr(one, name) for name in names} for one in result.removed]
    return rows_of(found)


def write_inputs(folder: Path) -> list[Path]:
    """Write the documents to files of several formats, some of which are cut into shards."""
    folder.mkdir(exist_ok=True)
    pq.write_table(TABLE[:20], folder / "a.parquet", row_group_size=7)
    rows = TABLE.select(["text", "id"]).to_pylist()
    lines = "".join(json.dumps(row) + "\n" for row in rows[20:50])
    (folder / "b.jsonl").write_text(lines)
    cells = "".join(f'"{row["text"]}",{row["id"]}\n' for row in rows[50:])
    (folder / "c.csv").write_text("text,id\n" + cells)
    return [folder / name for name in ("a.parquet", "b.jsonl", "c.csv")]


def over_files(inputs: list[Path], out: Path, **options: Any) -> list[tuple[Any, ...]]:
    job = make_job(inputs, out, Options.of(**options), shard=1000, chunk=500, workers=2)
    run_job(job, batch_engine.Silent())
    return rows_of(batch_engine.table(out, "removed"))


@pytest.fixture
def function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_embedder.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_embedder", raising=False)
    return "own_embedder:embed"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: next(iter(role)))
def test_all_ways_have_one_answer(tmp_path: Path, role: dict[str, Any], function: str) -> None:
    expected = in_memory(TABLE, **named(role, "v"))
    assert 3 < len(expected) < 60
    np.save(tmp_path / "v.npy", MATRIX.astype(np.float64))
    beside = named(role, str(tmp_path / "v.npy"))
    embedded = {key: value for key, value in named(role, "embed").items() if key != "vectors"}
    embedded["embed"] = function
    given = {key: value for key, value in named(role, "matrix").items() if key != "vectors"}
    texts = TABLE.select(["text", "id"])
    assert in_memory(texts, **beside) == expected
    assert in_memory(texts, **embedded) == expected
    assert in_memory(texts, **given, matrix=MATRIX) == expected
    inputs = write_inputs(tmp_path / "in")
    assert over_files(inputs, tmp_path / "beside", **beside) == expected
    assert over_files(inputs, tmp_path / "embedded", **embedded) == expected


def test_each_text_is_embedded_once(tmp_path: Path, function: str) -> None:
    over_files(write_inputs(tmp_path / "in"), tmp_path / "out", embed=function, cosine=0.95)
    lines = (tmp_path / "own_embedder.py.asked").read_text().splitlines()
    asked = [text for line in lines for text in json.loads(line)]
    assert sorted(asked) == sorted(set(TEXTS))


def test_a_file_of_vectors_is_for_all_documents_in_order(tmp_path: Path) -> None:
    inputs = write_inputs(tmp_path / "in")
    np.save(tmp_path / "v.npy", MATRIX[:-1])
    with pytest.raises(InputError, match=r"v\.npy has 59 vectors for 60 documents"):
        over_files(inputs, tmp_path / "out", vectors=str(tmp_path / "v.npy"), cosine=0.9)
    given = (*inputs, "-o", tmp_path / "out", "--vectors", tmp_path / "w.npy", "--cosine", "0.9")
    for more in ((), ("--dry-run",)):
        ran = command_line.neardup("dedup", *given, *more)
        assert ran.code == 1 and "w.npy: No such file" in ran.err
    np.save(tmp_path / "v.npy", MATRIX)
    options = Options.of(vectors=str(tmp_path / "v.npy"), cosine=0.9)
    for more in ({"prefer": "*b.jsonl"}, {"save_sketches": True}, {"skip_bad_files": True}):
        job = make_job(inputs, tmp_path / "out", options, **more)
        with pytest.raises(UsageError, match=r"not supported with vectors of .*v\.npy"):
            run_job(job, batch_engine.Silent())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"embed": "a:b"}, "give --cosine T, --also embed:T"),
        ({"embed": "a:b", "vectors": "v", "cosine": 0.9}, "leave out --vectors"),
        ({"embed": "a:b", "also": "v:0.9"}, "write --also embed:0.9"),
        ({"embed": "no_such_module:b", "cosine": 0.9}, "no module 'no_such_module'"),
        ({"embed": len, "also": "embed:0.9"}, r"embed is a name.*matrix=FUNCTION\(texts\)"),
        ({"embed": "my_model.py:b", "cosine": 0.9}, "name its module, my_model:b"),
        ({"cosine": 0.9}, "a NumPy matrix as the data"),
        ({"matrix": MATRIX}, "matrix has the vectors"),
        ({"matrix": MATRIX, "also": "v:0.9"}, "matrix has the vectors"),
        ({"matrix": MATRIX.tolist(), "cosine": 0.9}, "must be a NumPy array"),
        ({"matrix": MATRIX[:5], "cosine": 0.9}, "5 vectors for 60 documents"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], why: str) -> None:
    with pytest.raises((ParameterError, UsageError), match=why):
        neardup.dedup(TABLE, **options)


def test_a_matrix_is_no_list_of_texts() -> None:
    with pytest.raises(ParameterError, match=r"a matrix, of vectors: pass cosine=0\.95"):
        neardup.dedup(MATRIX)
    tokens = np.tile(np.arange(9), (2, 1))
    assert neardup.dedup(tokens, shingle="token:3").kept == [0]


def test_a_decision_is_explained_with_the_vectors_beside(tmp_path: Path, function: str) -> None:
    inputs = write_inputs(tmp_path / "in")
    np.save(tmp_path / "v.npy", MATRIX)
    over_files(inputs, tmp_path / "a", vectors=str(tmp_path / "v.npy"), cosine=0.95)
    over_files(inputs, tmp_path / "b", embed=function, also="embed:0.95")
    explained = command_line.neardup("why", tmp_path / "a", "d30", "-q")
    assert explained.code == 0
    assert "cosine 0.99" in explained.out and "buckets " in explained.out
    explained = command_line.neardup("why", tmp_path / "b", "d30", "-q")
    assert explained.code == 0
    assert "cosine 0.99" in explained.out and "not kept after a run" in explained.out
    (tmp_path / "v.npy").unlink()
    explained = command_line.neardup("why", tmp_path / "a", "d30", "-q")
    assert explained.code == 0
    assert "v.npy: No such file" in explained.out


def test_short_documents_are_read_with_few_vectors_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "{n}"}}\n' for n in range(3000)))
    np.save(tmp_path / "v.npy", np.ones((3000, 1 << 13), np.int8))
    options = Options.of(vectors=str(tmp_path / "v.npy"), cosine=0.9)
    job = make_job([tmp_path / "a.jsonl"], tmp_path / "out", options)
    shards = cut_shards(job.inputs, job.reading)
    job, shards = place_vectors(job, tmp_path, shards, batch_engine.Silent())
    sizes = [count_rows(chunk) for shard in shards for chunk in shard.chunks()]
    assert sum(sizes) == 3000 and max(sizes) < 400  # of 32 KB each


def test_what_a_function_prints_is_not_in_the_output(tmp_path: Path) -> None:
    (tmp_path / "own_printer.py").write_text(
        "print('loading')\n"
        "def embed(texts):\n    print('embedding')\n    return [[1, len(t)] for t in texts]\n"
    )
    (tmp_path / "a.jsonl").write_text('{"text": "one text"}\n')
    asked = ("--embed", "own_printer:embed", "--cosine", "0.9")
    ran = subprocess.run(
        [sys.executable, "-m", "neardup", "dedup", "a.jsonl", "-o", "-", *asked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, '{"text": "one text"}\n'), ran.stderr
    assert {"loading", "embedding"} < set(ran.stderr.splitlines())


def test_a_folder_does_not_decide_which_function_is_called(tmp_path: Path, function: str) -> None:
    run = tmp_path / "run"
    over_files(write_inputs(tmp_path / "in"), run, embed=function, also="embed:0.95")
    asked = (tmp_path / "own_embedder.py.asked").read_bytes()
    stays = Decision("keep", "d30", who="ann", when="2026-03-01T12:00:00Z")
    with pytest.raises(UsageError, match=r"dedup --embed own_embedder:embed --decisions"):
        neardup.apply_decisions(run, [stays], tmp_path / "decided", progress=False)
    assert (tmp_path / "own_embedder.py.asked").read_bytes() == asked


def test_a_killed_run_asks_only_for_what_is_missing(tmp_path: Path, function: str) -> None:
    inputs = write_inputs(tmp_path / "in")
    own = tmp_path / "own_embedder.py"
    own.write_text(
        SOURCE.replace(
            "    return",
            "    if TEXTS[40] in texts and not os.path.exists(__file__ + '.killed'):\n"
            "        open(__file__ + '.killed', 'w').close()\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "    return",
        ).replace("import json", "import json, os, signal")
    )
    command = [sys.executable, "-m", "neardup", "dedup", *inputs, "-o", tmp_path / "out"]
    command += ["--embed", function, "--cosine", "0.95", "-q"]

    def run() -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    assert run().returncode == -signal.SIGKILL
    asked = tmp_path / "own_embedder.py.asked"
    before = {text for line in asked.read_text().splitlines() for text in json.loads(line)}
    asked.unlink()
    ended = run()
    assert ended.returncode == 0, ended.stderr
    after = {text for line in asked.read_text().splitlines() for text in json.loads(line)}
    assert len(before & after) < len(before), "the vectors before the last batch are known"
    assert before | after == set(TEXTS)
    expected = in_memory(TABLE, vectors="v", cosine=0.95)
    assert rows_of(batch_engine.table(tmp_path / "out", "removed")) == expected
