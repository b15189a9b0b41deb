"""Write the files of examples and of Unicode data: `neardup spec --vectors`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from neardup.formats.tables import write_error
from neardup.protocol import by_reference
from neardup.protocol.cases import FILES
from neardup.protocol.examples import FormatExample
from neardup.reference import text
from neardup.spec import UNICODE, VERSION

ENDING: Final = ".jsonl"


def lines_of(file: str) -> Iterator[str]:
    """Yield the lines of a file of examples, with the results of the reference.

    Args:
        file: Its name, without the ending: one of `cases.FILES`.
    """
    for example in (FormatExample("version", file, {}), *FILES[file]()):
        yield example.line(by_reference.COMPUTE[example.kind](example.given))


def unicode_files() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of Unicode data."""
    ranges, canonical, compatible = [], {}, {}
    path = Path(text.__file__).parents[1] / "text" / f"unicode-{UNICODE}.txt"
    for line in path.read_text(encoding="ascii").splitlines():
        match line.split():
            case [] | ["#", *_]:
                pass
            case ["canonical", code, *steps]:
                canonical[code] = [int(step, 16) for step in steps]
            case ["compatible", code, *steps]:
                compatible[code] = [int(step, 16) for step in steps]
            case [first, last, kind, ccc, check, lower]:
                ranges.append([int(first, 16), int(last, 16), kind, int(ccc), check, int(lower)])
    tables = {
        "version": UNICODE,
        "ranges": ranges,
        "canonical": canonical,
        "compatible": compatible,
    }
    yield f"{UNICODE}.json", _as_json(tables)
    letters = {f"{code:04X}": letter for code, letter in text.look_alikes().items()}
    yield "look-alikes.json", _as_json(letters)
    yield "dropped.json", _as_json(text.DROPPED)


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n"


def write_examples(folder: Path) -> list[Path]:
    """Write all files of this version of the format into a folder; return their names.

    Args:
        folder: Gets `vectors/1/*.jsonl` and `unicode/*.json`; files of these names are replaced.
    """
    written = []
    try:
        for place in (folder / "vectors" / str(VERSION), folder / "unicode"):
            place.mkdir(parents=True, exist_ok=True)
        for file in FILES:
            path = folder / "vectors" / str(VERSION) / f"{file}{ENDING}"
            path.write_text("".join(f"{line}\n" for line in lines_of(file)), "ascii")
            written.append(path)
        for name, content in unicode_files():
            path = folder / "unicode" / name
            path.write_text(content, "ascii")
            written.append(path)
    except OSError as error:
        raise write_error(folder, error) from None
    return written
