"""Remove near-duplicates from a Spark DataFrame.

    python examples/spark_dataframe.py        (pip install "neardup[spark]", Java 17)

The rows stay where they are; only signatures and the shingles of candidates move. The answer is
that of `neardup.dedup` over the same rows in the order of their ids.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import neardup.spark


def main(spark: SparkSession) -> None:
    page = " ".join(f"word{number}" for number in range(60))
    rows = [
        ("https://a.example/1", page, 3),
        ("https://a.example/1?from=mail", page + " again", 9),
        ("https://b.example/2", "A page about something else, which is kept.", 1),
        ("https://c.example/3", "", 1),
    ]
    pages = spark.createDataFrame(rows, "url string, text string, visits int")

    result = neardup.spark.dedup(pages, id="url", keep="max:visits", threshold=0.8)
    try:
        print(result.summary())
        result.removed.show(truncate=False)
        print(result.why("https://a.example/1"))
        kept = sorted(row.url for row in result.kept.select("url").collect())
        assert kept == ["https://a.example/1?from=mail", "https://b.example/2"]
    finally:
        result.close()


if __name__ == "__main__":
    # Tasks on this machine run in the Python that has neardup; on a cluster see docs/spark.md.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.appName("neardup").getOrCreate()
    try:
        main(session)
    finally:
        session.stop()
