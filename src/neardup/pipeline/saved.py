"""Saved sketches: a folder with sketch files, a list of them, and the kept bits.

    set.json              specification, how the inputs were read, the shards with their inputs;
                          a digest of the kept bits, and a checksum of all that
    <key>                 the sketches of a shard, as a run makes them; or <key>.parquet, the same
                          as a table
    kept                  a bit for each document of all shards, in order: whether it was kept
    ignored-lines         the list of ignored lines, if any
    document-frequencies  the document frequencies that shingles are weighted by, if any
    vector-centre         the centre of vectors, if any

It contains no texts. The inputs are listed with size and time, so that candidates can be compared
exactly as long as the inputs are unchanged.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.corpus.shards import Shard
from neardup.errors import FormatError, MissingInput, NeardupError, OutputTaken, UsageError
from neardup.formats.blocks import BlockReader, BlockWriter, is_block_file
from neardup.formats.tables import write_error, write_json
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.run_inputs import (
    describe_file,
    describe_reading,
    parse_file,
    parse_reading,
)
from neardup.pipeline.sketch_files import SKETCHES_KIND, Sketches, have_same_layout
from neardup.pipeline.sketch_tables import SketchTable, table_beside, write_sketch_table
from neardup.sketch.centre import VectorCentre, require_centre
from neardup.spec import Spec
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines

SET_FILE, KEPT_FILE, IGNORED_FILE, FREQUENCIES_FILE, CENTRE_FILE = (
    "set.json",
    "kept",
    "ignored-lines",
    "document-frequencies",
    "vector-centre",
)
RESTORED = "restore it, or make the set again with neardup dedup --save-sketches"
"""What helps if a file of a set is damaged or missing."""
CHECKSUM_FIELD = "checksum"
VERSION = 2
"""Of set.json. Version 1 had neither a checksum nor a digest of the kept bits."""


@dataclass(frozen=True)
class SketchSet:
    """Saved sketches: a file for each shard. `kept` has a bit for each document."""

    spec: Spec
    shards: list[Shard]
    files: list[BlockReader]
    kept: NDArray[np.bool_]
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    frequencies: Frequencies = field(default_factory=Frequencies)
    centre: VectorCentre = field(default_factory=VectorCentre)

    @property
    def keys(self) -> list[str]:
        """The key of each sketch file, which is also its name."""
        return [str(file.header["key"]) for file in self.files]

    @property
    def kept_digest(self) -> str:
        """A digest of the kept bits."""
        return xxhash.xxh3_64_hexdigest(np.packbits(self.kept).data)

    @classmethod
    def open(cls, folder: Path) -> SketchSet:
        """Open the set in a folder; an error if any file is missing or damaged."""
        try:
            listed = _read_list(folder / SET_FILE)
            spec = Spec.from_json(listed["spec"])
            shards = [_read_shard(one, listed["reading"]) for one in listed["shards"]]
            files = [_open_file(folder, _check_key(one["key"])) for one in listed["shards"]]
            kept = _read_kept(BlockReader(folder / KEPT_FILE, KEPT_FILE, RESTORED))
            ignored, frequencies = read_ignored(folder), read_frequencies(folder)
            centre = read_centre_file(folder)
            require_centre(spec, centre)
            sketches = cls(spec, shards, files, kept, ignored, frequencies, centre)
            sketches._check(folder, listed.get("kept_digest", sketches.kept_digest))
        except NeardupError:
            raise
        except (FileNotFoundError, NotADirectoryError):
            if not is_sketch_folder(folder):
                raise MissingInput(_no_sketches(folder)) from None
            raise FormatError(f"{folder} lacks a file of its set of sketches: {RESTORED}") from None
        except (
            OSError,
            ValueError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise FormatError(
                f"{folder} holds no set of sketches that can be read ({type(error).__name__}): "
                "make one with neardup dedup --save-sketches"
            ) from None
        return sketches

    def _check(self, folder: Path, kept_digest: str) -> None:
        """Raise an error if the files are of different sets, or lack what their readers need."""
        rows = sum(sum(file.note["rows"]) for file in self.files)
        for shard, file in zip(self.shards, self.files, strict=True):
            if file.header["key"] != file.path.stem or len(file.note["rows"]) != len(shard.files):
                raise file.damaged("it is another file")
            for note in map(file.note_of, range(len(file))):
                if not all(isinstance(reason, str) for reason in note["reasons"]):
                    raise file.damaged("its reasons")
                if sum(note["chunks"]) < 0:
                    raise file.damaged("its chunks")
        same = all(file.header["fingerprint"] == self.spec.fingerprint for file in self.files)
        same &= self.ignored.digest == self.spec.ignored
        same &= self.frequencies.stated == self.spec.weights
        same &= self.kept_digest == kept_digest
        if rows != len(self.kept) or not same:
            raise FormatError(f"{folder}: its files don't belong together: save the sketches again")

    def write(self, folder: Path) -> None:
        """Write the list of sketch files, which exist in the folder, and the kept bits."""
        try:
            with BlockWriter(folder / KEPT_FILE, KEPT_FILE, documents=len(self.kept)) as writer:
                writer.add({"bits": np.packbits(self.kept, bitorder="little")})
                writer.close()
            write_lists(folder, self.ignored, self.frequencies, self.centre)
        except OSError as error:
            raise write_error(folder, error) from None
        listed = {
            "version": VERSION,
            "spec": self.spec.canonical,
            "fingerprint": self.spec.fingerprint,
            "documents": len(self.kept),
            "kept": int(np.count_nonzero(self.kept)),
            "kept_digest": self.kept_digest,
            "reading": describe_reading(self.shards[0].reading) if self.shards else None,
            "shards": [
                {
                    "key": key,
                    "part": shard.part,
                    "stamps": shard.stamps,
                    "files": [describe_file(file) for file in shard.files],
                }
                for shard, key in zip(self.shards, self.keys, strict=True)
            ],
        }
        write_json(folder / SET_FILE, listed | {CHECKSUM_FIELD: _list_checksum(listed)})


def _read_list(path: Path) -> dict[str, Any]:
    """Return the content of set.json; `FormatError` if it is not as it was written."""
    listed: dict[str, Any] = json.loads(path.read_text("utf-8"))
    expected = listed.pop(CHECKSUM_FIELD, None)
    if listed["version"] not in (1, VERSION):
        raise FormatError(
            f"{path} has format version {listed['version']!r}, this neardup reads versions 1 and "
            f"{VERSION}: use the neardup that wrote it, or make it again with neardup dedup "
            "--save-sketches"
        )
    is_old = listed["version"] == 1 and expected is None
    if not is_old and expected != _list_checksum(listed):
        raise FormatError(
            f"{path} is damaged (checksum): restore it, or make it again with neardup dedup "
            "--save-sketches"
        )
    return listed


def _list_checksum(listed: dict[str, Any]) -> str:
    """Return the checksum of set.json: of its content, however it is laid out."""
    return xxhash.xxh3_64_hexdigest(json.dumps(listed, sort_keys=True).encode())


def _check_key(key: object) -> str:
    """Return a key from set.json, which is used as a file name; an error if it is none."""
    if not isinstance(key, str) or not re.fullmatch("[0-9a-f]{32}", key):
        raise ValueError("not a key")
    return key


def _read_shard(listed: dict[str, Any], reading: dict[str, Any]) -> Shard:
    files = tuple(map(parse_file, listed["files"]))
    stamps = tuple((int(size), int(time)) for size, time in listed["stamps"])
    part = None if listed["part"] is None else (int(listed["part"][0]), int(listed["part"][1]))
    if not files or len(files) != len(stamps):
        raise ValueError("not a shard")
    return Shard(files, stamps, parse_reading(reading), part)


def _read_kept(file: BlockReader) -> NDArray[np.bool_]:
    bits = file.read(0, "bits")
    return np.unpackbits(bits, count=file.header["documents"], bitorder="little").astype(bool)


def read_ignored(folder: Path) -> IgnoredLines:
    """Read the ignored lines of a set or a run; an empty list if it has none."""
    path = folder / IGNORED_FILE
    return IgnoredLines.from_bytes(path.read_bytes()) if path.exists() else IgnoredLines()


def read_frequencies(folder: Path) -> Frequencies:
    """Read the document frequencies of a set or a run; empty ones if it has none."""
    path = folder / FREQUENCIES_FILE
    return Frequencies.from_bytes(path.read_bytes()) if path.is_file() else Frequencies()


def read_centre_file(folder: Path) -> VectorCentre:
    """Read the centre of the vectors of a set or a run; an empty one if it has none."""
    path = folder / CENTRE_FILE
    return VectorCentre.from_bytes(path.read_bytes()) if path.is_file() else VectorCentre()


def write_lists(
    folder: Path, ignored: IgnoredLines, frequencies: Frequencies, centre: VectorCentre
) -> None:
    """Write what a set or a run has counted: ignored lines, document frequencies, a centre."""
    if centre:
        (folder / CENTRE_FILE).write_bytes(centre.to_bytes())
    if len(ignored):
        (folder / IGNORED_FILE).write_bytes(ignored.to_bytes())
    if frequencies:
        (folder / FREQUENCIES_FILE).write_bytes(frequencies.to_bytes())


def save_sketches(
    folder: Path,
    sketches: Sketches,
    kept: NDArray[np.bool_],
    spec: Spec,
    ignored: IgnoredLines,
    frequencies: Frequencies,
    centre: VectorCentre,
    tables: bool,
) -> None:
    """Make a set of the new documents of a run, whose sketch files exist in the folder.

    Args:
        folder: The folder of the sketch files.
        sketches: The documents of the run.
        kept: For each document whether it was kept.
        spec: The specification.
        ignored, frequencies, centre: What the run has counted.
        tables: Whether the files become Parquet files.
    """
    first = sketches.earlier
    new = SketchSet(
        spec,
        sketches.shards[first:],
        sketches.files[first:],
        kept[sketches.first_new :],
        ignored,
        frequencies,
        centre,
    )
    new.write(folder)
    if tables:
        _write_tables(Sketches(new.shards, new.files), new.kept)


def _write_tables(sketches: Sketches, kept: NDArray[np.bool_]) -> None:
    """Write a Parquet file for each sketch file, and remove that when all are written."""
    places = Catalogue.of(sketches).places
    for place, file in enumerate(sketches.files):
        begin, end = sketches.starts[place : place + 2].tolist()
        files, rows = places.of(np.arange(begin, end))
        write_sketch_table(file, table_beside(file.path), kept[begin:end], files, rows.to_numpy())
    for file in sketches.files:
        file.path.unlink(missing_ok=True)  # one shard may be there twice


def _open_file(folder: Path, key: str) -> BlockReader:
    """Open the sketches of a shard, in either form."""
    path = folder / key
    if not path.exists() and table_beside(path).exists():
        return SketchTable(table_beside(path), RESTORED)
    return BlockReader(path, SKETCHES_KIND, RESTORED)


def merge_sketch_sets(folders: Sequence[Path], out: Path) -> SketchSet:
    """Join sets into one, in a new folder. All must have the same specification."""
    sets = [SketchSet.open(find_sketch_folder(folder)) for folder in folders]
    first = sets[0]
    for folder, other in zip(folders[1:], sets[1:], strict=True):
        first.spec.require_same(other.spec, str(folders[0]), str(folder))
        if [s.reading for s in other.shards[:1]] != [s.reading for s in first.shards[:1]]:
            raise UsageError(
                f"{folders[0]} and {folder} were read with different columns: merge sets with the "
                "same columns"
            )
    if not have_same_layout([file for one in sets for file in one.files]):
        raise UsageError(
            "the sets were made for different bands, or some with --merge-rows and some without: "
            "merge sets of one kind"
        )
    if out.exists():
        raise OutputTaken(f"{out} exists: choose another output")
    beside = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(mode=0o700, parents=True)
        files = [_link_file(file, beside) for one in sets for file in one.files]
        shards = [shard for one in sets for shard in one.shards]
        kept = np.concatenate([one.kept for one in sets])
        counted = first.ignored, first.frequencies, first.centre
        joined = SketchSet(first.spec, shards, files, kept, *counted)
        joined.write(beside)
        beside.rename(out)
    except OSError as error:
        raise write_error(out, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return joined


def _link_file(file: BlockReader, folder: Path) -> BlockReader:
    """Link the file into another folder, or copy it where links are not possible."""
    file.verify()
    target = folder / file.path.name
    try:
        os.link(file.path, target)
    except FileExistsError:
        pass  # two sets contain the same shard
    except OSError:
        shutil.copyfile(file.path, target)
        target.chmod(0o600)
    return _open_file(folder, file.path.stem)


def _no_sketches(folder: Path) -> str:
    if not folder.exists():
        return f"{folder}: no such folder: give a run with --save-sketches, or a set of sketches"
    return f"{folder} holds no sketches: make the run again with neardup dedup --save-sketches"


def find_sketch_folder(folder: Path) -> Path:
    """Return the folder of the sketches, for the folder of a run or of a set."""
    return folder / "sketches" if is_sketch_folder(folder / "sketches") else folder


def is_sketch_folder(folder: Path) -> bool:
    """Whether a folder has a set of sketches, complete or not: its list, or its kept bits."""
    return (folder / SET_FILE).exists() or is_block_file(folder / KEPT_FILE)
