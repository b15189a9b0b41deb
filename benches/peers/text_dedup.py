"""text-dedup: its command line, `python -m text_dedup.minhash`, as its manual calls it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import SLOTS, THRESHOLD, Contender, Decisions, documents, main


def command(path: Path, work: str) -> list[str]:
    options = {
        "path": "json",
        "data_files": str(path),
        "split": "train",
        "cache_dir": f"{work}/cache",
        "output": f"{work}/out",
        "column": "text",
        "ngram": 5,
        "min_length": 0,
        "num_perm": SLOTS,
        "threshold": THRESHOLD,
        "hash_func": "xxh3",
        "hash_bits": 32,
        "num_proc": 1,
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return [sys.executable, "-m", "text_dedup.minhash", *flags]


def kept_ids(folder: str) -> set[str]:
    from datasets import load_from_disk

    return set(map(str, load_from_disk(folder)["id"]))


def run(path: Path) -> Decisions:
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": f"{work}/hf"}
        subprocess.run(
            command(path, work), env=os.environ | offline, check=True, capture_output=True
        )
        kept = kept_ids(f"{work}/out")
    return ((key, "") for key, _ in documents(path) if key not in kept)


if __name__ == "__main__":
    main(Contender("text-dedup", "components, not verified; xxh3, 32 bits", None, None, run))
