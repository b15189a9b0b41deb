"""Deduplicate files from Python, and look at the decisions: cells of a notebook, one after another.

    python examples/files_from_python.py

Open it in an editor that knows `# %%` cells, or copy the cells into a notebook: there the run shows
a line of progress, and the result its counts and clusters.
"""

# %% Files of news, with copies that agencies have sent twice
from __future__ import annotations

import json
import tempfile
from pathlib import Path

import neardup

folder = tempfile.TemporaryDirectory()
news = Path(folder.name, "news")
news.mkdir()
story = "The council decided on Monday to close the old bridge for repairs until the end of May "
for day, lines in enumerate(
    [
        [("r1", story + "and to run a ferry."), ("r2", "Rain is expected in the south.")],
        [("r3", story + "and to run a small ferry."), ("r4", "")],
    ]
):
    with open(news / f"day{day}.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": id, "text": text}) + "\n" for id, text in lines)

# %% The run: without `out` it is in a temporary folder that belongs to the result
run = neardup.dedup_files(news, shingle="word:2", threshold=0.7)
print(run.summary())

# %% The decisions are tables
removed = run.removed.to_pandas()
print(removed[["id", "witness", "similarity"]].to_string(index=False))
assert removed["id"].tolist() == ["r3"]
assert run.rejected.to_pandas()["reason"].tolist() == ["empty"]

# %% The kept rows are files of the same names and formats
assert [path.name for path in run.kept] == ["day0.jsonl", "day1.jsonl"]
assert run.kept[1].read_text("utf-8") == ""

# %% Tomorrow's file, against what is there
Path(news, "day2.jsonl").write_text(json.dumps({"id": "r5", "text": story + "and a ferry runs."}))
later = neardup.dedup_files(
    news / "day2.jsonl", against=news / "day0.jsonl", shingle="word:2", threshold=0.7
)
assert later.removed.to_pandas()["witness"].tolist() == ["r1"]
later.close()
run.close()
folder.cleanup()
