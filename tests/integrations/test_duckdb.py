"""The SQL functions in DuckDB."""

from __future__ import annotations

import duckdb
import pytest

import neardup
from neardup.errors import ParameterError
from neardup.integrations.duckdb import register

PAGE = " ".join(f"word{i}" for i in range(60))
TEXTS = [PAGE, PAGE + " again", None, "something else entirely", PAGE.upper(), ""]


@pytest.fixture
def docs() -> duckdb.DuckDBPyConnection:
    connection = register(duckdb.connect())
    connection.execute("create table docs (id integer, text varchar)")
    connection.executemany("insert into docs values (?, ?)", list(enumerate(TEXTS)))
    return connection


def test_similarity_is_that_of_the_library(docs):
    query = "select a.text, b.text, neardup_similarity(a.text, b.text) from docs a, docs b"
    rows = docs.execute(query).fetchall()
    assert len(rows) == len(TEXTS) ** 2
    for a, b, similarity in rows:
        assert similarity == (None if None in (a, b) else neardup.similarity(a, b))


def test_candidates_are_joined_by_keys_and_verified(docs):
    found = docs.execute(
        """
        with keys as (select id, unnest(neardup_keys(text)) as key from docs),
        candidates as (
            select distinct x.id as a, y.id as b
            from keys x join keys y using (key) where x.id < y.id
        )
        select a, b from candidates
        join docs x on x.id = a join docs y on y.id = b
        where neardup_similarity(x.text, y.text) >= 0.8 order by a, b
        """
    ).fetchall()
    assert found == [(0, 1), (0, 4), (1, 4)]


def test_keys_have_one_value_for_each_table_and_none_without_a_text(docs):
    lengths = docs.execute("select len(neardup_keys(text)) from docs order by id").fetchall()
    assert lengths == [(21,), (21,), (None,), (21,), (21,), (None,)]


def test_many_rows_and_no_rows(docs):
    count = "select count(*), avg(neardup_similarity('a text', 'a text ' || n // 3000)) from "
    assert docs.execute(count + "range(5000) r(n)").fetchall()[0][0] == 5000
    assert docs.execute(count + "range(0) r(n)").fetchall() == [(0, None)]
    assert docs.execute("select neardup_keys(text) from docs limit 0").fetchall() == []


def test_options_are_checked_when_functions_are_registered():
    connection = register(duckdb.connect(), shingle="char:3", measure="containment")
    asked = "select neardup_similarity('abcd', 'xabcdx')"
    assert connection.execute(asked).fetchall() == [(1.0,)]
    with pytest.raises(ParameterError, match="threshold"):
        register(duckdb.connect(), threshold=2.0)
    with pytest.raises(ParameterError, match="one text at a time"):
        register(duckdb.connect(), strip="lines:1%")
    with pytest.raises(ParameterError, match="one text at a time"):
        register(duckdb.connect(), shingle="token:5")
    with pytest.raises(ParameterError, match="sets of shingles"):
        register(duckdb.connect(), sketch="weighted")
    with pytest.raises(TypeError, match="did you mean 'shingle'"):
        register(duckdb.connect(), shingles="word:5")


def test_functions_with_a_secret_key_have_other_keys():
    asked = "select neardup_keys('one two three four five six'), neardup_similarity('a b', 'a b')"
    plain = register(duckdb.connect(), hash="xxh64").execute(asked).fetchall()
    keyed = register(duckdb.connect(), hash="siphash", key=bytes(16)).execute(asked).fetchall()
    assert plain[0][0] != keyed[0][0] and plain[0][1] == keyed[0][1] == 1.0
