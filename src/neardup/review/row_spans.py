"""Where the rows of large files are, so that one text is read without all before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from neardup.corpus.format_table import BYTE_RANGES
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk, parse_chunk, read_chunks
from neardup.errors import InputError
from neardup.pipeline.run_inputs import RunInputs


class RowSpan(NamedTuple):
    """A block of whole lines: the number of its first row, where it starts, and its length."""

    first_row: int
    start: int
    length: int


def read_stamp(file: InputFile) -> tuple[int, int]:
    """Return the size of a file and the time when it was changed, in nanoseconds.

    Args:
        file: The file.
    """
    found = file.path.stat()
    return found.st_size, found.st_mtime_ns


def has_spans(file: InputFile) -> bool:
    """Return whether the rows of a file can be read without those before them.

    Args:
        file: The file.
    """
    return file.is_plain and file.row.cut_by == BYTE_RANGES


class FileSpans:
    """Finds the blocks of the files of lines among the inputs of a run.

    Args:
        corpora: The inputs, and the files of the earlier corpus.
    """

    def __init__(self, corpora: Sequence[RunInputs]) -> None:
        self._corpora = corpora

    def each(self) -> Iterator[tuple[str, tuple[int, int], Iterator[RowSpan]]]:
        """Yield each file by its name with its stamp and its blocks, if it has not changed."""
        for inputs in self._corpora:
            for file in filter(has_spans, inputs.files):
                try:
                    stamp = read_stamp(file)
                    inputs.check([file])
                except (InputError, OSError):
                    continue
                yield file.name, stamp, self._blocks(inputs, file)

    @staticmethod
    def _blocks(inputs: RunInputs, file: InputFile) -> Iterator[RowSpan]:
        row, columns = 0, inputs.reading.columns
        for chunk in read_chunks(file, columns, inputs.reading.chunk):
            if chunk.span is None:
                return
            yield RowSpan(row, *chunk.span)
            row += len(parse_chunk(chunk, columns))


def block_of(file: InputFile, span: tuple[int, int, int]) -> Chunk:
    """Return a block of a file as a chunk to parse.

    Args:
        file: The file.
        span: The block.
    """
    first_row, start, length = span
    return Chunk((file,), first_row == 0, span=(start, length))
