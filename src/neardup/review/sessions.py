"""Who may use the review page: a one-time token is exchanged for a session, which logout ends."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Final

MOST_SESSIONS: Final = 1_000
"""Sessions at a time; the oldest one ends when there are more."""
SESSION_SECONDS: Final = 12 * 3600
"""How long a session lasts without a request."""


@dataclass(slots=True)
class ReviewSession:
    """One person in one browser.

    Attributes:
        who: The name that decisions are stored under.
        may_continue: Whether what the session was begun with is still valid, such as an API key.
        form_token: What every form must send back, so that no other page can send one.
        in_one_text: Whether differences are shown in one text, not side by side.
        used: When the last request came, in seconds of a monotonic clock.
    """

    who: str
    may_continue: Callable[[], bool]
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    in_one_text: bool = False
    used: float = 0.0

    def accepts(self, form_token: str) -> bool:
        """Return whether a form was made for this session.

        Args:
            form_token: What the form has sent.
        """
        return compare_digest(self.form_token.encode(), form_token.encode())


class ReviewSessions:
    """The sessions of a server, in memory: they end with it. Used by several threads.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, ReviewSession] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, who: str, may_continue: Callable[[], bool] = lambda: True) -> str:
        """Begin a session and return the secret for its cookie.

        Args:
            who: The name that decisions are stored under.
            may_continue: Asked before each request whether the session goes on.
        """
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[secret] = ReviewSession(who, may_continue, used=self._clock())
            if len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return secret

    def find(self, secret: str) -> ReviewSession | None:
        """Return the session of a cookie; None if there is none, or not any more."""
        # A dictionary compares hashes of 32 random bytes first: how long that takes tells nothing.
        with self._lock:
            session = self._sessions.get(secret)
            now = self._clock()
            if session is None:
                return None
            if now - session.used > SESSION_SECONDS or not session.may_continue():
                del self._sessions[secret]
                return None
            session.used = now
            self._sessions.move_to_end(secret)
            return session

    def end(self, secret: str) -> None:
        """End a session: its cookie is worth nothing from now on."""
        with self._lock:
            self._sessions.pop(secret, None)


class EntryToken:
    """The token in the address that the command prints: it opens one session.

    Args:
        renewed: Gets the next token when one that was used comes again, to print its address.
    """

    def __init__(self, renewed: Callable[[str], None]) -> None:
        self.value = secrets.token_urlsafe(32)
        self._renewed = renewed
        self._used: list[str] = []
        self._lock = threading.Lock()

    def redeem(self, token: str) -> bool:
        """Return whether a token opens a session; it does so once.

        Args:
            token: The token of the address.
        """
        with self._lock:
            given = token.encode()
            if self.value and compare_digest(self.value.encode(), given):
                self._used.append(self.value)
                self.value = ""
                return True
            if not any(compare_digest(used.encode(), given) for used in self._used):
                return False
            if not self.value:
                self.value = secrets.token_urlsafe(32)
                self._renewed(self.value)
            return False
