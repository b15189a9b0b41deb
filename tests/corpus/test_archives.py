"""tar and zip files of texts: members are documents, as files of a folder would be."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neardup.corpus.archives import UNPACK
from neardup.corpus.documents import TOO_LONG, Columns, make_strings
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import count_unread
from neardup.corpus.rows import Edit
from neardup.corpus.write import write_kept
from neardup.errors import InputError, UsageError

Read = Callable[..., Any]
Rewrite = Callable[..., Path]
Members = dict[str, bytes]
TEXTS = {"a.txt": b"first", "sub/b.md": "größer".encode(), "c": b"third\n" * 300}


def write_tar(path: Path, members: Members, format: int = tarfile.PAX_FORMAT) -> Path:
    mode = {".gz": "w:gz", ".tgz": "w:gz"}.get(path.suffix, "w")
    with tarfile.open(path, mode, format=format) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(data), 1_700_000_000, 0o640
            archive.addfile(info, io.BytesIO(data))
    return path


def write_zip(path: Path, members: Members, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def tar_contents(path: Path) -> Members:
    with tarfile.open(path) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]


def zip_contents(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def unread(path: Path) -> dict[str, int]:
    (file,) = find_inputs([path])
    return dict(count_unread(file, Columns()))


def kept_by(members: Members, keep: list[bool]) -> Members:
    return {name: data for (name, data), yes in zip(members.items(), keep, strict=True) if yes}


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.zip"])
def test_members_are_documents_and_the_kept_file_is_an_archive(
    tmp_path: Path, read: Read, rewrite: Rewrite, name: str
) -> None:
    is_zip = name.endswith(".zip")
    path = (write_zip if is_zip else write_tar)(tmp_path / name, TEXTS)
    for size in (1, 1 << 20):
        found = read(path, size=size)
        assert found.ids == list(TEXTS)
        assert found.texts == [data.decode() for data in TEXTS.values()]
    kept = rewrite(path, [True, False, True], tmp_path / "out" / name)
    contents = zip_contents if is_zip else tar_contents
    assert contents(kept) == kept_by(TEXTS, [True, False, True])
    assert kept.read_bytes()[:2] == path.read_bytes()[:2]
    assert not contents(rewrite(path, [False] * 3, tmp_path / "none" / name))


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_members_are_copied_byte_for_byte(
    tmp_path: Path, read: Read, rewrite: Rewrite, format: int
) -> None:
    names = ["plain.txt", "deep/" * 30 + "x.txt", "größe.txt"]
    if format != tarfile.USTAR_FORMAT:
        names.append("n" * 300 + ".txt")
    members = {name: f"text {number}".encode() for number, name in enumerate(names)}
    path = write_tar(tmp_path / "a.tar", members, format)
    assert read(path).ids == names
    everything = rewrite(path, [True] * len(names), tmp_path / "all.tar")
    assert everything.read_bytes() == path.read_bytes()
    for row, name in enumerate(names):
        keep = [place == row for place in range(len(names))]
        kept = rewrite(path, keep, tmp_path / "one.tar")
        assert tar_contents(kept) == {name: members[name]}
        with tarfile.open(kept) as archive:
            (info,) = archive.getmembers()
            assert (info.mtime, info.mode) == (1_700_000_000, 0o640)


def test_headers_for_all_members_are_kept(tmp_path: Path, read: Read, rewrite: Rewrite) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", pax_headers={"comment": "a commit"}) as archive:
        for name in ("a", "b"):
            archive.addfile(tarfile.TarInfo(name))
    assert read(path).ids == ["a", "b"]
    with tarfile.open(rewrite(path, [False, True], tmp_path / "out.tar")) as kept:
        assert kept.getnames() == ["b"]
        assert kept.pax_headers == {"comment": "a commit"}


def test_members_that_are_no_texts_are_counted_by_reason(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.tar"
    left_out = {
        "folder": tarfile.DIRTYPE,
        "link": tarfile.SYMTYPE,
        "hard": tarfile.LNKTYPE,
        "pipe": tarfile.FIFOTYPE,
        "sparse": tarfile.GNUTYPE_SPARSE,
    }
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind in left_out.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            archive.addfile(info)
        for name in (".hidden", "a/.git/config", "x.jsonl.gz", "y.parquet", "z.tar", "b.txt"):
            info = tarfile.TarInfo(name)
            info.size = 4
            archive.addfile(info, io.BytesIO(b"text"))
    assert read(path).ids == ["b.txt"]
    assert unread(path) == {
        "folder": 1,
        "link": 2,
        "device or pipe": 1,
        "sparse file": 1,
        "hidden file": 1,
        "hidden folder": 1,
        UNPACK: 3,
    }
    archive_path = tmp_path / "a.zip"
    with zipfile.ZipFile(archive_path, "w") as other:
        other.mkdir("folder") if hasattr(other, "mkdir") else other.writestr("folder/", "")
        other.writestr("__MACOSX/._a.txt", "resource fork")
        other.writestr("b.txt", "text")
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        other.writestr(link, "/etc/passwd")
    assert read(archive_path).ids == ["b.txt"]
    assert unread(archive_path) == {"folder": 1, "hidden file": 1, "link": 1}


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_archive_of_data_files_is_refused_with_the_cure(
    tmp_path: Path, read: Read, write: Callable[[Path, Members], Path]
) -> None:
    path = write(tmp_path / f"a.{write.__name__[-3:]}", {"x.jsonl": b'{"text": "a"}\n'})
    with pytest.raises(InputError, match=r"has no texts, only data files or .*\(1\): unpack it"):
        read(path)


def test_names_that_lead_elsewhere_are_only_ids(
    tmp_path: Path, read: Read, rewrite: Rewrite
) -> None:
    members = {"../../evil.txt": b"a", "/etc/evil.txt": b"b", "./c.txt": b"c", "b\udcff": b"d"}
    path = write_tar(tmp_path / "a.tar", members, tarfile.GNU_FORMAT)
    assert read(path).ids == ["../../evil.txt", "/etc/evil.txt", "c.txt", "b\\xff"]
    before = set(tmp_path.rglob("*"))
    rewrite(path, [True] * 4, tmp_path / "out.tar")
    assert set(tmp_path.rglob("*")) == before | {tmp_path / "out.tar"}


def test_two_members_of_one_name_are_two_documents(
    tmp_path: Path, read: Read, rewrite: Rewrite
) -> None:
    path = tmp_path / "a.zip"
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "old")
        archive.writestr("a.txt", "new")
    assert read(path).texts == ["old", "new"]
    for keep, text in (([True, False], b"old"), ([False, True], b"new")):
        assert zip_contents(rewrite(path, keep, tmp_path / "out.zip")) == {"a.txt": text}


def test_texts_that_are_not_utf8_or_too_long_are_rejected(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tar_members", "zip_members"):
        monkeypatch.setattr(f"neardup.corpus.{module}.LONGEST", 1000)
    members = {"bad": b"\xff", "mark": b"\xef\xbb\xbftext", "long": b"x" * 1001, "last": b"z"}
    for path in (write_tar(tmp_path / "a.tar", members), write_zip(tmp_path / "a.zip", members)):
        found = read(path)
        assert found.texts == [None, "text", None, "z"]
        assert found.rejected == {0: "invalid UTF-8", 2: TOO_LONG}


def test_columns_of_members_are_refused(tmp_path: Path, read: Read) -> None:
    with pytest.raises(UsageError, match=r"a\.tar is a tar file and has no columns.*--within"):
        read(write_tar(tmp_path / "a.tar", TEXTS), Columns(within="lang"))


def test_truncated_tar_is_an_error_wherever_it_ends(tmp_path: Path, read: Read) -> None:
    whole = write_tar(tmp_path / "a.tar", {"a": b"x" * 600, "n" * 200: b"y"}).read_bytes()
    end = len(whole.rstrip(b"\0"))
    end += -end % 512
    for cut in [*range(0, end, 100), end]:
        (tmp_path / "a.tar").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"a\.tar: truncated or corrupt tar data"):
            read(tmp_path / "a.tar")
    (tmp_path / "a.tar").write_bytes(whole[: end + 512])
    assert len(read(tmp_path / "a.tar").texts) == 2


def test_damaged_and_joined_tar_files_are_errors(tmp_path: Path, read: Read) -> None:
    one = write_tar(tmp_path / "a.tar", TEXTS).read_bytes()
    (tmp_path / "a.tar").write_bytes(one + one)
    with pytest.raises(InputError, match=r"data after the end of the archive.*unpack it first"):
        read(tmp_path / "a.tar")
    damaged = bytearray(one)
    damaged[1024 + 20] ^= 1
    (tmp_path / "a.tar").write_bytes(damaged)
    with pytest.raises(InputError, match="a damaged header at byte 1,024"):
        read(tmp_path / "a.tar")
    huge = tarfile.TarInfo("x")
    huge.type, huge.size = tarfile.XHDTYPE, 1 << 40
    (tmp_path / "a.tar").write_bytes(huge.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(InputError, match="a header of 1,099,511,627,776 bytes"):
        read(tmp_path / "a.tar")


def test_hostile_headers_of_tar_take_linear_time(tmp_path: Path, read: Read) -> None:
    def extension(data: bytes) -> bytes:
        info = tarfile.TarInfo("x")
        info.type, info.size = tarfile.XHDTYPE, len(data)
        return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)

    member = tarfile.TarInfo("a.txt").tobuf(tarfile.USTAR_FORMAT)
    many = extension(b"6 a=b\n" * 170_000) + extension(b"9999 size=" + b"9" * 9988 + b"\n")
    path = tmp_path / "a.tar"
    path.write_bytes(many + member + bytes(1024))
    begun = time.process_time()
    assert read(path).ids == ["a.txt"]
    assert time.process_time() - begun < 2


def test_truncated_zip_is_an_error(tmp_path: Path, read: Read) -> None:
    whole = write_zip(tmp_path / "a.zip", TEXTS).read_bytes()
    for cut in range(0, len(whole), 7):
        (tmp_path / "a.zip").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"a\.zip: truncated or corrupt zip data"):
            read(tmp_path / "a.zip")


def flag_encrypted(data: bytes) -> bytes:
    """Set the bit of encryption of the first member."""
    local, central = data.index(b"PK\3\4"), data.index(b"PK\1\2")
    changed = bytearray(data)
    changed[local + 6] |= 1
    changed[central + 8] |= 1
    return bytes(changed)


def lie_about_size(data: bytes) -> bytes:
    """State that the first member has 3 bytes, in both headers."""
    changed = bytearray(data)
    struct.pack_into("<L", changed, data.index(b"PK\3\4") + 22, 3)
    struct.pack_into("<L", changed, data.index(b"PK\1\2") + 24, 3)
    return bytes(changed)


def damage_data(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[30 + len("a.txt") + 2] ^= 0xFF
    return bytes(changed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (flag_encrypted, "encrypted"),
        (lie_about_size, "damaged zip member"),
        (damage_data, "damaged zip member"),
    ],
)
@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_bad_zip_member_is_rejected_and_the_others_are_read(
    tmp_path: Path,
    read: Read,
    rewrite: Rewrite,
    change: Callable[[bytes], bytes],
    reason: str,
    method: int,
) -> None:
    path = write_zip(tmp_path / "a.zip", {"a.txt": b"some text " * 20, "b.txt": b"other"}, method)
    path.write_bytes(change(path.read_bytes()))
    found = read(path)
    assert found.texts == [None, "other"]
    assert found.rejected == {0: reason}
    kept = rewrite(path, [False, True], tmp_path / "out.zip")
    assert zip_contents(kept) == {"b.txt": b"other"}


def test_zip_members_are_copied_without_compressing_them_again(
    tmp_path: Path, rewrite: Rewrite
) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"a comment"
        with archive.open(zipfile.ZipInfo("stream.txt"), "w", force_zip64=True) as stream:
            stream.write(b"sizes of 64 bits")
        packed = zipfile.ZipInfo("best.txt", (2020, 1, 2, 3, 4, 6))
        packed.external_attr = 0o600 << 16
        archive.writestr(packed, b"text " * 1000, zipfile.ZIP_DEFLATED, 9)
    with zipfile.ZipFile(rewrite(path, [True, True], tmp_path / "out.zip")) as kept:
        assert kept.comment == b"a comment"
        first, second = kept.infolist()
        assert kept.read(first) == b"sizes of 64 bits"
        assert (second.date_time, second.external_attr) == ((2020, 1, 2, 3, 4, 6), 0o600 << 16)
        assert second.compress_size == zipfile.ZipFile(path).getinfo("best.txt").compress_size
        assert kept.testzip() is None


@pytest.mark.parametrize("replaced", [False, True])
def test_names_of_zip_members_are_copied_as_they_are_stored(tmp_path: Path, replaced: bool) -> None:
    members = {"gr__e.txt": b"first", "\u4e2d.txt": b"second", "plain.txt": b"third"}
    path = write_zip(tmp_path / "a.zip", members)
    # Programs on Windows write names in a code page of their own, without saying so.
    stored = "gr\u00f6\u00dfe.txt".encode("cp1252")
    path.write_bytes(path.read_bytes().replace(b"gr__e.txt", stored))
    (file,) = find_inputs([path])
    edit = Edit(np.full(3, replaced), Columns(), lambda _, texts: texts)
    write_kept(file, np.ones(3, bool), tmp_path / "out.zip", edit=edit)
    written = (tmp_path / "out.zip").read_bytes()
    for name in (stored, "\u4e2d.txt".encode(), b"plain.txt"):
        assert written.count(name) == 2, "in front of the member, and in the directory"
    flags = [
        [info.flag_bits & 0x800 for info in zipfile.ZipFile(one).infolist()]
        for one in (path, tmp_path / "out.zip")
    ]
    assert flags == [[0, 0x800, 0]] * 2
    assert list(zip_contents(tmp_path / "out.zip")) == list(zip_contents(path))


class Forward(io.RawIOBase):
    """A file that can't go back, so that zipfile writes sizes behind the data."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


