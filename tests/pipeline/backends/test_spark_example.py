"""The Spark program of examples/ and the examples in docstrings of `SparkResult` run."""

from __future__ import annotations

import doctest
import runpy
from pathlib import Path

import pytest

import neardup.spark

EXAMPLE = Path(__file__).parents[3] / "examples/spark_dataframe.py"


@pytest.mark.slow
def test_spark_example_runs(spark):
    runpy.run_path(str(EXAMPLE))["main"](spark)


@pytest.fixture(scope="module")
def result(spark):
    rows = [(1, "the cat sat on the mat today"), (2, "The cat sat on the mat, today!")]
    with neardup.spark.dedup(spark.createDataFrame(rows, "id long, text string"), id="id") as made:
        yield made


@pytest.mark.parametrize("name", ["SparkResult", "SparkResult.why", "SparkResult.summary"])
def test_examples_in_docstrings_give_what_they_show(spark, result, name):
    names = vars(neardup.spark) | {"spark": spark, "result": result}
    tests = doctest.DocTestFinder().find(neardup.spark, "neardup.spark", extraglobs=names)
    (test,) = (test for test in tests if test.name == f"neardup.spark.{name}")
    assert test.examples
    for example in test.examples:
        example.options.pop(doctest.SKIP, None)
    output = []
    assert not doctest.DocTestRunner().run(test, out=output.append).failed, "".join(output)
