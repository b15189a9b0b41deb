"""The earlier corpus of --against: earlier runs, saved sketches, indexes or plain files.

Its documents rank before all new ones and are never removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Columns
from neardup.corpus.encodings import UTF8, check_encoding
from neardup.corpus.folders import printable
from neardup.corpus.format_table import format_of_content
from neardup.corpus.inputs import (
    InputFile,
    InputFiles,
    InputOptions,
    apply_dialect,
    apply_encoding,
    find_inputs,
    take_dialect,
)
from neardup.corpus.recognition import SOME_BYTES, read_head
from neardup.corpus.shards import Shard
from neardup.errors import InputError, UsageError
from neardup.formats.blocks import BlockReader
from neardup.options import Distinguish
from neardup.pipeline.output import RUN_FILE, is_run
from neardup.pipeline.run_inputs import RunInputs
from neardup.pipeline.saved import (
    SketchSet,
    find_sketch_folder,
    is_sketch_folder,
    read_centre_file,
    read_frequencies,
    read_ignored,
)
from neardup.pipeline.sketch_files import SignatureStorage
from neardup.pipeline.stored_shards import StoredCorpus
from neardup.sketch.centre import VectorCentre
from neardup.spec import Spec
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines


@dataclass
class EarlierCorpus:
    """Sets of sketches, indexes, and files that are still to be sketched.

    stored       the indexes
    specs        the name and the specification of each set and run
    ignored      the ignored lines of the first one that has any
    frequencies  the document frequencies of the first one that has any
    centre       the centre of vectors of the first one that has one
    """

    sets: list[SketchSet] = field(default_factory=list)
    stored: list[StoredCorpus] = field(default_factory=list)
    inputs: InputFiles = field(default_factory=InputFiles)
    specs: list[tuple[str, Spec]] = field(default_factory=list)
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    frequencies: Frequencies = field(default_factory=Frequencies)
    centre: VectorCentre = field(default_factory=VectorCentre)

    @classmethod
    def of(
        cls,
        paths: Sequence[Path | str],
        input_options: InputOptions,
        stored: Sequence[StoredCorpus] = (),
    ) -> EarlierCorpus:
        """Open what --against names: sets of sketches, folders of runs, or files.

        Those of the paths that are indexes, and all addresses, are open already: they are `stored`.

        Files among them are read in the format and the encoding, CSV files in the dialect of the
        new ones; but Parquet, Arrow and WARC files as such.
        """
        format = input_options.get("format", "auto")
        dialect = take_dialect(input_options)
        encoding = check_encoding(input_options.get("encoding", UTF8))
        corpus = cls()
        for one in stored:
            corpus._add_stored(one)
        for path in paths:
            if any(path == one.path for one in stored):
                continue
            if isinstance(path, str):
                raise UsageError(f"--against {path}: there is no such index: give the files of it")
            if is_sketch_folder(find_sketch_folder(path)):
                corpus._add_set(path)
            elif is_run(path):
                corpus._add_run(path)
            else:
                files = find_inputs([path], format=format)
                if format != "auto":
                    files[:] = map(_restore_format, files)
                apply_encoding(files, encoding, format)
                apply_dialect(files, dialect)
                corpus._add_files(files)
        return corpus

    def _add_set(self, path: Path) -> None:
        one = SketchSet.open(find_sketch_folder(path))
        self.sets.append(one)
        self.specs.append((str(path), one.spec))
        self._adopt(one.ignored, one.frequencies, one.centre)

    def _add_stored(self, corpus: StoredCorpus) -> None:
        self.stored.append(corpus)
        self.specs.append((str(corpus.path), corpus.spec))
        self._adopt(corpus.ignored, corpus.frequencies, corpus.centre)

    def _add_run(self, path: Path) -> None:
        if not (path / "kept").is_dir():
            raise UsageError(
                f"{path} has neither kept files nor sketches: make it again without --no-kept, or "
                "with --save-sketches, or give its inputs"
            )
        record = json.loads((path / RUN_FILE).read_bytes())
        if "by" not in record["spec"]:  # a run of neardup exact has no sketches to agree with
            self.specs.append((str(path), Spec.from_json(json.dumps(record["spec"]))))
        self._adopt(read_ignored(path), read_frequencies(path), read_centre_file(path))
        inputs = RunInputs.of(record)
        if inputs is not None and inputs.files:
            self.inputs += _find_kept(path / "kept", inputs.files)
            return
        parameters = record["parameters"]
        told = ("format", "delimiter", "quote", "no_header", "encoding", "records")
        options = {name: parameters[name] for name in told if parameters.get(name) is not None}
        self._add_files(find_inputs([path / "kept"], **options))

    def _add_files(self, files: InputFiles) -> None:
        self.inputs += files
        self.inputs.unread.entries.extend(files.unread.entries)

    def _adopt(self, ignored: IgnoredLines, frequencies: Frequencies, centre: VectorCentre) -> None:
        """Use what the earlier corpus has counted again."""
        self.ignored = self.ignored if len(self.ignored) else ignored
        self.frequencies = self.frequencies or frequencies
        self.centre = self.centre or centre

    @property
    def planes(self) -> tuple[Spec, VectorCentre] | None:
        """The specification and the centre of vectors that were sketched; None without any."""
        spec = next((spec for _, spec in self.specs if spec.planes), None)
        return None if spec is None else (spec, self.centre)

    def check(self, storage: SignatureStorage, exact: bool, columns: Columns) -> None:
        """Raise an error unless the sketches can be compared with those of the new documents.

        They need one specification and layout, both or neither with --within, the same
        --distinguish, and for exact verification the unchanged inputs.
        """
        for name, other in self.specs:
            storage.spec.require_same(other, "the new documents", name)
        for shard, file in zip(self.shards, self.files, strict=True):
            storage.check(file, shard.name)
        for shard in self.shards:
            theirs = shard.reading.columns
            if (theirs.within is None) != (columns.within is None):
                how = "without --within"
                if theirs.within is not None:
                    how = f"with --within {theirs.within}"
                raise UsageError(
                    f"--against: the sketches of {shard.name} were made {how}, and would never "
                    "match: give the same --within, or give the files themselves"
                )
            if theirs.merges_rows and not columns.merges_rows:
                raise UsageError(
                    f"--against: the sketches of {shard.name} were made with --merge-rows, one for "
                    "each row of a document: run with it, or give the files themselves"
                )
            made = Distinguish(theirs.numbers, theirs.distinguish)
            if made != Distinguish(columns.numbers, columns.distinguish):
                how = f"with --distinguish {made}" if made else "without --distinguish"
                raise UsageError(
                    f"--against: the sketches of {shard.name} were made {how}, and would never "
                    "match: give the same --distinguish, or give the files themselves"
                )
        if exact:
            for shard in self.shards:
                try:
                    shard.check()
                except InputError as error:
                    raise InputError(
                        f"{error.file}: the input of saved sketches is missing or has changed: "
                        "restore it, or compare signatures with --verify estimate",
                        error.file,
                    ) from None

    @property
    def shards(self) -> list[Shard]:
        return [shard for one in self.sets for shard in one.shards]

    @property
    def files(self) -> list[BlockReader]:
        return [file for one in self.sets for file in one.files]

    @property
    def keys(self) -> list[str]:
        """The key of each sketch file, combined with the kept bits of its set."""
        return [key + one.kept_digest for one in self.sets for key in one.keys]

    @property
    def kept(self) -> NDArray[np.bool_] | None:
        """For each document of the sets whether it was kept; the others take no part."""
        return np.concatenate([one.kept for one in self.sets]) if self.sets else None


def _find_kept(folder: Path, inputs: list[InputFile]) -> list[InputFile]:
    """Return the kept files of a run, by the bytes of their paths; each is read as its input was.

    Args:
        folder: The folder of the kept files.
        inputs: The inputs of the run. A text that was removed has no kept file.
    """
    found = []
    for file in inputs:
        path, parts = folder / file.kept_name, Path(file.kept_name).parts
        is_inside = path.is_relative_to(folder) and ".." not in parts  # run.json may be foreign
        if not (is_inside and path.is_file()):
            if file.row.is_document:
                continue
            raise InputError(
                f"{printable(str(path))}: a kept file of the earlier run is missing: restore it, "
                "or give the files that are left"
            )
        folders = tuple(map(printable, parts[:-1])) if file.folders is None else file.folders
        found.append(replace(file, path=path, name=printable(str(path)), folders=folders))
    return sorted(found, key=lambda file: os.fsencode(file.path))


def _restore_format(file: InputFile) -> InputFile:
    """Return the file with the format that its first bytes prove, if they do."""
    row = format_of_content(read_head(str(file.path), file.compression, SOME_BYTES))
    return file if row is None or row.encoded else replace(file, format=row.name)
