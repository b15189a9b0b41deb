"""Histories that broke the protocol: what one process does between two commands of another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.redis_model import Op, World, Writer

from neardup.index.redis_store.keyspace import COPY, KEPT
from neardup.index.redis_store.servers import Call
from neardup.index.view import TablesBehind

WORDS = [f"w{at}" for at in range(30)]


def near(*more: str) -> str:
    """A text that is similar to all others of these."""
    return " ".join([*WORDS, *more])


def far(name: str) -> str:
    return " ".join(f"{name}{at}" for at in range(12))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch, 1)
    yield made
    made.close()


@pytest.fixture
def writers(world: World) -> tuple[Writer, Writer]:
    both = Writer(world, 0), Writer(world, 1)
    for writer in both:
        writer.servers.again = writer.servers.apart = 0
    return both


def interject(
    writer: Writer, script: str, action: Callable[[], object], *, after: bool = False
) -> None:
    """Let others act when a writer runs a script for the first time: before it or after it."""
    servers = writer.servers

    def run(calls: list[Call], *, durable: bool = False) -> list[object]:
        if not any(call.script and call.script.name == script for call in calls):
            return type(servers).run(servers, calls)
        del servers.run
        replies = servers.run(calls) if after else []
        action()
        return replies or servers.run(calls)

    servers.run = run  # type: ignore[method-assign, assignment]


def lose_reply(writer: Writer, script: str, action: Callable[[], object]) -> None:
    """The reply to a script is lost; others act before it is sent again."""
    servers = writer.servers

    def run(calls: list[Call], *, durable: bool = False) -> list[object]:
        if not any(call.script and call.script.name == script for call in calls):
            return type(servers).run(servers, calls)
        del servers.run
        servers.run(calls)
        action()
        return servers.run(calls)

    servers.run = run  # type: ignore[method-assign, assignment]


def add(writer: Writer, *texts: str, prefix: str = "") -> list[int]:
    """Add documents under their places; their numbers."""
    start = len(writer.world.acknowledged)
    writer.add(Op(add=[(f"{prefix}{writer.number}-{start + at}", t) for at, t in enumerate(texts)]))
    return [one.row.number for _, _, one in writer.world.acknowledged[start:]]


def check(world: World) -> None:
    world.check_promises()
    assert world.generation.verify() == []


def states(world: World) -> dict[int, bytes]:
    return {number: state.kind for number, (_, state) in world.stored().items()}


def test_a_writer_tidies_up_a_copy_that_is_kept_meanwhile(
    world: World, writers: tuple[Writer, Writer]
) -> None:
    """The copy left its buckets for good, and later ones did not meet it."""
    one, other = writers
    first, second = add(one, near(), near("x"))
    other.removal.remove([first])
    one.enrolment.tidy()
    assert states(world) == {second: KEPT}
    (third,) = add(other, near("y"))
    assert states(world)[third] == COPY
    check(world)


@pytest.mark.parametrize("texts", [[near()], [near(), near("x")]])
def test_a_decision_whose_reply_was_lost_is_a_decision(
    world: World, writers: tuple[Writer, Writer], texts: list[str]
) -> None:
    """It was undone, and the document erased, though others were copies of it already."""
    one, other = writers
    (first,) = add(one, near("w"))
    lose_reply(one, "settle", lambda: (other.removal.remove([first]), add(other, near("z"))))
    numbers = add(one, *texts)
    world.removed.append(first)
    assert set(numbers) <= states(world).keys()
    check(world)
    world.check_acknowledged()


def test_a_document_is_removed_by_one_of_two(world: World, writers: tuple[Writer, Writer]) -> None:
    """Both said that they had removed it."""
    one, other = writers
    for more, script in (("x", "settle"), ("", "withdraw")):
        first, second = add(one, near(), near("x"))
        number = second if more else first
        said: list[int] = []
        interject(one, script, lambda: said.append(other.removal.remove([number])))  # noqa: B023
        said.append(one.removal.remove([number]))
        assert sorted(said) == [0, 1], script
        check(world)
        for left in list(states(world)):
            one.removal.remove([left])


def test_a_removal_whose_reply_was_lost_has_removed(
    world: World, writers: tuple[Writer, Writer]
) -> None:
    one, _ = writers
    first, second = add(one, near(), near("x"))
    lose_reply(one, "settle", lambda: None)
    assert one.removal.remove([second]) == 1
    lose_reply(one, "withdraw", lambda: None)
    assert one.removal.remove([first]) == 1
    assert states(world) == {}


def test_a_copy_is_removed_while_its_witness_is(
    world: World, writers: tuple[Writer, Writer]
) -> None:
    """It was judged again though nothing was stored of it any more: a KeyError."""
    one, other = writers
    first, second, third = add(one, near(), near("x"), near("y"))
    interject(one, "settle", lambda: other.removal.remove([second]))
    assert one.removal.remove([first]) == 1
    assert states(world) == {third: KEPT}
    check(world)


def test_a_copy_is_read_while_its_witness_is_removed(
    world: World, writers: tuple[Writer, Writer]
) -> None:
    """It had no witness for a moment: a KeyError."""
    one, other = writers
    first, _ = add(one, near(), near("x"))
    seen: list[object] = []

    def read() -> None:
        with pytest.raises(TablesBehind):
            other.generation.view.document("0-1")
        seen.append(1)

    interject(one, "withdraw", read, after=True)
    one.removal.remove([first])
    assert seen and other.generation.view.document("0-1").status == "new"


def test_two_removals_at_once_whose_orphans_are_similar(
    world: World, writers: tuple[Writer, Writer]
) -> None:
    """Each orphan was judged without the other one, and both were kept."""
    one, other = writers
    # Two kept documents that are not similar, and copies of each that are similar to one another.
    left, right = [f"l{at}" for at in range(10)], [f"r{at}" for at in range(10)]
    middle = [f"m{at}" for at in range(12)]
    (first,) = add(one, " ".join([*left, *middle]))
    (second,) = add(one, " ".join([*middle, *right]))
    lower, higher = add(one, " ".join([*left[-8:], *middle]), " ".join([*middle, *right[:8]]))
    one.enrolment.tidy()
    kinds = states(world)
    assert kinds[first] == kinds[second] == KEPT and kinds[lower] == kinds[higher] == COPY
    world.check_promises()
    # The higher orphan is judged, and before that is stored, the lower one is.
    interject(one, "settle", lambda: None)
    entered = False

    def remove_the_other() -> None:
        nonlocal entered
        entered = True
        other.removal.remove([first])

    interject(one, "append", remove_the_other, after=True)
    one.removal.remove([second])
    assert entered
    check(world)


def test_an_orphan_joins_a_document_that_is_removed(
    world: World, writers: tuple[Writer, Writer]
) -> None:
    """It became a copy of a document that was gone."""
    one, other = writers
    first, second = add(one, near(), near("x"))
    # Kept beside the first one, since it is compared before that comes back.
    keeps = add(one, far("k"))
    assert keeps
    third = add(other, near("x", "y"))
    assert third

    def remove_the_next_witness() -> None:
        kept = [number for number, kind in states_now(world).items() if kind == KEPT]
        other.removal.remove([number for number in kept if number in (second, *third)])

    interject(one, "join", remove_the_next_witness, after=True)
    one.removal.remove([first])
    check(world)


def states_now(world: World) -> dict[int, bytes]:
    documents = world.generation._documents
    numbers = documents.numbers().tolist()
    return {number: state.kind for number, state in documents.states(numbers).items()}


def test_an_attempt_that_was_overtaken_leaves_no_pending_number(
    world: World, writers: tuple[Writer, Writer]
) -> None:
    """It began again under other numbers, and waited for its own former ones for a whole lease."""
    one, _ = writers
    first, *_ = add(one, near(), far("a"))
    original = one.enrolment.view.shingles
    calls = []

    def behind_once(self: object, numbers: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise TablesBehind
        return original(numbers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(one.enrolment.view), "shingles", behind_once)
        begun = world.scheduler.now
        add(one, near("x"))
    assert world.scheduler.now - begun < world.lease
    assert first
    check(world)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world in which one kept document leads each bucket."""
    made = World(monkeypatch, 2, limit=1, threshold=0.9)
    yield made
    made.close()


