"""A shadow beside the current operating point: its decisions, its report, its end."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.index_corpora import asked, chained, corpora, decided, filled, ids_of, in_step
from support.strategies import examples

import neardup
from neardup.errors import Busy, OutputError, ParameterError, UsageError
from neardup.index.shadow import Agreement

OLD = {"shingle": "word:2", "threshold": 0.8}
NEW = {"shingle": "word:2", "threshold": 0.5}
TEXTS = chained(random.Random(3), 300)
IDS = ids_of(TEXTS)
AT_ONCE = 16


@pytest.fixture(autouse=True, scope="module")
def _small_steps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neardup.index.shadow_trial.AT_ONCE", AT_ONCE)
        yield


@pytest.fixture
def index(tmp_path):
    with filled(tmp_path / "index", TEXTS, **OLD) as index:
        yield index


@pytest.fixture
def fresh(tmp_path):
    """What the shadow should be like."""
    with neardup.Index.open(tmp_path / "fresh", **NEW) as fresh:
        for at in range(0, len(TEXTS), AT_ONCE):
            fresh.add_batch(IDS[at : at + AT_ONCE], TEXTS[at : at + AT_ONCE])
        yield fresh


Deeds = st.lists(
    st.tuples(st.sampled_from(["remove", "add", "replace", "replace two"]), st.integers(0, 4)),
    min_size=2,
    max_size=6,
)


def do(index: neardup.Index, deed: str, at: int, text: str) -> None:
    if deed == "add":
        index.add(f"new {at}", text, replace=True)
    elif deed == "remove":
        index.remove(str(at))
    elif deed == "replace":
        index.add(str(at), text, replace=True)
    else:
        index.add_batch([str(at), str(at + 1)], [text, text[::-1]], replace=True)


@given(texts=corpora(12, 30), deeds=Deeds, chance=st.integers(0, 99))
@settings(max_examples=examples(12))
def test_shadow_follows_documents_added_and_removed(tmp_path_factory, texts, deeds, chance):
    folder, more = tmp_path_factory.mktemp("shadow"), chained(random.Random(chance), 6)
    with filled(folder / "a", texts, **OLD) as index, filled(folder / "b", texts, **NEW) as fresh:
        index.shadow.start(threshold=0.5)
        for (deed, at), text in zip(deeds, [texts[0], *more], strict=False):
            in_step(index)
            do(index, deed, at, text)
            do(fresh, deed, at, text)
        ids = [*ids_of(texts), *(f"new {at}" for at in range(5))]
        index.shadow.promote(wait=True)
        assert decided(index, ids) == decided(fresh, ids)
        assert asked(index, texts) == asked(fresh, texts)
        assert index.verify() == []


def check_agreement(found: Agreement, now: dict, then: dict) -> None:
    pairs = [(now[id][0], then[id][0]) for id in now]
    assert found.both_kept == pairs.count(("new", "new"))
    assert found.both_removed == pairs.count(("duplicate", "duplicate"))
    assert found.only_current == pairs.count(("duplicate", "new"))
    assert found.only_shadow == pairs.count(("new", "duplicate"))
    assert found.another_witness == sum(
        now[id][0] == then[id][0] == "duplicate" and now[id][1] != then[id][1] for id in now
    )


def test_the_report_follows(index, fresh):
    index.shadow.start(threshold=0.5)
    for id in IDS[:9]:
        in_step(index)
        index.remove(id)
        fresh.remove(id)
    in_step(index)
    check_agreement(index.shadow.report().agreement, decided(index, IDS), decided(fresh, IDS))


def test_the_report_counts(index, fresh):
    golden = [
        (a, b, neardup.similarity(TEXTS[int(a)], TEXTS[int(b)], shingle="word:2") > 0.6)
        for a, b in pairwise(IDS)
    ]
    index.shadow.start(threshold=0.5, golden=[*golden, ("0", "not there", True)])
    in_step(index)
    report = index.shadow.report()
    assert (report.state, report.judged, report.documents) == ("in step", 300, 300)
    now, then = decided(index, IDS), decided(fresh, IDS)
    for side, said, options in (
        (report.current, now, index.options),
        (report.shadow, then, fresh.options),
    ):
        assert side.kept == sum(one[0] == "new" for one in said.values())
        assert side.kept + side.removed == 300
        assert side.point["threshold"] == options.threshold
        assert side.predicted_recall == options.curve.probability(options.threshold)
        clusters = {id: one[1] or id for id, one in said.items()}
        found = [(clusters[a] == clusters[b], same) for a, b, same in golden]
        assert side.score.recall == found.count((True, True)) / sum(same for *_, same in golden)
        assert side.score.precision == found.count((True, True)) / sum(one for one, _ in found)
        assert (side.score.pairs, side.score.missing) == (299, 1)
    theirs, ours = fresh.stats(), report.shadow
    assert ours.buckets == theirs.buckets
    assert ours.judged == theirs.since_open.judged
    assert ours.compared == theirs.since_open.compared
    assert ours.candidates_per_document == theirs.candidate_pairs_per_doc
    check_agreement(report.agreement, now, then)
    assert report.agreement.only_shadow > 0
    for example in report.agreement.only_shadow_examples:
        assert then[example.id][:3] == ("duplicate", example.duplicate_of, example.similarity)
    assert report.as_dict["shadow"]["score"]["recall"] == report.shadow.score.recall
    assert index.stats().memory_bytes["shadow"] == report.shadow.memory_bytes > 0


def test_queries_are_compared(index, fresh):
    texts = chained(random.Random(4), 40) + chained(random.Random(3), 40)
    index.shadow.start(threshold=0.5)
    in_step(index)
    now, then = asked(index, texts), asked(fresh, texts)
    found = index.shadow.report().asked
    pairs = [(a[0], b[0]) for a, b in zip(now, then, strict=True)]
    assert found.queries == 80
    assert found.both == pairs.count(("duplicate", "duplicate")) > 0
    assert found.neither == pairs.count(("new", "new"))
    assert found.only_shadow == pairs.count(("new", "duplicate"))
    assert found.only_current == pairs.count(("duplicate", "new"))
    assert found.current_seconds > 0 < found.shadow_seconds


def test_dropped_and_started_again(index):
    before = decided(index, IDS)
    with pytest.raises(UsageError, match="start one"):
        index.shadow.report()
    with pytest.raises(UsageError, match="start one"):
        index.shadow.promote()
    with pytest.raises(UsageError, match="start one"):
        index.shadow.drop()
    index.shadow.start(threshold=0.5)
    with pytest.raises(UsageError, match="promote it or drop it"):
        index.shadow.start(threshold=0.6)
    index.shadow.drop()
    assert decided(index, IDS) == before
    assert index.stats().memory_bytes["shadow"] == 0
    with pytest.raises(ParameterError, match="two ids"):
        index.shadow.start(threshold=0.6, golden=[("0", "1")])
    index.shadow.start(threshold=0.6)
    index.shadow.promote(wait=True)
    assert index.options.threshold == 0.6


def test_promote_is_refused_before_the_shadow_is_in_step(index):
    index.shadow.start(threshold=0.5)
    with index.shadow._following.trial.lock:
        index.shadow._following.trial.complete = False
        with pytest.raises(Busy, match="300 documents: wait"):
            index.shadow.promote()
    assert index.options.threshold == 0.8
    assert index.shadow.promote(wait=True) > 0


def test_shadow_begins_again_after_changes_were_dropped(index, tmp_path):
    """Who can't know what happened begins anew."""
    index.shadow.start(threshold=0.5)
    in_step(index)
    with index.shadow._following.trial.lock:
        for id in IDS[:9]:
            index.remove(id)
        index.compact()
    in_step(index)
    index.shadow.promote()
    assert index.verify() == []
    with neardup.Index.open(tmp_path / "rest", **NEW) as rest:
        rest.add_batch(IDS[9:], TEXTS[9:])
        assert decided(index, IDS) == decided(rest, IDS)


