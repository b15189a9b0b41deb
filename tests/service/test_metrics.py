"""What /metrics says, of a real index."""

from __future__ import annotations

import math
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from neardup.evaluation.scores import Scores
from neardup.index.index import Index
from neardup.service.metrics import LOOKS, WINDOW_SECONDS, Metrics, RecentGrowth

SEVEN = {
    "candidate_pairs_per_doc",
    "bucket_size_p99",
    "verify_drop_rate",
    "recall_on_labeled_set",
    "signature_build_latency_p99",
    "index_memory_bytes",
    "empty_bin_rate",
}


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def index(tmp_path):
    with Index.open(tmp_path / "index") as opened:
        yield opened


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def metrics(index, clock):
    return Metrics(index.stats, clock=clock)


def values(metrics):
    """Name -> value of what has no labels; name -> {values of labels: value} of what has, the
    labels by name."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            if sample.labels:
                labels = tuple(value for _, value in sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = sample.value
            else:
                found[sample.name] = sample.value
    return found


def texts(count, seed=0):
    chance = random.Random(seed)
    return [" ".join(f"w{chance.randrange(10_000)}" for _ in range(40)) for _ in range(count)]


def add(index, some, first=0):
    return index.add_batch([f"d{first + n}" for n in range(len(some))], some)


def test_metrics_equal_the_statistics_of_the_index(index, metrics):
    some = texts(20)
    add(index, [*some, *some[:5], ""])
    index.query(some[0])
    index.remove("d7")
    said, stats = values(metrics), index.stats()
    assert said["neardup_documents"] == stats.documents == 24
    assert said["neardup_documents_kept"] == 19 and said["neardup_documents_copies"] == 5
    assert said["neardup_tombstones"] == 1
    assert said["neardup_added_total"] == 25 and said["neardup_documents_rejected_total"] == 1
    assert said["neardup_removed_total"] == 1 and said["neardup_queries_total"] == 1
    assert said["neardup_sequence"] == stats.sequence
    assert said["neardup_queue_documents"] == 0 and said["neardup_queue_limit"] > 1_000
    assert said["index_memory_bytes"] == stats.index_memory_bytes > 0
    assert sum(said["neardup_memory_bytes"].values()) == said["index_memory_bytes"]
    assert said["bucket_size_p99"] == 1 and said["neardup_full_buckets"] == 0
    assert said["neardup_wal_bytes"] == stats.wal_bytes > 0
    assert said["neardup_ready"] == 1
    assert said["neardup_commit_seconds_count"] == 2
    assert said["neardup_signature_seconds_count"] == 27
    assert said["neardup_commit_seconds_bucket"][("+Inf",)] == 2
    assert 0 < said["neardup_commit_seconds_sum"] < 60
    assert 0 < said["signature_build_latency_p99"] <= 5.0
    assert said["process_resident_memory_bytes"] > 0


def test_unprefixed_metrics_are_exported(index, metrics):
    some = texts(3)
    add(index, [some[0], some[0] + " and", "one two three four five six", some[1]])
    metrics.observe_golden({"texts": Scores(9, 1, 1, 9)})
    said = values(metrics)
    assert said.keys() >= SEVEN
    assert said["recall_on_labeled_set"] == {("texts",): 0.9}
    assert said["precision_on_labeled_set"] == {("texts",): 0.9}
    assert said["neardup_golden_pairs"] == {("texts",): 20}
    assert said["candidate_pairs_per_doc"] == 1 / 4 and said["verify_drop_rate"] == 0.0
    assert said["empty_bin_rate"] == 0.0


def test_full_bucket_shows_in_the_metrics(tmp_path, clock):
    base = texts(1)[0].split()
    near = [" ".join([*base[:-8], *(f"x{n}-{m}" for m in range(8))]) for n in range(40)]
    with Index.open(tmp_path / "full", threshold=0.99, bands=64, rows=1, limit=4) as index:
        add(index, near)
        said = values(Metrics(index.stats, clock=clock))
    assert said["neardup_bucket_size_max"] == 40 and said["neardup_full_buckets"] > 10
    assert said["bucket_size_p99"] > 4
    assert said["verify_drop_rate"] == 1.0 and said["candidate_pairs_per_doc"] > 3
    assert said["neardup_compared_total"] == said["neardup_candidates_total"] > 0


def test_rates_cover_only_the_window(index, metrics, clock):
    some = texts(10)
    add(index, some)
    assert values(metrics)["candidate_pairs_per_doc"] == 0.0
    clock.now += WINDOW_SECONDS
    for text in some:
        index.query(text + " more")
    assert values(metrics)["candidate_pairs_per_doc"] == 1.0
    clock.now += 2 * WINDOW_SECONDS
    values(metrics)
    clock.now += WINDOW_SECONDS
    quiet = values(metrics)
    assert not quiet.keys() & {"candidate_pairs_per_doc", "verify_drop_rate", "empty_bin_rate"}
    assert "signature_build_latency_p99" not in quiet
    assert quiet["neardup_lookups_total"] == 20


def test_metrics_stay_valid_with_a_backwards_clock(index, metrics, clock):
    metrics.expect_golden(600.0)
    add(index, texts(2))
    values(metrics)
    clock.now -= 500.0
    add(index, texts(2, seed=1), first=2)
    said = values(metrics)
    assert said["candidate_pairs_per_doc"] == 0.0 and said["neardup_lookups_total"] == 4
    assert said["neardup_golden_age_seconds"] == 0.0


def test_short_documents_raise_the_empty_bin_rate(tmp_path, clock):
    with Index.open(tmp_path / "oneperm", sketch="oneperm", slots=256) as index:
        metrics = Metrics(index.stats, clock=clock)
        add(index, [" ".join(texts(100))])
        long = values(metrics)["empty_bin_rate"]
        clock.now += WINDOW_SECONDS
        add(index, ["one two three four five six"], first=1)
        assert long < 0.01 and 0.5 < values(metrics)["empty_bin_rate"] < 1.0


def test_memory_budget_is_exported_only_if_it_is_set(tmp_path, index, metrics, clock):
    assert "neardup_memory_budget_bytes" not in values(metrics), "there is none"
    with Index.open(tmp_path / "small", memory="100 MB") as small:
        said = values(Metrics(small.stats, clock=clock))
    assert said["neardup_memory_budget_bytes"] == 100_000_000


def test_requests_and_refusals_are_counted_by_label(metrics):
    metrics.observe_request("/v1/check", "POST", 200, 0.004)
    metrics.observe_request("/v1/check", "POST", 503, 0.0001)
    metrics.observe_request("unknown", "MAKE-ANOTHER-SERIES", 405, 0.0001)
    metrics.observe_rejected("busy")
    metrics.observe_rejected("empty", 3)
    said = values(metrics)
    assert said["neardup_requests_total"] == {
        ("POST", "/v1/check", "200"): 1,
        ("POST", "/v1/check", "503"): 1,
        ("other", "unknown", "405"): 1,
    }
    assert said["neardup_request_seconds_count"][("POST", "/v1/check")] == 2
    assert said["neardup_request_seconds_bucket"][("0.005", "POST", "/v1/check")] == 2
    assert said["neardup_rejected_total"] == {
        ("busy",): 1,
        ("empty",): 3,
        ("output_error",): 0,
        ("too_many_requests",): 0,
    }


def test_metrics_before_the_index_is_loaded(clock):
    metrics = Metrics(lambda: None, clock=clock)
    metrics.observe_request("/readyz", "GET", 503, 0.001)
    said = values(metrics)
    assert said["neardup_ready"] == 0 and "neardup_documents" not in said
    assert said["neardup_requests_total"] == {("GET", "/readyz", "503"): 1}


def test_golden_age_counts_from_the_last_successful_check(metrics, clock):
    assert "neardup_golden_age_seconds" not in values(metrics)
    metrics.expect_golden(600.0)
    clock.now += 700
    said = values(metrics)
    assert said["neardup_golden_age_seconds"] == 700
    assert said["neardup_golden_interval_seconds"] == 600 and "recall_on_labeled_set" not in said
    metrics.expect_golden(900.0)
    assert values(metrics)["neardup_golden_age_seconds"] == 700, "a check that fails is none"
    metrics.observe_golden({"index": Scores(0, 0, 0, 5)})
    clock.now += 1
    said = values(metrics)
    assert said["neardup_golden_age_seconds"] == 1
    assert said["neardup_golden_interval_seconds"] == 900
    assert "recall_on_labeled_set" not in said, "there is none without duplicates"


def test_two_services_in_one_process_count_separately(index, clock):
    one, other = Metrics(index.stats, clock=clock), Metrics(index.stats, clock=clock)
    one.observe_rejected("busy")
    assert values(other)["neardup_rejected_total"][("busy",)] == 0


def test_concurrent_counts_are_not_lost(index, metrics):
    def work():
        for _ in range(500):
            metrics.observe_request("/v1/check", "POST", 200, 0.001)
            metrics.observe_rejected("busy")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        metrics.render()
    for thread in threads:
        thread.join()
    said = values(metrics)
    assert said["neardup_requests_total"][("POST", "/v1/check", "200")] == 2_000
    assert said["neardup_rejected_total"][("busy",)] == 2_000


STEPS = st.floats(0.0, WINDOW_SECONDS / 2)


@given(st.lists(st.tuples(STEPS, st.integers(0, 9)), min_size=1))
def test_growth_counts_all_of_the_window_and_little_before_it(events):
    """All that happened in the window counts; nothing that is more than one interval between
    readings older than the last call before the window."""
    growth, now, calls = RecentGrowth(), 0.0, []
    for step, more in events:
        now += step
        calls.append((now, more))
        (grown,) = growth.since((sum(count for _, count in calls),), now)
        begin = now - WINDOW_SECONDS
        before = [when for when, _ in calls if when <= begin]
        oldest = before[-1] - WINDOW_SECONDS / LOOKS if before else -math.inf
        assert grown >= sum(count for when, count in calls if when > begin)
        assert grown <= sum(count for when, count in calls if when > oldest)


def test_growth_remembers_a_bounded_number_of_readings():
    growth = RecentGrowth()
    for n in range(10_000):
        growth.since((n,), n * 0.5)
    assert len(growth._looks) <= LOOKS + 2


def test_growth_treats_a_backwards_clock_as_standing_still():
    growth = RecentGrowth()
    assert growth.since((5,), 1_000.0) == [5]
    assert growth.since((9,), 10.0) == [9]
    assert growth.since((10,), 1_000.0 + WINDOW_SECONDS) == [5]


def test_growth_restarts_when_counters_restart():
    growth = RecentGrowth()
    assert growth.since((7, 100), 0.0) == [7, 100]
    assert growth.since((8, 150), WINDOW_SECONDS) == [1, 50]
    assert growth.since((9, 2), WINDOW_SECONDS + 1) == [9, 2]
    assert growth.since((9, 3), WINDOW_SECONDS + 2) == [9, 3]
