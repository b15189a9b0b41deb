"""Who may come in, and how many at once: keys, scopes, rates, and room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from neardup.errors import Busy, FormatError
from neardup.service.api_keys import ApiKey, ApiKeys
from neardup.service.problems import Refused, at_once, too_many, unauthorized
from neardup.service.rates import Buckets
from neardup.service.settings import Settings
from neardup.service.visits import Visit

OPEN: Final = frozenset(["/healthz", "/readyz", "/openapi.json"])
"""What everybody may ask, without a key and at any time."""
BEARER: Final = "bearer "


class Gate:
    """Used by one event loop; what it counts is not shared between threads."""

    def __init__(
        self, settings: Settings, keys: ApiKeys, say: Callable[[str], None], *, guarded: bool
    ) -> None:
        self._settings, self._keys, self._say = settings, keys, say
        self._guarded = guarded
        seconds, most = settings.burst_seconds, settings.sources
        self._by_key = Buckets(settings.key_rate, seconds * settings.key_rate, most)
        self._by_source = Buckets(settings.source_rate, seconds * settings.source_rate, most)
        self.requests = 0
        self.bytes = 0
        self._of_key: Counter[str] = Counter()
        """Requests under way, by the name of their key."""

    def enter(self, visit: Visit, path: str) -> None:
        """Let a request in, or refuse it; then it has to leave. Who needs no key, or has none,
        takes nobody's place."""
        if path in OPEN:
            return
        now = visit.started
        if wait := self._by_source.take(visit.source, 1, now):
            raise too_many(wait)
        visit.key = self._identified(visit)
        if visit.key is not None:
            self._check_key(visit.key.name, now)
        if self.requests >= self._settings.requests:
            raise Busy("more requests are under way than there is room for: try again")
        visit.inside = True
        self.requests += 1
        if visit.key is not None:
            self._of_key[visit.key.name] += 1

    def check_again(self, visit: Visit, scope: str) -> None:
        """Refuse one that was let in, if its key has been revoked since."""
        require_scope(replace(visit, key=self._identified(visit)), scope)

    def leave(self, visit: Visit) -> None:
        """Give back what the request held."""
        self.bytes -= visit.bytes
        if not visit.inside:
            return
        self.requests -= 1
        if visit.key is not None:
            self._of_key[visit.key.name] -= 1
            if not self._of_key[visit.key.name]:
                del self._of_key[visit.key.name]

    def hold(self, visit: Visit, count: int) -> None:
        """Let a request hold so many bytes of its body, if there is room for them."""
        others = self.bytes - visit.bytes
        if others + count > self._settings.bytes_under_way:
            raise Busy("the bodies of all requests fill the memory for them: try again")
        visit.bytes, self.bytes = count, others + count

    def charge(self, visit: Visit, documents: int, now: float) -> None:
        """Count the documents of a request. The first is counted when it is let in."""
        extra = documents - (visit.documents == 0)
        visit.documents += documents
        self._by_source.owe(visit.source, extra, now)
        if visit.key is not None:
            self._by_key.owe(visit.key.name, extra, now)

    def debt(self, visit: Visit, now: float) -> float:
        """Seconds until this one may send more."""
        wait = self._by_source.wait(visit.source, now)
        return max(wait, self._by_key.wait(visit.key.name, now)) if visit.key else wait

    def _check_key(self, name: str, now: float) -> None:
        if wait := self._by_key.take(name, 1, now):
            raise too_many(wait)
        if self._of_key[name] >= self._settings.key_requests:
            raise at_once(self._settings.key_requests)

    def _identified(self, visit: Visit) -> ApiKey | None:
        """The key of a request; None where access is open."""
        try:
            visit.guarded = self._guarded or self._keys.guarded
            return self._key_of(visit)
        except FormatError as error:
            self._say(str(error))
            raise Refused(
                503, "the API keys can't be read: the log of the service says why"
            ) from None

    def _key_of(self, visit: Visit) -> ApiKey | None:
        if not visit.guarded:
            _require_local(visit)
            return None
        given = visit.headers.get(b"authorization", b"").decode("latin-1")
        if given[: len(BEARER)].lower() != BEARER:
            raise unauthorized("an API key is needed: send Authorization: Bearer KEY")
        found = self._keys.find(given[len(BEARER) :].strip())
        if found is None:
            raise unauthorized("this API key is not known, or was revoked: ask for another one")
        return found


def require_scope(visit: Visit, scope: str | None) -> None:
    if scope is None or not visit.guarded:
        return
    if visit.key is None or scope not in visit.key.scopes:
        raise Refused(403, f"the API key has not the scope {scope}: use one that has it")


def _require_local(visit: Visit) -> None:
    """Access is open to this machine, not to the pages that somebody looks at on it."""
    host = visit.headers.get(b"host", b"").decode("latin-1").lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if b"origin" in visit.headers or (host and not is_loopback(name.strip("[]"))):
        raise Refused(
            403,
            "without API keys only programs on this machine are answered, by its own names: "
            "add a key (neardup keys add), or use 127.0.0.1",
        )


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own, from inside."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
