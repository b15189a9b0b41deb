"""Every engine behind one call: documents and a question in, decisions out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

import neardup
from neardup.decisions import Decision
from neardup.decisions import Decisions as Said
from neardup.pipeline.run import run_job
from support import batch_engine
from support.definition import Decisions, Row
from support.redis_index import fresh_address
from support.serving import serving

Ask = Callable[..., Decisions]
"""Documents, options; by name: `earlier` documents, a `folder` to work in, a `seed`, `spark`."""

SCHEMA = pa.schema(
    [
        *[("id", pa.string()), ("text", pa.string()), ("score", pa.float64())],
        *[("lang", pa.string()), ("seen", pa.string()), ("head", pa.string())],
        ("inner", pa.struct([("tail", pa.string())])),
    ]
)
COLUMNS = (
    "id string, text string, score double, lang string, seen string, head string, "
    "inner struct<tail: string>"
)


def in_memory(
    documents: Sequence[Row], options: Row, *, said: Sequence[Decision] = (), **how: Any
) -> Decisions:
    table = pa.Table.from_pylist(list(documents), SCHEMA)
    result = neardup.dedup(table, decisions=said or None, **options)
    assert sum(one.size for one in result.clusters) == len(
        {id for r in result.removed if r.witness is not None for id in (r.id, r.witness)}
    )
    assert {one.reason for one in result.rejected} <= {"empty"}
    return Decisions(
        result.kept,
        {
            r.id: (r.witness, None if r.witness is None else r.similarity, r.exact)
            for r in result.removed
        },
        [r.id for r in result.rejected],
        {r.id: (r.witness, r.similarity, r.exact) for r in result.vetoed},
    )


def _of_folder(out: Path) -> Decisions:
    got = batch_engine.outcome(out)
    lines = b"".join(data for _, data in sorted(got.kept.items())).splitlines()
    removed = {row["id"] for row in got.removed}
    sizes = {row["cluster"]: int(row["id"] not in removed) for row in got.clusters}
    for row in got.removed:
        if row["cluster"] is not None:
            sizes[row["cluster"]] += 1
    assert {row["cluster"]: row["size"] for row in got.clusters} == sizes
    assert {row["reason"] for row in got.rejected} <= {"empty"}
    return Decisions(
        [line.split(b'"id": "')[1].split(b'"')[0].decode() for line in lines],
        {row["id"]: (row["witness"], row["similarity"], row["exact"]) for row in got.removed},
        [row["id"] for row in got.rejected],
        {row["id"]: (row["witness"], row["similarity"], row["exact"]) for row in got.vetoed},
    )


def _job(
    documents: Sequence[Row],
    options: Row,
    folder: Path,
    earlier: Sequence[Row],
    said: Sequence[Decision] = (),
    **sizes: int,
) -> Any:
    paths = batch_engine.write(folder / "in", documents)
    others: Row = {"decisions": Said.of(said)} if said else {}
    if earlier:
        others["against"] = (batch_engine.write(folder / "earlier", earlier, files=1)[0],)
    return batch_engine.job(
        paths, folder / "out", others=others, **sizes, **dict.fromkeys(batch_engine.SMALL) | options
    )


def local_files(
    documents: Sequence[Row],
    options: Row,
    *,
    folder: Path,
    earlier: Sequence[Row] = (),
    seed: int = 0,
    said: Sequence[Decision] = (),
    **how: Any,
) -> Decisions:
    """The work is cut into other pieces for every seed."""
    sizes = {"workers": 1 + seed % 2, "shard": 300 + 700 * seed, "chunk": 100 + 150 * seed}
    run_job(_job(documents, options, folder, earlier, said, **sizes), batch_engine.Silent())
    return _of_folder(folder / "out")


def spark_files(
    documents: Sequence[Row],
    options: Row,
    *,
    folder: Path,
    spark: Any,
    earlier: Sequence[Row] = (),
    said: Sequence[Decision] = (),
    **how: Any,
) -> Decisions:
    """Several shards, so that there are several tasks."""
    job = _job(documents, options, folder, earlier, said, shard=2000)
    run_job(batch_engine.on_spark(spark, job), batch_engine.Silent())
    return _of_folder(folder / "out")


def spark_dataframes(
    documents: Sequence[Row],
    options: Row,
    *,
    spark: Any,
    earlier: Sequence[Row] = (),
    seed: int = 0,
    said: Sequence[Decision] = (),
    **how: Any,
) -> Decisions:
    """Rows come in no order: that of the ids is what counts."""
    import neardup.spark

    def frame(rows: Sequence[Row]) -> Any:
        shuffled = random.Random(seed).sample(list(rows), len(rows))
        # By way of Arrow, since Spark takes no whole number for a double.
        cells = [tuple(row.values()) for row in pa.Table.from_pylist(shuffled, SCHEMA).to_pylist()]
        return spark.createDataFrame(cells, COLUMNS).repartition(2)

    more: Row = {"against": frame(earlier)} if earlier else {}
    more |= {"decisions": said} if said else {}
    with neardup.spark.dedup(frame(documents), id="id", **options, **more) as result:
        removed = {
            row["id"]: (row["witness"], row["similarity"], row["exact"])
            for row in result.removed.collect()
        }
        order = [row["id"] for row in documents]
        kept = {row["id"] for row in result.kept.collect()}
        rejected = {row["id"] for row in result.rejected.collect()}
        vetoed = {
            row["id"]: (row["witness"], row["similarity"], row["exact"])
            for row in (result.vetoed.collect() if result.options.veto else [])
        }
    return Decisions(
        [id for id in order if id in kept],
        {id: removed[id] for id in order if id in removed},
        [id for id in order if id in rejected],
        vetoed,
    )


def _batches(count: int, seed: int) -> list[slice]:
    chance = random.Random(seed)
    places = sorted({0, count, *(chance.randrange(count + 1) for _ in range(3))})
    return [slice(a, b) for a, b in pairwise(places)]


def _of_answers(answers: Sequence[Row]) -> Decisions:
    return Decisions(
        [one["id"] for one in answers if one["status"] == "new"],
        {
            one["id"]: (one["duplicate_of"], one["similarity"], one["exact"])
            for one in answers
            if one["status"] == "duplicate"
        },
        [one["id"] for one in answers if one["status"] == "rejected"],
    )


FIELDS = ("id", "status", "duplicate_of", "similarity", "exact")


def index(
    documents: Sequence[Row], options: Row, *, folder: Path, seed: int = 0, **how: Any
) -> Decisions:
    """Added in order, in batches; afterwards a query for each text names the same kept document."""
    return _index(folder / "index", documents, options, seed)


def redis(documents: Sequence[Row], options: Row, *, seed: int = 0, **how: Any) -> Decisions:
    """The same as with a folder."""
    return _index(fresh_address(), documents, options, seed)


def _index(where: Path | str, documents: Sequence[Row], options: Row, seed: int) -> Decisions:
    answers: list[Row] = []

    def groups(rows: Sequence[Row]) -> dict[str, Any]:
        return {"within": [row[options["within"]] for row in rows]} if "within" in options else {}

    with neardup.Index.open(where, **options) as opened:
        for some in _batches(len(documents), seed):
            rows = documents[some]
            added = opened.add_batch(
                [row["id"] for row in rows], [row["text"] for row in rows], **groups(rows)
            )
            answers += [{name: getattr(one, name) for name in FIELDS} for one in added]
        assert opened.verify() == []
        asked = opened.query_batch([row["text"] for row in documents], **groups(documents))
    assert [one.status for one in asked] == [
        "rejected" if one["status"] == "rejected" else "duplicate" for one in answers
    ]
    assert [one.duplicate_of for one in asked if one.status == "duplicate"] == [
        one["duplicate_of"] or one["id"] for one in answers if one["status"] != "rejected"
    ]
    return _of_answers(answers)


def increments(
    documents: Sequence[Row], options: Row, *, folder: Path, seed: int = 0, **how: Any
) -> Decisions:
    """The files of each day are added to an index, which writes what is new of them."""
    sizes = {"workers": 1 + seed % 2, "shard": 300 + 700 * seed, "chunk": 100 + 150 * seed}
    point = {name: value for name, value in options.items() if name != "text"}
    days: list[Decisions] = []
    with neardup.Index.open(folder / "index", **point) as opened:
        for some in _batches(len(documents), seed):
            day = folder / f"day-{len(days)}"
            day.mkdir()
            run_job(
                _job(documents[some], options, day, (), **sizes),
                batch_engine.Silent(),
                opened.add_increment,
            )
            days.append(_of_folder(day / "out"))
        assert opened.verify() == []
    return Decisions(
        [id for day in days for id in day.kept],
        {id: found for day in days for id, found in day.removed.items()},
        [id for day in days for id in day.rejected],
    )


def service(
    documents: Sequence[Row], options: Row, *, folder: Path, seed: int = 0, **how: Any
) -> Decisions:
    """Sent over HTTP, some documents alone and the others in batches."""
    answers: list[Row] = []
    with serving(folder / "data", **options) as client:
        for some in _batches(len(documents), seed):
            rows = [{"id": row["id"], "text": row["text"]} for row in documents[some]]
            if "within" in options:
                groups = (row[options["within"]] for row in documents[some])
                rows = [row | {"within": one} for row, one in zip(rows, groups, strict=True)]
            alone, together = rows[:2], rows[2:]
            for row in alone:
                got = client.post("/v1/documents", json=row)
                assert got.status_code == 200, got.text
                answers.append(got.json())
            if together:
                got = client.post("/v1/documents", json={"documents": together})
                assert got.status_code == 200, got.text
                answers += got.json()["answers"]
    return _of_answers(answers)


ENGINES: dict[str, Ask] = {
    "in memory": in_memory,
    "local files": local_files,
    "Spark files": spark_files,
    "Spark DataFrames": spark_dataframes,
    "index": index,
    "redis": redis,
    "increments": increments,
    "service": service,
}
SPARK = tuple(name for name in ENGINES if name.startswith("Spark"))
