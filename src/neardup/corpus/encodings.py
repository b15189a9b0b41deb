"""Text encodings other than UTF-8: their names, how a file declares one, decoding and encoding.

Everything behind this module reads UTF-8. Bytes that an encoding does not have become lone
surrogates, one of U+DC00 to U+DCFF for each byte, and these become invalid UTF-8: so the row that
contains them is rejected as any other one with invalid bytes, and they are written again as they
were. Imports no PyArrow.
"""

from __future__ import annotations

import codecs
import difflib
import re
from collections.abc import Iterable, Iterator
from encodings.aliases import aliases
from typing import Final

from neardup.corpus.format_table import BOM
from neardup.errors import InputError, ParameterError

UTF8: Final = "utf-8"
AUTO: Final = "auto"
INVALID: Final = "invalid UTF-8"
"""The reason for which a row is rejected; of another encoding, its name instead of UTF-8."""

_MARKS: Final = (
    (b"\xff\xfe\0\0", "utf-32-le"),
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_KEEP_BYTES = "neardup.keep-bytes"
_ESCAPE = "neardup.escape"
_FIRST_BYTE, _LAST_BYTE = 0xDC00, 0xDCFF
_UNDECODABLE = re.compile("\xed[\xb0-\xb3]")
# Codecs of Python that convert text to other text, or know no line ends.
_REFUSED: Final = {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"}


def check_encoding(name: str) -> str:
    """Return Python's name of an encoding, or `auto`; raise `ParameterError` if it is none.

    >>> check_encoding("Shift-JIS"), check_encoding("UTF8"), check_encoding("latin1")
    ('shift_jis', 'utf-8', 'iso8859-1')
    """
    if name == AUTO:
        return AUTO
    codec = _find_codec(name)
    if codec is None:
        known = {*aliases, *aliases.values()}
        wanted = name.lower().replace("-", "_").replace(" ", "_")[:40]
        near = difflib.get_close_matches(wanted, known - _REFUSED, 3)
        near = [other for other in near if _find_codec(other)]
        cure = f"did you mean {' or '.join(near)}?" if near else "such as utf-16, cp1252, gb18030"
        raise ParameterError(f"unknown text encoding {name[:40]!r}: {cure}")
    return codec


def _find_codec(name: str) -> str | None:
    """Return the name of a codec between text and bytes, None if there is no such codec."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):  # ValueError: a name with a null character
        return None
    is_text = getattr(found, "_is_text_encoding", True)
    if not is_text or found.name.replace("-", "_") in _REFUSED:
        return None
    return UTF8 if found.name == "utf-8-sig" else found.name


def find_encoding(encoding: str, head: bytes, is_document: bool = False) -> str:
    """Return the encoding of a file that begins with these bytes.

    Args:
        encoding: As `check_encoding` returned it. `auto` goes by a byte order mark, then by what
            HTML or XML declares, else it is UTF-8. utf-16 and utf-32 go by a byte order mark, else
            they are little-endian.
        head: The first bytes.
        is_document: Whether the file is one document: only such a file declares its own encoding,
            in a file of records a declaration belongs to a text.
    """
    marked = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if encoding in ("utf-16", "utf-32"):
        return marked if marked and marked.startswith(encoding) else f"{encoding}-le"
    if encoding != AUTO:
        return encoding
    if marked or head.startswith(BOM):
        return marked or UTF8
    return _find_declared(head) if is_document else UTF8


def _find_declared(head: bytes) -> str:
    """Return the encoding that HTML or XML declares, UTF-8 if none; an error if it is unknown."""
    if not head.lstrip().startswith(b"<"):
        return UTF8
    from neardup.corpus.web_text import CHARSETS, UTF8_CHARSETS, find_declared_charset

    charset = find_declared_charset(head)
    if not charset or charset in UTF8_CHARSETS:
        return UTF8
    if charset not in CHARSETS:
        raise InputError("declares a charset that is not known: name it with --encoding")
    return CHARSETS[charset]


def explain_wide(head: bytes) -> str | None:
    """Return why these bytes can't be UTF-8, if they begin with a mark of UTF-16 or UTF-32.

    >>> explain_wide("text".encode("utf-16"))
    'UTF-16, not UTF-8: read it with --encoding utf-16'
    """
    for mark, name in _MARKS:
        if head.startswith(mark):
            plain = name[:6]
            return f"{plain.upper()}, not UTF-8: read it with --encoding {plain}"
    return None


def decode_document(data: bytes, encoding: str) -> tuple[str | None, str | None]:
    """Return the text of a document without its byte order mark, or why there is none.

    Args:
        data: The document.
        encoding: As `check_encoding` returned it.
    """
    try:
        codec = find_encoding(encoding, data, is_document=True)
    except InputError as error:
        return None, str(error)
    if codec == UTF8 and (reason := explain_wide(data)):
        return None, reason
    try:
        return data.decode(codec).removeprefix("\ufeff"), None
    except UnicodeDecodeError:
        pass
    if encoding == AUTO and codec == "cp1252":
        from neardup.corpus.web_text import decode_charset

        text, _ = decode_charset(data, codec)
        return (text or b"").decode(), None
    return None, describe_invalid(codec)


def encode_document(text: str, like: bytes, encoding: str) -> bytes:
    """Return a new text of a document in its encoding, with a byte order mark if it had one.

    Args:
        text: The text.
        like: The document as it is stored.
        encoding: As `check_encoding` returned it.
    """
    codec = find_encoding(encoding, like, is_document=True)
    mark = "\ufeff".encode(codec) if codec.startswith("utf-") else b""
    kept = mark if like.startswith(mark) else b""
    return kept + from_utf8(text.encode(), codec, is_json=False)


def describe_invalid(encoding: str) -> str:
    """Return the reason for a row with bytes that the encoding does not have."""
    return INVALID if encoding == UTF8 else f"invalid {encoding}"


def to_utf8(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the pieces of a stream in UTF-8; its byte order mark becomes that of UTF-8.

    Args:
        pieces: The stored bytes.
        encoding: As `find_encoding` returned it; not UTF-8.
    """
    decoder = codecs.getincrementaldecoder(encoding)(_KEEP_BYTES)
    for piece in pieces:
        if text := decoder.decode(piece):
            yield text.encode(UTF8, "surrogatepass")
    if text := decoder.decode(b"", final=True):
        yield text.encode(UTF8, "surrogatepass")


def has_undecodable(cell: str) -> bool:
    """Return whether a cell has bytes that the encoding of its file does not have.

    The cell is from `to_utf8`, with one character a byte.
    """
    return "\xed" in cell and _UNDECODABLE.search(cell) is not None


def from_utf8(data: bytes, encoding: str, is_json: bool) -> bytes:
    """Return whole characters of `to_utf8` in their encoding again.

    Raises `UnicodeEncodeError` if a codec decodes what it can't encode.

    Args:
        data: UTF-8.
        encoding: The encoding of the file.
        is_json: Whether a character that the encoding does not have may become an escape of JSON.
    """
    text = data.decode(UTF8, "surrogatepass")
    return text.encode(encoding, _ESCAPE if is_json else _KEEP_BYTES)


def _keep_bytes(error: UnicodeError) -> tuple[str | bytes, int]:
    """Decode bytes that an encoding does not have to lone surrogates, and encode these again."""
    if isinstance(error, UnicodeDecodeError):
        wrong = error.object[error.start : error.end]
        return "".join(chr(_FIRST_BYTE + byte) for byte in wrong), error.end
    if isinstance(error, UnicodeEncodeError):
        # A whole run at once: UTF-16 takes two bytes or more from here, not one.
        end = error.start
        while end < len(error.object) and _FIRST_BYTE <= ord(error.object[end]) <= _LAST_BYTE:
            end += 1
        if end > error.start:
            kept = error.object[error.start : end]
            return bytes(ord(character) - _FIRST_BYTE for character in kept), end
    raise error


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    r"""Encode as `_keep_bytes`, and other characters to escapes of JSON such as \u4e2d."""
    if isinstance(error, UnicodeEncodeError):
        character = error.object[error.start]
        if not _FIRST_BYTE <= ord(character) <= _LAST_BYTE:
            units = character.encode("utf-16-be")
            pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
            return "".join(f"\\u{pair}" for pair in pairs), error.start + 1
    return _keep_bytes(error)


codecs.register_error(_KEEP_BYTES, _keep_bytes)
codecs.register_error(_ESCAPE, _escape)
