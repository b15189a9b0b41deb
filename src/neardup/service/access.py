"""Access to the service: API keys, scopes, rates, and the number of requests under way."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from neardup.errors import Busy, FormatError
from neardup.service.api_keys import ApiKey, ApiKeys
from neardup.service.error_responses import Refusal, key_busy, rate_exceeded, unauthorized
from neardup.service.limits import ServiceLimits

if TYPE_CHECKING:
    from neardup.service.middleware import RequestRecord


class RateBuckets:
    """Token buckets that limit the documents per second of each name; their number is bounded.

    A bucket fills at `rate` up to `burst`, and each document takes a token. A name with one token
    may send any number of documents: tokens taken beyond its level are owed, and delay its next
    request. So a batch larger than a burst is slow, not impossible. Time is an argument; a clock
    that goes backwards fills nothing.

    Args:
        rate: tokens per second; 0 is no limit.
        burst: the most tokens that a bucket holds.
        most: the buckets that are kept; the least recently used one is dropped.

    >>> buckets = RateBuckets(rate=10, burst=20, most=100)
    >>> buckets.take("a", 30, now=0.0), buckets.wait("a", now=0.0), buckets.wait("a", now=2.0)
    (0.0, 1.1, 0.0)
    """

    def __init__(self, rate: int, burst: int, most: int) -> None:
        self._rate, self._burst, self._most = rate, float(burst), most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._taken: Counter[str] | None = None
        """Tokens since the last `take_account`; None until that is called."""

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, name: str, cost: int, now: float) -> float:
        """Take `cost` tokens and return 0.0, or take none and return the seconds to wait."""
        wait = self.wait(name, now)
        if not wait:
            self.owe(name, cost, now)
        return wait

    def owe(self, name: str, cost: int, now: float) -> None:
        """Take `cost` tokens, even if the bucket has fewer."""
        if self._taken is not None and (name in self._taken or len(self._taken) < self._most):
            self._taken[name] += cost
        self.owe_for_others(name, cost, now)

    def take_account(self) -> dict[str, int]:
        """Return the tokens that were taken since the last call, by name."""
        taken, self._taken = self._taken or {}, Counter()
        return dict(taken) if self._rate else {}

    def owe_for_others(self, name: str, cost: int, now: float) -> None:
        """Take tokens that other services have given to this name."""
        if self._rate:
            self._levels[name] = self._level(name, now) - cost, now
            self._levels.move_to_end(name)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)

    def wait(self, name: str, now: float) -> float:
        """Return the seconds until the bucket has one token."""
        level = self._level(name, now)
        return 0.0 if level >= 1 or not self._rate else (1 - level) / self._rate

    def _level(self, name: str, now: float) -> float:
        level, then = self._levels.get(name, (self._burst, now))
        return min(self._burst, level + max(0.0, now - then) * self._rate)


OPEN_PATHS: Final = frozenset(["/", "/healthz", "/readyz", "/openapi.json"])
"""Paths that need no key and no place among the requests under way."""
BEARER: Final = "bearer "
FOREIGN: Final = frozenset([b"origin", b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"])
"""Headers of requests that a page in a browser makes, or that a proxy forwards for others."""


class AccessGate:
    """Admits requests by key, rate and number. Used by one event loop, not by several threads.

    Args:
        limits: the rates and numbers that are allowed.
        keys: the API keys of the data folder.
        say: gets the message if the keys can't be read.
        guarded: whether a key is required even if the file of keys no longer exists.
    """

    def __init__(
        self, limits: ServiceLimits, keys: ApiKeys, say: Callable[[str], None], *, guarded: bool
    ) -> None:
        self._limits, self._keys, self._say = limits, keys, say
        self._guarded = guarded
        seconds, most = limits.burst_seconds, limits.sources
        self._by_key = RateBuckets(limits.key_rate, seconds * limits.key_rate, most)
        self._by_source = RateBuckets(limits.source_rate, seconds * limits.source_rate, most)
        self.requests = 0
        self.bytes = 0
        self._under_way: Counter[str] = Counter()
        """Requests under way, by the name of their key."""

    @property
    def rates(self) -> dict[str, RateBuckets]:
        """The rates by what their names are."""
        return {"key": self._by_key, "source": self._by_source}

    def enter(self, record: RequestRecord, path: str) -> None:
        """Admit a request, or raise why it is refused; an admitted request must `leave`.

        A request to an open path, and a refused one, does not count as under way.

        Args:
            record: the record of the request.
            path: the path of the request.
        """
        if path in OPEN_PATHS:
            return
        now = record.started
        if wait := self._by_source.take(record.source, 1, now):
            raise rate_exceeded(wait)
        record.key = self._identify(record)
        if record.key is not None:
            self._check_key(record.key.name, now)
        if self.requests >= self._limits.requests:
            raise Busy("the limit of requests under way is reached: try again")
        record.inside = True
        self.requests += 1
        if record.key is not None:
            self._under_way[record.key.name] += 1

    def check_again(self, record: RequestRecord, scope: str) -> None:
        """Refuse an admitted request if its key has been revoked since."""
        require_scope(replace(record, key=self._identify(record)), scope)

    def leave(self, record: RequestRecord) -> None:
        """Release the place and the memory of a request."""
        self.bytes -= record.bytes
        if not record.inside:
            return
        self.requests -= 1
        if record.key is not None:
            self._under_way[record.key.name] -= 1
            if not self._under_way[record.key.name]:
                del self._under_way[record.key.name]

    def hold(self, record: RequestRecord, count: int) -> None:
        """Reserve memory for `count` bytes of a request's body, or raise `Busy`."""
        others = self.bytes - record.bytes
        if others + count > self._limits.bytes_under_way:
            raise Busy("the bodies of all requests under way fill their memory limit: try again")
        record.bytes, self.bytes = count, others + count

    def charge(self, record: RequestRecord, documents: int, now: float) -> None:
        """Charge the documents of a request to its rates. The first one is charged on entry."""
        extra = documents - (record.documents == 0)
        record.documents += documents
        self._by_source.owe(record.source, extra, now)
        if record.key is not None:
            self._by_key.owe(record.key.name, extra, now)

    def wait_seconds(self, record: RequestRecord, now: float) -> float:
        """Return the seconds until the key and the address of a request may send more."""
        wait = self._by_source.wait(record.source, now)
        return max(wait, self._by_key.wait(record.key.name, now)) if record.key else wait

    def _check_key(self, name: str, now: float) -> None:
        if wait := self._by_key.take(name, 1, now):
            raise rate_exceeded(wait)
        if self._under_way[name] >= self._limits.key_requests:
            raise key_busy(self._limits.key_requests)

    def _identify(self, record: RequestRecord) -> ApiKey | None:
        """Return the key of a request; None if no key is required."""
        try:
            record.guarded = self._guarded or self._keys.guarded
            return self._find_key(record)
        except FormatError as error:
            self._say(str(error))
            raise Refusal(503, "the API keys can't be read: see the log of the service") from None

    def _find_key(self, record: RequestRecord) -> ApiKey | None:
        if not record.guarded:
            _require_local(record)
            return None
        if record.several_keys:
            raise unauthorized("the request has several Authorization headers: send one")
        header = record.headers.get(b"authorization", b"").decode("latin-1")
        if header[: len(BEARER)].lower() != BEARER:
            raise unauthorized("an API key is needed: send Authorization: Bearer KEY")
        key = self._keys.find(header[len(BEARER) :].strip())
        if key is None:
            raise unauthorized("this API key is unknown or was revoked: use another one")
        return key


def require_scope(record: RequestRecord, scope: str) -> None:
    """Refuse a request whose key does not have the scope, unless access is open."""
    if record.guarded and (record.key is None or scope not in record.key.scopes):
        raise Refusal(403, f"the API key does not have the scope {scope}: use one that has it")


def _require_local(record: RequestRecord) -> None:
    """Refuse requests from other machines, by a proxy too, and of pages in a browser here."""
    host = record.headers.get(b"host", b"").decode("latin-1").lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    foreign = not FOREIGN.isdisjoint(record.headers)
    if foreign or (host and not is_loopback(name.strip("[]"))):
        raise Refusal(
            403,
            "without API keys only programs on this machine are answered, by its own names: "
            "add a key (neardup keys add), or use 127.0.0.1",
        )


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Return whether a host name or address is a loopback address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("192.0.2.7")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
