"""Golden documents are found where they are."""

from __future__ import annotations

from support.command_line import write_jsonl

from neardup.corpus.documents import Columns
from neardup.evaluation.operating_point import GoldenFinder, reader
from neardup.runtime import SILENT


def test_golden_documents_are_found_in_many_files_and_chunks(tmp_path):
    long = "x " * 200_000  # three of these are more than one chunk
    for name in ("a", "b"):
        rows = [{"text": f"{name} {number} {long}"} for number in range(5)]
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    ids = [f"{tmp_path}/{name}.jsonl:{number}" for name in "ba" for number in (4, 0)]
    for workers in (1, 3):
        finder = GoldenFinder([*ids, "nowhere"])
        read = reader(tmp_path, Columns(), {}, workers, SILENT)
        assert sum(len(documents) for documents in finder.watch(read())) == 10
        found = finder.result()
        assert [found.text(n)[:3] for n in range(5)] == ["b 4", "b 0", "a 4", "a 0", ""]
        assert found.row.tolist() == [3, 2, 1, 0, -1]
