"""Plans for an index on Redis: memory as measured, masters, rates; and what no servers can meet."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.command_line import neardup
from support.redis_servers import redis_server

from neardup.errors import ParameterError
from neardup.hash_ring import HashRing
from neardup.index.index import Index
from neardup.planner.planner import Plan, plan
from neardup.planner.redis_cluster import LEAST_CLUSTER, MEASURED, ROOM, RedisSize, allocated

GB = 10**9
DOCUMENTS, BATCH = 3_000, 256


def on_redis(documents: float | str, **asked: Any) -> Plan:
    return plan(documents, engine="redis", calibrate=False, **asked)


def servers(documents: float | str, **asked: Any) -> RedisSize:
    found = on_redis(documents, **asked).redis
    assert found is not None
    return found


def random_texts(shingles: int, copies: float) -> list[str]:
    """Texts that have nothing in common, but for a share that repeats an earlier one."""
    chance, texts = random.Random(5), list[str]()
    for at in range(DOCUMENTS):
        if texts and chance.random() < copies:
            texts.append(f"{chance.choice(texts)} x{at}")
        else:
            words = (f"{chance.getrandbits(30):x}" for _ in range(shingles + 2))
            texts.append(" ".join(words))
    return texts


@pytest.mark.parametrize(
    ("shingles", "copies", "point"),
    [(20, 0.1, {}), (150, 0.1, {}), (40, 0.1, {"slots": 64, "bits": 8})],
)
def test_memory_is_as_measured(
    tmp_path: Path, shingles: int, copies: float, point: dict[str, int]
) -> None:
    asked = {"shingles": shingles, "bytes": 9 * shingles} | point
    made = on_redis(DOCUMENTS, threshold=0.8, recall=0.9, shingle="word:3", **asked)
    texts = random_texts(shingles, copies)
    with redis_server(tmp_path, appendonly=True) as server:
        with Index.open(server.url, **made.options) as index:
            for at in range(0, DOCUMENTS, BATCH):
                some = texts[at : at + BATCH]
                index.add_batch([str(at + place) for place in range(len(some))], some)
        used = int(server.info("memory")["used_memory"])
    assert made.redis is not None
    assert made.redis.data == pytest.approx(used, rel=0.1)


@pytest.mark.parametrize(
    ("value", "size"), [(1, 16), (100, 112), (124, 128), (250, 256), (554, 640), (3_000, 3_072)]
)
def test_strings_are_allocated_in_steps(value: int, size: int) -> None:
    assert allocated(value) == size
    assert all(allocated(at) >= at + 4 for at in range(1, 5_000))


def test_one_server_or_a_cluster() -> None:
    small = servers("1M", memory="64GB")
    assert small.masters == 1 and small.memory == 64 * GB
    assert servers("1M", rate=small.rate * 0.9).masters == 1
    assert servers("1M", rate=small.rate * 1.1).masters == LEAST_CLUSTER
    large = servers("300M", memory="100GB")
    assert large.data < large.masters * ROOM * 100 * GB
    assert large.data > (large.masters - 1) * ROOM * 100 * GB
    twice = servers("600M", memory="100GB")
    assert twice.masters == pytest.approx(2 * large.masters, abs=1)
    assert twice.server_seconds > large.server_seconds, "a document meets more others"
    assert twice.rate == pytest.approx(twice.masters * MEASURED.busy / twice.server_seconds)


def test_machines_without_a_limit_have_room_for_the_data() -> None:
    found = servers("100M")
    assert found.masters == 1
    assert found.memory == pytest.approx(found.data / ROOM)


def test_rate_needs_masters_and_processes() -> None:
    one = servers("10M")
    found = servers("10M", rate=5 * one.rate)
    assert found.masters == 5
    assert found.processes * found.process_rate >= 5 * one.rate
    assert (found.processes - 1) * found.process_rate < 5 * one.rate


def test_disk_is_for_append_only_files() -> None:
    free = servers("100M")
    tight = servers("100M", disk=int(free.disk / 3.5))
    assert tight.masters == 4


def test_what_moves_to_one_more_master() -> None:
    found = servers("300M", memory="100GB")
    before = HashRing([f"m{at}" for at in range(found.masters)])
    after = HashRing([f"m{at}" for at in range(found.masters + 1)])
    assert found.moved == pytest.approx(HashRing.moved(before, after), rel=0.2)


def test_requirements_that_no_servers_meet() -> None:
    (missed,) = on_redis("3B", memory="1GB").problems
    assert missed.limit == "machines" and missed.reached > 128
    assert "an index is spread over 128" in missed.message and len(missed.cures) == 2
    assert "documents" in [one.limit for one in on_redis("5B").problems]
    assert on_redis("300M", memory="100GB", rate=5_000).met


def test_an_index_alone_is_on_redis() -> None:
    for asked in ({"purpose": "files"}, {"hours": 2}):
        with pytest.raises(ParameterError):
            on_redis("1M", **asked)
    with pytest.raises(ParameterError, match="local, spark, redis"):
        plan("1M", engine="dask")


def test_one_machine_stands_beside() -> None:
    """The same operating point as in a folder without limits."""
    local = plan("10M", purpose="index", calibrate=False)
    made = on_redis("10M", memory="4GB", rate=100)
    assert made.options == local.options
    assert made.predicted.memory == pytest.approx(local.predicted.memory, rel=1e-6)
    assert "masters of 4.0 GB" in repr(made)
    assert made.to_json()["redis"]["masters"] == made.redis.masters


def test_the_command_shows_the_servers() -> None:
    asked = ("plan", "--documents", "300M", "--engine", "redis", "--memory", "100GB")
    asked += ("--rate", "5000", "--no-calibrate")
    shown = neardup(*asked)
    assert shown.code == 0, shown.err
    for part in (
        "an index on Redis",
        "masters of 100 GB",
        "of the keys move",
        "in a folder on one",
    ):
        assert part in shown.out
    stated = json.loads(neardup(*asked, "--json").out)
    assert stated["redis"]["masters"] > 3 and stated["sources"]["redis"]
