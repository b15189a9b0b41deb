"""Labels as files: golden sets for neardup, tasks of Label Studio, clerical labels of Splink."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from neardup.errors import InputError, MissingInput, UsageError
from neardup.evaluation.golden_file import STRATUM, UNITS, WEIGHT
from neardup.evaluation.label_figures import ANSWERS, DIFFERENT, SAME, UNSURE
from neardup.formats.tables import write_error
from neardup.review.label_desk import LabelDesk

LARGEST: Final = 1 << 30
MOST_ROWS: Final = 1_000_000
FROM_NAME: Final = "answer"
SPLINK: Final = ("unique_id_l", "unique_id_r", "clerical_match_score")
SCORES: Final = {SAME: 1.0, DIFFERENT: 0.0, UNSURE: 0.5}
GivenAnswer = tuple[str, str, str, str]
"""Two ids, the answer and, if the file says so, who gave it."""
Row = dict[str, Any]


class LabelExport(NamedTuple):
    """A kind of files: what one is called, its media type, and what makes its content."""

    file: str
    type: str
    content: Callable[[LabelDesk, str | None], bytes]


def export_labels(labels: LabelDesk, kind: str, who: str | None = None) -> bytes:
    """Return the content of a file of labels.

    Args:
        labels: The labels.
        kind: A key of `EXPORTS`.
        who: The person whose answers it has; None for those of all.
    """
    return EXPORTS[kind].content(labels, who)


def write_labels(labels: LabelDesk, path: Path, kind: str | None, who: str | None = None) -> None:
    """Write a file of labels, which exists under its name only when it is complete.

    Args:
        labels: The labels.
        path: Where to write.
        kind: A key of `EXPORTS`; None for the one that the end of the name means.
        who: The person whose answers it has; None for those of all.
    """
    by_name = {".csv": "golden", ".parquet": "golden-parquet", ".json": "label-studio"}
    usual = by_name.get(path.suffix.lower())
    if kind in ("golden", "splink") and usual == "golden-parquet":
        kind = f"{kind}-parquet"
    chosen = kind or usual
    if chosen is None:
        raise UsageError(f"{path}: labels are written to a file named .csv, .parquet or .json")
    beside = path.with_name(f".{path.name}.tmp")
    try:
        beside.write_bytes(export_labels(labels, chosen, who))
        beside.replace(path)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        beside.unlink(missing_ok=True)


def _golden(labels: LabelDesk, who: str | None) -> list[Row]:
    return [
        {
            "id1": one.pair.a,
            "id2": one.pair.b,
            "label": int(one.label),
            WEIGHT: one.weight,
            STRATUM: one.pair.stratum,
            UNITS: None if math.isinf(one.units) else one.units,
        }
        for one in labels.labels(who)
    ]


def _splink(labels: LabelDesk, who: str | None) -> list[Row]:
    answers = labels.agreed() if who is None else labels.answers(who)
    source = labels.subject.name
    return [
        {
            "source_dataset_l": source,
            "unique_id_l": pair.a,
            "source_dataset_r": source,
            "unique_id_r": pair.b,
            "clerical_match_score": SCORES[answers[pair.number]],
        }
        for pair in labels.draw.pairs
        if pair.number in answers
    ]


def _csv(rows: Callable[[LabelDesk, str | None], list[Row]]) -> Callable[..., bytes]:
    def content(labels: LabelDesk, who: str | None) -> bytes:
        text, made = io.StringIO(), rows(labels, who)
        writer = csv.DictWriter(text, list(made[0]) if made else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(made)
        return text.getvalue().encode("utf-8", "backslashreplace")

    return content


def _parquet(rows: Callable[[LabelDesk, str | None], list[Row]]) -> Callable[..., bytes]:
    def content(labels: LabelDesk, who: str | None) -> bytes:
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows(labels, who)), file)
        return file.getvalue()

    return content


def _label_studio(labels: LabelDesk, who: str | None) -> bytes:
    """Return the pairs as tasks, with the answers as annotations; without similarities: blind."""
    answers = labels.journal.answers(who)
    tasks = []
    for pair in labels.draw.pairs:
        left, right = labels.sides(pair)
        annotations = [
            {"completed_by": {"email": person}, "result": [_choice(given[pair.number])]}
            for person, given in answers.items()
            if pair.number in given
        ]
        data = {
            "id1": left,
            "id2": right,
            "text1": labels.journal.text(left),
            "text2": labels.journal.text(right),
        }
        tasks.append({"id": pair.number + 1, "data": data, "annotations": annotations})
    return json.dumps(tasks, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _choice(answer: str) -> Row:
    return {
        "from_name": FROM_NAME,
        "to_name": "text1",
        "type": "choices",
        "value": {"choices": [answer]},
    }


EXPORTS: Final = {
    "golden": LabelExport("golden.csv", "text/csv", _csv(_golden)),
    "golden-parquet": LabelExport(
        "golden.parquet", "application/vnd.apache.parquet", _parquet(_golden)
    ),
    "label-studio": LabelExport("label-studio.json", "application/json", _label_studio),
    "splink": LabelExport("splink.csv", "text/csv", _csv(_splink)),
    "splink-parquet": LabelExport(
        "splink.parquet", "application/vnd.apache.parquet", _parquet(_splink)
    ),
}
"""What labels are written as."""


def import_labels(labels: LabelDesk, path: Path, who: str) -> tuple[int, int]:
    """Store the answers of a file; return how many they are, and how many other pairs it has.

    Args:
        labels: The pairs that are labelled.
        path: A file of Label Studio (.json), or of Splink (.csv or .parquet).
        who: The name that answers are stored under, where the file names nobody.

    Raises:
        InputError: the file can't be read, or no pair of it was drawn; nothing is stored.
    """
    number = {frozenset((pair.a, pair.b)): pair.number for pair in labels.draw.pairs}
    by_person: dict[str, dict[int, str]] = {}
    others = 0
    for a, b, given, person in _read(path):
        pair = number.get(frozenset((a, b)))
        if pair is None:
            others += 1
        else:
            by_person.setdefault(person or who, {})[pair] = given
    if not by_person:
        raise InputError(
            f"{path}: none of its {others:,} answers is about a pair that was drawn of "
            f"{labels.subject.run}: give answers to pairs that --export-labels wrote"
        )
    for person, answers in by_person.items():
        labels.journal.answer(answers.items(), person)
    return sum(map(len, by_person.values())), others


def _read(path: Path) -> Iterator[GivenAnswer]:
    """Yield the answers of a file, as its name says what it is."""
    read = {".json": _read_label_studio, ".csv": _read_csv, ".parquet": _read_parquet}.get(
        path.suffix.lower()
    )
    if read is None:
        raise UsageError(f"{path}: labels are in a file named .json, .csv or .parquet")
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} is larger than 1 GiB: split it")
        yield from read(path)
    except FileNotFoundError:
        raise MissingInput(f"{path}: no such file: give a file of labels") from None
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from None


def _read_label_studio(path: Path) -> Iterator[GivenAnswer]:
    try:
        tasks = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise InputError(f"{path} is no JSON file: export the tasks as JSON again") from None
    if not isinstance(tasks, list) or len(tasks) > MOST_ROWS:
        raise InputError(f"{path}: tasks of Label Studio are a list: export them as JSON")
    for number, task in enumerate(tasks, 1):
        where = f"{path}, task {number}"
        try:
            a, b = str(task["data"]["id1"]), str(task["data"]["id2"])
            for annotation in task.get("annotations") or ():
                if not annotation.get("was_cancelled"):
                    yield from _annotated(a, b, annotation, where)
        except (KeyError, TypeError, AttributeError, IndexError):
            raise InputError(
                f"{where}: not a task with id1, id2 and annotations with a choice: label tasks "
                "that --export-labels wrote"
            ) from None


def _annotated(a: str, b: str, annotation: Row, where: str) -> Iterator[GivenAnswer]:
    """Yield the answer of an annotation, if it has one."""
    for result in annotation.get("result") or ():
        if result["type"] != "choices":
            continue
        given = str(result["value"]["choices"][0]).strip().lower()
        if given not in ANSWERS:
            raise InputError(
                f"{where}: {given[:40]!r} is no answer: the choices are {', '.join(ANSWERS)}"
            )
        yield a, b, given, _person(annotation.get("completed_by"))


def _person(completed_by: Any) -> str:
    """Return who has completed an annotation: an address, or a number; empty if nobody is named."""
    if isinstance(completed_by, dict):
        completed_by = completed_by.get("email") or completed_by.get("id")
    text = "" if completed_by is None else str(completed_by)
    return text[:200] if text.isprintable() else ""


def _read_csv(path: Path) -> Iterator[GivenAnswer]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            _check_splink(path, reader.fieldnames or ())
            yield from _scored(path, reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no CSV file in UTF-8 ({error}): export it again") from None


def _read_parquet(path: Path) -> Iterator[GivenAnswer]:
    try:
        with pq.ParquetFile(path) as file:
            _check_splink(path, file.schema_arrow.names)
            batches = file.iter_batches(columns=list(SPLINK))
            yield from _scored(path, (row for batch in batches for row in batch.to_pylist()))
    except pa.ArrowException as error:
        why = str(error).split("\n", 1)[0][:200]
        raise InputError(f"{path} is no Parquet file ({why}): export it again") from None


def _check_splink(path: Path, names: Sequence[str]) -> None:
    for name in SPLINK:
        if name not in names:
            raise InputError(
                f"{path} has no column {name}: labels of Splink have {', '.join(SPLINK)}"
            )


def _scored(path: Path, rows: Any) -> Iterator[GivenAnswer]:
    for number, row in enumerate(islice(rows, MOST_ROWS), 1):
        a, b, score = (row[name] for name in SPLINK)
        try:
            value = float(score)
        except (TypeError, ValueError):
            value = math.nan
        if not 0 <= value <= 1 or a in (None, "") or b in (None, ""):
            raise InputError(
                f"{path}, row {number}: a label is two ids and a clerical_match_score from 0 to 1"
            )
        middle = SCORES[UNSURE]
        yield (
            str(a),
            str(b),
            UNSURE if value == middle else SAME if value > middle else DIFFERENT,
            "",
        )
