"""Vectors in an index on Redis: the answers of an index in a folder, whoever adds beside."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.redis_index import Raw, fresh_address, fresh_ring, ring_of
from support.redis_servers import RedisCluster
from support.strategies import examples
from support.vector_definition import (
    ASKED,
    CORPORA,
    VECTORS,
    WORDS,
    Row,
    Signals,
    many_documents,
    rows_of,
)
from support.vector_index import (
    ALSO,
    EAST,
    NORTH,
    add,
    check_order_of_numbers,
    check_promises,
    numbers_of,
    opened,
    stored,
)

from neardup import Index
from neardup.errors import FormatError
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.keyspace import COPY, State, unpack_state
from neardup.index.view import View

PARTS = st.lists(st.integers(0, 15), max_size=3)


def asked_of(index: Index, rows: Sequence[Row]) -> list[Any]:
    texts = None if index.spec.of_vectors else [row["text"] for row in rows]
    return index.query_batch(texts, vectors=[row["v"] for row in rows])


def everything(index: Index, rows: Sequence[Row]) -> list[Any]:
    """All that an index says of documents."""
    return [stored(index, rows), index.clusters(), len(index), index.verify()]


@pytest.mark.parametrize("address", [fresh_address, fresh_ring], ids=["server", "ring"])
@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=examples(5))
@given(documents=CORPORA, others=CORPORA, cuts=PARTS, gone=st.lists(st.integers(0, 15), max_size=6))
@example([("a b c", EAST), ("a b c", NORTH), ("d a", NORTH)], [("a b d", EAST)], [1], [0])
def test_both_stores_say_the_same(
    asked: Signals,
    address: Any,
    documents: list[tuple[str, list[float]]],
    others: list[tuple[str, list[float]]],
    cuts: list[int],
    gone: list[int],
) -> None:
    rows = rows_of(documents)
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    with (
        TemporaryDirectory() as folder,
        opened(folder, asked) as one,
        opened(address(), asked) as other,
    ):
        for start, end in pairwise(places):
            if start < end:
                assert add(one, rows[start:end]) == add(other, rows[start:end])
        assert asked_of(one, rows_of(others)) == asked_of(other, rows_of(others))
        assert everything(one, rows)[:3] == everything(other, rows)[:3]
        for id in (f"d{number}" for number in gone):
            assert one.remove(id) == other.remove(id)
            # Then a copy may get another witness than one of equal content: none is added.
            left = [row for row in rows if row["id"] in one]
            assert everything(one, left) == everything(other, left)


@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=examples(8))
@given(
    documents=CORPORA,
    changes=st.lists(st.tuples(st.integers(0, 13), st.none() | st.tuples(WORDS, VECTORS))),
)
@example(documents=[("a b c", EAST), ("d c b a", EAST), ("d c b a", NORTH)], changes=[(1, None)])
def test_every_copy_has_a_living_witness_after_removals_and_replacements(
    asked: Signals,
    documents: list[tuple[str, list[float]]],
    changes: list[tuple[int, tuple[str, list[float]] | None]],
) -> None:
    rows = {row["id"]: row for row in rows_of(documents)}
    with opened(fresh_address(), asked) as index:
        add(index, list(rows.values()))
        for at, change in changes:
            id = f"d{at}"
            if change is None:
                assert index.remove(id) == (rows.pop(id, None) is not None)
            else:
                row = {"id": id, "text": change[0], "v": change[1]}
                (answer,) = add(index, [row], replace=True)
                assert answer.again or rows.get(id) != row
                rows[id] = row
        assert index.verify() == []
        assert len(index) == len(rows)
        check_promises(index, list(rows.values()), asked)


@pytest.mark.parametrize("asked", ASKED[::2], ids=str)
def test_several_add_at_once(asked: Signals) -> None:
    address, rows = fresh_address(), many_documents(160)
    with opened(address, asked) as first:
        writers = [first, *(Index.open(address) for _ in range(3))]

        def work(at: int) -> None:
            for start in range(at, len(rows), 20):
                add(writers[at], rows[start : start + 20 : 4])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        for writer in writers[1:]:
            writer.close()
        check_order_of_numbers(first, rows, asked)


def test_on_a_cluster(clustered_redis: RedisCluster) -> None:
    named = ",".join(server.address for server in clustered_redis.servers)
    rows, asked = many_documents(60), ASKED[2]
    with opened(f"redis://{named}?name=vectors", asked) as index:
        add(index, rows[:40])
        add(index, rows[40:])
        check_order_of_numbers(index, rows, asked)


def test_on_a_ring_that_gets_another_server() -> None:
    address, rows, asked = fresh_ring(2), many_documents(60), ASKED[2]
    with opened(address, asked) as index:
        add(index, rows[:40])
        index.rebalance(ring_of(range(3), RedisAddress.parse(address).name))
        add(index, rows[40:])
        check_order_of_numbers(index, rows, asked)


@pytest.mark.parametrize("adding", [True, False], ids=["add", "query"])
def test_document_that_is_removed_while_it_is_compared(
    monkeypatch: pytest.MonkeyPatch, adding: bool
) -> None:
    """The vector was gone, and the document was compared with the others without it."""
    address, read = fresh_address(), View.first_shingles
    with Index.open(address, **ALSO) as index, Index.open(address) as other:
        index.add_batch(["1", "2"], ["one two three", "four five"], vectors=[EAST, NORTH])

        def removing(view: View, numbers: Sequence[int], most: int) -> Any:
            monkeypatch.undo()
            assert len(numbers) == 2 and other.remove("1")
            return read(view, numbers, most)

        monkeypatch.setattr(View, "first_shingles", removing)
        asked = {"text": "four five", "vector": EAST}
        answer = index.add("3", **asked) if adding else index.query(**asked)
        assert numbers_of(answer) == ("2", 1.0, 0.0, "text")


@pytest.fixture
def raw() -> Iterator[Raw]:
    """An index with a copy by its vector, which has the number 2."""
    address = fresh_address()
    with Index.open(address, **ALSO) as index:
        index.add_batch(["1", "2"], ["one two three", "four five"], vectors=[EAST, EAST])
    opened = Raw(address)
    opened.index = Index.open(address)  # type: ignore[attr-defined]
    yield opened
    opened.index.close()  # type: ignore[attr-defined]
    opened.close()


def test_vector_is_stored_as_float32_behind_the_shingles(raw: Raw) -> None:
    data = raw.get("h", 2)[:-8]  # without its checksum
    assert len(data) == 8 * (1 + 2)
    assert struct.unpack("<4f", data[-16:]) == (1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("letter", ["s", "h", "r"])
def test_flipped_bit_is_noticed(raw: Raw, letter: str) -> None:
    data = bytearray(raw.get(letter, 2))
    data[-10] ^= 1  # the cosine, the vector, the signs
    raw.set(letter, 2, bytes(data))
    (problem,) = raw.index.verify()  # type: ignore[attr-defined]
    assert "of document 2 is damaged" in problem


def test_lost_vector_is_told(raw: Raw) -> None:
    raw.delete("h", 1)
    index: Index = raw.index  # type: ignore[attr-defined]
    assert index.verify() == index.repair()
    (problem,) = index.verify()
    assert "the vector of document 1 is lost" in problem
    for ask in (index.query, lambda *_, **vector: index.add("3", "six seven", **vector)):
        with pytest.raises(FormatError, match="lacks vectors"):
            ask("six seven", vector=EAST)
    assert index.remove("1") and index.verify() == []
    assert index.query("six seven", vector=EAST).duplicate_of == "2"


def test_state_with_a_cosine() -> None:
    state = State(COPY, 7, 0.25, 1, 3, -0.5)
    assert unpack_state(9, state.pack(9)) == state
    assert state.judged_again.cosine == -0.5
    plain = state._replace(cosine=None)
    assert len(plain.pack(9)) == len(state.pack(9)) - 8 == 1 + 14 + 4
    assert unpack_state(9, plain.pack(9)) == plain
    with pytest.raises(FormatError, match="state of document 9"):
        unpack_state(9, plain.pack(9) + b"12345678")


def test_indexes_of_texts_have_the_format_that_they_had(raw: Raw) -> None:
    assert raw.client.hget(raw.keyspace.meta, "format") == b"2"
    address = fresh_address()
    Index.open(address).close()
    of_texts = Raw(address)
    assert of_texts.client.hget(of_texts.keyspace.meta, "format") == b"1"
    assert not of_texts.client.hexists(of_texts.keyspace.meta, "centre")
    of_texts.close()
