"""Removing many documents: their copies are judged once, in slices, and others are served."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from support import batch_engine
from support.index_corpora import chained, decided, filled, ids_of

from neardup import Index, reference
from neardup.errors import UsageError
from neardup.index import removal
from neardup.index.view import View
from neardup.spec import Spec

POINT = {"threshold": 0.6, "shingle": "word:2", "bands": 24, "rows": 2, "slots": 48}


def stars(clusters: int, copies: int, seed: int = 1) -> list[str]:
    """Clusters that have nothing in common, whose documents differ in a word at the end."""
    texts = []
    for cluster in range(clusters):
        base = " ".join(f"c{cluster}w{at}" for at in range(30))
        texts += [f"{base} end{copy}" for copy in range(copies)]
    random.Random(seed).shuffle(texts)
    return texts


@pytest.fixture(params=[None, 3])
def sliced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In slices of the usual size, and in tiny ones."""
    if request.param is not None:
        monkeypatch.setattr(removal, "SLICE_DOCUMENTS", request.param)
        monkeypatch.setattr(removal, "SLICE_COPIES", request.param)
    yield


@pytest.mark.usefixtures("sliced")
def test_stars_are_decided_as_if_one_was_removed_after_the_other(tmp_path: Path) -> None:
    texts = stars(8, 9)
    chosen = random.Random(2).sample(ids_of(texts), 40)
    with (
        filled(tmp_path / "many", texts, **POINT) as many,
        filled(tmp_path / "each", texts, **POINT) as each,
    ):
        assert many.remove_batch([*chosen, "none", chosen[0]]) == [True] * 40 + [False, False]
        assert all(each.remove(id) for id in chosen)
        left = ids_of(texts)
        kept = {id: said[0] for id, said in decided(each, left).items()}
        assert {id: said[0] for id, said in decided(many, left).items()} == kept
        assert decided(many, left) == decided(each, left)
        assert many.verify() == []
        assert many.stats().since_open.removed == 40


Similar = Callable[[str, str], bool]


def judged_again(
    texts: Sequence[str], chosen: set[str], similar: Similar, folder: Path
) -> set[str]:
    """Who is kept, by the definition: copies of all removed documents are judged in their order."""
    with filled(folder, texts, **POINT) as index:
        witness = {id: index.get(id).duplicate_of for id in ids_of(texts)}
    kept = [id for id, of in witness.items() if of is None and id not in chosen]
    orphans = [id for id, of in witness.items() if of in chosen and id not in chosen]
    for orphan in orphans:
        if not any(similar(orphan, other) for other in kept):
            kept.append(orphan)
    return set(kept)


def similarity_of(texts: Sequence[str]) -> Similar:
    """Whether two documents share a bucket and are similar, by the reference."""
    spec = Spec.of(shingle=POINT["shingle"], slots=POINT["slots"])
    sets, keys = [], []
    for text in texts:
        hashes = reference.unit_hashes(reference.units(text, spec), spec)
        shingles = reference.shingles(hashes, 2)
        sets.append(set(shingles))
        slots = reference.signature(shingles, spec)
        keys.append(reference.band_keys(slots, POINT["bands"], POINT["rows"]))

    def similar(a: str, b: str) -> bool:
        one, other = int(a), int(b)
        if not any(x == y for x, y in zip(keys[one], keys[other], strict=True)):
            return False
        both, either = sets[one] & sets[other], sets[one] | sets[other]
        return len(both) / len(either) >= POINT["threshold"]

    return similar


@pytest.mark.usefixtures("sliced")
@pytest.mark.parametrize("seed", range(4))
def test_chains_are_decided_by_the_definition(tmp_path: Path, seed: int) -> None:
    texts = chained(random.Random(seed), 120)
    chosen = set(random.Random(seed + 50).sample(ids_of(texts), 50))
    similar = similarity_of(texts)
    with filled(tmp_path / "index", texts, **POINT) as index:
        assert all(index.remove_batch(list(chosen)))
        said = decided(index, ids_of(texts))
        assert said.keys() == set(ids_of(texts)) - chosen
        kept = {id for id, (status, *_) in said.items() if status == "new"}
        if len(texts) <= removal.SLICE_DOCUMENTS:
            assert kept == judged_again(texts, chosen, similar, tmp_path / "before")
        assert not any(similar(a, b) for a, b in combinations(sorted(kept), 2))
        for id, (_, of, *_) in said.items():
            assert of is None or (of in kept and similar(id, of))
        assert index.verify() == []
        count = len(index), index.stats().kept
    with Index.open(tmp_path / "index") as again:
        assert decided(again, ids_of(texts)) == said
        assert (len(again), again.stats().kept) == count


