"""An index is rebuilt by another specification while it goes on, and switched back."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.sizes import full

import neardup
from neardup.corpus.documents import Documents, make_strings
from neardup.errors import Busy, IndexLocked, ParameterError, SpecMismatch, UsageError
from neardup.index import folder
from neardup.index.cutover import Follower, MissingTexts
from neardup.index.rebuild import forget, reindex, undo
from neardup.sketcher import Sketcher
from neardup.spec import Spec

WORDS = [f"word{number}" for number in range(60)]
SMALL = {"threshold": 0.5, "shingle": "word:2", "bands": 32, "rows": 4}
A, B = b"\x01" * 16, b"\x02" * 16


def corpus(size: int, seed: int = 1) -> list[str]:
    """Texts that differ in a few words from earlier ones, so that there are chains."""
    chance = random.Random(seed)
    texts = [" ".join(chance.choices(WORDS, k=25))]
    while len(texts) < size:
        words = (
            chance.choice(texts).split() if chance.random() < 0.8 else chance.choices(WORDS, k=25)
        )
        for _ in range(chance.choice([0, 1, 2, 3, 6])):
            words[chance.randrange(len(words))] = chance.choice(WORDS)
        texts.append(" ".join(words))
    return texts


TEXTS = corpus(120)
IDS = [f"d{at}" for at in range(len(TEXTS))]


def filled(path, *, keep_texts=True, **options):
    """An index of the texts, each with a time and metadata, from which some were removed."""
    ticks = iter(range(1_000_000))
    index = neardup.Index.open(
        path, **SMALL | options, keep_texts=keep_texts, clock=lambda: float(next(ticks))
    )
    for at in range(0, len(TEXTS), 16):
        some = slice(at, at + 16)
        index.add_batch(IDS[some], TEXTS[some], metadata=[{"of": id} for id in IDS[some]])
    for id in IDS[::9]:
        index.remove(id)
    return index


LIVING = [(id, text) for at, (id, text) in enumerate(zip(IDS, TEXTS, strict=True)) if at % 9]


def said(index, id):
    found = index.get(id)
    return found and (found.status, found.duplicate_of, found.similarity, found.exact)


def everything(index, ids=IDS):
    return {id: said(index, id) for id in ids}


def fresh(path, pairs=LIVING, **options):
    """What an index says that was made of these documents."""
    with neardup.Index.open(path, **options) as index:
        index.add_batch([id for id, _ in pairs], [text for _, text in pairs])
        return everything(index), [index.query(text).duplicate_of for text in TEXTS]


@pytest.mark.parametrize(
    ("given", "point"),
    [
        ({"shingle": "word:3"}, {"bands": 32, "rows": 4}),
        ({"slots": 64, "threshold": 0.7}, {}),
        ({"hash": "murmur3", "limit": 2, "verify": "estimate"}, {"bands": 32, "rows": 4}),
        ({"sketch": "simhash", "hamming": 6}, {}),
        ({"bits": 8}, {"bands": 32, "rows": 4}),
    ],
)
def test_same_as_a_new_index(tmp_path, given, point):
    with filled(tmp_path / "index") as index:
        before = {id: index.get(id) for id in IDS}
        done = index.reindex(**given)
        assert (done.generation, done.before, done.missing) == ("g2", "g1", {})
        assert done.carried == len(index) == len(LIVING)
        options = SMALL | {"bands": None, "rows": None} | point | given
        if given.get("sketch") == "simhash":
            del options["threshold"]
        answers, queries = fresh(tmp_path / "fresh", **options)
        assert everything(index) == answers
        assert [index.query(text).duplicate_of for text in TEXTS] == queries
        for id, _ in LIVING:
            now = index.get(id)
            was = before[id]
            assert (now.number, now.added, now.metadata) == (was.number, was.added, was.metadata)
        assert index.verify() == []
        assert index.add("d0", TEXTS[0]).status in ("new", "duplicate")
        assert index.get("d0").number == len(TEXTS) + 1
    with neardup.Index.open(tmp_path / "index", **options) as again:
        assert {id: answer for id, answer in everything(again).items() if id != "d0"} == {
            id: answer for id, answer in answers.items() if id != "d0"
        }


def test_sequence_and_numbers_go_on(tmp_path):
    with filled(tmp_path) as index:
        index.remove(IDS[-1])
        sequence, last = index.sequence, len(TEXTS)
        index.reindex(shingle="word:1")
        assert index.sequence >= sequence
        index.add("one more", "a text that nobody has written before, with words of its own")
        assert index.get("one more").number == last + 1
        assert index.sequence > sequence


def test_reindex_checks_options_before_it_makes_a_generation(tmp_path):
    with filled(tmp_path) as index:
        for wrong, why in [
            ({"colour": 1}, "colour"),
            ({"hash": "siphash"}, "key"),
            ({"spec": Spec(), "shingle": "word:3"}, "contains all options"),
            ({"spec": Spec(ignored="0" * 32)}, "ignored"),
        ]:
            with pytest.raises(ParameterError, match=why):
                index.reindex(**wrong)
        assert sorted(path.name for path in tmp_path.glob("g*")) == ["g1"]
        assert index.spec.shingle == "word:2"
    with (
        neardup.Index.open(tmp_path, read_only=True) as reader,
        pytest.raises(UsageError, match="read-only"),
    ):
        reader.reindex(shingle="word:3")
    with pytest.raises(UsageError, match="no index"):
        reindex(tmp_path / "nothing", shingle="word:3")


def test_reindex_names_documents_without_a_text(tmp_path):
    filled(tmp_path, keep_texts=False).close()
    texts = dict(LIVING[:-7])
    with pytest.raises(MissingTexts, match="7 documents") as caught:
        reindex(tmp_path, shingle="word:3", corpus=texts)
    assert caught.value.documents == {id: "no text" for id, _ in LIVING[-7:]}
    assert sorted(path.name for path in tmp_path.glob("g*")) == ["g1"]
    done = reindex(tmp_path, shingle="word:3", corpus=texts, drop_missing=True, keep_texts=True)
    assert list(done.missing) == [id for id, _ in LIVING[-7:]]
    assert not list(tmp_path.glob("g*/corpus*"))
    with neardup.Index.open(tmp_path) as index:
        answers, _ = fresh(tmp_path / "fresh", LIVING[:-7], **SMALL | {"shingle": "word:3"})
        assert everything(index) == answers
        index.reindex(shingle="word:2")


def test_reindex_names_documents_that_the_new_specification_rejects(tmp_path):
    with filled(tmp_path) as index:
        with pytest.raises(MissingTexts, match="token"):
            index.reindex(shingle="token:2")
        assert (index.spec.shingle, len(index)) == ("word:2", len(LIVING))


def test_reindex_without_texts_refuses_another_writer(tmp_path):
    with filled(tmp_path, keep_texts=False) as index:
        with pytest.raises(IndexLocked, match="keeps no texts"):
            reindex(tmp_path, shingle="word:3", corpus=LIVING)
        index.reindex(shingle="word:3", corpus=reversed(LIVING))
        answers, _ = fresh(tmp_path / "fresh", **SMALL | {"shingle": "word:3"})
        assert everything(index) == answers


def test_undo_carries_back_what_happened_since(tmp_path):
    with filled(tmp_path) as index:
        before = everything(index)
        index.reindex(shingle="word:1")
        index.add("later", TEXTS[5], metadata={"of": "later"})
        index.remove(LIVING[-1][0])
        index.remove("d1")
        index.add("d1", TEXTS[40])
        was = index.get("later")
        assert index.undo_reindex().carried == 2
        assert (index.generation, index.spec.shingle) == ("g1", "word:2")
        now = index.get("later")
        assert (now.number, now.added, now.metadata) == (was.number, was.added, was.metadata)
        assert now.duplicate_of == (index.get("d5").duplicate_of or "d5")
        assert index.get(LIVING[-1][0]) is None
        # Re-homing aside: who was there, and is no copy of what went, is as it was.
        gone = {LIVING[-1][0], "d1"}
        for id, answer in before.items():
            if id not in gone and answer is not None and answer[1] not in gone:
                assert said(index, id) == answer
        assert index.verify() == []
        index.undo_reindex()
        assert (index.generation, len(index)) == ("g2", len(LIVING))
        assert index.verify() == []


def test_undo_without_texts(tmp_path):
    filled(tmp_path, keep_texts=False).close()
    with pytest.raises(UsageError, match="nothing can be undone"):
        undo(tmp_path)
    reindex(tmp_path, shingle="word:1", corpus=LIVING)
    with neardup.Index.open(tmp_path) as index:
        index.add("later", TEXTS[5])
    with pytest.raises(MissingTexts, match="1 documents"):
        undo(tmp_path)
    assert folder.read_generations(tmp_path).current == "g2"
    assert undo(tmp_path, drop_missing=True).missing == {"later": "no text"}
    with neardup.Index.open(tmp_path) as index:
        assert (index.generation, len(index)) == ("g1", len(LIVING))


@pytest.mark.parametrize("offered", [False, True])
def test_undo_brings_back_what_was_left_out(tmp_path, offered):
    with filled(tmp_path / "index") as index:
        texts = [(row.number,) for row in index._opened.generation.store.rows([2, 3, 5]).values()]
        index._opened.between_commits(lambda: lose(index._opened.generation.store, texts))
        before = everything(index)
        if offered:
            elsewhere = Elsewhere(index)
            done = elsewhere.start(reindex, shingle="word:3", drop_missing=True)
            elsewhere.take_over()
            missing = done.result(60).missing
        else:
            missing = index.reindex(shingle="word:3", drop_missing=True).missing
        assert missing == dict.fromkeys(("d1", "d2", "d4"), "no text")
        index.remove("d3")
        index.add("d2", "a text that nobody has written before, with words of its own")
        index.undo_reindex()
        assert said(index, "d1") == before["d1"]
        assert said(index, "d4") == before["d4"]
        assert said(index, "d2")[0] == "new"
        assert index.get("d2").number == len(TEXTS) + 1
        assert (index.get("d3"), len(index)) == (None, len(LIVING) - 1)
        assert index.verify() == []


def lose(store, numbers):
    """Texts of documents, as if they had come without."""
    with store.transaction():
        store._writer.executemany("DELETE FROM texts WHERE number=?", numbers)


def test_reindex_ends_the_shadow(tmp_path):
    with filled(tmp_path / "index") as index:
        index.shadow.start(threshold=0.6)
        index.reindex(shingle="word:3")
        with pytest.raises(UsageError, match="no shadow"):
            index.shadow.report()
        index.retune(threshold=0.6)
        answers, _ = fresh(tmp_path / "fresh", threshold=0.6, shingle="word:3")
        assert everything(index) == answers
        assert index.verify() == []
    with neardup.Index.open(tmp_path / "index") as again:
        assert (again.options.threshold, again.spec.shingle) == (0.6, "word:3")
        assert everything(again) == answers


def test_tables_on_disk(tmp_path):
    with filled(tmp_path / "index", memory=1) as index:
        index.reindex(shingle="word:3")
        answers, _ = fresh(tmp_path / "fresh", **SMALL | {"shingle": "word:3"})
        assert everything(index) == answers
        assert list(index.path.glob("g2/cold-*/*"))
        index.add("later", TEXTS[5])
        index.compact()
        assert index.verify() == []
        index.undo_reindex()
        assert index.get("later") is not None
        assert index.verify() == []


def test_forget_deletes_the_previous_generation(tmp_path):
    with (
        filled(tmp_path / "index") as index,
        neardup.Index.open(tmp_path / "index", read_only=True) as reader,
    ):
        assert not forget(index.path)
        index.reindex(shingle="word:3")
        answers = everything(index)
        assert forget(index.path)
        assert [path.name for path in index.path.glob("g*")] == ["g2"]
        assert everything(index) == everything(reader) == answers
        with pytest.raises(UsageError, match="nothing can be undone"):
            index.undo_reindex()


def test_only_the_generation_before_is_kept(tmp_path):
    with filled(tmp_path) as index:
        for size in (1, 3, 4):
            index.reindex(shingle=f"word:{size}")
        assert sorted(path.name for path in tmp_path.glob("g*")) == ["g3", "g4"]
        index.undo_reindex()
        assert index.spec.shingle == "word:3"


def test_another_key(tmp_path):
    options = {"hash": "siphash", "key": A}
    with (
        filled(tmp_path / "index", **options) as index,
        neardup.Index.open(tmp_path / "index", key=A, read_only=True) as reader,
    ):
        assert reader.query(TEXTS[4]).status == "duplicate"
        with pytest.raises(ParameterError, match="is missing"):
            index.reindex(hash="siphash")
        index.reindex(key=B)
        answers, _ = fresh(tmp_path / "fresh", **SMALL | {"hash": "siphash", "key": B})
        assert everything(index) == answers
        assert index.spec.key == neardup.keys.Key(B).id
        with pytest.raises(ParameterError, match=index.spec.key):
            reader.query(TEXTS[4])
        index.undo_reindex(key=A)
        assert reader.query(TEXTS[4]).status == "duplicate"
    with pytest.raises(SpecMismatch):
        neardup.Index.open(tmp_path / "index", key=B)


def test_follower_compares_all_documents_after_changes_were_dropped(tmp_path):
    with filled(tmp_path / "source") as source, filled(tmp_path / "target") as target:
        follower = Follower(source._opened.generation.store, target._opened.generation)
        assert follower.catch_up() == 0
        assert follower.carried == 0
        source.add("d1", TEXTS[50], replace=True)
        source.remove("d2")
        source.add("new", TEXTS[60])
        source.compact()
        follower.catch_up()
        assert follower.catch_up() == 0
        assert target.get("d2") is None
        assert everything(target, [*IDS, "new"]) == everything(source, [*IDS, "new"])
        assert target.verify() == []


def test_readers_follow(tmp_path):
    with (
        filled(tmp_path / "index") as index,
        neardup.Index.open(tmp_path / "index", read_only=True) as reader,
    ):
        assert reader.spec.shingle == "word:2"
        index.reindex(shingle="word:3")
        assert everything(reader) == everything(index)
        assert reader.spec.shingle == "word:3"
        index.add("later", TEXTS[7])
        assert reader.get("later") == index.get("later")
        assert reader.verify() == []


def test_queued_documents_are_sketched_again_after_the_switch(tmp_path):
    """The thread that writes is held up until the last step, and more work, wait for it."""
    begun, free = threading.Event(), threading.Event()
    texts = corpus(30, seed=5)

    def hold_up():
        begun.set()
        free.wait(30)

    with filled(tmp_path / "index") as index, ThreadPoolExecutor() as pool:
        writer = index._opened.generation.writer
        sketch = Sketcher(index.spec)(Documents(make_strings(texts[:1]), [], None, None, {}))
        pool.submit(index._opened.between_commits, hold_up)
        begun.wait(30)
        done = pool.submit(index.reindex, shingle="word:3")
        while not writer._waiting:
            time.sleep(0.001)
        futures = [index.submit([f"late{at}"], [text]) for at, text in enumerate(texts)]
        removed = pool.submit(index.remove, "d1")
        sketches = pool.submit(index.add_sketches, ["ready-made"], sketch)
        while len(writer._waiting) < len(texts) + 3:
            time.sleep(0.001)
        free.set()
        with pytest.raises(SpecMismatch, match="another specification"):
            sketches.result(60)
        answers = [future.result(60)[0] for future in futures]
        assert removed.result(60) is True
        assert done.result(60).generation == index.generation == "g2"
        assert index.get("d1") is None
        for at, answer in enumerate(answers):
            assert said(index, f"late{at}")[:2] == (answer.status, answer.duplicate_of)
        assert index.add("late0", texts[0]).again
        assert index.verify() == []


def test_threads_go_on_meanwhile(tmp_path):
    """Nothing is lost, nothing is doubled, and nobody is told nonsense."""
    texts = corpus(2_000, seed=3)
    stop = threading.Event()
    added, removed = set(), set()

    def add(first):
        for at in range(first, len(texts), 2):
            if stop.is_set():
                return
            assert index.add(f"t{at}", texts[at]).status != "rejected"
            added.add(f"t{at}")
            if at % 5 == 0:
                assert index.remove(f"t{at}")
                removed.add(f"t{at}")
            if at % 7 == 0 and at % 5:
                index.add(f"t{at}", texts[at - 1], replace=True)

    def ask():
        while not stop.is_set():
            for (id, text), answer in zip(
                LIVING, index.query_batch([text for _, text in LIVING]), strict=True
            ):
                assert answer.status == "duplicate", id
                assert index.get(id) is not None
                assert text

    with filled(tmp_path / "index") as index, ThreadPoolExecutor() as pool:
        work = [pool.submit(add, 0), pool.submit(add, 1), pool.submit(ask)]
        try:
            for given in ({"shingle": "word:3"}, {"slots": 64}, {"hash": "fnv1a"}):
                index.reindex(**given)
            index.undo_reindex()
        finally:
            stop.set()
        for one in work:
            one.result()
        assert added - removed
        living = {*(id for id, _ in LIVING), *(added - removed)}
        assert len(index) == len(living)
        assert all(index.get(id) is not None for id in living)
        assert not any(index.get(id) for id in removed)
        assert index.verify() == []
        assert index.generation == "g3"


class Elsewhere:
    """A reindex that has to leave the last step to the index that is open here to write."""

    def __init__(self, index):
        self.index, self.pool = index, ThreadPoolExecutor(1)

    def start(self, call, *args, **others):
        future = self.pool.submit(call, self.index.path, *args, **others)
        while folder.read_offer(self.index.path) is None and not future.done():
            time.sleep(0.001)
        return future

    def take_over(self, **given):
        while not self.index.take_over(**given):
            time.sleep(0.001)


def test_another_process_switches_to_the_offered_generation(tmp_path):
    with filled(tmp_path / "index") as index:
        assert not index.take_over()
        elsewhere = Elsewhere(index)
        done = elsewhere.start(reindex, shingle="word:3")
        index.add("meanwhile", TEXTS[10])
        index.remove("d2")
        elsewhere.take_over()
        assert done.result(60).generation == index.generation == "g2"
        assert said(index, "meanwhile")[1] == (index.get("d10").duplicate_of or "d10")
        assert index.get("d2") is None
        assert not (index.path / folder.NEXT).exists()
        done = elsewhere.start(undo)
        elsewhere.take_over()
        assert done.result(60).generation == index.generation == "g1"
        assert index.get("meanwhile") is not None
        assert index.verify() == []


def test_reindex_switches_if_the_writing_process_ends(tmp_path):
    index = filled(tmp_path)
    done = Elsewhere(index).start(reindex, shingle="word:3")
    index.add("meanwhile", TEXTS[9])
    index.close()
    assert done.result(60).generation == "g2"
    with neardup.Index.open(tmp_path) as again:
        assert (again.generation, len(again)) == ("g2", len(LIVING) + 1)
        assert again.verify() == []


def test_offer_is_withdrawn_if_no_process_switches(tmp_path):
    with filled(tmp_path) as index:
        with pytest.raises(Busy, match="take_over"):
            reindex(tmp_path, shingle="word:3", wait=0.3)
        assert not index.take_over()
        assert sorted(path.name for path in tmp_path.glob("g*")) == ["g1"]


def test_one_generation_is_made_at_a_time(tmp_path):
    with (
        filled(tmp_path) as index,
        folder.locked(tmp_path, folder.MAKING),
        pytest.raises(IndexLocked, match="indexed anew"),
    ):
        index.reindex(shingle="word:3")


def test_the_process_that_writes_lacks_the_new_key(tmp_path):
    with filled(tmp_path, hash="siphash", key=A) as index:
        elsewhere = Elsewhere(index)
        done = elsewhere.start(reindex, key=B)
        with pytest.raises(ParameterError, match="is missing"):
            elsewhere.take_over()
        with pytest.raises(UsageError, match="could not switch"):
            done.result(60)
        assert index.generation == "g1"
        done = elsewhere.start(reindex, key=B)
        elsewhere.take_over(key=B)
        assert done.result(60).spec == index.spec
        assert index.query(TEXTS[4]).status == "duplicate"


ELSEWHERE = "import sys; from neardup.index.rebuild import reindex as do; do(sys.argv[1], slots=64)"


def test_reindex_in_another_process(tmp_path):
    texts = corpus(400, seed=9)
    with filled(tmp_path / "index") as index:
        child = subprocess.Popen([sys.executable, "-c", ELSEWHERE, str(index.path)])
        added = []
        for at, text in enumerate(texts):
            index.add(f"more{at}", text)
            added.append(f"more{at}")
            if index.take_over() or child.poll() is not None:
                break
            time.sleep(0.02)
        while index.generation == "g1" and child.poll() is None:
            index.take_over()
        assert child.wait(60) == 0
        assert (index.generation, index.spec.slots) == ("g2", 64)
        assert all(index.get(id) is not None for id in added)
        assert len(index) == len(LIVING) + len(added)
        assert index.verify() == []


@pytest.mark.parametrize(
    ("what", "given", "least"),
    [
        ("at_random_times", {"seed": 3, "wanted": 5}, 2),
        ("at_steps", {"first": 1, "every": 13, "what": "work"}, 3),
        full("at_steps", {"first": 1, "every": 5, "what": "work"}, 8),
        ("at_steps", {"first": 1, "every": 1, "what": "narrow"}, 6),
    ],
)
def test_killed_at_any_moment(tmp_path, what, given, least):
    """Nothing that was acknowledged is lost, and either generation is whole."""
    script = Path(__file__).parents[1] / "support" / "reindex_killing.py"
    asked = json.dumps({"path": str(tmp_path / "index"), **given})
    done = subprocess.run(
        [sys.executable, script, what, asked], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= least
