"""The frame of every page of the review: head, navigation, keys, forms; and small pieces of markup.

Nothing is inline: the policy allows the script and the styles of the package alone, and no style
attribute. So lengths of bars are attributes of SVG images.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from neardup.report.html import Html, tag

POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        *("script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'"),
        *("form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"),
        "require-trusted-types-for 'script'",
    ]
)
"""The Content-Security-Policy of every page."""


class PageLink(NamedTuple):
    """A link of the navigation: the path after the prefix, what is shown, and the key for it."""

    path: str
    label: str
    key: str = ""


class KeyHelp(NamedTuple):
    """A key and what it does, for the list that `?` shows."""

    key: str
    what: str


GENERAL_KEYS: Final = (
    KeyHelp("?", "list the keys"),
    KeyHelp("/", "search"),
    KeyHelp("g", "go on with the review"),
    KeyHelp("z", "undo your last decision"),
    KeyHelp("y", "redo it"),
    KeyHelp("Esc", "leave a field, close this list"),
)


class ReviewFrame:
    """Makes complete pages.

    Args:
        prefix: What all paths begin with: empty, or such as /review.
        links: The navigation.
        title: The name of what is reviewed.
    """

    def __init__(self, prefix: str, links: Sequence[PageLink], title: str) -> None:
        self.prefix, self.links, self.title = prefix, links, title

    def url(self, path: str, **query: object) -> str:
        """Return the address of a page.

        Args:
            path: The path after the prefix.
            query: The parameters; those that are None or empty are left out.
        """
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{self.prefix}/{path}" + (f"?{urlencode(given)}" if given else "")

    def page(
        self,
        heading: str,
        *content: str,
        who: str = "",
        form_token: str = "",
        at: str = "",
        keys: Iterable[KeyHelp] = (),
        turned: str = "",
    ) -> Html:
        """Return a complete page.

        Args:
            heading: The title of the page.
            content: What is on it.
            who: The name of the person; without one there is neither navigation nor logout.
            form_token: The token of the session's forms.
            at: The path of the page, which is marked in the navigation.
            keys: The keys of this page, besides those of all.
            turned: What the paths begin with that undo and redo what is done here.
        """
        head = (
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta name="color-scheme" content="light dark">'),
            # Strangers, who have no name yet, don't learn what is reviewed.
            tag("title", " · ".join([heading, *([self.title] if who else []), "neardup review"])),
            _head_link("icon", self.url("static/icon.svg")),
            _head_link("stylesheet", self.url("static/page.css")),
            _head_link("stylesheet", self.url("static/review.css")),
            tag("script", type="module", src=self.url("static/review.js")),
        )
        body = [
            tag("a", "Skip to the content", href="#content", class_="skip"),
            *([self._bar(who, form_token, at, turned)] if who else []),
            tag("div", role="status", aria_live="polite", id="status", hidden=True),
            tag("main", *content, id="content", tabindex=-1),
            *([self._keys(keys)] if who else []),
        ]
        shown = tag(
            "body",
            *body,
            data_prefix=self.prefix,
            data_token=form_token,
        )
        return Html(f"<!doctype html>\n{tag('html', tag('head', *head), shown, lang='en')}\n")

    def _bar(self, who: str, form_token: str, at: str, turned: str) -> Html:
        links = (
            tag(
                "a",
                link.label,
                href=self.url(link.path),
                **({"aria_current": "page"} if link.path == at else {}),
                **({"data_key": link.key, "aria_keyshortcuts": link.key} if link.key else {}),
            )
            for link in self.links
        )
        search = tag(
            "form",
            tag(
                "label",
                tag("span", "Search", class_="unseen"),
                _input("search", "q", placeholder="id, path or words", data_key="/"),
            ),
            action=self.url("clusters"),
            method="get",
            role="search",
        )
        person = tag(
            "div",
            button("?", "Keys", kind="quiet", dialog="keys"),
            self.form(f"{turned}undo", form_token, button("z", "Undo", kind="quiet")),
            self.form(f"{turned}redo", form_token, button("y", "Redo", kind="quiet")),
            tag("span", tag("bdi", who), class_="who"),
            self.form("logout", form_token, tag("button", "Log out", class_="quiet"), sent=False),
            class_="person",
        )
        return tag(
            "header",
            tag("a", "neardup review", href=self.url(""), class_="brand"),
            tag("nav", *links, aria_label="Pages"),
            search,
            person,
            class_="top",
        )

    def form(
        self, path: str, form_token: str, *content: str, sent: bool = True, class_: str = ""
    ) -> Html:
        """Return a form that changes something.

        Args:
            path: Where it is sent.
            form_token: The token of the session's forms.
            content: Its fields and buttons.
            sent: Whether the script sends it, and keeps the page if the server is gone.
            class_: Its CSS classes.
        """
        hidden_token = hidden("form_token", form_token)
        return tag(
            "form",
            hidden_token,
            *content,
            action=self.url(path),
            method="post",
            data_send=sent,
            class_=class_,
        )

    def _keys(self, keys: Iterable[KeyHelp]) -> Html:
        rows = (
            tag("div", tag("dt", tag("kbd", one.key)), tag("dd", one.what))
            for one in (*keys, *GENERAL_KEYS)
        )
        close = tag("form", tag("button", "Close"), method="dialog")
        title = tag("h2", "Keys", id="keys-title")
        return tag(
            "dialog", title, tag("dl", *rows), close, id="keys", aria_labelledby="keys-title"
        )


def _head_link(rel: str, href: str) -> Html:
    return Html(tag("link", rel=rel, href=href).removesuffix("</link>"))


def _input(kind: str, name: str, **attributes: str | float | bool) -> Html:
    return Html(tag("input", type=kind, name_=name, **attributes).removesuffix("</input>"))


def hidden(name: str, value: str) -> Html:
    """Return a hidden field of a form."""
    return _input("hidden", name, value=value)


def field(
    label: str, kind: str, name: str, value: str = "", **attributes: str | float | bool
) -> Html:
    """Return a field of a form with its label.

    Args:
        label: What is shown before it.
        kind: The type of the input.
        name: The name that is sent.
        value: What it has at first.
        attributes: Others of the input.
    """
    return tag("label", label, " ", _input(kind, name, value=value, **attributes))


def choice(label: str, name: str, options: Iterable[tuple[str, str]], chosen: str) -> Html:
    """Return a list of which one is chosen, with its label.

    Args:
        label: What is shown before it.
        name: The name that is sent.
        options: What is sent and what is shown of each.
        chosen: The one that is chosen at first.
    """
    listed = (tag("option", shown, value=sent, selected=sent == chosen) for sent, shown in options)
    return tag("label", label, " ", tag("select", *listed, name_=name))


def button(
    key: str, label: str, kind: str = "", dialog: str = "", **attributes: str | float | bool
) -> Html:
    """Return a button that a key presses too.

    Args:
        key: The key.
        label: What is shown.
        kind: Its CSS classes.
        dialog: The dialog that it opens; without one it sends its form.
        attributes: Others of the button, such as the name and the value that are sent.
    """
    shown = (label, " ", tag("kbd", key, aria_hidden="true"))
    if dialog:
        attributes |= {"type": "button", "data-dialog": dialog}
    return tag("button", *shown, class_=kind, data_key=key, aria_keyshortcuts=key, **attributes)


def key_link(key: str, label: str, href: str, kind: str = "") -> Html:
    """Return a link that a key follows too.

    Args:
        key: The key.
        label: What is shown.
        href: Its address.
        kind: Its CSS classes.
    """
    shown = (label, " ", tag("kbd", key, aria_hidden="true"))
    return tag("a", *shown, href=href, class_=f"button {kind}", data_key=key, aria_keyshortcuts=key)


def share_bar(share: float, label: str = "") -> Html:
    """Return a bar that fills this share of its width.

    Args:
        share: From 0 to 1.
        label: What it shows, for people who can't see it; empty if a number beside it says so.
    """
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}%"
    marks = [tag("rect", width="100%", height="100%", class_="whole")]
    marks.append(tag("rect", width=width, height="100%", class_="part"))
    said = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return tag("svg", *marks, class_="share", **said)


def stacked_bar(parts: Iterable[tuple[str, int]]) -> Html:
    """Return one bar of all parts, by CSS class and count."""
    listed = [(kind, count) for kind, count in parts if count]
    total, start, pieces = sum(count for _, count in listed) or 1, 0, []
    for kind, count in listed:
        x, width = f"{100 * start / total:.3f}%", f"{100 * count / total:.3f}%"
        pieces.append(tag("rect", x=x, width=width, height="100%", class_=kind))
        start += count
    return tag("svg", *pieces, class_="stacked", aria_hidden="true")
