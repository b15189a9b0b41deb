"""The protocol's steps in random interleavings: what is stored is the answer of the definition.

`support.redis_model` says what is interleaved, repeated and broken.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.redis_model import Op, World, random_ops
from support.redis_vectors import VectorWorld
from support.strategies import examples
from support.vector_definition import Signals

import neardup

LIMITS = ({}, {"limit": 1}, {"limit": 2, "threshold": 0.75}, {"threshold": 0.3}, {})
History = Callable[[World], None]


def small_world(patch: pytest.MonkeyPatch, seed: int) -> World:
    return World(patch, seed, **LIMITS[seed % len(LIMITS)])


def histories(
    count: int,
    history: History,
    first: int = 0,
    make: Callable[[pytest.MonkeyPatch, int], World] = small_world,
) -> None:
    """Run a history with many seeds; say which one failed, and how it went."""
    for seed in range(first, first + examples(count)):
        with pytest.MonkeyPatch.context() as patch:
            world = make(patch, seed)
            try:
                history(world)
            except BaseException as error:
                steps = "\n".join(world.scheduler.history[-300:])
                raise AssertionError(f"seed {seed}: {error!r}\n{steps}") from error
            finally:
                world.close()


def check(world: World) -> None:
    world.check_definition()
    world.check_promises()
    world.check_acknowledged()
    assert world.generation.verify() == []


@pytest.mark.sized
def test_writers_give_the_answer_in_the_order_of_the_numbers() -> None:
    def history(world: World) -> None:
        world.run(random_ops(world, world.chance.randint(2, 4)))
        check(world)

    histories(60, history)


@pytest.mark.sized
def test_writers_that_fail_leave_nothing_behind() -> None:
    """Whoever waited for them goes on, and what they have not acknowledged is there or is not."""

    def history(world: World) -> None:
        writers = world.chance.randint(2, 4)
        world.run(random_ops(world, writers), crashing=range(world.chance.randint(1, 2)))
        world.check_definition()
        world.check_integrity()
        check(world)

    histories(40, history, first=10_000)


@pytest.mark.sized
def test_documents_are_removed_beside_writers() -> None:
    def history(world: World) -> None:
        world.run(random_ops(world, 1))
        world.run(random_ops(world, world.chance.randint(2, 4), removing=True))
        world.check_promises()
        world.check_acknowledged()
        assert world.generation.verify() == []

    histories(60, history, first=20_000)
    histories(1, history, first=60_000_457)  # a leader left its bucket before it was said to


@pytest.mark.sized
def test_removals_that_fail_are_finished_by_others() -> None:
    def history(world: World) -> None:
        first = random_ops(world, 1)
        world.run(first)
        ids = [id for op in first[0] for id, _ in op.add]
        removing = [[Op(remove=id) for id in ids[at::3]] for at in range(3)]
        world.run(
            [*removing, *random_ops(world, 1, removing=True)],
            crashing=range(world.chance.randint(1, 3)),
        )
        world.check_integrity()
        world.check_promises()
        # Who was told that a document is removed does not find it.
        assert not set(world.removed) & set(world.stored())

    histories(40, history, first=30_000)


@pytest.mark.sized
def test_documents_replace_one_another() -> None:
    def history(world: World) -> None:
        world.run(random_ops(world, 1))
        ops = random_ops(world, 3, removing=True)
        for own in ops:
            for op in own:
                op.replacing = world.chance.random() < 0.7
        world.run(ops)
        world.check_promises()
        ids = [record.id for record, _ in world.stored().values()]
        assert len(ids) == len(set(ids)), ids
        assert world.generation.verify() == []

    histories(20, history, first=40_000)


def test_the_model_sees_a_protocol_without_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule that who met a higher number gives up, histories go wrong."""
    from neardup.index.redis_store.judging import BucketMeeting

    monkeypatch.setattr(BucketMeeting, "met_later", lambda self, row: set())
    with pytest.raises(AssertionError, match="seed"):
        test_writers_give_the_answer_in_the_order_of_the_numbers()


def test_one_writer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model itself: the answer of the library, for one writer."""
    world = World(monkeypatch, 7)
    texts = neardup_texts()
    world.run([[Op(add=[(f"d{at}", text)]) for at, text in enumerate(texts)]])
    check(world)
    result = neardup.dedup(texts, **world.options)
    kept = [record.id for record, state in world.stored().values() if state.kind == b"K"]
    assert kept == [f"d{row}" for row in result.kept]
    world.close()


SIGNALS = [
    Signals("also", 0.95),
    Signals("unless", 0.2, threshold=0.3),
    Signals("also", 0.95, threshold=0.3, limit=1),
]


@pytest.mark.sized
@pytest.mark.parametrize("asked", SIGNALS, ids=str)
def test_documents_with_vectors(asked: Signals) -> None:
    """Some writers fail; then documents are removed beside writers."""

    def history(world: World) -> None:
        first = random_ops(world, world.chance.randint(2, 3))
        world.run(first, crashing=range(world.chance.randint(0, 1)))
        world.check_integrity()
        world.check_definition()
        world.check_acknowledged()
        world.run(random_ops(world, 2, removing=True))
        world.check_promises()
        assert world.generation.verify() == []

    def make(patch: pytest.MonkeyPatch, seed: int) -> World:
        return VectorWorld(patch, seed, asked)

    histories(10, history, first=50_000, make=make)


def neardup_texts() -> list[str]:
    words = ["one two three four", "one two three five", "six seven eight nine", "one two three"]
    return [f"{a} {b}" for a in words for b in words]
