"""Measure inputs: pipes and object stores beside local files, JSON files and web archives.

    python benches/inputs.py --data DIR

Results go to `benches/results/inputs.json` and `inputs.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from corpora import plain
from json_files import json_files
from suite import Suite, work_folder
from ways import InputBench, ways
from web_archives import web_archives

SUITE = Suite(
    "inputs",
    "Inputs: pipes, stores, JSON, web archives",
    {"ways": ways, "json": json_files, "archives": web_archives},
)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=3)
    parser.set_defaults(peers_python="")  # orjson and warcio are in our own environment
    parser.add_argument("--documents", type=int, help="of the ways, instead of all 110,000")
    parser.add_argument("--size", type=int, default=200, help="MB of each JSON file and archive")
    args = SUITE.parse(parser)
    with work_folder(args.work) as work:
        name = f"rfc_{args.documents or '100k'}.jsonl"
        pages = plain(Path(args.data) / "rfc_100k.jsonl.zst", work / name, args.documents)
        print(SUITE.measure(args, InputBench(pages, args.repeat, args.size, work), {}))


if __name__ == "__main__":
    sys.exit(main())
