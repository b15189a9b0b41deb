"""A file with something wrong is refused, and the message names the line and the field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import neardup, refused

from neardup import MinHash
from neardup.errors import FormatError
from neardup.protocol.checking import check_examples

VECTORS = Path(__file__).parents[2] / "spec" / "vectors" / "1"


def examples_of(file: str) -> list[dict]:
    lines = (VECTORS / f"{file}.jsonl").read_text("ascii").splitlines()
    return [json.loads(line) for line in lines]


def find(file: str, name: str) -> dict:
    return next(example for example in examples_of(file) if example["name"] == name)


def write(folder: Path, *examples: dict) -> Path:
    path = folder / "theirs.jsonl"
    path.write_text("".join(json.dumps(example) + "\n" for example in examples), "utf-8")
    return path


def error_of(folder: Path, *examples: dict) -> str:
    with pytest.raises(FormatError) as error:
        check_examples(write(folder, *examples))
    return str(error.value)


def test_a_changed_digit_is_named_wherever_it_is(tmp_path):
    good = find("documents", "fox, default")
    for field, change in (
        ("expected.fingerprint", {"fingerprint": "f" * 32}),
        ("expected.content[1]", {"content": [good["expected"]["content"][0], "0" * 16]}),
        ("expected.slots[127]", {"slots": [*good["expected"]["slots"][:-1], "00000000"]}),
        ("expected.keys[0]", {"keys": ["0" * 16, *good["expected"]["keys"][1:]]}),
        ("expected.bytes, byte 0", {"bytes": "00" + good["expected"]["bytes"][2:]}),
    ):
        bad = good | {"expected": good["expected"] | change}
        message = error_of(tmp_path, good, bad)
        assert f"theirs.jsonl:2: document 'fox, default': {field} is " in message


def test_every_digit_of_a_line_counts(tmp_path):
    good = find("sketches", "slots 8 sketch bottomk seed 9, 3 elements")
    for field, value in good["expected"].items():
        digits = value if isinstance(value, str) else value[0]
        for place in range(0, len(digits), 7):
            other = "0" if digits[place] != "0" else "1"
            wrong = digits[:place] + other + digits[place + 1 :]
            changed = wrong if isinstance(value, str) else [wrong, *value[1:]]
            bad = good | {"expected": good["expected"] | {field: changed}}
            assert f"expected.{field}" in error_of(tmp_path, bad)


def test_the_wrong_byte_order_is_recognised(tmp_path):
    good = find("documents", "fox, default")
    expected = good["expected"]
    slots = [bytes.fromhex(slot)[::-1].hex() for slot in expected["slots"]]
    message = error_of(tmp_path, good | {"expected": expected | {"slots": slots}})
    assert "expected.slots[0]" in message and "its bytes are in the other order" in message
    data = bytes.fromhex(expected["bytes"])
    text = 8 + int.from_bytes(data[4:8], "little")
    turned = b"".join(data[at : at + 4][::-1] for at in range(text, text + 512, 4))
    wrong = (data[:text] + turned + data[-8:]).hex()
    message = error_of(tmp_path, good | {"expected": expected | {"bytes": wrong}})
    assert f"expected.bytes, byte {text}" in message
    assert "its bytes are in the other order" in message


def test_missing_and_unknown_fields_are_named(tmp_path):
    good = find("shingles", "one token")
    less = {name: value for name, value in good["expected"].items() if name != "content"}
    message = error_of(tmp_path, good | {"expected": less})
    assert "expected.content is missing" in message
    more = good["expected"] | {"slots": []}
    assert "expected.slots is [], there must be none" in error_of(
        tmp_path, good | {"expected": more}
    )
    none = good["expected"] | {"shingles": []}
    message = error_of(tmp_path, good | {"expected": none})
    assert "expected.shingles[0] is missing, it must be " in message


def test_upper_case_digits_and_whole_similarities(tmp_path):
    good = find("shingles", "one token")
    upper = good["expected"] | {"shingles": [good["expected"]["shingles"][0].upper()]}
    assert "digits are in lower case" in error_of(tmp_path, good | {"expected": upper})
    same = find("documents", "0 of 60 words changed, word:5")
    whole = same | {"expected": {"estimate": 1, "jaccard": 1}}
    assert check_examples(write(tmp_path, whole)) == 1
    truth = same | {"expected": {"estimate": True, "jaccard": 1}}
    assert "expected.estimate is true, it must be 1.0" in error_of(tmp_path, truth)


def test_another_version_is_refused(tmp_path):
    first = examples_of("documents")[0]
    other = first | {"expected": first["expected"] | {"version": 2}}
    assert "expected.version is 2, it must be 1" in error_of(tmp_path, other)
    good = find("documents", "fox, default")
    later = good["given"]["spec"].replace('"version":1', '"version":2')
    message = error_of(tmp_path, good | {"given": good["given"] | {"spec": later}})
    assert "format version 2 is not known" in message and "check what is given" in message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "theirs.jsonl:1 is not JSON"),
        ("[" * 100_000, "theirs.jsonl:1 is not JSON"),
        ("[]", "theirs.jsonl:1 is no example: it needs kind, given and expected"),
        ('{"kind":"mix","given":[],"expected":{}}', "given must be an object"),
        ('{"kind":"mixed","given":{},"expected":{}}', "kind 'mixed' is not known"),
        ('{"kind":"mix","given":{},"expected":{}}', "can't be computed (KeyError: 'value')"),
        ('{"kind":"mix","given":{"value":"xyz"},"expected":{}}', "can't be computed (ValueError"),
        ('{"kind":"mix","given":{"value":"1"},"expected":[]}', "expected is [], it must be"),
        ("\n\n", "has no examples"),
    ],
)
def test_what_is_no_example_is_refused(tmp_path, line, message):
    path = tmp_path / "theirs.jsonl"
    path.write_text(line, "utf-8")
    with pytest.raises(FormatError) as error:
        check_examples(path)
    assert message in str(error.value)


def test_commands(tmp_path):
    ran = neardup("spec", "--check", VECTORS / "bands.jsonl")
    assert ran.code == 0 and ran.out.endswith("bands.jsonl: 21 examples agree\n")
    good = find("documents", "fox, default")
    good["expected"]["keys"][3] = "0" * 16
    refused(neardup("spec", "--check", write(tmp_path, good)), 1, "theirs.jsonl:1", "keys[3]")
    refused(neardup("spec", "--check", tmp_path), 1, "can't be read")
    refused(neardup("spec", "--check", tmp_path / "no"), 1, "can't be read")
    refused(neardup("spec", "--vectors", tmp_path, "--check", tmp_path), 2, "give one of them")
    (tmp_path / "file").write_bytes(b"")
    refused(neardup("spec", "--vectors", tmp_path / "file"), 1, "can't be written")
    ran = neardup("spec", "--vectors", tmp_path / "spec")
    assert ran.code == 0 and (tmp_path / "spec/vectors/1/documents.jsonl").exists()


def test_a_sketch_with_its_checksum_in_the_other_byte_order_is_told_apart():
    data = bytes.fromhex(find("documents", "fox, default")["expected"]["bytes"])
    assert MinHash.from_bytes(data).to_bytes() == data
    with pytest.raises(FormatError, match="other order: write numbers little-endian"):
        MinHash.from_bytes(data[:-8] + data[:-9:-1])
    with pytest.raises(FormatError, match="truncated or altered"):
        MinHash.from_bytes(data[:-8] + bytes(8))
