"""The committed files are what the reference makes, and the kernels pass all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from neardup.protocol import by_kernels, by_reference
from neardup.protocol.cases import FILES
from neardup.protocol.checking import check_examples
from neardup.protocol.files import lines_of, unicode_files, write_examples
from neardup.reference.serialised import xxh3_64
from neardup.spec import FAMILIES, HASHES, PROFILES, UNITS

SPEC = Path(__file__).parents[2] / "spec"
VECTORS = SPEC / "vectors" / "1"
LARGEST = 4_000_000


@pytest.mark.parametrize("file", FILES)
def test_committed_files_are_those_of_the_reference(file):
    committed = (VECTORS / f"{file}.jsonl").read_text("ascii").splitlines()
    for number, (mine, line) in enumerate(zip(lines_of(file), committed, strict=True), 1):
        assert mine == line, number


def test_committed_tables_are_those_of_the_package():
    made = dict(unicode_files())
    committed = {path.name: path.read_text("ascii") for path in (SPEC / "unicode").iterdir()}
    assert committed == made


@pytest.mark.parametrize("file", FILES)
def test_the_kernels_agree_with_all_lines(file):
    committed = VECTORS / f"{file}.jsonl"
    assert check_examples(committed) == len(committed.read_text("ascii").splitlines())


def test_no_file_is_missing_or_too_many(tmp_path):
    write_examples(tmp_path)
    written, committed = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.json*")}
        for folder in (tmp_path, SPEC)
    )
    assert written == committed
    assert sum(map(len, committed.values())) < LARGEST


def test_everything_that_a_specification_may_say_is_there():
    specs, kinds = [], set()
    for path in VECTORS.iterdir():
        for line in path.read_text("ascii").splitlines():
            example = json.loads(line)
            kinds.add(example["kind"])
            if "spec" in example["given"]:
                specs.append(json.loads(example["given"]["spec"]))
    assert kinds == set(by_reference.COMPUTE) == set(by_kernels.COMPUTE)
    families = {(spec["sketch"], spec["family"]) for spec in specs}
    assert families == {(sketch, family) for sketch, found in FAMILIES.items() for family in found}
    assert {spec["profile"] for spec in specs} == set(PROFILES)
    assert {spec["hash"] for spec in specs} == set(HASHES)
    assert {spec["unit"] for spec in specs} == set(UNITS)
    assert {spec["bits"] for spec in specs} >= {1, 2, 4, 8, 16, 32, 64}


@given(st.binary(max_size=1500))
def test_the_checksum_equals_that_of_the_library(data):
    assert xxh3_64(data) == xxhash.xxh3_64_intdigest(data)
