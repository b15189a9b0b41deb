"""Progress and moved bytes of Spark's jobs, as the driver sees them."""

from __future__ import annotations

import time

import pytest

from neardup.errors import InputError, NeardupError
from neardup.pipeline.backends.spark import progress as spark_progress
from neardup.pipeline.backends.spark.progress import StageMetrics, watch_stage
from neardup.runtime import SILENT


class Recorded:
    """What somebody who waits is told."""

    def __init__(self):
        self.stages, self.done = [], []

    def stage(self, name, total, unit):
        self.stages.append((name, total, unit))
        self.done.append(0)

    def advance(self, amount):
        assert amount >= 0
        self.done[-1] += amount

    def say(self, message):
        raise AssertionError(message)


def slowly(batches):
    import time

    for batch in batches:
        time.sleep(0.3)
        yield batch


def numbers(spark, tasks):
    return spark.range(0, 1_000, 1, tasks)


def test_tasks_are_counted_while_they_run(spark, monkeypatch):
    monkeypatch.setattr(spark_progress, "LOOK_SECONDS", 0.02)
    progress = Recorded()
    with watch_stage(spark, progress, "sketch") as watch:
        numbers(spark, 6).mapInArrow(slowly, "id long").write.format("noop").mode(
            "overwrite"
        ).save()
    assert progress.stages == [("sketch", 1, "stage"), ("sketch", 6, "tasks")]
    assert 1 <= progress.done[1] <= 6
    assert watch.moved.tasks == 6
    assert watch.moved.seconds > 0.9


def test_bytes_that_move_are_measured(spark, tmp_path):
    with watch_stage(spark, SILENT, "write") as wrote:
        numbers(spark, 2).write.parquet(f"{tmp_path}/numbers")
    with watch_stage(spark, SILENT, "shuffle") as shuffled:
        spark.read.parquet(f"{tmp_path}/numbers").repartition(3, "id").write.parquet(
            f"{tmp_path}/again"
        )
    on_disk = sum(file.stat().st_size for file in tmp_path.glob("numbers/*.parquet"))
    assert wrote.moved.output_bytes == on_disk
    assert (wrote.moved.shuffle_written, wrote.moved.shuffle_read) == (0, 0)
    assert shuffled.moved.input_bytes > 0
    assert shuffled.moved.shuffle_written == shuffled.moved.shuffle_read > 1_000
    assert shuffled.moved.output_bytes > 0


def test_jobs_outside_the_stage_are_not_counted(spark):
    numbers(spark, 2).count()
    with watch_stage(spark, SILENT, "outer") as outer:
        with watch_stage(spark, SILENT, "nothing") as nothing:
            time.sleep(0.01)
        with watch_stage(spark, SILENT, "inner") as inner:
            numbers(spark, 2).rdd.count()
    numbers(spark, 2).count()
    assert nothing.moved == StageMetrics("nothing", nothing.moved.seconds)
    assert (inner.moved.tasks, outer.moved.tasks) == (2, 2)


def test_a_task_that_is_tried_again_is_counted(spark, tmp_path):
    marker = str(tmp_path / "failed")

    def fails_once(batches):
        from pathlib import Path

        if not Path(marker).exists():
            Path(marker).touch()
            raise OSError("once")
        yield from batches

    with watch_stage(spark, SILENT, "sketch") as watch:
        assert numbers(spark, 1).mapInArrow(fails_once, "id long").count() == 1_000
    assert watch.moved.failed_tasks == 1


def test_an_error_raised_in_a_task_keeps_its_type_and_message(spark):
    def refuse(batches):
        from neardup.errors import InputError
        from neardup.pipeline.backends.spark.failures import tag_errors

        with tag_errors():
            raise InputError("a.jsonl is cut off", "a.jsonl")

    with (
        pytest.raises(InputError, match=r"^a\.jsonl is cut off$") as raised,
        watch_stage(spark, SILENT, "sketch"),
    ):
        numbers(spark, 1).mapInArrow(refuse, "id long").collect()
    assert raised.value.file == "a.jsonl"


def test_an_error_of_spark_becomes_one_line(spark):
    def fail(batches):
        raise ValueError("seven")

    with (
        pytest.raises(NeardupError, match=r"^sketch failed in Spark: ValueError: seven; --debug"),
        watch_stage(spark, SILENT, "sketch"),
    ):
        numbers(spark, 1).mapInArrow(fail, "id long").collect()
    with (
        pytest.raises(NeardupError, match=r"^read failed in Spark: ") as raised,
        watch_stage(spark, SILENT, "read"),
    ):
        spark.read.parquet("/nonexistent/folder").count()
    assert "\n" not in str(raised.value)
    assert "/nonexistent/folder" in str(raised.value)