def test_failed_shadow_does_not_fail_the_index(index):
    """Here a stored signature was altered."""
    number = index.get("299").number
    file = sqlite3.connect(index._opened.generation.store.path)
    file.execute("UPDATE signatures SET data = zeroblob(512) WHERE number = ?", (number,))
    file.commit()
    file.close()
    index.shadow.start(threshold=0.5)
    assert not index.shadow.wait()
    report = index.shadow.report()
    assert report.state == "failed"
    assert "damaged" in report.reason
    assert index.query(TEXTS[0]).status == "duplicate"
    assert index.add("more", "nobody has written anything like this before").status == "new"
    with pytest.raises(UsageError, match="drop it and start another"):
        index.shadow.promote(wait=True)
    index.shadow.drop()
    assert index.options.threshold == 0.8


def test_readers_follow(index, fresh):
    with neardup.Index.open(index.path, read_only=True) as reader:
        assert decided(reader, IDS) == decided(index, IDS)
        index.retune(threshold=0.5)
        assert asked(reader, TEXTS) == asked(fresh, TEXTS)
        assert decided(reader, IDS) == decided(fresh, IDS)
        assert reader.options.threshold == 0.5
        index.retune(limit=1)
        index.add("more", TEXTS[5] + " and more")
        assert asked(reader, TEXTS) == asked(index, TEXTS)
        assert reader.options.limit == 1
        assert reader.verify() == []


