"""Measure how long PyArrow takes to only read a JSONL file: the limit for any tool.

python -m reading open_json|read_json BLOCK_KB PATH
"""

from __future__ import annotations

import json
import sys
import time

from pyarrow import json as reader


def streamed(path: str, options: reader.ReadOptions) -> int:
    return sum(batch.num_rows for batch in reader.open_json(path, options))


def whole(path: str, options: reader.ReadOptions) -> int:
    return reader.read_json(path, options).num_rows


if __name__ == "__main__":
    read = {"open_json": streamed, "read_json": whole}[sys.argv[1]]
    options = reader.ReadOptions(use_threads=True, block_size=int(sys.argv[2]) << 10)
    start = time.perf_counter()
    rows = read(sys.argv[3], options)
    print(json.dumps({"seconds": time.perf_counter() - start, "documents": rows}))
