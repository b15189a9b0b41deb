"""The commands take the address of Redis servers in the place of the folder of an index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import DOCUMENTS, edited, neardup, refused, write_jsonl
from support.redis_servers import RedisServer, redis_server

from neardup.errors import UsageError
from neardup.increments import add_files
from neardup.index.index import Index
from neardup.index.redis_store.address import NOT_ON_REDIS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def server(single_redis: RedisServer) -> RedisServer:
    return single_redis


@pytest.fixture
def posts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_jsonl(tmp_path / "posts.jsonl", DOCUMENTS)


@pytest.fixture
def place(server: RedisServer, posts: Path, request: pytest.FixtureRequest) -> str:
    """The address of an index of its own, with the documents."""
    where = f"{server.url}?name={request.node.name[:40].replace('[', '-').strip(']')}"
    assert neardup("index", "build", where, posts, "-q").code == 0
    return where


def test_build_and_add_count_as_in_a_folder(server: RedisServer, posts: Path) -> None:
    made = []
    for where in ("folder", f"{server.url}?name=alike"):
        built = neardup("index", "build", where, posts, "--threshold", "0.7", "--json")
        assert built.code == 0, built.err
        again = neardup("index", "add", where, posts, "--json")
        assert again.code == 0, again.err
        made.append([json.loads(ran.out)["counts"] for ran in (built, again)])
    assert made[0] == made[1]
    assert made[0][1]["again"] == made[0][0]["documents"] - made[0][0]["rejected"]
    refused(neardup("index", "build", f"{server.url}?name=alike", posts), 2, "holds an index")
    assert not Path("redis:").exists()


def test_documents_are_queried_explained_and_removed(place: str) -> None:
    text = edited(1, 60)
    assert json.loads(neardup("index", "query", place, text, "--json").out)["cluster"] == 1
    assert "duplicate of doc-0" in neardup("query", place, text).out
    assert json.loads(neardup("query", place, text, "--similar", "3", "--json").out)[0]["id"]
    assert "doc-0" in neardup("query", place, text, "--explain").out
    assert "doc-0" in neardup("why", place, "doc-2").out
    assert neardup("why", place, "doc-2", "doc-0").code == 0
    assert "doc-2" in neardup("index", "get", place, "doc-0").out
    assert "doc-0" in neardup("index", "clusters", place).out
    assert neardup("index", "remove", place, "doc-0").out == "1 removed\n"
    refused(neardup("index", "get", place, "doc-0"), 2, "has no document 'doc-0'")
    assert json.loads(neardup("index", "get", place, "doc-2", "--json").out)["status"] == "new"


def test_forget(place: str) -> None:
    assert neardup("index", "forget", place, "--older-than", "1d", "--dry-run").code == 0
    young = neardup("index", "forget", place, "--older-than", "1d")
    assert young.out.startswith("0 removed, which were added before"), young
    where = f"{place}-forgotten"
    assert neardup("index", "build", where, "posts.jsonl", "-q").code == 0
    ran = neardup("index", "forget", where, "--older-than", "0.001s", "--json")
    assert json.loads(ran.out)["index_documents"] == 0, ran


def test_stats_verify_and_repair(place: str) -> None:
    plain = neardup("index", "stats", place)
    assert "servers" in plain.out and "disk" not in plain.out, plain
    assert json.loads(neardup("index", "stats", place, "--json").out)["documents"] > 5
    assert neardup("index", "verify", place).out.endswith("no problems\n")
    assert neardup("index", "verify", place, "--repair").out.endswith("no problems\n")


def test_repair_mends_a_bucket_that_was_lost(place: str, server: RedisServer) -> None:
    import redis

    with redis.Redis(port=server.port) as client:
        name = place.partition("name=")[2]
        (lost,) = list(client.scan_iter(match=f"{{{name}:0}}b0", count=10_000))
        client.delete(lost)
    assert neardup("index", "verify", place).code == 1
    mended = neardup("index", "verify", place, "--repair")
    assert mended.code == 0 and ": mended" in mended.out, mended
    assert neardup("index", "verify", place).code == 0


def test_export_and_import(place: str, server: RedisServer) -> None:
    exported = neardup("index", "export", place, "posts.export")
    assert exported.code == 0, exported.err
    copies = ["folder", f"{server.url}?name=imported", f"{server.url}?ring&name=ring"]
    for copy in copies:
        imported = neardup("index", "import", copy, "posts.export")
        assert imported.code == 0 and copy in imported.out, imported
    answers = [neardup("index", "query", where, edited(1, 60)).out for where in (place, *copies)]
    assert answers[0] == answers[1] == answers[2]
    again = neardup("index", "import", copies[1], "posts.export", "-q")
    refused(again, 2, "holds an index")


def test_a_ring_is_rebalanced(tmp_path: Path, server: RedisServer, posts: Path) -> None:
    with redis_server(tmp_path, appendonly=False) as second:
        one = f"{server.url}?ring&name=ring"
        two = f"{server.url},{second.address}?ring&name=ring"
        assert neardup("index", "build", one, posts, "-q").code == 0
        before = neardup("index", "query", one, edited(1, 60)).out
        refused(neardup("index", "stats", two), 2, "does not name the servers", f"give {one}")
        moved = neardup("index", "rebalance", two)
        assert moved.code == 0 and " of 129 partitions moved; the servers are" in moved.out, moved
        refused(neardup("index", "stats", one), 2, "does not name the servers", "epoch 3", "?ring")
        assert neardup("index", "query", two, edited(1, 60)).out == before
        assert neardup("index", "verify", two).out.endswith("no problems\n")
        assert neardup("index", "rebalance", one, "-q").out == ""
        assert neardup("index", "query", one, edited(1, 60)).out == before
    refused(neardup("index", "rebalance", f"{server.url}?name=a"), 2, "is no ring")


def test_repair_of_a_folder_is_refused(posts: Path) -> None:
    assert neardup("index", "build", "folder", posts, "-q").code == 0
    refused(neardup("index", "verify", "folder", "--repair"), 2, "nothing is repaired")


def test_missing_index_is_not_made(server: RedisServer, posts: Path) -> None:
    where = f"{server.url}?name=missing"
    for command in ("add", "query", "remove", "stats", "verify", "clusters"):
        more = {"add": [posts], "query": ["a text"], "remove": ["1"]}.get(command, [])
        refused(neardup("index", command, where, *more), 2, "holds no index", "name=missing")
    refused(neardup("index", "verify", where, "--repair"), 2, "holds no index")


def test_what_is_not_supported_has_one_error_with_a_cure(place: str, posts: Path) -> None:
    commands = [
        ("index", "compact", place),
        ("index", "retune", place, "--threshold", "0.9", "-q"),
        ("index", "reindex", place, "--shingle", "char:9"),
        ("index", "reindex", place, "--undo"),
        ("index", "reindex", place, "--forget"),
        ("index", "convert", place, "--bits", "8"),
        ("index", "add", place, posts, "-o", "out"),
    ]
    for command in commands:
        refused(neardup(*command), 2, "is not supported for an index on Redis: ", "127.0.0.1")
    assert sorted(path.name for path in Path().iterdir()) == ["posts.jsonl"]
    with pytest.raises(UsageError, match="not supported for an index on Redis"):
        add_files(place, posts, "out")
    with Index.open(place) as index:
        for call in (index.snapshot, index.compact, index.take_over, lambda: index.shadow):
            with pytest.raises(UsageError, match="not supported for an index on Redis"):
                call()


def test_what_is_not_supported_is_in_the_docs() -> None:
    page = (DOCS / "cluster.md").read_text("utf-8")
    for what, cure in NOT_ON_REDIS.items():
        assert f"| {what} | {cure} |" in page


def test_password_is_not_shown(posts: Path, server: RedisServer) -> None:
    where = f"redis://me:geheim@127.0.0.1:{server.port}?name=secret"
    for command in (["index", "stats", where], ["index", "compact", where], ["why", where, "1"]):
        ran = neardup(*command)
        assert ran.code != 0 and "geheim" not in ran.out + ran.err, ran


def test_servers_that_do_not_answer(posts: Path) -> None:
    refused(neardup("index", "stats", "redis://127.0.0.1:1?name=a"), 1, "can't be reached")


def test_memory_and_replicas_belong_to_one_kind_of_index(place: str, posts: Path) -> None:
    refused(neardup("index", "add", place, posts, "--memory", "1GB"), 2, "maxmemory")
    assert neardup("index", "build", "folder", posts, "-q").code == 0
    refused(neardup("index", "add", "folder", posts, "--replicas", "1"), 2, "Redis servers")


def test_vectors_of_files_as_in_a_folder(server: RedisServer, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "one two three", "v": [1.0, 0.0, 0.0]},
        {"id": "b", "text": "four five six", "v": [1.0, 0.1, 0.0]},
        {"id": "c", "text": "one two three", "v": [0.0, 1.0, 0.0]},
    ]
    given, answers = write_jsonl(tmp_path / "in.jsonl", rows), []
    for where in (str(tmp_path / "folder"), f"{server.url}?name=vectors"):
        built = neardup("index", "build", where, given, "--also", "v:0.9", "--json")
        assert built.code == 0, built.err
        asked = ("one two three", "--vector", "[0, 1, 0]", "--json")
        answers.append((json.loads(built.out)["counts"], neardup("query", where, *asked).out))
    assert answers[0] == answers[1]
    assert json.loads(answers[0][1])["by"] == "text"
    wrong = neardup("serve", "--data", f"{server.url}?name=vectors", "--dimension", "4")
    assert wrong.code == 2 and "3 numbers, not 4" in wrong.err
