"""Decode the body of a web page: transfer encoding, content encoding, charset.

As browsers do, a body that is not encoded as its head states is taken as it is: many archives store
it decoded under the original head. Charsets are those of the web, by the names that pages use for
them; Python's other codecs, some of which take quadratic time, are not used.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

import pyarrow as pa

from neardup.corpus.format_table import BOM

# Spaces are counted, or a head with many of them takes quadratic time.
_CHARSET = re.compile(
    rb"charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([A-Za-z0-9_:.+-]{1,40})", re.IGNORECASE
)
_META = re.compile(
    rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.+-]{1,40})", re.IGNORECASE
)
_DECLARATION = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_.-]{1,40})""")
_META_WITHIN = 1024
"""As in the HTML standard: a page declares its charset in its first 1,024 bytes."""
_CHUNK_SIZE = re.compile(rb"\s*([0-9A-Fa-f]{1,8})[^\r\n]{0,200}\r?\n")
_TEXT_TYPES = {b"application/xhtml+xml", b"application/xml", b"application/json"}
_MARKUP = {b"text/html", b"application/xhtml+xml", b"text/xml", b"application/xml"}
UTF8_CHARSETS: Final = {b"utf-8", b"utf8", b"unicode-1-1-utf-8", b"x-unicode20utf8"}
_STEP = 1 << 20

_WINDOWS = {
    code: character
    for code in range(0x80, 0xA0)
    if (character := bytes([code]).decode("cp1252", "ignore"))
}

CHARSETS: Final = {
    label.encode(): codec
    for codec, labels in {
        "cp1252": "iso-8859-1 iso8859-1 iso_8859-1 latin1 latin-1 l1 ascii us-ascii windows-1252 "
        "cp1252 x-cp1252 ansi",
        "utf-16": "utf-16 utf-16le utf16 unicode ucs-2 iso-10646-ucs-2",
        "utf-16-be": "utf-16be",
        "gb18030": "gb18030 gbk gb2312 gb_2312-80 chinese x-gbk x-gb2312 csgb2312",
        "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5",
        "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji windows-31j ms932",
        "euc_jp": "euc-jp x-euc-jp",
        "iso2022_jp": "iso-2022-jp csiso2022jp",
        "cp949": "euc-kr ks_c_5601-1987 ks_c_5601 korean ksc5601 windows-949",
        "koi8_r": "koi8-r koi8 koi koi8_r",
        "koi8_u": "koi8-u koi8-ru",
        "cp866": "ibm866 cp866 866",
        "cp874": "windows-874 tis-620 iso-8859-11 dos-874",
        "mac_roman": "macintosh mac x-mac-roman",
        "mac_cyrillic": "x-mac-cyrillic x-mac-ukrainian",
        **{f"cp{page}": f"windows-{page} cp{page} x-cp{page}" for page in (1250, 1251, 1253)},
        "cp1254": "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 latin5",
        **{f"cp{page}": f"windows-{page} cp{page} x-cp{page}" for page in range(1255, 1259)},
        **{
            f"iso8859_{part}": f"iso-8859-{part} iso8859-{part} iso_8859-{part}"
            for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)
        },
    }.items()
    for label in labels.split()
}
"""The name of a charset, as pages write it -> Python's codec."""


def split_content_type(value: bytes) -> tuple[bytes, bytes]:
    """Return the type and the charset of a Content-Type, both in lower case; empty if missing.

    >>> split_content_type(b'text/HTML; charset="UTF-8"')
    (b'text/html', b'utf-8')
    """
    kind, _, rest = value.partition(b";")
    charset = _CHARSET.search(rest) if rest else None
    return kind.strip().lower(), charset[1].lower() if charset else b""


def is_text_type(kind: bytes) -> bool:
    """Return whether bodies of this type are texts.

    >>> is_text_type(b"text/html"), is_text_type(b"image/svg+xml"), is_text_type(b"image/png")
    (True, True, False)
    """
    return kind.startswith(b"text/") or kind in _TEXT_TYPES or kind.endswith((b"+xml", b"+json"))


