"""An imported index equals the exported one; a damaged file is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.redis_index import fresh_address

import neardup
from neardup.errors import FormatError, MissingInput, UsageError
from neardup.formats.blocks import BlockWriter
from neardup.index.exchange import KIND, import_index

WORDS = [f"w{n}" for n in range(60)]
POINT = {"threshold": 0.6, "shingle": "word:2", "bands": 32, "rows": 4}


def texts(count: int, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    found = [" ".join(chance.choices(WORDS, k=20)) for _ in range(count // 2)]
    for text in found[: count - len(found)]:
        words = text.split()
        words[chance.randrange(20)] = "changed"
        found.append(" ".join(words))
    return found


def filled(folder, count=60, **more):
    index = neardup.Index.open(folder, **{**POINT, **more})
    ids = [f"doc/{n} é" for n in range(count)]
    index.add_batch(ids, texts(count), metadata=[{"n": n} if n % 3 else None for n in range(count)])
    for id in (ids[3], ids[count - 1]):
        assert index.remove(id)
    return index, [id for id in ids if id not in (ids[3], ids[count - 1])]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"keep_texts": True},
        {"bits": 8},
        {"sketch": "weighted"},
    ],
)
def test_export_and_import_keep_every_answer(tmp_path, more):
    index, ids = filled(tmp_path / "a", **more)
    with index:
        assert index.export(tmp_path / "file") == len(index) == len(ids)
        assert import_index(tmp_path / "file", tmp_path / "b") == len(ids)
        with neardup.Index.open(tmp_path / "b") as other:
            assert other.settings.stored == index.settings.stored
            assert [other.get(id) for id in ids] == [index.get(id) for id in ids]
            asked = texts(60) + texts(10, seed=1)
            assert other.query_batch(asked) == index.query_batch(asked)
            assert other.verify() == []
            # A number is never given again, not even that of a document that was removed.
            fresh = "one that is like no other in the whole of this index"
            assert other.add("new", fresh).cluster == index.add("new", fresh).cluster


def test_a_reader_exports_beside_a_writer(tmp_path):
    index, ids = filled(tmp_path / "a")
    with index, neardup.Index.open(tmp_path / "a", read_only=True) as reader:
        index.add("later", "words that nobody else has used before in here")
        assert reader.export(tmp_path / "file") == len(ids) + 1


def test_an_empty_index(tmp_path):
    with neardup.Index.open(tmp_path / "a") as index:
        assert index.export(tmp_path / "file") == 0
    assert import_index(tmp_path / "file", tmp_path / "b") == 0
    with neardup.Index.open(tmp_path / "b") as index:
        assert index.add("1", "a first text").status == "new"


def test_api_keys_that_are_there_stay(tmp_path):
    index, _ = filled(tmp_path / "a")
    with index:
        index.export(tmp_path / "file")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "api-keys.json").write_text("keys")
    import_index(tmp_path / "file", tmp_path / "b")
    assert (tmp_path / "b" / "api-keys.json").read_text() == "keys"
    with neardup.Index.open(tmp_path / "b") as again:
        assert again.verify() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "file"]


def test_only_into_an_empty_folder(tmp_path):
    index, _ = filled(tmp_path / "a")
    with index:
        index.export(tmp_path / "file")
    with pytest.raises(UsageError, match="holds an index"):
        import_index(tmp_path / "file", tmp_path / "a")
    (tmp_path / "b").mkdir()
    import_index(tmp_path / "file", tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine").touch()
    with pytest.raises(UsageError, match="not empty"):
        import_index(tmp_path / "file", tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "file"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    index, _ = filled(folder / "a")
    with index:
        index.export(folder / "file")
    return (folder / "file").read_bytes()


@given(st.data())
def test_cut_or_altered(tmp_path_factory, exported, data):
    folder = tmp_path_factory.mktemp("damaged")
    at = data.draw(st.integers(0, len(exported) - 1))
    altered = exported[:at]
    if data.draw(st.booleans()):
        altered += bytes([exported[at] ^ data.draw(st.integers(1, 255))]) + exported[at + 1 :]
    (folder / "file").write_bytes(altered)
    with pytest.raises(FormatError, match="damaged"):
        import_index(folder / "file", folder / "b")
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_foreign_and_later_files(tmp_path):
    (tmp_path / "text").write_text("not an export")
    with pytest.raises(FormatError, match="no export of an index"):
        import_index(tmp_path / "text", tmp_path / "b")
    with pytest.raises(MissingInput, match="no such file"):
        import_index(tmp_path / "nothing", tmp_path / "b")
    with BlockWriter(tmp_path / "later", KIND, version=5) as writer:
        writer.close()
    with pytest.raises(FormatError, match="version 5"):
        import_index(tmp_path / "later", tmp_path / "b")


def test_an_index_with_a_secret_key_is_imported_without_it(tmp_path):
    key, place = b"0123456789abcdef", fresh_address()
    with neardup.Index.open(tmp_path / "ix", hash="siphash", key=key) as index:
        index.add_batch(["1", "2"], ["one two three four five six"] * 2)
        index.export(tmp_path / "export")
    assert import_index(tmp_path / "export", place) == 2
    with neardup.Index.open(place, key=key) as imported:
        assert imported.get("2").duplicate_of == "1" and imported.verify() == []
