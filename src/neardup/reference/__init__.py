"""The whole method in plain, slow Python: the oracle that every kernel is tested against.

    text -> shingles -> sketch -> bands -> candidates -> verified pairs -> keep list

Standard library only. Nothing here is fast, and nothing here is clever. Modules follow the
sentence above; `docs/format.md` states the same rules in words.
"""

from __future__ import annotations

from neardup.reference.answer import cut_repeats as cut_repeats
from neardup.reference.answer import dedup as dedup
from neardup.reference.answer import keep_list as keep_list
from neardup.reference.answer import keep_none as keep_none
from neardup.reference.answer import parts as parts
from neardup.reference.answer import similar_pairs as similar_pairs
from neardup.reference.answer import visible as visible
from neardup.reference.decided import keep_decided as keep_decided
from neardup.reference.hashes import xxh64 as xxh64
from neardup.reference.masks import mask as mask
from neardup.reference.sketches import MEASURES as MEASURES
from neardup.reference.sketches import band_keys as band_keys
from neardup.reference.sketches import containment as containment
from neardup.reference.sketches import content_hash as content_hash
from neardup.reference.sketches import estimate as estimate
from neardup.reference.sketches import jaccard as jaccard
from neardup.reference.sketches import permutation as permutation
from neardup.reference.sketches import shingle_hash as shingle_hash
from neardup.reference.sketches import shingles as shingles
from neardup.reference.sketches import signature as signature
from neardup.reference.sketches import table_keys as table_keys
from neardup.reference.sketches import unit_hashes as unit_hashes
from neardup.reference.sketches import wide_permutation as wide_permutation
from neardup.reference.text import decomposed as decomposed
from neardup.reference.text import frequent_lines as frequent_lines
from neardup.reference.text import ignore_lines as ignore_lines
from neardup.reference.text import kind as kind
from neardup.reference.text import line_hash as line_hash
from neardup.reference.text import normalise as normalise
from neardup.reference.text import numbers as numbers
from neardup.reference.text import token_units as token_units
from neardup.reference.text import unicode_tables as unicode_tables
from neardup.reference.text import units as units
from neardup.reference.text import whole as whole