def decode_body(
    body: bytes, content_type: bytes, transfer: bytes, encoding: bytes, longest: int
) -> tuple[bytes | None, str]:
    """Return a body as UTF-8, not validated if it is said to be UTF-8; or None and the reason.

    Args:
        body: The bytes of the body.
        content_type: Its Content-Type.
        transfer: Its Transfer-Encoding.
        encoding: Its Content-Encoding; the last of several was applied last.
        longest: The most bytes that it may have when decoded.
    """
    if b"chunked" in transfer.lower():
        joined = _join_chunks(body)
        if joined is None:
            return None, "a chunk of the transfer encoding is damaged"
        body = joined
    for name in reversed(encoding.lower().split(b",") if encoding else []):
        unpacked, reason = _unpack(body, name.strip(), longest)
        if unpacked is None:
            return None, reason
        body = unpacked
    return _to_utf8(body, content_type)


def _join_chunks(body: bytes) -> bytes | None:
    """Return a chunked body in one; None if a chunk is damaged."""
    parts, at = list[bytes](), 0
    while found := _CHUNK_SIZE.match(body, at):
        size, start = int(found[1], 16), found.end()
        if size == 0:
            return b"".join(parts)
        if start + size > len(body):
            return None
        parts.append(body[start : start + size])
        at = start + size
        if body[at : at + 1] not in (b"\r", b"\n"):
            return None
    return None if parts else body  # the first line is no size: stored without chunks


def _unpack(body: bytes, name: bytes, longest: int) -> tuple[bytes | None, str]:
    """Return a body without one content encoding; or None and the reason."""
    if name in (b"", b"identity", b"utf-8", b"none"):
        return body, ""
    if name in (b"gzip", b"x-gzip"):
        return _inflate(body, 31, longest) if body.startswith(b"\x1f\x8b") else (body, "")
    if name == b"deflate":  # with zlib's head, or without, as some servers send it
        with_head = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2]) % 31 == 0
        return _inflate(body, 15 if with_head else -15, longest)
    if name in (b"br", b"zstd"):
        return _decompress(body, "brotli" if name == b"br" else "zstd", longest)
    return None, "a content encoding that is not known"


def _too_long(longest: int) -> tuple[None, str]:
    return None, f"longer than {longest >> 20} MiB when its content encoding is decoded"


def _inflate(body: bytes, bits: int, longest: int) -> tuple[bytes | None, str]:
    machine = zlib.decompressobj(bits)
    try:
        text = machine.decompress(body, longest + 1)
    except zlib.error:
        return None, "the content encoding is damaged"
    if len(text) > longest:
        return _too_long(longest)
    return (text, "") if machine.eof else (None, "the content encoding is truncated")


def _decompress(body: bytes, codec: str, longest: int) -> tuple[bytes | None, str]:
    parts, length = [], 0
    try:
        stream = pa.CompressedInputStream(pa.BufferReader(body), codec)
        while part := stream.read(_STEP):
            parts.append(part)
            length += len(part)
            if length > longest:
                return _too_long(longest)
    except (OSError, pa.ArrowException):
        return None, "the content encoding is damaged"
    return b"".join(parts), ""


def _to_utf8(body: bytes, content_type: bytes) -> tuple[bytes | None, str]:
    if body.startswith(BOM):
        return body[len(BOM) :], ""
    kind, charset = split_content_type(content_type)
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        charset = b"utf-16"
    elif not charset and kind in _MARKUP:
        charset = find_declared_charset(body)
    if not charset or charset in UTF8_CHARSETS:
        return body, ""
    codec = CHARSETS.get(charset)
    if codec is None:
        return None, "a charset that is not known"
    return decode_charset(body, codec)


def find_declared_charset(body: bytes) -> bytes:
    """Return the charset that a page declares for itself, or nothing."""
    head = body[:_META_WITHIN]
    found = _DECLARATION.search(head) or _META.search(head)
    charset = found[1].lower() if found else b""
    # A page whose declaration can be read as ASCII is not UTF-16.
    return b"" if charset.startswith(b"utf-16") else charset


def decode_charset(body: bytes, codec: str) -> tuple[bytes | None, str]:
    """Return bytes in one of the codecs of `CHARSETS` as UTF-8; or None and the reason."""
    if body.isascii() and codec.startswith(("cp125", "iso8859")):
        return body, ""
    try:
        return body.decode(codec).encode(), ""
    except UnicodeDecodeError:
        if codec == "cp1252":  # five bytes have no character there; browsers take them as controls
            return body.decode("latin-1").translate(_WINDOWS).encode(), ""
        return None, "bytes that its charset does not have"
    except UnicodeEncodeError:
        return None, "bytes that its charset does not have"
