"""One Spark for all tests: starting it takes longer than most of them."""

from __future__ import annotations

import os

import pytest

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    # Everything here is over before Java's better compiler pays.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "3",
    "spark.default.parallelism": "2",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Two cores of this machine; a task that fails is tried once more."""
    from neardup.pipeline.backends.spark.session import open_session

    folder = tmp_path_factory.mktemp("spark")
    settings = SETTINGS | {
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    given = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", f"{given} pyspark-shell")
        patch.delitem(os.environ, "PYSPARK_PYTHON", raising=False)
        session = open_session("local[2,2]")
        yield session
        session.stop()
