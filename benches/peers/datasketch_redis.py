"""datasketch's MinHashLSH on Redis, as its documentation has it.

    python -m peers.datasketch_redis plain|session PORT CORPUS COUNT ASKED

`plain` inserts one by one after a query, `session` by an insertion session without queries: there
is no check in it. Prints the rate of both, and of queries.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import islice
from pathlib import Path

from datasketch import MinHashLSH
from harness import SLOTS, THRESHOLD, documents

from peers.datasketch import sketches


def main(how: str, port: str, corpus: str, count: str, asked: str) -> None:
    texts = [text for _, text in islice(documents(Path(corpus)), int(count))]
    index = MinHashLSH(
        threshold=THRESHOLD,
        num_perm=SLOTS,
        storage_config={
            "type": "redis",
            "basename": how.encode(),
            "redis": {"host": "127.0.0.1", "port": int(port)},
        },
    )
    start = time.perf_counter()
    if how == "session":
        with index.insertion_session() as session:
            for key, sketch in enumerate(sketches(texts)):
                session.insert(f"d{key}", sketch)
    else:
        for key, sketch in enumerate(sketches(texts)):
            if not index.query(sketch):
                index.insert(f"d{key}", sketch)
    seconds = time.perf_counter() - start
    begun = time.perf_counter()
    for sketch in sketches(texts[: int(asked)]):
        index.query(sketch)
    queries = time.perf_counter() - begun
    report = {"seconds": seconds, "documents": len(texts), "asked": int(asked), "queries": queries}
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
