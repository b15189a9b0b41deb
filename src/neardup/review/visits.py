"""One request of the review page: what was asked for, by whom, and the answers to it.

A page is a function from a `Visit` to an answer, in a thread; `page_route` and `action_route` make
routes of such functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from neardup.errors import NeardupError
from neardup.report.html import Html
from neardup.review.frame import KeyHelp

if TYPE_CHECKING:
    from neardup.review.desk import ReviewDesk
    from neardup.review.sessions import ReviewSession


class ReviewRefusal(NeardupError):  # noqa: N818  # reads as what happened
    """A request of the page that is refused.

    Args:
        status: The HTTP status.
        message: What is wrong, and the cure.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.http_status = status


class ReviewPage(Response):
    """A page, or a refusal as a page."""

    media_type = "text/html"

    def __init__(self, page: Html, status: int = 200) -> None:
        # Lone surrogates are shown as their escapes: everything else can be encoded.
        super().__init__(page.encode("utf-8", "backslashreplace"), status)


class Visit:
    """One request by someone who has a session.

    Args:
        request: The request, which the guard has admitted.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self.desk: ReviewDesk = request.scope["desk"]
        self.session: ReviewSession = request.scope["session"]
        self.query: Mapping[str, str] = request.query_params
        self.path: Mapping[str, Any] = request.path_params
        self.form: Mapping[str, str] = request.scope.get("form", {})

    @property
    def who(self) -> str:
        """The name that decisions are stored under."""
        return self.session.who

    def url(self, path: str, **query: object) -> str:
        """Return the address of a page, as `ReviewFrame.url` does."""
        return self.desk.frame.url(path, **query)

    def action(self, path: str, *content: str, class_: str = "") -> Html:
        """Return a form that changes something, as `ReviewFrame.form` does."""
        return self.desk.frame.form(path, self.session.form_token, *content, class_=class_)

    def number(self, name: str, default: int | None = None, most: int = 1 << 53) -> int:
        """Return a whole number of the path, the form or the query.

        Args:
            name: The name of the parameter.
            default: What it is if it was not sent; without one that is refused.
            most: The largest number that is accepted.
        """
        given = self.path.get(name) or self.form.get(name) or self.query.get(name)
        text = given or ("" if default is None else str(default))
        if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) > most:
            raise ReviewRefusal(400, f"{name} is not a number from 0 to {most:,}: follow a link")
        return int(text)

    def render(
        self,
        heading: str,
        *content: str,
        at: str = "",
        keys: Iterable[KeyHelp] = (),
        status: int = 200,
        turned: str = "",
    ) -> Response:
        """Return a page, as `ReviewFrame.page` makes it."""
        page = self.desk.frame.page(
            heading,
            *content,
            who=self.who,
            form_token=self.session.form_token,
            at=at,
            keys=keys,
            turned=turned,
        )
        return ReviewPage(page, status)

    def go_to(self, url: str, said: str = "") -> Response:
        """Return the answer to a change: the page that comes next.

        Args:
            url: The address of that page.
            said: What has happened, in a sentence.
        """
        if self._request.headers.get("x-sent-by") == "script":
            return Response(json.dumps({"next": url, "said": said}), media_type="application/json")
        return RedirectResponse(url, 303)


def page_route(path: str, page: Callable[[Visit], Response]) -> Route:
    """Return the route of a page.

    Args:
        path: Its path.
        page: Makes it.
    """

    def show(request: Request) -> Response:
        return page(Visit(request))

    return Route(path, show, methods=["GET"], name=page.__name__)


def action_route(path: str, action: Callable[[Visit], Response]) -> Route:
    """Return the route of a form that changes something.

    Args:
        path: Its path.
        action: Changes it, and returns the page that comes next.
    """

    def act(request: Request) -> Response:
        return action(Visit(request))

    return Route(path, act, methods=["POST"], name=action.__name__)
