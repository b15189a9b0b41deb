"""datatrove: its MinHash pipeline of four stages with the default 14 bands of 8.

After its own clean-up of the text, words are split at white space by a custom tokeniser, which
datatrove allows. Its default, spaCy, does 0.6 MB/s: the peer is measured at its fastest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers.jsonl import JsonlWriter
from datatrove.utils.word_tokenizers import WordTokenizer
from harness import SLOTS, Contender, Decisions, main


class WhiteSpace(WordTokenizer):
    def word_tokenize(self, text: str) -> list[str]:
        return text.split()

    def sent_tokenize(self, text: str) -> list[str]:
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


TOKENIZER = WhiteSpace()


def signatures(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = MinhashConfig(num_buckets=SLOTS // 8, hashes_per_bucket=8)
        step = MinhashDedupSignature(folder, config=config, language=TOKENIZER)
        for text in texts:
            shingles = step.get_shingles(text)
            if shingles.size:
                step.get_signature(shingles)


def stages(path: Path, work: str) -> Iterator[tuple[list[PipelineStep], int]]:
    config = MinhashConfig()
    reader = JsonlReader(str(path.parent), glob_pattern=path.name)
    removed = JsonlWriter(f"{work}/removed", output_filename="${rank}.jsonl", compression=None)
    sketching = MinhashDedupSignature(f"{work}/signatures", config=config, language=TOKENIZER)
    yield [reader, sketching], 1
    yield [MinhashDedupBuckets(f"{work}/signatures", f"{work}/buckets", config=config)], 14
    yield [MinhashDedupCluster(f"{work}/buckets", f"{work}/remove", config=config)], 1
    yield [reader, MinhashDedupFilter(f"{work}/remove", exclusion_writer=removed)], 1


def run(path: Path) -> Decisions:
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        for number, (pipeline, tasks) in enumerate(stages(path, work)):
            logs = f"{work}/logs{number}"
            LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, logging_dir=logs).run()
        for part in sorted(Path(work, "removed").glob("*.jsonl")):
            with part.open("rb") as lines:
                yield from ((str(orjson.loads(line)["id"]), "") for line in lines)


if __name__ == "__main__":
    notes = "14 bands of 8, 64-bit slots, white-space words; components, not verified"
    main(Contender("datatrove", notes, signatures, None, run))
