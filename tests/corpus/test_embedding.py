"""--embed MODULE:FUNCTION: the function is found, checked, and asked once for each text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neardup.corpus.documents import Documents, make_strings
from neardup.corpus.embedding import Embedding, import_function, name_maker
from neardup.corpus.vectors import ALL_ZEROS, NOT_FINITE
from neardup.errors import UsageError
from neardup.formats.vector_cache import VectorCache


class Model:
    """Embeds a text as its length and its first character, and counts what it is asked."""

    def __init__(self, kind: Any = np.array) -> None:
        self.asked: list[list[str]] = []
        self._kind = kind

    def __call__(self, texts: list[str]) -> Any:
        assert type(texts) is list
        self.asked.append(texts)
        return self._kind([[len(text), ord(text[:1] or "\0")] for text in texts])


def batch(*texts: str | None) -> Documents:
    rejected = {row: "text is null" for row, text in enumerate(texts) if text is None}
    return Documents(make_strings(texts), make_strings([None] * len(texts)), None, None, rejected)


def vectors_of(documents: Documents) -> Any:
    assert documents.vectors is not None
    return documents.vectors.tolist()


@pytest.mark.parametrize("kind", [list, np.array, np.float16, np.float64, np.int64])
def test_each_text_is_embedded_once(tmp_path: Path, kind: Any) -> None:
    model = Model(kind)
    with VectorCache(tmp_path / "v", "a:f") as cache:
        embed = Embedding("a:f", model, cache, batch=2)
        found = embed(batch("abc", None, "d", "abc", "", "ef"))
        assert vectors_of(found) == [[3, 97], [0, 0], [1, 100], [3, 97], [0, 0], [2, 101]]
        assert found.rejected == {1: "text is null", 4: ALL_ZEROS}
        assert found.texts.to_pylist() == ["abc", None, "d", "abc", None, "ef"]
        assert model.asked == [["abc", "d"], ["", "ef"]]
        assert vectors_of(embed(batch("ef", "new"))) == [[2, 101], [3, 110]]
        assert model.asked[2:] == [["new"]]
    again = Model(kind)
    with VectorCache(tmp_path / "v", "a:f") as cache:
        found = Embedding("a:f", again, cache)(batch("abc", None, "d", "abc", "", "ef"))
        assert found.rejected == {1: "text is null", 4: ALL_ZEROS}
        assert vectors_of(found)[5] == [2, 101]
    assert again.asked == []


def test_batches_without_texts(tmp_path: Path) -> None:
    model = Model()
    with VectorCache(tmp_path / "v", "a:f") as cache:
        embed = Embedding("a:f", model, cache)
        assert vectors_of(embed(batch())) == []
        assert embed(batch(None)).rejected == {0: "text is null"}
        embed(batch("a"))
        assert vectors_of(embed(batch(None))) == [[0, 0]]
    assert model.asked == [["a"]]


def test_reasons_are_the_same_in_a_run_that_goes_on(tmp_path: Path) -> None:
    values = {"a": [np.nan, 1], "b": [1e300, 1], "c": [0, 0], "d": [1, 2]}
    for _ in range(2):
        with VectorCache(tmp_path / "v", "a:f") as cache:
            embed = Embedding("a:f", lambda texts: [values[text] for text in texts], cache)
            found = embed(batch(*values))
        assert found.rejected == {0: NOT_FINITE, 1: NOT_FINITE, 2: ALL_ZEROS}
        assert vectors_of(found)[3] == [1, 2]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (None, r"object of shape \(\)"),
        ([[1.0, 2.0]], "1 vectors for 2 texts"),
        ([1.0, 2.0], r"float64 of shape \(2,\)"),
        ([[1.0], [1.0, 2.0]], "ValueError"),
        ([["a"], ["b"]], "<U1 of shape"),
        ([[True], [False]], "bool of shape"),
        ([[], []], "vectors of 0 numbers"),
        (np.ones((2, 65_537), np.int8), "vectors of 65537 numbers, not of 1 to 65,536"),
        (np.ones((2, 1, 1)), r"shape \(2, 1, 1\)"),
    ],
)
def test_what_is_no_matrix_is_refused(tmp_path: Path, made: Any, why: str) -> None:
    with VectorCache(tmp_path / "v", "a:f") as cache:
        embed = Embedding("a:f", lambda _: made, cache)
        with pytest.raises(UsageError, match=f"a:f returned .*{why}.*a row for each text"):
            embed(batch("a", "b"))
        assert len(cache) == 0


def test_a_function_that_fails_or_changes_its_mind(tmp_path: Path) -> None:
    def fail(texts: list[str]) -> Any:
        raise KeyError("no\nmodel")

    with VectorCache(tmp_path / "v", "a:f") as cache:
        with pytest.raises(UsageError, match=r"a:f failed for 1 texts: KeyError: 'no\\nmodel'"):
            Embedding("a:f", fail, cache)(batch("a"))
        embed = Embedding("a:f", lambda texts: np.ones((len(texts), len(texts))), cache)
        embed(batch("a"))
        with pytest.raises(UsageError, match=r"vectors of 2 numbers, and before.* of 1"):
            embed(batch("b", "c"))


SOURCE = """
import os, signal
def embed(texts):
    with open("asked", "a") as file:
        file.write("".join(text + "\\n" for text in texts))
    if "k" in texts and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return [[ord(text), 1] for text in texts]