def pair(world: World) -> tuple[Writer, Writer]:
    both = Writer(world, 0), Writer(world, 1)
    for writer in both:
        writer.servers.again = writer.servers.apart = 0
    return both


def variants(count: int) -> list[str]:
    """Texts that share buckets and are not similar enough."""
    return [near(*(f"v{at}x{more}" for more in range(12))) for at in range(count)]


def test_a_leader_is_removed_while_another_document_leaves_its_bucket(narrow: World) -> None:
    """The bucket had no leader any more."""
    one, other = pair(narrow)
    first, *rest = variants(4)
    (number,) = add(one, first)
    interject(one, "overflow", lambda: other.removal.remove([number]))
    add(one, *rest)
    check(narrow)


def test_two_leaders_are_removed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both removals let the same document lead in their place."""
    world = World(monkeypatch, 3, limit=2, threshold=0.9)
    one, other = pair(world)
    numbers = [add(one, text)[0] for text in variants(6)]
    interject(one, "withdraw", lambda: other.removal.remove([numbers[1]]))
    one.removal.remove([numbers[0]])
    check(world)
    world.close()


def test_no_other_document_has_a_number_between_those_of_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second of a batch was a copy of that one, not of the first, which has a lower number."""
    world = World(monkeypatch, 2, threshold=0.3)
    one, other = pair(world)
    add(one, far("a"))  # it has taken the next number, too
    (between,) = add(other, far("x"))
    first, second = add(one, far("y"), f"{far('x')} {far('y')}")
    assert not first < between < second
    assert states(world)[second] == COPY
    world.check_definition()
    check(world)
    world.close()


