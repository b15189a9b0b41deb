"""Options as people write them: parsed, checked alone and together."""

from __future__ import annotations

from fractions import Fraction

import pytest
from support.posts import ordinary_posts, spam_posts

import neardup
from neardup.errors import NeardupError, ParameterError, SpecMismatch
from neardup.options import Options, Strip, parse_strip
from neardup.sketcher import Sketcher

DIGEST = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("given_", "strip", "written"),
    [
        (None, Strip(), ""),
        ("html", Strip("html"), "html"),
        ("lines:0.1%", Strip(lines=Fraction(1, 1000)), "lines:0.1%"),
        (" html , lines:50%", Strip("html", Fraction(1, 2)), "html,lines:50%"),
        (["lines:7%", "html"], Strip("html", Fraction(7, 100)), "html,lines:7%"),
    ],
)
def test_strip_is_parsed_and_written(given_, strip, written):
    assert parse_strip(given_) == strip
    assert str(strip) == written


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "xml",
        "lines",
        "lines:",
        "lines:5",
        "lines:0%",
        "lines:100%",
        "lines:-1%",
        "lines:1e3%",
        "html,",
        "lines:1%,lines:2%",
        "lines:nan%",
        "lines:٣%",
    ],
)
def test_unknown_strip_is_refused(wrong):
    with pytest.raises(ParameterError, match=r"strip .* is not known"):
        parse_strip(wrong)


def test_strip_of_tokens_is_refused():
    for strip in ("html", "lines:1%"):
        with pytest.raises(ParameterError, match="tokens have"):
            neardup.dedup([[1, 2]], shingle="token:1", strip=strip)


def test_options_must_agree_with_their_specification():
    assert Options.of(strip="html").spec.strip == "html"
    with pytest.raises(ParameterError, match=r"Options\.of"):
        Options(strip=Strip("html"))
    with pytest.raises(SpecMismatch, match="pass the list"):
        Sketcher(Options().ignoring(DIGEST).spec)


def test_presets_are_the_published_operating_points():
    curve = neardup.dedup(["a"], preset="fineweb").options.curve
    assert (curve.bands, curve.rows) == (14, 8)
    nemo = neardup.dedup(["a"], preset="nemo").options
    assert (nemo.curve.bands, nemo.curve.rows, nemo.spec.shingle) == (20, 13, "char:24")


def test_preset_for_short_texts_sets_shingle_and_threshold_unless_they_are_given():
    short = Options.of(preset="short")
    assert (short.spec.shingle, short.threshold) == ("char:5", 0.5)
    assert Options.of(preset="short", threshold=0.6).threshold == 0.6
    assert Options.of(preset="short", shingle="char:4").spec.shingle == "char:4"


def test_spam_posts_of_three_templates_are_found_with_preset_short():
    posts = [*ordinary_posts(900), *spam_posts(100)]
    assert len(neardup.dedup(posts).removed) < 40
    found = neardup.dedup(posts, preset="short").clusters
    assert [cluster.size for cluster in found] == [34, 33, 33]
    assert [cluster.id for cluster in found] == [900, 901, 902]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 0}, "threshold"),
        ({"threshold": 1.5}, "threshold"),
        ({"recall": 1.0}, "recall"),
        ({"bands": 20}, "both"),
        ({"bands": 50, "rows": 50}, "2500 slots"),
        ({"shingle": "word"}, "UNIT:SIZE"),
        ({"shingle": "verse:2"}, "verse"),
        ({"shingle": "word:0"}, "shingle size"),
        ({"keep": "best"}, "max:COLUMN"),
        ({"verify": "maybe"}, "exact, estimate, none"),
        ({"cluster": "all"}, "stars"),
        ({"text_profile": "loud"}, "conservative"),
        ({"preset": "x"}, "fineweb"),
        ({"slots": 0}, "slots"),
        ({"slots": 2}, "use --slots 3 or more"),
        ({"limit": 0}, "limit"),
    ],
)
def test_option_out_of_range_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        neardup.dedup(["a"], **options)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"sketch": "simhash", "threshold": 0.9}, "use --hamming instead of --threshold"),
        ({"sketch": "simhash", "hamming": 64}, "from 0 to 63"),
        ({"sketch": "simhash", "hamming": 3, "blocks": 3}, "from 4 to 64"),
        ({"sketch": "simhash", "blocks": 0}, "from 4 to 64"),
        ({"sketch": "simhash", "slots": 32}, "number of bits"),
        ({"sketch": "simhash", "bands": 4, "rows": 4}, "neither bands"),
        ({"sketch": "simhash", "measure": "containment", "verify": "exact"}, "neither bands"),
        ({"sketch": "simhash", "weights": "bm25"}, "weights 'bm25' is not known"),
        ({"hamming": 3}, "a minhash has no Hamming distance"),
        ({"blocks": 6}, "a minhash has no Hamming distance"),
        ({"sketch": "bottomk"}, "for the library: use --sketch minhash"),
        ({"sketch": "hyperloglog"}, "for the library: use --sketch minhash"),
        ({"sketch": "weighted", "measure": "containment"}, "containment is that of sets"),
        ({"sketch": "weighted", "weights": "bm25"}, "weights 'bm25' is not known"),
        ({"sketch": "weighted", "hamming": 3}, "no Hamming distance"),
        ({"measure": "containment", "verify": "estimate"}, "use --verify exact"),
        ({"measure": "containment", "cluster": "components"}, "use --cluster stars"),
        ({"measure": "overlap", "sketch": "weighted"}, "choose one of jaccard, containment"),
        ({"weights": "tf-idf"}, "a minhash does not weigh its shingles"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(asked, message):
    with pytest.raises(NeardupError, match=message):
        neardup.dedup(["a"], **asked)