def test_representatives_of_one_cluster_cost_no_more_than_the_documents(tmp_path: Path) -> None:
    """One after the other each became the witness of all that were left."""
    count = 3_000
    texts = [" ".join(["same"] * 3 + [f"w{at}" for at in range(25)])] * count
    with filled(tmp_path, texts, **POINT) as index:
        judged = index.stats().since_open.judged
        assert all(index.remove_batch(ids_of(texts)[: count // 2]))
        assert index.stats().since_open.judged - judged <= count
        assert index.get(str(count // 2)).status == "new"
        assert index.cluster(count // 2 + 1, most=1).size == count - count // 2
        assert index.verify() == []


def test_others_are_served_while_a_large_cluster_is_removed(tmp_path: Path) -> None:
    count = 3_000
    base = " ".join(f"w{at}" for at in range(60))
    with filled(tmp_path, [f"{base} end{at}" for at in range(count)], **POINT) as index:
        done = threading.Thread(target=index.remove, args=("0",))
        number = 0
        done.start()
        while done.is_alive():
            index.add(f"other-{number}", " ".join(f"o{number}x{at}" for at in range(20)))
            number += 1
        assert index.get("0") is None and index.get("1").status == "new"
        assert number >= 3, "served between slices"
        assert index.verify() == []


def test_a_document_is_removed_by_one_of_several_threads(tmp_path: Path) -> None:
    texts = stars(5, 8)
    with filled(tmp_path, texts, **POINT) as index:
        found: list[list[bool]] = []
        threads = [
            threading.Thread(target=lambda: found.append(index.remove_batch(ids_of(texts))))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [sum(column) for column in zip(*found, strict=True)] == [1] * len(texts)
        assert len(index) == 0 and index.verify() == []


def test_shingles_of_copies_are_loaded_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = stars(1, 30)
    loaded: list[int] = []
    load = View._stored_sets

    def measured(self: View, numbers: Sequence[int]):
        loaded.append(len(numbers))
        return load(self, numbers)

    monkeypatch.setattr(View, "_stored_sets", measured)
    monkeypatch.setattr(removal, "SLICE_BYTES", 3 * 8 * 30)
    with filled(tmp_path, texts, **POINT) as index:
        assert index.remove("0")
        assert max(loaded) <= 3 and sum(loaded) == 29
        assert index.verify() == []


def test_removal_goes_on_in_the_next_generation(tmp_path: Path) -> None:
    texts = stars(4, 12)
    with filled(tmp_path, texts, keep_texts=True, **POINT) as index:
        steps = removal.Removal(index._opened.generation, list(range(1, 25))).steps()
        first = next(steps)
        index.reindex(shingle="word:3")
        rest = [number for numbers in steps for number in numbers]
        assert sorted(first + rest) == list(range(1, 25))
        assert len(index) == 24 and index.verify() == []


def test_ids_of_closed_and_read_only_indexes(tmp_path: Path) -> None:
    index = filled(tmp_path, stars(1, 3), **POINT)
    with (
        Index.open(tmp_path, read_only=True) as reader,
        pytest.raises(UsageError, match="read-only"),
    ):
        reader.remove_batch(["0", "1"])
    assert index.remove_batch([]) == []
    index.close()
    with pytest.raises(UsageError, match="closed"):
        index.remove_batch(["0", "1"])


def test_killed_removals_leave_a_complete_index(tmp_path: Path) -> None:
    """Whatever slice was the last: the copies have kept witnesses, and it can be repeated."""
    script = """
import os, signal, sys
from neardup import Index
from neardup.index import removal

removal.SLICE_DOCUMENTS = removal.SLICE_COPIES = 3
index = Index.open(sys.argv[1])
steps = removal.Removal(index._opened.generation, list(range(1, 31))).steps()
for _ in range(int(sys.argv[2])):
    next(steps, None)
os.kill(os.getpid(), signal.SIGKILL)
"""
    texts = stars(2, 24)
    filled(tmp_path / "index", texts, **POINT).close()
    left = len(texts)
    for number in (1, 4, 9, 14):
        assert batch_engine.process(script, tmp_path / "index", number).returncode == -9
        with Index.open(tmp_path / "index") as index:
            assert index.verify() == []
            assert 18 <= len(index) <= left
            left = len(index)
    with Index.open(tmp_path / "index") as index:
        index.remove_batch(ids_of(texts)[:30])
        assert len(index) == 18 and index.verify() == []
