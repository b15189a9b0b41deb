"""Files of decisions: `decisions.parquet` for programs, JSON lines for people and editors.

    {"action": "same", "a": "12", "b": "77", "who": "ann", "when": "2026-03-01T12:00:00Z"}

Both have the fields of `neardup.decisions.Decision` by their names; `b`, `note` and `fingerprint`
may be missing or null. A file is refused as a whole, with the number of the first wrong line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from neardup.decisions import MOST_DECISIONS, Decision, Decisions
from neardup.errors import InputError, MissingInput, ParameterError, UsageError
from neardup.formats.tables import TEXT, TableWriter, write_error

FIELDS: Final = ("action", "a", "b", "who", "when", "note", "fingerprint")
REQUIRED: Final = ("action", "a", "who", "when")
VERSION: Final = {b"neardup.decisions": b"1"}
DECISIONS: Final = pa.schema([(name, TEXT) for name in FIELDS], metadata=VERSION)
LONGEST_LINE: Final = 1 << 17
"""Bytes; more than the longest fields take, however they are escaped."""
LARGEST_GROUP: Final = 1 << 30
"""Uncompressed bytes of a row group, which is read at once."""
BATCH: Final = 1 << 14


DecisionSource = str | os.PathLike[str] | Iterable[Decision]
"""A file of decisions, or decisions."""


def load_decisions(given: DecisionSource | None, cluster: str, keep: str) -> Decisions | None:
    """Return the decisions of a user, which don't contradict one another; None if there are none.

    Args:
        given: A file, or decisions.
        cluster: How the run that is to obey them makes clusters.
        keep: Its keep policy.
    """
    if given is None:
        return None
    if cluster != "stars":
        raise UsageError(
            "decisions are obeyed with --cluster stars: a component has no pairs that decide, so "
            "that different documents would end up in one by way of others"
        )
    if keep == "none":
        raise UsageError(
            "--keep none keeps nothing of a cluster, and decisions say what stays of it: leave out "
            "one of them"
        )
    if isinstance(given, (str, os.PathLike)):
        decisions, where = read_decisions(given), os.fspath(given)
    else:
        decisions, where = _take_decisions(given), "decisions"
    decisions.check(where)
    return decisions


def _take_decisions(given: object) -> Decisions:
    several: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for wrong in (one for one in several if not isinstance(one, Decision)):
        raise ParameterError(
            f"decisions has a {type(wrong).__name__}: pass the path of a file, or "
            "neardup.decisions.Decision objects"
        )
    return Decisions.of(several)


def read_decisions(path: str | os.PathLike[str]) -> Decisions:
    """Return the decisions of a file; contradictions among them are not looked for.

    Args:
        path: A file whose name ends with .parquet or .jsonl.
    """
    path = Path(path)
    read = {".parquet": _read_parquet, ".jsonl": _read_lines}.get(path.suffix.lower())
    if read is None:
        raise UsageError(f"{path}: a file of decisions is named .parquet or .jsonl")
    if not os.path.lexists(path):
        raise MissingInput(f"{path}: no such file: give a file of decisions")
    try:
        return Decisions.of(read(path))
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"{path} can't be read: {why}", str(path)) from None


def write_decisions(path: str | os.PathLike[str], decisions: Iterable[Decision]) -> None:
    """Write a file of decisions, which exists under its name only when it is complete.

    Args:
        path: Where to write; .parquet or .jsonl at its end is the format.
        decisions: The decisions.
    """
    path = Path(path)
    write = {".parquet": _write_parquet, ".jsonl": _write_lines}.get(path.suffix.lower())
    if write is None:
        raise UsageError(f"{path}: a file of decisions is named .parquet or .jsonl")
    write(path, decisions)


def format_line(decision: Decision) -> str:
    """Return a decision as a line of JSON, without what is empty.

    >>> format_line(Decision("drop", "12", who="ann", when="2026-03-01T12:00:00Z"))
    '{"action": "drop", "a": "12", "who": "ann", "when": "2026-03-01T12:00:00Z"}'
    """
    stated = {name: getattr(decision, name) for name in FIELDS}
    return json.dumps({name: value for name, value in stated.items() if value}, ensure_ascii=False)


def _write_lines(path: Path, decisions: Iterable[Decision]) -> None:
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{format_line(one)}\n" for one in decisions)
        beside.replace(path)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        beside.unlink(missing_ok=True)


def _write_parquet(path: Path, decisions: Iterable[Decision]) -> None:
    waiting = iter(decisions)
    with TableWriter(path, DECISIONS) as table:
        while batch := list(islice(waiting, BATCH)):
            columns = {name: [getattr(one, name) for one in batch] for name in FIELDS}
            table.add({name: pa.array(column, TEXT) for name, column in columns.items()})


def _read_lines(path: Path) -> Iterator[Decision]:
    with path.open("rb") as file:
        for number in range(1, MOST_DECISIONS * 2):
            line = file.readline(LONGEST_LINE + 1)
            if not line:
                return
            where = f"{path}, line {number}"
            if len(line) > LONGEST_LINE:
                raise InputError(
                    f"{where}: longer than any decision ({LONGEST_LINE:,} bytes): shorten its note"
                )
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line.strip():
                yield _to_decision(_parse(line, where), where)


def _parse(line: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object of a line."""
    try:
        fields = json.loads(line.decode("utf-8"), object_pairs_hook=_without_repeats)
    except ParameterError as error:
        raise InputError(f"{where}: {error}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{where}: not a line of JSON in UTF-8: fix or remove it") from None
    if not isinstance(fields, dict):
        raise InputError(f"{where}: not a JSON object: write one such as {EXAMPLE}")
    return fields


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ParameterError("a field is there twice: remove one")
    return fields


