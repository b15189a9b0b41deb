"""The options that say what counts as similar, in the words of every command that has them."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from neardup.cli.shared import MATCH

HELP: Final = {
    "threshold": "Documents at least this similar are duplicates: above 0, at most 1.",
    "recall": "The share of pairs exactly at the threshold to find at least; bands and rows are "
    "chosen for it.",
    "bands": "Use this many bands...",
    "rows": "...of this many rows, instead of choosing.",
    "tables": "More recall: the bands so many times (2), or bands of several sizes (20x5,10x8), "
    "each over slots of its own.",
    "limit": "Kept documents that are compared with in a bucket.",
    "slots": "Slots of a signature; of a simhash its bits, 64 or 128.",
    "sketch": "What is made of a document: minhash; oneperm, for many slots; weighted, where "
    "repeats and weights count; or simhash, whose bits are compared.",
    "family": "How slots are made: affine32, affine-m61, rounds, darts.",
    "bits": "Store this many bits of a slot: 1, 2, 4, 8 or 16; bands are made before.",
    "shingle": "What is compared: word:5, char:24, line:1, or token:5 for a column of token ids.",
    "text_profile": "conservative (case counts), standard, or aggressive (accents, digits and "
    "compatibility forms folded).",
    "preset": "A published operating point: fineweb (word:5, 14 x 8) or nemo (char:24, 20 x 13).",
    "seed": "Seed of all hashes.",
    "hash": "What words are hashed with: xxh64, murmur3, fnv1a; or siphash, with --key-file.",
    "hamming": "With --sketch simhash: fingerprints that differ in at most so many bits are "
    "similar.",
    "blocks": "With --sketch simhash: cut fingerprints into so many blocks, more than --hamming; "
    "more of them make rarer keys and more tables.",
    "verify": "exact similarity of the shingles, estimate from the signatures, or none.",
    "measure": "jaccard; or containment: how much of a document is inside a kept one.",
    "html": "Ignore markup: html.",
}
METAVAR: Final = {"tables": "WHAT", "shingle": "UNIT:SIZE", "html": "html"}


def match(name: str, default: str = "") -> Any:
    """The option of this name; what happens without it is told if the command chooses that."""
    told = f"{HELP[name]}  [default: {default}]" if default else HELP[name]
    return typer.Option(
        metavar=METAVAR.get(name), help=told, show_default=False, rich_help_panel=MATCH
    )


TextProfile = Annotated[str, match("text_profile", "standard")]
