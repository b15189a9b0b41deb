"""Saved sketches that were damaged, or that somebody made up with valid checksums."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import batch_engine
from support.command_line import neardup

from neardup.errors import FormatError
from neardup.formats.blocks import HEAD, TAIL
from neardup.framing import CHECKSUM, checksum
from neardup.pipeline.saved import SketchSet


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return batch_engine.write(tmp_path_factory.mktemp("in"), batch_engine.rows(5, 60), files=1)


@pytest.fixture(scope="module")
def saved(inputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("saved") / "out"
    assert neardup("dedup", *inputs, "-o", out, "--save-sketches", "--quiet").code == 0
    return out


def test_any_changed_byte_of_the_list_of_sketches_is_noticed(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "sketches", tmp_path / "sketches")
    listed = tmp_path / "sketches" / "set.json"
    original = listed.read_bytes()
    whole = SketchSet.open(tmp_path / "sketches")
    for place in range(len(original)):
        for changed in (original[place] ^ 1, original[place] ^ 32, ord("1")):
            listed.write_bytes(original[:place] + bytes([changed]) + original[place + 1 :])
            try:
                opened = SketchSet.open(tmp_path / "sketches")
            except FormatError:
                continue
            assert (opened.spec, opened.shards) == (whole.spec, whole.shards), place
            assert opened.keys == whole.keys and (opened.kept == whole.kept).all(), place


@pytest.mark.parametrize("given", ["run", "sketches", "merged"])
def test_each_missing_file_of_saved_sketches_is_noticed(
    tmp_path: Path, inputs: list[Path], saved: Path, given: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(saved, run)
    assert neardup("merge", run, "-o", tmp_path / "merged").code == 0
    path = {"run": run, "sketches": run / "sketches", "merged": tmp_path / "merged"}[given]
    for file in sorted((path / "sketches" if given == "run" else path).iterdir()):
        content = file.read_bytes()
        file.unlink()
        out = tmp_path / f"{file.name}-out"
        for ran in (
            neardup("dedup", *inputs, "-o", out, "--against", path, "--quiet"),
            neardup("merge", path, "-o", out),
        ):
            assert ran.code == 1 and str(path) in ran.err, (file.name, ran)
        file.write_bytes(content)


def test_damaged_files_of_saved_sketches_are_to_be_restored(
    tmp_path: Path, inputs: list[Path], saved: Path
) -> None:
    """They are no work files, which the next run makes anew."""
    copy = tmp_path / "copy"
    shutil.copytree(saved / "sketches", copy)
    for file in sorted(copy.iterdir()):
        if file.name == "set.json":
            continue
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        ran = neardup("dedup", *inputs, "-o", tmp_path / "out", "--against", copy, "--quiet")
        assert ran.code == 1 and str(file) in ran.err, (file.name, ran)
        assert "restore it, or make the set again" in ran.err
        file.write_bytes((saved / "sketches" / file.name).read_bytes())


def test_kept_bits_of_other_sketches_are_refused(
    tmp_path: Path, inputs: list[Path], saved: Path
) -> None:
    other, copy = tmp_path / "other", tmp_path / "copy"
    ran = neardup("dedup", *inputs, "-o", other, "--save-sketches", "--keep", "last", "--quiet")
    assert ran.code == 0
    shutil.copytree(saved, copy)
    shutil.copyfile(other / "sketches" / "kept", copy / "sketches" / "kept")
    ran = neardup("merge", copy, "-o", tmp_path / "merged")
    assert ran.code == 1 and "don't belong together" in ran.err, ran


def read_parts(path: Path) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    """Return the header of a file of blocks, its columns, and its index."""
    data = path.read_bytes()
    length = HEAD.unpack_from(data)[1]
    front = HEAD.size + length + CHECKSUM.size
    size = TAIL.unpack(data[-TAIL.size :])[0]
    index = data[-TAIL.size - size : -TAIL.size]
    columns = data[front : -TAIL.size - size]
    return json.loads(data[HEAD.size : HEAD.size + length]), columns, json.loads(index)


def write_parts(path: Path, header: Any, columns: bytes, index: Any) -> None:
    data = path.read_bytes()
    magic, length = HEAD.unpack_from(data)
    front = HEAD.pack(magic, length) + json.dumps(header).encode().ljust(length)
    text = json.dumps(index).encode()
    tail = TAIL.pack(len(text), checksum(text), TAIL.unpack(data[-TAIL.size :])[2])
    path.write_bytes(front + CHECKSUM.pack(checksum(front)) + columns + text + tail)


def lacking(value: Any) -> Iterator[Any]:
    """Yield a value without one of its parts, or with null for it, at any depth."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield {other: one for other, one in value.items() if other != name}
            yield value | {name: None}
            yield from (value | {name: changed} for changed in lacking(part))
    elif isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        yield value[1:]
        yield from ([changed, *value[1:]] for changed in lacking(value[0]))


def forged(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield a file of saved sketches, and what it could be replaced by."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".json":
            for listed in lacking(json.loads(path.read_bytes())):
                yield path, json.dumps(listed).encode()
            continue
        original = path.read_bytes()
        header, columns, index = read_parts(path)
        changes = [(one, index) for one in lacking(header)]
        for new_header, new_index in [*changes, *((header, one) for one in lacking(index))]:
            write_parts(path, new_header, columns, new_index)
            made = path.read_bytes()
            path.write_bytes(original)
            yield path, made


@pytest.mark.heavy
def test_forged_sketches_are_an_error_that_names_them(
    tmp_path: Path, inputs: list[Path], saved: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(saved, copy)
    tried, wrong = 0, []
    for number, (path, made) in enumerate(forged(saved / "sketches")):
        place = copy / "sketches" / path.name
        place.write_bytes(made)
        out = tmp_path / str(number)
        against = neardup("dedup", *inputs, "-o", out, "--against", copy, "--quiet")
        merged = neardup("merge", copy, "-o", tmp_path / f"{number}-merged")
        for ran in (against, merged):
            named = ran.code == 0 or (ran.code in (1, 2) and str(copy) in ran.err)
            if not named or "internal error" in ran.err:
                wrong.append((path.name, ran.err, made[:600]))
        place.write_bytes(path.read_bytes())
        tried += 1
    assert tried > 50
    assert not wrong, "\n".join(f"{name}: {error}" for name, error, _ in wrong)


def test_sketches_of_a_later_version_are_refused_by_their_version(
    tmp_path: Path, inputs: list[Path], saved: Path
) -> None:
    shutil.copytree(saved / "sketches", tmp_path / "sketches")
    listed = tmp_path / "sketches" / "set.json"
    original = json.loads(listed.read_bytes())
    listed.write_text(json.dumps(original | {"version": 3}))
    ran = neardup("dedup", *inputs, "-o", tmp_path / "out", "--against", tmp_path / "sketches")
    assert ran.code == 1
    assert "set.json has format version 3, this neardup reads versions 1 and 2" in ran.err
    listed.write_text(json.dumps(original))
    shard = tmp_path / "sketches" / original["shards"][0]["key"]
    shard.write_bytes(shard.read_bytes().replace(b"ndblock1", b"ndblock2", 1))
    ran = neardup("dedup", *inputs, "-o", tmp_path / "out", "--against", tmp_path / "sketches")
    assert ran.code == 1
    assert "has format version 2, this neardup reads version 1" in ran.err