def test_a_document_is_added_while_a_leader_is_removed(narrow: World) -> None:
    """It left the bucket, since the leader was there still; then nobody led it."""
    one, other = pair(narrow)
    first, *rest = variants(6)
    (number,) = add(one, first)
    interject(other, "withdraw", lambda: add(one, *rest))
    other.removal.remove([number])
    check(narrow)


def test_a_leader_is_removed_before_a_document_that_met_it_leaves_the_bucket(
    narrow: World,
) -> None:
    """The removal had begun when the leaders were counted, and was over when the other one left."""
    one, other = pair(narrow)
    first, *rest = variants(6)
    (number,) = add(one, first)
    other.removal._make_room(number)

    def go_on() -> None:
        assert other.removal.store.withdraw([number], b"test") == [True]
        other.removal._finish([number])

    interject(one, "overflow", go_on)
    add(one, *rest)
    check(narrow)


def test_a_removal_that_failed_at_once_does_not_keep_a_document_from_leading(
    narrow: World,
) -> None:
    """It was said to leave, and stayed: no bucket led by it then was any more."""
    one, other = pair(narrow)
    first, *rest = (add(one, text)[0] for text in variants(6))
    for number in rest:
        other.removal._make_room(number)
    one.removal.remove([first])
    check(narrow)


def test_a_leader_that_is_given_up_takes_those_with_it_that_were_not_compared(
    narrow: World,
) -> None:
    """The second is not compared with the third, since the first leads; and that was given up."""
    one, other = pair(narrow)
    texts = [variants(1)[0], near("p"), near("p", "q")]
    begun: list[int] = []

    def abandon() -> None:
        first = one.generation._documents.last_number() - 2
        begun.append(first)
        other.removal._abandon([first])

    interject(one, "settle", abandon)
    add(one, *texts)
    assert begun
    narrow.check_definition()
    check(narrow)


def test_a_second_thread_of_removals_does_not_recurse_for_ever(
    world: World, writers: tuple[Writer, Writer]
) -> None:
    """Another one waits for the orphan that a crashed one left, and began with itself again."""
    one, other = writers
    left, right = [f"l{at}" for at in range(10)], [f"r{at}" for at in range(10)]
    middle = [f"m{at}" for at in range(12)]
    (second,) = add(one, " ".join([*middle, *right]))
    (first,) = add(one, " ".join([*left, *middle]))
    lower, _ = add(one, " ".join([*left[-8:], *middle]), " ".join([*middle, *right[:8]]))
    state = world.stored()[lower][1]
    # The removal of the first one stops when its copy is marked.
    assert other.removal.store.withdraw([first], b"gone") == [True]
    from neardup.index.redis_store.decision_store import Change

    change = Change(lower, state.pack(lower), state.judged_again.pack(lower))
    assert other.removal.store.settle([change]) == [True]
    one.removal.remove([second])
    world.generation.repair()
    check(world)