def test_a_full_disk_changes_nothing(index, fresh):
    """SQLite fails in the middle of the transaction."""
    before, queries = decided(index, IDS), asked(index, TEXTS)
    index.shadow.start(threshold=0.5)
    in_step(index)
    index._opened.generation.store._writer.execute(
        "CREATE TEMP TRIGGER full BEFORE INSERT ON main.meta BEGIN "
        "SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    with pytest.raises(OutputError, match="disk is full"):
        index.shadow.promote()
    assert (decided(index, IDS), asked(index, TEXTS)) == (before, queries)
    assert index.options.threshold == 0.8
    assert index.verify() == []
    index._opened.generation.store._writer.execute("DROP TRIGGER temp.full")
    index.shadow.promote()
    assert decided(index, IDS) == decided(fresh, IDS)


KILLED = """
import os, signal, sys, neardup
from neardup.index import snapshot, store, writer
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
where = {"noted": (store.Store, "move"), "moved": (store.Store, "set_meta"),
         "stored": (writer.IndexWriter, "change_view"), "changed": (snapshot, "write_snapshot")}
index = neardup.Index.open(sys.argv[1])
index.shadow.start(threshold=0.5)
index.shadow.wait()
setattr(*where[sys.argv[2]], die)
index.shadow.promote()
"""


@pytest.mark.parametrize(
    ("when", "new"), [("noted", False), ("moved", False), ("stored", True), ("changed", True)]
)
def test_killed_while_it_is_promoted(index, fresh, when, new):
    old, queries = decided(index, IDS), asked(index, TEXTS)
    index.close()
    killed = subprocess.run([sys.executable, "-c", KILLED, index.path, when], check=False)
    assert killed.returncode == -9
    with neardup.Index.open(index.path) as again:
        assert decided(again, IDS) == (decided(fresh, IDS) if new else old)
        assert asked(again, TEXTS) == (asked(fresh, TEXTS) if new else queries)
        assert again.options.threshold == (0.5 if new else 0.8)
        assert again.verify() == []


def test_closed_while_it_is_building(tmp_path):
    with filled(tmp_path / "index", TEXTS, **OLD) as index:
        index.shadow.start(threshold=0.5)
    with neardup.Index.open(tmp_path / "index") as again:
        assert again.options.threshold == 0.8
        assert again.verify() == []


def test_shadow_with_tables_on_disk(tmp_path, fresh):
    """Tables of both are on disk, each in a folder of its own."""
    with neardup.Index.open(tmp_path / "index", **OLD, memory=300_000) as index:
        index.add_batch(IDS[:200], TEXTS[:200])
        index.shadow.start(threshold=0.5)
        index.add_batch(IDS[200:], TEXTS[200:])
        index.shadow.promote(wait=True)
        assert decided(index, IDS) == decided(fresh, IDS)
        assert asked(index, TEXTS) == asked(fresh, TEXTS)
        assert index.verify() == []
        assert index.stats().disk_bytes["cold"] > 0
        index.shadow.start(threshold=0.6)
        index.shadow.wait()
        assert len(list(index.path.glob("g1/cold-*"))) == 2
    assert len(list(index.path.glob("g1/cold-*"))) == 1
    with neardup.Index.open(tmp_path / "index", memory=300_000) as again:
        assert asked(again, TEXTS) == asked(fresh, TEXTS)