class Inner:
    size = 3
"""
RUN = """
import sys
from pathlib import Path
from neardup.corpus.documents import Documents, make_strings
from neardup.corpus.embedding import Embedding, import_function, name_maker
from neardup.formats.vector_cache import VectorCache
function = import_function("own_model:embed")
with VectorCache(Path("vectors"), name_maker("own_model:embed", function)) as cache:
    embed = Embedding("own_model:embed", function, cache, batch=4)
    texts = make_strings([chr(97 + n) for n in range(20)])
    found = embed(Documents(texts, texts, None, None, {}))
    print(int(found.vectors.sum()), found.vectors.shape)
"""


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "own_model.py").write_text(SOURCE)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", RUN],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run().returncode == -signal.SIGKILL
    assert (tmp_path / "asked").read_text().split() == list("abcdefghijkl")
    (tmp_path / "asked").unlink()
    ended = run()
    assert ended.stdout.split("\n")[0] == f"{sum(range(97, 117)) + 20} (20, 2)", ended.stderr
    assert (tmp_path / "asked").read_text().split() == list("ijklmnopqrst")
    (tmp_path / "asked").unlink()
    run()
    assert not (tmp_path / "asked").exists()
    (tmp_path / "own_model.py").write_text(SOURCE + "# another model\n")
    run()
    assert len((tmp_path / "asked").read_text().split()) == 20


def test_names_of_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_names.py").write_text(SOURCE)
    (tmp_path / "broken_names.py").write_text("raise ValueError('no licence')")
    (tmp_path / "ending_names.py").write_text("raise SystemExit(3)")
    (tmp_path / "needy_names.py").write_text("import no_such_library_at_all")
    function = import_function("own_names:embed")
    assert function(["a"]) == [[97, 1]]
    assert name_maker("own_names:embed", function).startswith("own_names:embed ")
    assert import_function("own_names:Inner.__call__") is not None
    for name, why in (
        ("own_names", "write MODULE:FUNCTION"),
        (":embed", "write MODULE:FUNCTION"),
        ("own_names:", "write MODULE:FUNCTION"),
        ("own_names:other", "own_names has no 'other'"),
        ("own_names:Inner.size", "is no function but of type int"),
        ("no_such_names:embed", r"no module 'no_such_names'.*no_such_names\.py.*PYTHONPATH"),
        ("own_names.inner:embed", "no module .own_names.inner."),
        ("needy_names:embed", "needs the module 'no_such_library_at_all': install it"),
        ("broken_names:embed", "can't be imported: ValueError: no licence"),
        ("ending_names:embed", "can't be imported: SystemExit: 3"),
    ):
        with pytest.raises(UsageError, match=why):
            import_function(name)


def test_a_method_of_a_changed_object_is_another_maker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_library.py").write_text("class Model:\n    def encode(self, texts): ...\n")
    own = tmp_path / "own_object.py"
    made = "from own_library import Model\nembed = Model().encode\n"
    own.write_text(made)
    function = import_function("own_object:embed")
    before = name_maker("own_object:embed", function)
    own.write_text(made + "# of another model\n")
    changed = name_maker("own_object:embed", function)
    (tmp_path / "own_library.py").write_text("# another version\n")
    assert len({before, changed, name_maker("own_object:embed", function)}) == 3
