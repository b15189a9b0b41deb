"""Texts that implementations get wrong: each has a name that says why."""

from __future__ import annotations

from typing import Final

from neardup.reference.text import DROPPED

HOSTILE: Final[dict[str, str]] = {
    "nothing": "",
    "spaces alone": " \t\r\n\u00a0\u3000 ",
    "punctuation alone": "... !? --- ;",
    "one letter": "a",
    "fox": "The quick brown Fox jumps over the lazy dog.",
    "punctuation and underscores": "foo_bar, foo-bar; (foo)bar... don't",
    "digits": "v1.05 is not v1.5: 2,864 ١٢٣ १२३ １２３ ²½",
    "NUL": "a\0b \0 c",
    "controls": "a\x01b\x1f\x7f\x85c\x1cd\u2028e\u2029f",
    "line ends": "one\r\ntwo\n\n three \rfour\u2028five\x0bsix\n",
    "runs of white space": "  a \t b\u2003\u2003c\u00a0 d\ufeffe ",
    "composed and decomposed": "caf\u00e9 cafe\u0301 CAFE\u0301 \u212b A\u030a \u00c5",
    "marks out of order": "a\u0323\u0307 a\u0307\u0323 q\u0307\u0323 \u1e0b\u0323 d\u0323\u0307",
    "marks of which only the order is wrong": "a\u0305\u0334b x\u031a\u0316 a\u0334\u0305b",
    "marks out of order at the beginning": "\u0301\u0323a",
    "marks without a letter": "\u0301 \u0301abc \u0301\u0301",
    "many marks": "z" + "\u0301\u0316\u0345\u05b0\u3099" * 8 + " end",
    "blocked composition": "a\u0310\u0301 a\u0310\u0301\u0323 a\u0301\u0310 \u0310a\u0301",
    "stacked composition": "\u01d5 U\u0308\u0304 u\u0308\u0304 \u1ed7 o\u0302\u0303",
    "excluded from composition": "\u0958 \u0915\u093c \u2adc \u2add\u0338 \ufb1d \u05d9\u05b4",
    "singletons": "\u2126 \u212a \u2000 \u0340 \u0374 \u1f71",
    "Hangul": "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab\u1100\u116e\u11a8 \uac00\u11a8 \uac01\u11a8",
    "edges of Hangul": "\uac00\u11a7 \uac00\u11c3 \u1100\u1176 \u1113\u1161 \ud7a3\u11a8 "
    "\u1112\u1175\u11c2 \u1112\u1175 \uac01\u11a8 \u1100\u1160 \u10ff\u1161 \ud7a4",
    "Hangul, compatibility and half-width": "\u314e\u314f\u3134 \uffbe\uffc2\uffa4 \u115f\u1160",
    "final sigma": "ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ οδυσσευς Σ ΑΣ. ΑΣΑ",
    "Turkish i": "İstanbul ISTANBUL ıI i\u0307 I\u0307",
    "sharp s and ligatures": "STRASSE Straße STRAẞE ﬁne ﬀ ŉ ǆ ǅ Ǆ",
    "Cherokee and Georgian": "ᏣᎳᎩ ꭳꮃꭹ ᲡᲐ საქართველო",
    "right to left": "שָׁלוֹם עוֹלָם \u202eabc\u202c مَرْحَبًا بِكَ ـــ ١٠",
    "Koran marks": "بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ ۞ ۖ ࣰ",
    "emoji": "👩\u200d👩\u200d👧\u200d👦 👍🏽 🏳️\u200d🌈 🇩🇪 1️⃣ ☺\ufe0e",
    "joiners and selectors": "a\u200db\u200cc\u00add\ufe0fe\u2060f\U000e0100g \u034f",
    "invisible": "pass\u200bword \u2062x\u2063 \u061ca \U000e0041\U000e0001 \ufff9b\ufffb",
    "no spaces": "我们使用饼干。これはテストです ภาษาไทย ພາສາລາວ ភាសាខ្មែរ မြန်မာ",
    "no spaces beside Latin": "漢abc 東京2024年 ไทยabc 漢é1 中_a a中b漢\u0301字 中\u200d文",
    "kana with marks": "が か\u3099 ガ カ\u3099 ﾊﾟ パ 々〆",
    "Han compatibility": "\uf900 \u8c48 \U0002f800 \u4e3d 丽",
    "Indic": "हिन्दी क्षत्रिय বাংলা தமிழ் తెలుగు ಕನ್ನಡ",
    "Tibetan": "བོད་སྐད་ \u0f73 \u0f71\u0f72 \u0f75",
    "astral letters": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𐐀𐐨 𞤀𞤢 𑄮 𝅘𝅥𝅮",
    "unassigned": "a\u0378b \U000e0fff \U0003fffd c\u0301\u0378\u0301 \u2fe0",
    "assigned after the tables": "a\U0001e030b \U00011f00x \U00010efd \u0cf3 \U0001fae8",
    "private and not characters": "\ue000 \uf8ff \ufffe \uffff \U0010ffff \U000f0000x",
    "replacement": "\ufffd a\ufffdb",
    "look-alikes": "раураl ΑΒC ｈｅｌｌｏ ⅰⅴ ᴀʙᴄ 0O1l",
    "full width": "ＦＵＬＬ　ｗｉｄｔｈ！",
    "superscripts and fractions": "x² ½ ℃ № ㏒ ﷺ",
    "edges of UTF-8": "a\x7fb a\x80b\u07ff \u0800 \uffff \U00010000 a\U00010000b \U0010ffff",
    "edges of what is dropped": " ".join(
        f"a{chr(code)}b"
        for first, last in DROPPED["look-alikes"]
        for code in (first - 1, first, last, last + 1)
    ),
    "lone high surrogate": "a\ud800b",
    "lone high surrogate at the end": "a b c\ud83d",
    "lone low surrogate": "\udc00",
    "surrogates in the wrong order": "\udc00\ud800 x",
}
"""Name -> text. Texts with a lone surrogate are no valid Unicode, and are refused."""


def pseudo_text(words: int, start: int) -> str:
    """Return a text of so many different words, always the same for the same start.

    >>> pseudo_text(3, 0)
    'koze kilo zeke.'
    """
    state, made = start * 2 + 1, []
    for _ in range(words):
        state = state * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
        letters = [
            "bdgklmnprstvz"[(state >> 33) % 13],
            "aeiou"[(state >> 39) % 5],
            "bdgklmnprstvz"[(state >> 45) % 13],
            "aeiou"[(state >> 51) % 5],
        ]
        made.append("".join(letters))
    return " ".join(made) + "."
