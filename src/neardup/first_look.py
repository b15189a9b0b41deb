"""A look at the first documents of a run: how long are they, and what can't the options find?

A changed word changes as many `word:5` shingles as it is in, five. A page has hundreds, a post has
fifteen: so options that find edited pages find no edited posts. `FirstDocuments` counts the words
of documents that are read anyway; `FirstLook.advice` states what is not found, and which options
would find it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.formats.tables import to_arrow
from neardup.lsh.buckets import find_shared_keys
from neardup.lsh.curve import Curve
from neardup.measure_table import CHOICES
from neardup.options import Options
from neardup.spec import VECTOR, Spec
from neardup.text.arrays import view_strings
from neardup.text.masks import prepare_texts
from neardup.text.shingle import hash_units, shingle_documents

MOST: Final = 4_000
"""Documents that are looked at."""
LEAST: Final = 10
"""Of fewer documents nothing is said."""
SHORT: Final = 40
"""A document of fewer words is short: a changed word matters."""
SHARE: Final = 0.25
"""Short documents matter if they are at least this share."""
COUNTED_BYTES: Final = 2_000
"""Words of a longer text are not counted, but estimated: it is not short."""
BYTES_OF_WORD: Final = 6
LETTERS: Final = 5
"""The letters of a changed word, where shingles are of characters; a space follows each word."""
PRESET: Final = "short"
HALF: Final = 0.5
"""A contained document that is found with a smaller probability is worth advice."""
FOUND: Final = 0.95
"""The probability with which the advised bands find it."""
COMPARED: Final = 480
"""Documents that are compared with one another, for an estimate of all comparisons."""
OF_A_DOCUMENT: Final = 64
"""About the fewest shingles of a long document that are compared for it."""
OF_A_SAMPLE: Final = 40
"""Of them, those that are taken from texts that are looked at together."""
MANY: Final = 100
"""Comparisons of a document with others that are not similar: more are worth a warning."""
MANY_DOCUMENTS: Final = 100_000
"""Of fewer documents, even many comparisons take little time."""
BINS: Final = 1_000
MORE_SLOTS: Final = (256, 512, 1024)
MOST_ROWS: Final = 8


def changed_word_similarity(words: int, options: Options) -> float | None:
    """Return how similar a text is to itself with one word in the middle changed.

    Args:
        words: The number of words, all different.
        options: The shingles and the measure; None is returned where there are no words.

    >>> round(changed_word_similarity(17, Options()), 2)
    0.44
    """
    unit, size = options.spec.unit, options.spec.size
    if unit == "word":
        units, first, changed = words, words // 2, 1
    elif unit == "char":
        units, first, changed = words * (LETTERS + 1) - 1, words // 2 * (LETTERS + 1), LETTERS
    elif unit == "line":
        units, first, changed = 1, 0, 1
    else:
        return None
    shingles = max(units - size + 1, 1)
    touched = min(first + changed, shingles) - max(first - size + 1, 0)
    touched = min(max(touched, 1), shingles)
    return options.exact_measure.of_equals(shingles - touched, shingles)


def finds_changed_word(words: int, options: Options) -> bool:
    """Return whether a text of so many words is found if one of them is changed."""
    similarity = changed_word_similarity(words, options)
    return similarity is None or similarity >= options.threshold


def fewest_words(options: Options, most: int = 10_000) -> int | None:
    """Return from how many words on a text with one changed word is found; None beyond `most`.

    >>> fewest_words(Options()), fewest_words(Options.of(preset="short"))
    (49, 6)
    """
    low, high = 1, most
    if not finds_changed_word(high, options):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if finds_changed_word(middle, options) else (middle + 1, high)
    return low


def describe_limit(options: Options) -> str | None:
    """Return in which texts a changed word is found, in a sentence.

    None if documents are not judged by shingles of words.

    >>> print(describe_limit(Options()))
    one changed word is found in texts of 49 words or more; a new index with --preset short finds \
