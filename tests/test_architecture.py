"""ARCHITECTURE.md and CONTRIBUTING.md name files that exist; names and error handlers are sound."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "neardup"
NAMED = re.compile(r"`([\w/.-]+(?:\.py|\.md|\.yml|/))`")


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_named_files_exist(page):
    text = (ROOT / page).read_text("utf-8")
    places = [ROOT, SOURCE, *(folder for folder in SOURCE.rglob("*") if folder.is_dir())]
    missing = [
        name
        for name in sorted(set(NAMED.findall(text)))
        if not any((place / name).exists() for place in places)
    ]
    assert not missing


def test_every_room_is_in_the_table():
    table = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rooms = [
        f"{path.name}/" if path.is_dir() else path.name
        for path in SOURCE.iterdir()
        if (path.is_dir() and (path / "__init__.py").exists())
        or (path.suffix == ".py" and not path.name.startswith("_"))
    ]
    assert not [room for room in rooms if f"| `{room}` |" not in table]


def test_module_and_class_names_have_one_meaning():
    classes: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for name in re.findall(r"^class (\w+)", path.read_text("utf-8"), re.MULTILINE):
            classes.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert not {name: files for name, files in classes.items() if len(files) > 1}


def handlers_of_all_errors(source: str) -> Iterator[ast.ExceptHandler]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None
            or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
        ):
            yield node


def test_errors_are_not_hidden():
    """A handler of all errors raises one again, or says in a comment why it must take them all."""
    hidden = []
    for path in SOURCE.rglob("*.py"):
        source = path.read_text("utf-8")
        lines = source.splitlines()
        for handler in handlers_of_all_errors(source):
            raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
            beginning = lines[handler.lineno - 1 : handler.body[0].lineno]
            if not raises and "#" not in "".join(beginning):
                hidden.append(f"{path.relative_to(SOURCE)}:{handler.lineno}")
    assert not hidden
