"""Who may use the service, and how much at once: API keys, scopes, rates and room."""

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
    """Token buckets, a bounded number of them: how many documents a second a name may send.

    A bucket fills at `rate` up to `burst` and is emptied by what is sent. A name with one token
    left may send any number of documents: what is taken beyond the tokens is owed, and has to be
    waited for. So a batch larger than a burst is slow, not impossible. Time comes in as an
    argument; one that goes backwards fills nothing.

    Args:
        rate: tokens a second; 0 is no limit.
        burst: the most tokens that a bucket holds.
        most: buckets that are remembered; the one unused for longest is forgotten.

    >>> buckets = RateBuckets(rate=10, burst=20, most=100)
    >>> buckets.take("a", 30, now=0.0), buckets.wait("a", now=0.0), buckets.wait("a", now=2.0)
    (0.0, 1.1, 0.0)
    """

    def __init__(self, rate: int, burst: int, most: int) -> None:
        self._rate, self._burst, self._most = rate, float(burst), most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, name: str, cost: int, now: float) -> float:
        """Take `cost` tokens and return 0.0, or take none and return the seconds to wait."""
        wait = self.wait(name, now)
        if not wait:
            self.owe(name, cost, now)
        return wait

    def owe(self, name: str, cost: int, now: float) -> None:
        """Take `cost` tokens, even if fewer are left."""
        if self._rate:
            self._levels[name] = self._level(name, now) - cost, now
            self._levels.move_to_end(name)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)

    def wait(self, name: str, now: float) -> float:
        """Seconds until one token is left."""
        level = self._level(name, now)
        return 0.0 if level >= 1 or not self._rate else (1 - level) / self._rate

    def _level(self, name: str, now: float) -> float:
        level, then = self._levels.get(name, (self._burst, now))
        return min(self._burst, level + max(0.0, now - then) * self._rate)


OPEN_PATHS: Final = frozenset(["/healthz", "/readyz", "/openapi.json"])
"""Paths that need no key, and are answered at any time."""
BEARER: Final = "bearer "


class AccessGate:
    """Lets requests in by key, rate and room. Used by one event loop, not by several threads.

    Args:
        limits: the rates and numbers that are allowed.
        keys: the API keys of the data folder.
        say: hears why keys can't be read.
        guarded: whether a key is needed even if the file of keys is not there any more.
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

    def enter(self, record: RequestRecord, path: str) -> None:
        """Let a request in, or refuse it; afterwards it must `leave`. A request to an open path,
        and one that is refused, takes no place.

        Args:
            record: of the request.
            path: that it asks for.
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
            raise Busy("more requests are under way than there is room for: try again")
        record.inside = True
        self.requests += 1
        if record.key is not None:
            self._under_way[record.key.name] += 1

    def check_again(self, record: RequestRecord, scope: str) -> None:
        """Refuse a request that was let in, if its key has been revoked since."""
        require_scope(replace(record, key=self._identify(record)), scope)

    def leave(self, record: RequestRecord) -> None:
        """Give back the place and the memory of a request."""
        self.bytes -= record.bytes
        if not record.inside:
            return
        self.requests -= 1
        if record.key is not None:
            self._under_way[record.key.name] -= 1
            if not self._under_way[record.key.name]:
                del self._under_way[record.key.name]

    def hold(self, record: RequestRecord, count: int) -> None:
        """Let a request hold `count` bytes of its body, if there is room for them."""
        others = self.bytes - record.bytes
        if others + count > self._limits.bytes_under_way:
            raise Busy("the bodies of all requests fill the memory for them: try again")
        record.bytes, self.bytes = count, others + count

    def charge(self, record: RequestRecord, documents: int, now: float) -> None:
        """Count the documents of a request. The first is counted when it is let in."""
        extra = documents - (record.documents == 0)
        record.documents += documents
        self._by_source.owe(record.source, extra, now)
        if record.key is not None:
            self._by_key.owe(record.key.name, extra, now)

    def wait_seconds(self, record: RequestRecord, now: float) -> float:
        """Seconds until the key and the address of a request may send more."""
        wait = self._by_source.wait(record.source, now)
        return max(wait, self._by_key.wait(record.key.name, now)) if record.key else wait

    def _check_key(self, name: str, now: float) -> None:
        if wait := self._by_key.take(name, 1, now):
            raise rate_exceeded(wait)
        if self._under_way[name] >= self._limits.key_requests:
            raise key_busy(self._limits.key_requests)

    def _identify(self, record: RequestRecord) -> ApiKey | None:
        """The key of a request; None where access is open."""
        try:
            record.guarded = self._guarded or self._keys.guarded
            return self._find_key(record)
        except FormatError as error:
            self._say(str(error))
            raise Refusal(
                503, "the API keys can't be read: the log of the service says why"
            ) from None

    def _find_key(self, record: RequestRecord) -> ApiKey | None:
        if not record.guarded:
            _require_local(record)
            return None
        if record.several_keys:
            raise unauthorized("there are several Authorization headers: send one")
        header = record.headers.get(b"authorization", b"").decode("latin-1")
        if header[: len(BEARER)].lower() != BEARER:
            raise unauthorized("an API key is needed: send Authorization: Bearer KEY")
        key = self._keys.find(header[len(BEARER) :].strip())
        if key is None:
            raise unauthorized("this API key is unknown or was revoked: use another one")
        return key


def require_scope(record: RequestRecord, scope: str) -> None:
    """Refuse a request whose key does not have the scope. Where access is open, all have it."""
    if record.guarded and (record.key is None or scope not in record.key.scopes):
        raise Refusal(403, f"the API key does not have the scope {scope}: use one that has it")


def _require_local(record: RequestRecord) -> None:
    """Access is open to programs on this machine, not to pages in a browser on it."""
    host = record.headers.get(b"host", b"").decode("latin-1").lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if b"origin" in record.headers or (host and not is_loopback(name.strip("[]"))):
        raise Refusal(
            403,
            "without API keys only programs on this machine are answered, by its own names: "
            "add a key (neardup keys add), or use 127.0.0.1",
        )


@lru_cache(64)
def is_loopback(host: str) -> bool:
    """Whether a name or address is that of the machine itself.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("192.0.2.7")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
