"""neardup why: explain the decision about a document of a run or an index, or about two of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from neardup.cli.arguments import PlainJson, Quiet, Workers, argument, flag
from neardup.cli.console import print_json, progress_for
from neardup.cli.index import IndexKey, open_to_read
from neardup.cli.key_files import read_key
from neardup.formatting import make_printable

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.report.differences import TextComparison, TextPiece

WIDTH = 14
SHOWN = 1_000
"""Characters that are shown of a passage that differs."""
MARKS = {False: ("[", "]"), True: ("\x1b[7m", "\x1b[27m")}
"""What is written around words that differ: into a pipe, and on a terminal."""


def why(
    where: Annotated[
        str,
        argument(
            "RUN",
            "The folder of a finished run, or of an index; or its servers: redis://HOST:PORT.",
        ),
    ],
    id: Annotated[str, argument("ID", "The id of the document, or of a run its file:row.")],
    other: Annotated[
        str | None, argument("ID2", "Another one: why these two are duplicates, or why not.")
    ] = None,
    nearest: Annotated[
        bool,
        flag(
            "Read the inputs of the run again however large they are: to find what a kept document "
            "met, or the chain between two of a component.",
            "--nearest",
        ),
    ] = False,
    key_file: IndexKey = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: PlainJson = False,
) -> None:
    """Explain why a document was removed or kept, or why two were not found to be duplicates.

    Of a removed document it shows the witness, the similarity, the passages that both have and the
    words that differ; of a kept
    one what was nearest among the documents that it met; of two, whether they met at all, with the
    probability of that, and how similar they are. In a run with --cluster components it shows the
    chain of similar pairs between two documents that are not similar. The texts are read from the
    inputs of the run, which must be where they were, unchanged.
    """
    from neardup.errors import UsageError
    from neardup.index.folder import is_index
    from neardup.index.redis_store.address import is_redis, refuse_url
    from neardup.pipeline.budget import check_workers
    from neardup.pipeline.output import WORK_FOLDER, is_run
    from neardup.pipeline.run_progress import no_run_error

    folder = None if is_redis(where) else Path(where)
    if folder is not None:
        refuse_url(folder)
    if folder is not None and is_run(folder):
        _explain_run(folder, id, other, nearest, key_file, check_workers(workers), quiet, as_json)
        return
    if folder is not None and (folder / WORK_FOLDER).exists() and not is_index(folder):
        raise no_run_error(folder)
    if folder is not None and (not folder.is_dir() or not any(folder.iterdir())):
        raise UsageError(
            f"{folder} holds neither a finished run nor an index: give the folder of one"
        )
    with open_to_read(where, key_file) as index:
        if other is None:
            explain_document(index, id, as_json)
        else:
            _explain_pair(index, id, other, as_json)


def _explain_run(
    run: Path,
    id: str,
    other: str | None,
    nearest: bool,
    key_file: Path | None,
    workers: int,
    quiet: bool,
    as_json: bool,
) -> None:
    with progress_for(quiet=quiet or as_json) as progress:
        from neardup.report.run_explanation import RunExplainer

        explainer = RunExplainer(run, read_key(key_file), workers, progress)
        explained = (
            explainer.explain(id, nearest)
            if other is None
            else explainer.explain_pair(id, other, nearest)
        )
    if as_json:
        print_json(explained.as_dict)
        return
    print(explained)
    names = ("its witness", "itself") if other is None else (id, other)
    if explained.differences is not None:
        print("\n".join(differing_words(explained.differences, names)))


def explain_document(index: Index, id: str, as_json: bool) -> None:
    """Print why a document of an index is a copy or kept, and how texts that it keeps differ."""
    explanation = index.explain_document(id)
    if explanation is None:
        raise _unknown(index, id)
    witness = None if explanation.witness is None else explanation.witness.id
    own, its = (None, None) if witness is None else (index.text(id), index.text(witness))
    if as_json:
        print_json(explanation.as_dict | _passages(own, its))
        return
    print(explanation)
    _print_texts(own, its, ("itself", "its witness"), witness_first=True)


def _explain_pair(index: Index, id: str, other: str, as_json: bool) -> None:
    """Print how two documents of an index compare."""
    verdict = index.explain_pair(id, other)
    if verdict is None:
        raise _unknown(index, id if index.get(id) is None else other)
    own, its = index.text(id), index.text(other)
    if as_json:
        print_json(verdict.as_dict | _passages(own, its))
        return
    print(verdict)
    _print_texts(own, its, (id, other))


def _unknown(index: Index, id: str) -> Exception:
    from neardup.errors import UsageError

    return UsageError(f"{index.path} has no document {id!r}: check the id")


def _passages(own: object, its: object) -> dict[str, Any]:
    """Return what two texts have in common for JSON; nothing if an index does not keep them."""
    from neardup.text.passages import common_passages

    if not (isinstance(own, str) and isinstance(its, str)):
        return {}
    return {"passages": asdict(common_passages(own, its))}


def _print_texts(
    own: object, its: object, names: tuple[str, str], *, witness_first: bool = False
) -> None:
    """Print what two texts have in common and how they differ, if an index keeps them."""
    from neardup.report.differences import compare_texts, passage_lines
    from neardup.text.passages import common_passages

    if not (isinstance(own, str) and isinstance(its, str)):
        return
    for name, what in passage_lines(common_passages(own, its)):
        print(f"{name:{WIDTH}}{make_printable(what)}")
    if witness_first:
        own, its, names = its, own, names[::-1]
    print("\n".join(differing_words(compare_texts(own, its), names)))


def differing_words(differences: TextComparison, names: tuple[str, str]) -> Iterator[str]:
    """Yield both texts where they differ, with the words that are not equal marked."""
    names = (make_printable(names[0]), make_printable(names[1]))
    width = max(WIDTH, *(len(name) + 2 for name in names)) if max(map(len, names)) < 40 else WIDTH
    if not differences.hunks:
        yield f"{'texts':{width}}the same words"
    for hunk in differences.hunks:
        if hunk.same_before:
            yield f"{'texts':{width}}{_equal(hunk.same_before)}"
        yield f"{names[0]:{width}}{_mark(hunk.kept)}"
        yield f"{names[1]:{width}}{_mark(hunk.copy)}"
    if not differences.complete:
        yield f"{'texts':{width}}more differences are not shown"
    elif differences.hunks and differences.same_after:
        yield f"{'texts':{width}}{_equal(differences.same_after)}"


def _equal(words: int) -> str:
    return "1 equal word" if words == 1 else f"{words:,} equal words"


def _mark(pieces: Sequence[TextPiece]) -> str:
    begin, end = MARKS[sys.stdout.isatty()]
    texts = (make_printable(" ".join(piece.text.split())) for piece in pieces)
    shown = (
        f"{begin}{text}{end}" if piece.changed else text
        for piece, text in zip(pieces, texts, strict=True)
    )
    line = " ".join(" ".join(shown).split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}{end} ..."
