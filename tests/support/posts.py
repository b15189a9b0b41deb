"""Short posts: ordinary ones, and spam of three templates with other names, words and links."""

from __future__ import annotations

import random

TEMPLATES = (
    "hey {name} I made five hundred dollars this week working from home with this simple trick and "
    "you can do it too, {word} look at {link}",
    "LAST CHANCE {name}! All designer watches at half the price until midnight with free shipping "
    "to every country, {word} order yours at {link}",
    "{name} is giving away free coins to the first five hundred followers who send their address, "
    "so {word} claim your share at {link}",
)
NAMES = ("anna", "ben", "carla", "david", "elena", "felix", "gina", "hugo", "irene", "jack", "nina")
WORDS = ("really", "simply", "quickly", "now", "just", "surely", "today", "friends", "please")
SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ha", "ke", "li", "mo", "nu", "pra", "ste", "tri", "vo")


def ordinary_posts(count: int, seed: int = 0) -> list[str]:
    """Return posts of 12 to 25 random words; no two are similar."""
    draw = random.Random(seed)
    names = [f"{a}{b}{c}" for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES]
    return [" ".join(draw.choices(names, k=draw.randint(12, 25))) for _ in range(count)]


def spam_posts(count: int, seed: int = 0) -> list[str]:
    """Return posts of the three templates in turn; each has its own name, word and link."""
    draw = random.Random(seed)
    return [
        TEMPLATES[n % 3].format(
            name=draw.choice(NAMES),
            word=draw.choice(WORDS),
            link=f"t.co/{draw.getrandbits(24):06x}",
        )
        for n in range(count)
    ]