it in texts of 6 or more
    """
    if not _judges_shingles(options):
        return None
    least, short = fewest_words(options), fewest_words(Options.of(preset=PRESET))
    where = "only copies with the same words are found"
    if least is not None:
        where = f"one changed word is found in texts of {least:,} words or more"
        if least <= SHORT // 2:
            return where
    return f"{where}; a new index with --preset {PRESET} finds it in texts of {short} or more"


def _judges_shingles(options: Options) -> bool:
    """Return whether documents are judged by the similarity of shingles that are made of words."""
    if options.spec.unit in ("token", VECTOR) or options.verify == "none":
        return False
    return options.verify == "exact" or not options.by_bits


@dataclass(frozen=True)
class FirstLook:
    """What the first documents are like.

    documents      how many were looked at, those without a text left out
    median_words   half of them have at most so many words
    short          how many have fewer than SHORT words
    short_words    half of the short ones have at most so many words
    parts          the words of documents that may be in others: of the shortest tenth, of all
    wholes         the words of those they may be in: of all, of the longest tenth; of the earlier
                   corpus, if there is one
    """

    documents: int
    median_words: int
    short: int
    short_words: int
    parts: tuple[int, int] = (0, 0)
    wholes: tuple[int, int] = (0, 0)

    @property
    def stated(self) -> dict[str, Any]:
        """The values for run.json."""
        return {
            "documents": self.documents,
            "median_words": self.median_words,
            "under_40_words": self.short,
        }

    def advice(self, options: Options, *, in_python: bool = False) -> list[str]:
        """Return what these options can't find in such documents, and what would; often nothing.

        Args:
            options: The options of the run.
            in_python: Name options as keyword arguments, not as on a command line.
        """
        return [
            *self.short_advice(options, in_python=in_python),
            *self._contained_advice(options, in_python),
        ]

    def _contained_advice(self, options: Options, in_python: bool) -> Iterator[str]:
        """Yield with which probability a document is found that is a small part of another one."""
        if options.measure == CHOICES[0] or options.by_bits or options.spec.unit == "token":
            return
        (short, middle), (usual, long) = self.parts, self.wholes
        for part, whole in ((middle, long), (short, usual)):
            if not part or whole <= part:
                continue
            similarity = part_similarity(part, whole, options)
            chance = options.curve.probability(similarity)
            if chance < HALF:
                yield (
                    f"a document of {part:,} words that is wholly in one of {whole:,} is found "
                    f"with a probability of {chance:.2f}: these bands are for documents of about "
                    f"equal size; {_cure_contained(similarity, options, in_python)}"
                )
                return

    def short_advice(self, options: Options, *, in_python: bool = False) -> list[str]:
        """Return what these options can't find in short documents, and what would.

        Args:
            options: The options of the run.
            in_python: Name options as keyword arguments, not as on a command line.
        """
        words, share = self.short_words, self.short / max(self.documents, 1)
        if self.documents < LEAST or share < SHARE or not _judges_shingles(options):
            return []
        similarity = changed_word_similarity(words, options)
        if similarity is None or similarity >= options.threshold:
            return []
        least = fewest_words(options)
        beyond = "" if least is None else f" (in texts of {least:,} words or more it is)"
        short = Options.of(preset=PRESET)
        found = changed_word_similarity(words, short) or 0.0
        cure = "only copies with the same words are found"
        if found >= short.threshold and options.measure == CHOICES[0]:
            name = f'preset="{PRESET}"' if in_python else f"--preset {PRESET}"
            cure = (
                f"{name} finds it: {found:.2f} by {short.spec.shingle}, with a threshold of "
                f"{short.threshold:g}"
            )
        plural = "" if words == 1 else "s"
        return [
            f"{share:.0%} of the first {self.documents:,} documents have fewer than {SHORT} words. "
            f"One of {words} word{plural} with one word changed is {similarity:.2f} similar by "
            f"{options.spec.shingle}, below {options.threshold:g}: not found{beyond}; {cure}"
        ]


def part_similarity(part: int, whole: int, options: Options) -> float:
    """Return the Jaccard similarity of a document and of one that it is wholly in.

    Args:
        part: The number of words of the document.
        whole: The number of words of the one that contains it.
        options: The shingles.

    >>> round(part_similarity(60, 504, Options()), 3)
    0.112
    """
    fewer = options.spec.size - 1 if options.spec.unit == "word" else 0
    return max(part - fewer, 1) / max(whole - fewer, 1)


def _cure_contained(similarity: float, options: Options, in_python: bool) -> str:
    """Return the options that find documents of a small similarity, or what else helps."""
    cut = "cut the longer documents into passages of about that length"
    for slots in (options.spec.slots, *MORE_SLOTS):
        if slots < options.spec.slots:
            continue
        for rows in range(MOST_ROWS, 0, -1):
            curve = Curve(slots // rows, rows)
            if curve.probability(similarity) >= FOUND:
                given = {"bands": curve.bands, "rows": rows}
                if slots != options.spec.slots:
                    given["slots"] = slots
                names = (f"{k}={v}" if in_python else f"--{k} {v}" for k, v in given.items())
                joined = (", " if in_python else " ").join(names)
                return (
                    f"{joined} finds it with a probability of "
                    f"{curve.probability(similarity):.2f}, and compares more pairs; or {cut}"
                )
    return cut


class FirstDocuments:
    """Counts the words of the first documents.

    Args:
        spec: The specification of the run, which says what a word is.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = Spec(**spec.reading)
        self._compared: list[pa.Array] = []
        self._tokens = spec.unit in ("token", VECTOR)
        self._words: list[NDArray[np.int64]] = []
        self._earlier: list[NDArray[np.int64]] = []
        self.count = 0

    @property
    def complete(self) -> bool:
        """Whether no more documents are needed."""
        return self._tokens or self.count >= MOST

    def add(self, texts: pa.Array, most: int = MOST) -> None:
        """Look at the first of these texts, at most so many."""
        if self.complete:
            return
        texts = texts.slice(0, min(most, MOST - self.count))
        self.count += len(texts)
        self._words.append(self._count_words(texts))
        if len(self._compared) < COMPARED // OF_A_SAMPLE:
            self._compared.append(texts.slice(0, OF_A_SAMPLE))

    def add_earlier(self, texts: pa.Array, most: int) -> None:
        """Look at the first of these texts of an earlier corpus, at most so many."""
        if not self._tokens:
            self._earlier.append(self._count_words(texts.slice(0, most)))

    def _count_words(self, texts: pa.Array) -> NDArray[np.int64]:
        sizes = view_strings(texts).sizes
        words = np.maximum(sizes // BYTES_OF_WORD, SHORT)
        near = np.flatnonzero(sizes <= COUNTED_BYTES)
        counted = prepare_texts(texts.take(to_arrow(near)), self._spec)
        words[near] = hash_units(counted, self._spec).sizes
        return words

    def describe(self, options: Options) -> dict[str, Any]:
        """Return what the documents are like, and the advice, for run.json."""
        look = self.look()
        if look is None:
            return {"advice": []}
        return {"first_documents": look.stated, "advice": look.advice(options)}

    def warn_of_comparisons(self, options: Options, documents: int) -> str | None:
        """Return a warning if documents that are not similar will be compared too often.

        Args:
            options: The options of the run.
            documents: The number of all documents.
        """
        spec = options.spec
        if not _judges_shingles(options) or spec.ignored or spec.key or not self._compared:
            return None
        if documents < MANY_DOCUMENTS or options.by_bits or options.exact_measure.to_jaccard:
            return None
        each = documents / 2 * _chance_of_meeting(pa.concat_arrays(self._compared), options)
        return warn_of_comparisons(
            options, documents, min(each, options.hash_tables.count * options.limit)
        )

    def look(self) -> FirstLook | None:
        """Return what was found; None if there was no text."""
        if not self._words:
            return None
        words = _sorted_words(self._words)
        if not len(words):
            return None
        wholes = _sorted_words(self._earlier) if self._earlier else words
        short = words[: np.searchsorted(words, SHORT)]
        return FirstLook(
            len(words),
            _lower_median(words),
            len(short),
            _lower_median(short) if len(short) else 0,
            (_lower_median(words[: _tenth(words)]), _lower_median(words)),
            (_lower_median(wholes), _lower_median(wholes[-_tenth(wholes) :]))
            if len(wholes) >= LEAST
            else (0, 0),
        )


def warn_of_comparisons(options: Options, documents: int, each: float) -> str | None:
    """Return a warning if documents that are not similar will be compared too often.

    Args:
        options: The options of the run.
        documents: The number of all documents.
        each: The comparisons of a document with others that are not similar, on average.
    """
    if documents < MANY_DOCUMENTS or each < MANY:
        return None
    return (
        f"about {round(each):,} comparisons a document are expected: at --threshold "
        f"{options.threshold:g} ({options.curve}), documents that are not similar by "
        f"{options.spec.shingle} often share a bucket; a higher --threshold, longer shingles or a "
        "lower --limit need fewer"
    )


def _chance_of_meeting(texts: pa.Array, options: Options) -> float:
    """Return the chance that two documents share a bucket and are not similar, by their pairs."""
    rows = shingle_documents(prepare_texts(texts, options.spec), options.spec).shingles
    cuts = zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True)
    # Of long documents, the shingles whose hash ends with some zeros: an estimate does.
    zeros = max((len(rows.data) // (OF_A_DOCUMENT * max(len(rows), 1))).bit_length() - 1, 0)
    sampled = (rows.data & np.uint64((1 << zeros) - 1)) == 0
    sets = [np.unique(rows.data[begin:end][sampled[begin:end]]) for begin, end in cuts]
    if len(sets) < 2:
        return 0.0
    similarity = _similarities(sets)
    unlike = similarity[similarity < options.threshold]
    counts, edges = np.histogram(unlike, BINS, (0.0, 1.0))
    chances = [options.curve.probability(edge) for edge in edges[:-1].tolist()]
    return float(counts @ np.array(chances)) / (len(sets) * (len(sets) - 1) // 2)


def _similarities(sets: list[NDArray[np.uint64]]) -> NDArray[np.float64]:
    """Return the similarities of all pairs of sets that have something in common."""
    sizes = np.array([len(one) for one in sets])
    places, shared_by = find_shared_keys(np.concatenate(sets))
    owners = np.repeat(np.arange(len(sets)), sizes)[places]
    ends = np.repeat(np.cumsum(shared_by), shared_by)
    common = np.zeros((len(sets), len(sets)), np.int64)
    first, step = np.arange(len(owners)), 1
    while len(first := first[first + step < ends[first]]):
        np.add.at(common, (owners[first], owners[first + step]), 1)
        step += 1
    left, right = np.nonzero(common)
    both = common[left, right]
    similarities: NDArray[np.float64] = both / (sizes[left] + sizes[right] - both)
    return similarities


def _sorted_words(counts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the words of documents that have any, ascending."""
    words = np.sort(np.concatenate(counts))
    return words[np.searchsorted(words, 1) :]


def _tenth(ascending: NDArray[np.int64]) -> int:
    return max(len(ascending) // 10, 1)


def _lower_median(ascending: NDArray[np.int64]) -> int:
    return int(ascending[(len(ascending) - 1) // 2])
