"""A run on Spark with round figures, for the tests of the planner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neardup.options import Options
from neardup.planner.costs import Costs
from neardup.planner.prediction import stored_bytes
from neardup.planner.requirements import Sla
from neardup.planner.spark_run import (
    SparkRun,
)
from neardup.planner.workload import assume_workload


def run_of(sla: Sla, options: Options | None = None, **other: Any) -> SparkRun:
    options = options or Options()
    profile = replace(
        assume_workload(Sla(1000), options),
        stored=3000.0,
        kept=2700.0,
        sets=800.0,
        candidates=0.2,
        members=2.3,
        buckets=1.0,
        compared=0.5,
        false=0.4,
        removed=0.1,
    )
    return SparkRun(sla, Costs(), profile, options, stored_bytes(options), **other)
