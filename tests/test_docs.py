"""What the documentation says is true: its code runs, its options exist, its values are right."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from support.command_line import neardup

from neardup import reference
from neardup.reference import hash_ring, vectors
from neardup.reference.hashes import constants_seed, key_id
from neardup.sketch.hyperplane import digest_centre
from neardup.spec import Spec

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "docs/library.md",
    "docs/columns.md",
    "docs/integrations.md",
    "docs/operating-point.md",
    "docs/online-index.md",
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_console(block: str) -> None:
    """Run each `$ command`; the lines after it are its output, `...` stands for anything."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        words = shlex.split(command)
        assert words[0] == "neardup"
        ran = neardup(*words[1:])
        assert ran.code == 0, ran.err
        pattern = re.escape(wanted).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, ran.out, re.DOTALL), ran.out


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = BLOCK.findall((ROOT / page).read_text("utf-8"))
    assert any(language == "python" for language, _ in found)
    for language, block in found:
        if language == "python":
            exec(compile(block, page, "exec"), names)
        elif language == "console":
            run_console(block)


def test_the_two_commands_of_the_readme_are_targets():
    blocks = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    commands = [block.strip() for language, block in blocks if language == "sh"]
    assert commands == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert all(f"\n{command.split()[1]}:" in makefile for command in commands)


@pytest.mark.parametrize(
    "command",
    [
        "dedup",
        "exact",
        "plan",
        "report",
        "merge",
        "spec",
        "demo",
        "hashes",
        "tune",
        "cache list",
        "cache clear",
        "evaluate",
        "serve",
        "keys add",
        "keys list",
        "keys revoke",
        "cache clear",
        "evaluate",
        "query",
        "index build",
        "index add",
        "index query",
        "index get",
        "index remove",
        "index forget",
        "index stats",
        "index retune",
        "index compact",
        "index verify",
        "index export",
        "index import",
        "index reindex",
        "index convert",
        "spec diff",
    ],
)
def test_every_option_is_documented(command):

    from neardup.cli import build_command

    found = build_command()
    for word in command.split():
        found = found.commands[word]
    page = (ROOT / "docs/command-line.md").read_text("utf-8")
    options = [
        name for parameter in found.params for name in parameter.opts if name.startswith("-")
    ]
    assert options
    for name in options:
        assert re.search(rf"`[^`\n]*{name}\b", page), f"{command} {name} is not documented"


def test_every_parameter_of_the_library_is_documented():
    import inspect

    import neardup

    page = (ROOT / "docs/library.md").read_text("utf-8")
    for name in list(inspect.signature(neardup.dedup).parameters)[1:]:
        assert re.search(rf"^\| [^|]*`{name}(: [^`]+)?`", page, re.MULTILINE), name
    for name in neardup.__all__:
        assert name == "__version__" or name in page + "Spec Result", name


def test_values_of_the_format_page():
    page = (ROOT / "docs/format.md").read_text("utf-8")
    spec = Spec()
    hashes = reference.unit_hashes(
        reference.units("The quick brown Fox jumps over the lazy dog.", spec), spec
    )
    slots = reference.signature(reference.shingles(hashes, 5), spec)
    keys = reference.band_keys(slots, 21, 6)
    a, b = reference.permutation(0, 0)
    values = [
        spec.fingerprint,
        *(f"{h:016x}" for h in hashes[:2]),
        f"{reference.shingle_hash(hashes[:5]):016x}",
        *(f"{h:016x}" for h in reference.content_hash(hashes)),
        f"{a:08x}",
        f"{b:08x}",
        *(f"{slot:08x}" for slot in slots[:3]),
        *(f"{key:016x}" for key in keys[:2]),
        f"{reference.shingle_hash(hashes[:1]):016x}",
    ]
    key = bytes(range(16))
    keyed = Spec(hash="siphash", key=key_id(key))
    values += [keyed.key, f"{constants_seed(keyed, key):016x}"]
    for value in values:
        assert f"`{value}`" in page
    for key in spec.canonical.strip("{}").split(","):
        assert f"`{key.split(':')[0].strip(chr(34))}`" in page


def test_values_of_vectors():
    page = (ROOT / "docs/format.md").read_text("utf-8").partition("For the vectors (3, 4, 0)")[2]
    rows = [[3.0, 4.0, 0.0], [1.0, 1.0, 1.0], [-1.0, 2.0, -2.0]]
    centre = vectors.centre(rows)
    signs = vectors.signs(rows[0], centre, 128, 0)
    words = [sum(bit << i for i, bit in enumerate(signs[at : at + 64])) for at in (0, 64)]
    found = [
        [", ".join(map(str, vectors.quantised(row))) for row in rows],
        [", ".join(map(str, centre)), digest_centre(np.array(centre, np.int16))],
        [", ".join(map(str, vectors.direction(plane, 3, 0))) for plane in (0, 1)],
        [f"{word:016x}" for word in words],
        [f"{key:016x}" for key in vectors.plane_keys(signs, 10, 12)[:2]],
        [repr(vectors.cosine(rows[0], rows[1]))],
    ]
    for row in found:
        assert f" | {', '.join(f'`{value}`' for value in row)} |" in page


def test_values_of_the_hash_ring():
    page = (ROOT / "docs/format.md").read_text("utf-8").partition("For a hash ring of")[2]
    first = [position for position, _ in hash_ring.points_of("redis-1", 1280)]
    ring = hash_ring.ring_of({f"redis-{number}": 1 for number in (1, 2, 3)}, 160)
    key = hash_ring.position_of("page 1")
    found = next(point for point in ring if point[0] >= key)
    rows = [
        *(
            [f"{one:016x}", f"{other:016x}"]
            for one, other in [
                (first[0], first[1]),
                (first[8], first[1279]),
                (ring[0][0], ring[-1][0]),
                (key, found[0]),
            ]
        ),
        hash_ring.nodes_of(ring, "page 1", 3),
        hash_ring.nodes_of(ring, "", 3),
        [f"{int(share * hash_ring.WHOLE):016x}" for share in hash_ring.shares(ring).values()],
    ]
    assert (ring[0][1], ring[-1][1]) == (b"redis-2", b"redis-1")
    for row in rows:
        assert f" | {', '.join(f'`{value}`' for value in row)} |" in page


def test_every_guide_is_on_the_first_page_by_what_it_is_for():
    page = (ROOT / "docs" / "index.md").read_text("utf-8").partition("```{toctree}")[0]
    linked = {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", page)}
    guides = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert guides <= linked
    assert all((ROOT / "docs" / target).exists() for target in linked)
