"""Pages in a real browser: nothing of a document runs, all texts and windows are right."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from support.accessibility import find_barriers
from support.browser import Page
from support.command_line import dedup
from support.reviewer import DOCUMENTS

PATHS = ("", "clusters", "cluster/0", "pair/0", "document?id=a1", "compare?a=a0&b=b0", "bulk")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_have_no_barriers(serve, page: Page, dark: bool) -> None:
    server = serve()
    server.enter(page, dark=dark)
    for path in (*PATHS, "bulk?least=0&most=1", "decisions", "pair/0?view=one"):
        page.open(f"{server.url}/{path}", dark=dark)
        assert page.complaints == []
        assert find_barriers(page) == [], path


def test_sources_of_a_column_are_on_the_overview(serve, make_run, page: Page) -> None:
    documents = [one | {"lang": "ab"[one["id"] > "b"]} for one in DOCUMENTS]
    serve(make_run(documents, "--source", "lang")).enter(page)
    assert "By lang" in page.text("main") and "By file or folder" in page.text("main")
    assert page.complaints == [] and find_barriers(page) == []


def test_check_of_barriers_finds_one(serve, page: Page) -> None:
    serve().enter(page)
    page.value("document.querySelector('main').append(document.createElement('img')), true")
    assert find_barriers(page) == ["image-alt: ['<img>']"]


def pair_of(serve, make_run, *texts: str, ids: tuple[str, str] = ("kept", "removed")):
    """Serve a run in which one document was removed because of another one."""
    documents = [{"id": id, "text": text} for id, text in zip(ids, texts, strict=True)]
    return serve(make_run(documents, "--threshold", "0.5", "--shingle", "word:2"))


EVIL = (
    '<script>window.ran = 1</script><img src=x onerror="window.ran = 2"> '
    "<svg onload=alert(1)></svg> </pre></div><iframe src='javascript:parent.ran = 3'></iframe> "
    '"><b>bold</b> {{7*7}} <style>body { display: none }</style> <base href=http://evil.example/> '
)
WORDS = " ".join(f"word{n}" for n in range(80))


def test_nothing_of_a_document_runs(serve, make_run, page: Page) -> None:
    ids = ("<img src=x onerror=alert(2)>", "\"'><script>alert(3)</script>")
    server = pair_of(serve, make_run, EVIL + WORDS, EVIL + WORDS + EVIL, ids=ids)
    server.enter(page, "pair/0")
    assert "<script>window.ran = 1</script>" in page.text("main")
    page.press("t")
    page.write(EVIL[:300])
    page.press("Escape")
    with page.loading():
        page.press("d")
    kept, removed = map(quote, ids)
    seen = ("", "clusters", "pair/0", "pair/0?view=one", "decisions", f"document?id={removed}")
    for path in (*seen, f"clusters?q={removed}", f"compare?a={kept}&b={removed}"):
        page.open(f"{server.url}/{path}")
        assert page.complaints == [], path
        assert page.value("window.ran === undefined && getComputedStyle(document.body).display")
        foreign = "document.querySelectorAll('main :is(script, img, iframe, b, base)').length"
        assert page.value(foreign) == 0
    page.open(f"{server.url}/text?file={server.run.parent / 'texts.jsonl'}&row=1")
    assert page.value("document.contentType") == "text/plain" and page.complaints == []


def test_policy_forbids_what_a_mistake_would_let_through(serve, page: Page) -> None:
    """The check above sees violations: a script that got into the page would be one."""
    serve().enter(page)
    page.value(
        "const s = document.createElement('script'); s.text = 'window.ran = 1';"
        "document.body.append(s)"
    )
    page.value("const i = new Image(); i.src = 'http://127.0.0.1:9/x'; document.body.append(i)")
    page.wait_for("true")
    assert page.value("window.ran") is None
    assert any("Content Security Policy" in one for one in page.complaints)


SCRIPTS = {
    "rtl": ("قفز الثعلب البني السريع فوق الكلب الكسول في الحديقة " * 6, "rtl"),
    "hebrew": ("השועל החום המהיר קפץ מעל הכלב העצלן בגינה הגדולה " * 6, "rtl"),
    "chinese": ("敏捷的棕色狐狸跳过了花园里懒惰的狗。" * 6, "ltr"),
    "japanese": ("素早い茶色の狐が怠け者の犬を飛び越えた。" * 6, "ltr"),
    "emoji": ("the quick 🦊 jumps over 👩‍👩‍👧‍👦 and 🇫🇷 on a lazy 🐶 day " * 6, "ltr"),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_texts_in_all_scripts(serve, make_run, page: Page, script: str) -> None:
    text, direction = SCRIPTS[script]
    server = pair_of(serve, make_run, text + "الأول 第一 1 🥇", text + "الثاني 第二 2 🥈")
    server.enter(page, "pair/0")
    sides = "[...document.querySelectorAll('.side [dir=auto], .side[dir=auto], .text[dir=auto]')]"
    found = page.value(f"{sides}.map(e => getComputedStyle(e).direction)")
    assert direction in found, found
    assert "🥇" in page.text("main") and "🥈" in page.text("main")
    assert page.value("document.querySelectorAll('main ins, main del').length") > 0
    assert page.value("document.documentElement.scrollWidth <= innerWidth")


def test_text_of_five_megabytes(serve, make_run, page: Page) -> None:
    words = [f"w{n * 7919 % 50_021}" for n in range(800_000)]
    text = " ".join(words)
    words[400_000] = "changed"
    assert len(text) > 5_000_000 - 500_000
    server = pair_of(serve, make_run, text, " ".join(words) + " longer than the other")
    server.enter(page, "pair/0")
    assert "changed" in page.text("main") and len(page.text("main")) < 200_000
    page.open(f"{server.url}/text?file={server.run.parent / 'texts.jsonl'}&row=0")
    assert page.value("document.body.textContent.length") == len(text)
    page.open(f"{server.url}/pair/0")
    with page.loading():
        page.press("s")
    assert len(server.decisions()) == 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_a_narrow_window(serve, page: Page, dark: bool) -> None:
    server = serve()
    server.enter(page, width=360, height=640, dark=dark)
    for path in (*PATHS, "bulk?least=0&most=1", "decisions", "pair/0?view=one"):
        page.open(f"{server.url}/{path}", width=360, height=640, dark=dark)
        assert page.value("document.documentElement.scrollWidth") <= 360, path
        shade = page.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
        assert (int(shade) < 80) == dark
    page.open(f"{server.url}/pair/0", width=360, height=640, dark=dark)
    with page.loading():
        page.click("button[value=same]")
    assert len(server.decisions()) == 1


def test_run_of_two_hundred_thousand_removals(serve, tmp_path, page: Page) -> None:
    words = [f"{n * 7919 % 100_003:x}" for n in range(100_003)]
    with (tmp_path / "many.jsonl").open("w") as written:
        for base in range(20_000):
            text = " ".join(words[base * 5 : base * 5 + 12])
            for copy in range(11):
                written.write(f'{{"id": "d{base}-{copy}", "text": "{text} same {copy % 3}"}}\n')
    record = dedup(tmp_path / "many.jsonl", "-o", tmp_path / "run", "--shingle", "word:1")
    assert record["counts"]["removed"] >= 200_000
    server = serve(tmp_path / "run")
    server.enter(page)
    assert "200,000 of 220,000" in page.text("h1")
    with page.loading():
        page.press("g")
    for key in "sdus":
        with page.loading():
            page.press(key)
    assert len(server.decisions()) == 4
    page.open(f"{server.url}/clusters?order=uncertainty&start=19975")
    assert page.value("document.querySelectorAll('[data-list] tbody tr').length") == 25
    page.open(f"{server.url}/clusters?q=d19999-7")
    assert "d19999-7" in page.text("main") and page.complaints == []
    page.open(f"{server.url}/bulk?least=0.1&most=1")
    assert "199,996 pairs" in page.text("main") and "4 that are decided" in page.text("main")
