"""The script that most letters of a text belong to."""

from __future__ import annotations

import pyarrow as pa
import pytest

from neardup.text.scripts import SCRIPTS, find_scripts


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("hello [world] ~ ÿ", "Latin"),
        ("Привет, мир", "Cyrillic"),
        ("Ελλάδα", "Greek"),
        ("שלום עולם", "Hebrew"),
        ("مرحبا بالعالم", "Arabic"),
        ("नमस्ते दुनिया", "Indic"),
        ("สวัสดีชาวโลก", "Thai, Lao, Burmese, Khmer"),
        ("안녕하세요", "Hangul"),
        ("你好世界 abc", "Han"),
        ("Debian GNU/Linux 安装手册", "Han"),
        ("こんにちは世界", "Kana"),
        ("Հայերեն", "other"),
        ("ｆｕｌｌ ｗｉｄｔｈ", "Latin"),
        ("𠀀𠀁", "Han"),
        ("123 !!! — 🎉", None),
        ("", None),
        (None, None),
    ],
)
def test_script_of_most_letters(text: str | None, script: str | None) -> None:
    (found,) = find_scripts(pa.array([text], pa.large_string())).tolist()
    assert (SCRIPTS[found] if found >= 0 else None) == script


def test_texts_of_a_column_do_not_mix() -> None:
    texts = pa.array(["x", "skipped", "", "мир" * 100, "你", "abc мир мир"], pa.large_string())
    found = find_scripts(texts.slice(2)).tolist()
    assert [SCRIPTS[n] if n >= 0 else "" for n in found] == ["", "Cyrillic", "Han", "Cyrillic"]
    assert find_scripts(texts.slice(0, 0)).tolist() == []
