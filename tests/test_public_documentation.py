"""Public functions, classes and methods explain each parameter and show an example that runs."""

from __future__ import annotations

import inspect
import re

import pytest

import neardup


def public_classes_and_functions() -> dict[str, object]:
    names = (name for name in neardup.__all__ if name != "__version__")
    targets = {name: getattr(neardup, name) for name in names}
    return {
        name: target
        for name, target in targets.items()
        if not (inspect.isclass(target) and issubclass(target, Exception))
    }


def public_methods(cls: type) -> dict[str, object]:
    found = {}
    for name, member in inspect.getmembers(cls):
        if not (inspect.isfunction(member) or inspect.ismethod(member)):
            continue
        home = next(base for base in cls.__mro__ if name in vars(base))
        if not name.startswith("_") and home.__module__.startswith("neardup"):
            found[f"{cls.__name__}.{name}"] = member
    return found


def documented_targets() -> dict[str, object]:
    targets = public_classes_and_functions()
    for target in list(targets.values()):
        if inspect.isclass(target):
            targets |= public_methods(target)
    return targets


def parameters_of(target: object) -> set[str]:
    names = inspect.signature(target).parameters  # type: ignore[arg-type]
    return {name for name in names if name != "self" and not name.startswith("_")}


def explained_parameters(docstring: str) -> set[str]:
    """The names that the section "Args:", or "Attributes:" of a dataclass, begins a line with."""
    section = re.search(r"^(?:Args|Attributes):\n((?:(?: +.*)?\n)*)", docstring + "\n", re.M)
    if section is None:
        return set()
    entries = re.findall(r"^ {4}(\*{0,2}\w+(?:, \w+)*)(?: \([^)]*\))?:\s", section[1], re.M)
    return {name.strip("* ") for entry in entries for name in entry.split(",")}


@pytest.mark.parametrize("name", sorted(documented_targets()))
def test_each_parameter_is_explained(name):
    target = documented_targets()[name]
    docstring = inspect.getdoc(target) or ""
    if inspect.isclass(target) and target.__init__.__doc__ and "Args:" not in docstring:
        docstring = inspect.cleandoc(target.__init__.__doc__)
    missing = parameters_of(target) - explained_parameters(docstring)
    assert docstring, f"{name} has no docstring"
    assert not missing, f"the docstring of {name} does not explain {sorted(missing)} under Args:"


@pytest.mark.parametrize("name", sorted(public_classes_and_functions()))
def test_each_class_and_function_has_an_example(name):
    docstring = inspect.getdoc(public_classes_and_functions()[name]) or ""
    assert ">>> " in docstring, f"the docstring of {name} has no example"


def test_an_args_section_is_read_entry_by_entry():
    arguments = (
        "Args:\n    a, b: Two\n        lines: of text.\n    c (int): One.\n    **rest: All.\n"
    )
    docstring = f"Do it.\n\n{arguments}\nReturns:\n    x: Not a parameter."
    assert explained_parameters(docstring) == {"a", "b", "c", "rest"}
