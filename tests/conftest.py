"""Settings of all tests, the one Spark session of a run, Redis, and the kind of each test.

Kinds are derived, not written at each test: `spark` needs Java and shares a session, `redis` starts
Redis servers, `browser` needs Chromium, `process` starts processes, `kill` kills them, `heavy`
takes long. `make test-fast` leaves these out. Helpers are in the package `support`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

# Random examples of a property: few on the way, many where nobody waits; `support.strategies` has
# how many a test with a number of its own runs. Kernels compile on first use, which is slow and is
# no failure.
for profile, examples in (
    ("fast", 10),
    ("neardup", 40),
    ("soak", 400),
    ("interleavings", 182_000),
):
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("neardup")  # unless --hypothesis-profile names another one

SPARK_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Everything here is over before Java's better compiler and collector pay.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Queries this small take longer to compile than to run; the tests of the command line run
    # with the code that Spark generates by default.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "3",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Start a session on two local cores, in which a failed task is tried once more."""
    from neardup.pipeline.backends.spark_session import open_session

    folder = tmp_path_factory.mktemp("spark")
    settings = SPARK_SETTINGS | {
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    arguments = " ".join(f"--conf '{name}={value}'" for name, value in settings.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", f"{arguments} pyspark-shell")
        patch.delitem(os.environ, "PYSPARK_PYTHON", raising=False)
        session = open_session("local[2,2]")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def redis_process(tmp_path_factory):
    """Start a Redis server for all tests of a worker; tests take `single_redis`."""
    from support.redis_servers import redis_server

    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def single_redis(redis_process):
    """Return a running Redis server without keys."""
    if not redis_process.running:
        redis_process.start()
    redis_process.flushall()
    return redis_process


@pytest.fixture(scope="session")
def cluster_processes(tmp_path_factory):
    """Start three masters and three replicas for all tests of a worker, in about five seconds;
    tests take `clustered_redis`."""
    from support.redis_servers import redis_cluster

    with redis_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def clustered_redis(cluster_processes):
    """Return a whole Redis cluster without keys; which are masters depends on earlier tests."""
    cluster_processes.heal()
    cluster_processes.flushall()
    return cluster_processes


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Start a browser for all tests of a worker; tests take `page`."""
    from support.browser import browser

    with browser(tmp_path_factory.mktemp("browser")) as first:
        yield first


@pytest.fixture
def page(chromium):
    """Return a page in a browser, of somebody who has never been anywhere."""
    made = chromium.stranger()
    yield made
    made.close()


# -- kinds of tests -----------------------------------------------------------------------------

REDIS_STARTERS = {"redis_server", "redis_cluster"}
"""Names by which a test or a fixture starts Redis."""

STARTERS = {
    "subprocess",
    "multiprocessing",
    "Popen",
    "fork",
    "process",
    "unprivileged",
    "running",
    "browser",
    "JavaScript",
    *REDIS_STARTERS,
}
"""Names by which a test, a fixture or a helper of theirs starts a process."""
STARTING = (
    "planner/test_tuner.py",
    "planner/test_trial_worker.py",
    "golden/test_golden_files.py::test_service",
)
"""Tests of code that starts processes by itself."""

HEAVY = (
    "contract/",
    "examples/",
    "cli/test_comparisons.py",
    "cli/test_dedup_options.py",
    "cli/test_exact.py",
    "cli/test_index_increments.py",
    "cli/test_main.py",
    "cli/test_why.py",
    "cli/test_why_components.py",
    "evaluation/test_sample.py",
    "evaluation/test_sketch_comparison.py",
    "evaluation/test_truth.py",
    "index/test_decider.py::test_memory",
    "index/test_expiry.py",
    "index/test_from_run.py",
    "index/test_hazards.py",
    "index/test_memory_budget.py",
    "index/test_races.py",
    "index/test_removal.py",
    "index/test_rebuild.py",
    "index/test_rebuild_convert.py",
    "index/test_shadow.py",
    "index/test_shadow_promote.py",
    "index/test_stored_corpus.py",
    "kernels/test_joining.py",
    "kernels/test_json_records.py",
    "kernels/test_simhash.py",
    "kernels/test_verification.py",
    "lsh/test_planes.py",
    "pipeline/stages/test_decide.py",
    "pipeline/test_bad_files.py",
    "pipeline/test_corruption.py",
    "pipeline/test_determinism.py",
    "pipeline/test_merge_rows.py",
    "pipeline/test_remote.py",
    "pipeline/test_resume.py",
    "pipeline/test_simhash_and_weighted_files.py",
    "pipeline/test_sketch_files.py",
    "planner/test_costs.py",
    "planner/test_label_choice.py",
    "planner/test_local_run.py",
    "planner/test_recommendation.py",
    "planner/test_search.py",
    "planner/test_shingle_comparison.py",
    "planner/test_workload.py",
    "report/test_run_page.py",
    "service/test_ingestion.py",
    "service/test_openapi.py",
    "sketch/test_set_statistics.py",
    "test_file_run.py",
    "test_in_memory.py",
)
"""Tests that take a fifth of a second or more each, measured with pytest --durations."""


def _needs_browser(nodeid: str) -> bool:
    return "/test_browser" in nodeid


def _needs_spark(nodeid: str) -> bool:
    names = ("/backends/test_spark", "/test_dedup_spark.py", "/test_java_spark.py", "[Spark ")
    return any(name in nodeid for name in names)


@pytest.hookimpl(optionalhook=True)  # pytest runs without xdist too
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Make `--dist loadgroup` give a worker the tests of a file, and one all Spark tests.

    A fixture of a file is made once, Spark has one session, and the files of tests in a browser
    share one. xdist 3.8 passes on the groups of
    `xdist_group` inside node ids, which pytest 9.2 no longer lets it change (pytest-xdist issue
    1386), and the process that distributes the tests knows nothing else of them. They start in the
    order of the collection, not by the number of tests in a file.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class FilesAndSessions(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if _needs_spark(nodeid):
                return "spark"
            return "browser" if _needs_browser(nodeid) else nodeid.split("::", 1)[0]

    config.option.loadscopereorder = False
    return FilesAndSessions(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the kinds; files that take long start first, so that all workers end together."""
    long: set[Path] = set()
    for item in items:
        if not isinstance(item, pytest.Function) or TESTS not in item.path.parents:
            continue
        place = f"{item.path.relative_to(TESTS)}::{item.name}"
        if _needs_spark(item.nodeid):
            item.add_marker("spark")
        elif "spark" in item.fixturenames:
            raise pytest.UsageError(
                f"{item.nodeid} uses Spark: name it so that _needs_spark sees it"
            )
        if place.startswith(HEAVY):
            item.add_marker("heavy")
            long.add(item.path)
        if "killed" in place:
            item.add_marker("kill")
        definitions = item._fixtureinfo.name2fixturedefs.values()
        functions = [item.function, *(one.func for found in definitions for one in found)]
        if place.startswith(STARTING) or _calls(functions, STARTERS, set()):
            item.add_marker("process")
            long.add(item.path)
        if _calls(functions, REDIS_STARTERS, set()):
            item.add_marker("redis")
        if _calls(functions, {"browser"}, set()):
            item.add_marker("browser")
    items.sort(key=lambda item: (not _needs_spark(item.nodeid), item.path not in long))


def _calls(functions: Iterable[object], wanted: set[str], seen: set[object]) -> bool:
    for function in functions:
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.add(function)
        names = _names(function.__code__)
        if names & wanted:
            return True
        called = [function.__globals__.get(name) for name in names]
        ours = [
            one for one in called if getattr(one, "__module__", "").startswith(("test", "support"))
        ]
        if _calls(ours, wanted, seen):
            return True
    return False


def _names(code: CodeType) -> set[str]:
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return {*code.co_names}.union(*map(_names, inner))