EXAMPLE: Final = format_line(Decision("same", "12", "77", who="ann", when="2026-03-01T12:00:00Z"))


def _to_decision(fields: dict[str, Any], where: str) -> Decision:
    if unknown := [name for name in fields if name not in FIELDS]:
        shown = ascii(unknown[0][:40])
        raise InputError(f"{where}: field {shown} is not known: use {', '.join(FIELDS)}")
    if missing := [name for name in REQUIRED if fields.get(name) is None]:
        raise InputError(f"{where}: {missing[0]} is missing: write {EXAMPLE}")
    try:
        return Decision(**{name: value for name, value in fields.items() if value is not None})
    except ParameterError as error:
        raise InputError(f"{where}: {error}") from None


def _read_parquet(path: Path) -> Iterator[Decision]:
    cure = "export the decisions again"
    try:
        with pa.OSFile(os.fsencode(path), "rb") as source, pq.ParquetFile(source) as file:
            _check_columns(path, file)
            names = file.schema_arrow.names
        with (
            pa.OSFile(os.fsencode(path), "rb") as source,
            pq.ParquetFile(source, read_dictionary=names) as file,
        ):
            batches = file.iter_batches(BATCH, use_threads=False)
            rows = (zip(*map(_texts, batch.columns), strict=True) for batch in batches)
            for number, values in enumerate(chain.from_iterable(rows), 1):
                fields = dict(zip(names, values, strict=True))
                yield _to_decision(fields, f"{path}, row {number}")
    except (pa.ArrowException, UnicodeDecodeError) as error:
        why = str(error).split("\n", 1)[0][:200]
        raise InputError(f"{path}: not a Parquet file that is whole ({why}): {cure}") from None


def _texts(column: pa.Array) -> list[str | None]:
    """Return the texts of a column; equal ones are one object, which a small file has millions of.

    Args:
        column: The column, with a dictionary unless all is null.
    """
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    column.validate(full=True)  # a damaged file may have numbers of words that are not there
    words = column.dictionary.to_pylist()
    return [None if place is None else words[place] for place in column.indices.to_pylist()]


def _check_columns(path: Path, file: pq.ParquetFile) -> None:
    """Refuse a file of another version, with other columns, or larger than decisions are."""
    schema, metadata = file.schema_arrow, file.metadata
    version = (schema.metadata or {}).get(b"neardup.decisions", b"1")
    if version != VERSION[b"neardup.decisions"]:
        raise InputError(
            f"{path}: version {ascii(version[:20])[1:]} of decisions, this neardup reads version "
            "'1': update neardup"
        )
    wrong = [
        field.name
        for field in schema
        if field.name not in FIELDS
        or not (
            pa.types.is_string(field.type)
            or pa.types.is_large_string(field.type)
            or pa.types.is_null(field.type)
        )
    ]
    missing = [name for name in REQUIRED if name not in schema.names]
    repeated = len(set(schema.names)) < len(schema.names)
    if wrong or missing or repeated:
        what = "missing" if missing else "no text" if wrong and wrong[0] in FIELDS else "not known"
        name = ascii((missing or wrong or ["a name"])[0][:40])
        raise InputError(
            f"{path}: column {name} is {what}: decisions have text columns {', '.join(FIELDS)}"
        )
    if metadata.num_rows > MOST_DECISIONS:
        raise InputError(f"{path}: more than {MOST_DECISIONS:,} decisions: split them")
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    if any(group.total_byte_size > LARGEST_GROUP for group in groups):
        raise InputError(f"{path}: a row group is larger than 1 GiB: write smaller ones")
