"""What a threshold means in each script: the table of docs/choosing.md.

    python benches/languages.py --data DIR

The pages of the Debian installation guide in 18 languages (one page of each name, 500 to 5,000
characters), and texts of random words of Arabic and Thai letters, which the guide lacks. Of each, a
copy is made in which 1 % of the letters and digits are others, drawn from the same text. Given are
the median similarity of a page and its copy, and at how many of them it reaches the threshold.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from statistics import median

import orjson
import pyarrow as pa

import neardup
from neardup.text.scripts import SCRIPTS, find_scripts

POINTS = (("word:5", 0.8), ("word:5", 0.5), ("char:5", 0.8), ("char:9", 0.8))
SHARE = 0.01
SHORTEST, LONGEST = 500, 5_000
PAGES = 60
GENERATED = {
    # First and last letter, letters of a word; Thai has no spaces between words.
    "ar (generated)": (0x0621, 0x064A, (2, 8), " "),
    "th (generated)": (0x0E01, 0x0E2E, (3, 8), ""),
}


def edited(text: str, draw: random.Random) -> str:
    """Return the text with SHARE of its letters and digits replaced by others of the same text."""
    letters = [at for at, c in enumerate(text) if c.isalnum()]
    changed = list(text)
    for at in draw.sample(letters, max(round(SHARE * len(letters)), 1)):
        changed[at] = text[draw.choice(letters)]
    return "".join(changed)


def generated(
    first: int, last: int, sizes: tuple[int, int], space: str, draw: random.Random
) -> str:
    alphabet = [chr(code) for code in range(first, last + 1) if chr(code).isalpha()]
    count = draw.randint(100, 500)
    words = ("".join(draw.choices(alphabet, k=draw.randint(*sizes))) for _ in range(count))
    return space.join(words)


def pages(data: Path, draw: random.Random) -> dict[str, list[str]]:
    """Return the texts by language."""
    by_language: dict[str, dict[str, str]] = {}
    with pa.CompressedInputStream(
        str(data / "debian_install_guide.documents.jsonl.zst"), "zstd"
    ) as lines:
        for line in lines.read().splitlines():
            row = orjson.loads(line)
            if SHORTEST <= len(row["text"]) <= LONGEST:
                page = row["id"].partition("#")[0]
                by_language.setdefault(row["lang"], {}).setdefault(page, row["text"])
    chosen = {
        language: draw.sample(list(found.values()), min(PAGES, len(found)))
        for language, found in sorted(by_language.items())
    }
    return chosen | {
        name: [generated(*how, draw) for _ in range(PAGES)] for name, how in GENERATED.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    draw = random.Random(1)
    heads = [f"`{shingle}` at {threshold:g}" for shingle, threshold in POINTS]
    print("| language | script | characters a word | " + " | ".join(heads) + " |")
    print("| --- " * (len(heads) + 3) + "|")
    rows = []
    for language, texts in pages(parser.parse_args().data, draw).items():
        scripts = find_scripts(pa.array(texts, pa.large_string())).tolist()
        script = SCRIPTS[max(scripts, key=scripts.count)]
        copies = [edited(text, draw) for text in texts]
        lengths = [len(text) / max(len(text.split()), 1) - 1 for text in texts]
        cells = []
        for shingle, threshold in POINTS:
            similar = [
                neardup.similarity(one, other, shingle=shingle)
                for one, other in zip(texts, copies, strict=True)
            ]
            found = sum(value >= threshold for value in similar)
            cells.append((median(similar), f"{found} of {len(texts)}, {median(similar):.2f}"))
        shown = " | ".join(cell for _, cell in cells)
        rows.append((-cells[0][0], f"| {language} | {script} | {median(lengths):.1f} | {shown} |"))
    print("\n".join(row for _, row in sorted(rows)))


if __name__ == "__main__":
    main()
