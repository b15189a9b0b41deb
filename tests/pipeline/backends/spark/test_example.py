"""The program of examples/ for Spark runs, and its own assertions hold."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[4] / "examples/spark_dataframe.py"


def test_spark_example_runs(spark):
    runpy.run_path(str(EXAMPLE))["main"](spark)