def test_zip_that_was_written_as_a_stream(tmp_path: Path, read: Read, rewrite: Rewrite) -> None:
    sink = Forward()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        for name, data in TEXTS.items():
            archive.writestr(name, data)
    path = tmp_path / "a.zip"
    path.write_bytes(sink.data)
    assert len(read(path).texts) == 3
    kept = rewrite(path, [False, True, True], tmp_path / "out.zip")
    assert zip_contents(kept) == kept_by(TEXTS, [False, True, True])


def test_bomb_is_bounded_by_the_sizes_that_it_states(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neardup.corpus.zip_members.LONGEST", 1 << 20)
    monkeypatch.setattr("neardup.corpus.zip_members._LARGEST_DIRECTORY", 1000)
    path = write_zip(tmp_path / "a.zip", {"bomb": bytes(1 << 22), "b": b"text"})
    assert read(path).rejected == {0: TOO_LONG}
    many = write_zip(tmp_path / "b.zip", {f"file {n}": b"" for n in range(100)})
    with pytest.raises(InputError, match=r"b\.zip: too many members for a zip file: use tar"):
        read(many)


@pytest.mark.parametrize("write", [write_tar, write_zip])
def test_texts_of_members_are_replaced(
    tmp_path: Path, write: Callable[[Path, Members], Path]
) -> None:
    (file,) = find_inputs([write(tmp_path / f"a.{write.__name__[-3:]}", TEXTS)])
    edit = Edit(
        np.array([False, True, True]),
        Columns(),
        lambda rows, texts: make_strings(
            [f"{row}: {text}" for row, text in zip(rows, texts.to_pylist(), strict=True)]
        ),
    )
    write_kept(file, np.ones(3, bool), tmp_path / "out", edit=edit)
    contents = tar_contents if file.format == "tar" else zip_contents
    assert contents(tmp_path / "out") == {
        "a.txt": b"first",
        "sub/b.md": "1: größer".encode(),
        "c": b"2: " + TEXTS["c"],
    }


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=120).map(
    lambda name: "n" + name.replace(".", "-").rstrip("/")
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(members=st.dictionaries(NAMES, st.binary(max_size=1500), min_size=1, max_size=6))
def test_any_tar_of_the_standard_library(
    tmp_path: Path, read: Read, rewrite: Rewrite, members: Members
) -> None:
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = write_tar(tmp_path / "a.tar", members, format)
        assert read(path, size=1000).ids == list(members)
        kept = rewrite(path, [n % 2 == 0 for n in range(len(members))], tmp_path / "out.tar")
        assert list(tar_contents(kept).items()) == list(members.items())[::2]


def test_text_inside_a_compressed_tar_may_be_compressed_by_others(
    tmp_path: Path, read: Read
) -> None:
    plain = write_tar(tmp_path / "a.tar", TEXTS)
    data = plain.read_bytes()
    other = tmp_path / "b.tar.gz"
    other.write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]))
    assert read(other).ids == list(TEXTS)
    other.write_bytes(other.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"b\.tar\.gz: truncated or corrupt"):
        read(other)


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_patterns_for_members_are_answered_with_unpacking(tmp_path: Path, option: str) -> None:
    archive = write_tar(tmp_path / "texts.tar", TEXTS)
    with pytest.raises(
        UsageError, match=rf"--{option} '\*\.md' matches no file, and all members.*"
    ):
        find_inputs([archive], **{option: "*.md"})  # type: ignore[arg-type]
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "texts", filter="data")
    assert find_inputs([tmp_path / "texts"], **{option: "*.md"})  # type: ignore[arg-type]
