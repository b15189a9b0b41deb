"""Access to the service: API keys, scopes, rates, and the number of requests under way."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

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
        seconds: those of a rate that a bucket holds.
        most: the buckets that are kept; the least recently used one is dropped.

    >>> buckets = RateBuckets(rate=10, seconds=2, most=100)
    >>> buckets.take("a", 30, now=0.0), buckets.wait("a", now=0.0), buckets.wait("a", now=2.0)
    (0.0, 1.1, 0.0)
    """

    def __init__(self, rate: int, seconds: int, most: int) -> None:
        self._rate, self._seconds, self._most = rate, seconds, most
        self._own: dict[str, int] = {}
        """The names whose rates are their own."""
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._taken: Counter[str] | None = None
        """Tokens since the last `take_account`; None until that is called."""

    def __len__(self) -> int:
        return len(self._levels)

    def change(self, rate: int, seconds: int, most: int) -> None:
        """Go on with another rate; tokens that were taken stay taken."""
        self._rate, self._seconds, self._most = rate, seconds, most

    def set_own(self, name: str, rate: int | None) -> None:
        """Give a name a rate of its own, or None for that of all."""
        if rate is None:
            self._own.pop(name, None)
        else:
            self._own[name] = rate

    def take(self, name: str, cost: int, now: float) -> float:
        """Take `cost` tokens and return 0.0, or take none and return the seconds to wait."""
        wait = self.wait(name, now)
        if not wait:
            self.owe(name, cost, now)
        return wait

    def owe(self, name: str, cost: int, now: float) -> None:
        """Take `cost` tokens, even if the bucket has fewer."""
        if not self._rate_of(name):
            return
        if self._taken is not None and (name in self._taken or len(self._taken) < self._most):
            self._taken[name] += cost
        self.owe_for_others(name, cost, now)

    def take_account(self) -> dict[str, int]:
        """Return the tokens that were taken since the last call, by name."""
        taken, self._taken = self._taken, Counter()
        return dict(taken or {})

    def owe_for_others(self, name: str, cost: int, now: float) -> None:
        """Take tokens that other services have given to this name."""
        if self._rate_of(name):
            self._levels[name] = self._level(name, now) - cost, now
            self._levels.move_to_end(name)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)

    def wait(self, name: str, now: float) -> float:
        """Return the seconds until the bucket has one token."""
        rate = self._rate_of(name)
        level = self._level(name, now)
        return 0.0 if level >= 1 or not rate else (1 - level) / rate

    def _rate_of(self, name: str) -> int:
        return self._own.get(name, self._rate)

    def _level(self, name: str, now: float) -> float:
        rate = self._rate_of(name)
        burst = float(rate * self._seconds)
        level, then = self._levels.get(name, (burst, now))
        return min(burst, level + max(0.0, now - then) * rate)


class Rates(NamedTuple):
    """The rates of keys, or those of addresses."""

    documents: RateBuckets
    bytes: RateBuckets

    def admit(self, name: str, now: float) -> None:
        """Charge a request as one document, or refuse it."""
        wait = self.bytes.wait(name, now) or self.documents.take(name, 1, now)
        if wait:
            raise rate_exceeded(wait)

    def wait(self, name: str, now: float) -> float:
        """Return the seconds until the name may send more."""
        return max(self.documents.wait(name, now), self.bytes.wait(name, now))


class Places:
    """The places of requests under way, and those that each key holds.

    Args:
        what: what they are for, in messages.
        most: their number.
        of_key: those that one key may hold.
    """

    def __init__(self, what: str, most: int, of_key: int) -> None:
        self._what, self._held = what, Counter[str]()
        self.taken = 0
        self.change(most, of_key)

    def change(self, most: int, of_key: int) -> None:
        """Go on with another number of places; those that are taken stay taken."""
        self._most, self._of_key = most, of_key

    def take(self, key: ApiKey | None) -> None:
        """Take a place, or raise why there is none."""
        if key is not None and self._held[key.name] >= self._of_key:
            raise key_busy(self._of_key, self._what)
        if self.taken >= self._most:
            raise Busy(f"the limit of {self._what} under way is reached: try again")
        self.taken += 1
        if key is not None:
            self._held[key.name] += 1

    def release(self, key: ApiKey | None) -> None:
        """Give the place back."""
        self.taken -= 1
        if key is not None:
            self._held[key.name] -= 1
            if not self._held[key.name]:
                del self._held[key.name]


OPEN_PATHS: Final = frozenset(["/", "/healthz", "/readyz", "/openapi.json"])
"""Paths that need no key and no place among the requests under way."""
REVIEW_PATH: Final = "/review"
"""The beginning of the paths of the review page, which has sessions instead of keys."""
WATCHED_PATHS: Final = frozenset(["/metrics"])
"""Paths with places of their own and without a rate, so that a busy service can be watched."""
WATCHERS: Final = 8
"""Requests to them that may be under way."""
BEARER: Final = "bearer "
FOREIGN: Final = frozenset(
    [
        b"origin",
        *(b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip"),
        *(b"x-forwarded", b"x-forwarded-for", b"x-forwarded-by", b"x-forwarded-host"),
        *(b"x-forwarded-port", b"x-forwarded-proto", b"x-forwarded-scheme"),
        *(b"x-forwarded-server", b"x-forwarded-ssl", b"x-original-forwarded-for"),
        *(b"forwarded-for", b"x-proxyuser-ip", b"true-client-ip", b"cf-connecting-ip"),
        *(b"fastly-client-ip", b"x-appengine-user-ip", b"x-azure-clientip"),
        *(b"x-envoy-external-address", b"x-amzn-trace-id", b"cdn-loop"),
    ]
)
"""Headers of requests that a page in a browser makes, or that a proxy forwards for others."""
OLD_HTTP: Final = "1.0"
"""What nginx speaks to a service by default, without any header that shows it."""


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

        def rate(each: int) -> RateBuckets:
            return RateBuckets(each, seconds, most)

        self._by_key = Rates(rate(limits.key_rate), rate(limits.key_byte_rate))
        self._by_source = Rates(rate(limits.source_rate), rate(limits.source_byte_rate))
        self.requests = Places("requests", limits.requests, limits.key_requests)
        self.streams = Places("streams", limits.streams, limits.key_streams)
        self._watchers = Places("requests for metrics", WATCHERS, WATCHERS)
        self.bytes = 0
        self._bytes_of: Counter[str] = Counter()
        """The same by key or address."""

    def change_limits(self, limits: ServiceLimits) -> None:
        """Go on with other limits; what clients have taken, and what is under way, counts on."""
        self._limits = limits
        seconds, most = limits.burst_seconds, limits.sources
        self._by_key.documents.change(limits.key_rate, seconds, most)
        self._by_key.bytes.change(limits.key_byte_rate, seconds, most)
        self._by_source.documents.change(limits.source_rate, seconds, most)
        self._by_source.bytes.change(limits.source_byte_rate, seconds, most)
        self.requests.change(limits.requests, limits.key_requests)
        self.streams.change(limits.streams, limits.key_streams)

    @property
    def rates(self) -> dict[str, RateBuckets]:
        """All rates, by names for other services."""
        return {
            "key": self._by_key.documents,
            "key-bytes": self._by_key.bytes,
            "source": self._by_source.documents,
            "source-bytes": self._by_source.bytes,
        }

    def enter(self, record: RequestRecord, path: str) -> None:
        """Admit a request, or raise why it is refused; an admitted request must `leave`.

        A request to an open path, and a refused one, does not count as under way.

        Args:
            record: the record of the request.
            path: the path of the request.
        """
        if path in OPEN_PATHS:
            return
        watched = path in WATCHED_PATHS
        if is_review(path):
            self._check_source(record)
        else:
            self._admit_party(record, watched)
        self._take_place(record, self._watchers if watched else self.requests)

    def enter_stream(self, record: RequestRecord) -> None:
        """Give an admitted request a place among the streams, in exchange for its own."""
        before = record.places
        self._take_place(record, self.streams)
        if before is not None:
            before.release(record.key)

    def check_again(self, record: RequestRecord, scope: str) -> None:
        """Refuse an admitted request if its key has been revoked since."""
        require_scope(replace(record, key=self._identify(record)), scope)

    def leave(self, record: RequestRecord) -> None:
        """Release the place and the memory of a request."""
        self._keep(record, 0)
        if record.places is not None:
            record.places.release(record.key)

    def hold(self, record: RequestRecord, count: int) -> None:
        """Reserve memory for `count` bytes of a request's body, or raise `Busy`.

        The requests of one key get at most half of the memory, unless it is one alone.
        """
        most = self._limits.bytes_under_way
        if self.bytes - record.bytes + count > most:
            raise Busy("the bodies of all requests under way fill their memory limit: try again")
        others = self._bytes_of[record.party] - record.bytes
        if record.key is not None and others and others + count > most // 2:
            raise Busy("the bodies of this key's requests fill their memory limit: try again")
        self._keep(record, count)

    def _keep(self, record: RequestRecord, count: int) -> None:
        more, record.bytes = count - record.bytes, count
        self.bytes += more
        self._bytes_of[record.party] += more
        if not self._bytes_of[record.party]:
            del self._bytes_of[record.party]

    def charge(
        self, record: RequestRecord, documents: int, now: float, empty_lines: int = 0
    ) -> None:
        """Charge the documents of a request, and the empty lines between them, to its rate.

        The first document is charged on entry.
        """
        extra = documents - (record.documents == 0 and documents > 0)
        record.documents += documents
        self._rates(record).documents.owe(record.party, extra + empty_lines, now)

    def charge_bytes(self, record: RequestRecord, count: int, now: float) -> None:
        """Charge bytes of a request's body to its rate."""
        record.body_bytes += count
        self._rates(record).bytes.owe(record.party, count, now)

    def wait_seconds(self, record: RequestRecord, now: float) -> float:
        """Return the seconds until the key or the address of a request may send more."""
        return self._rates(record).wait(record.party, now)

    def _rates(self, record: RequestRecord) -> Rates:
        return self._by_source if record.key is None else self._by_key

    def _admit_party(self, record: RequestRecord, watched: bool) -> None:
        """Find the key of a request, and admit the key or, without one, the address.

        A key has a rate of its own, whoever else is behind the same address. Requests to watched
        paths count against no rate.
        """
        try:
            record.key = self._identify(record)
        except Refusal:  # Guessing keys is slowed down too.
            self._check_source(record)
            raise
        if watched:
            return
        if record.key is None:
            self._check_source(record)
        else:
            self._by_key.admit(record.key.name, record.started)

    def _check_source(self, record: RequestRecord) -> None:
        self._by_source.admit(record.source, record.started)

    def _take_place(self, record: RequestRecord, places: Places) -> None:
        places.take(record.key)
        record.places = places

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
        if key.expired:
            raise unauthorized(f"this API key has expired on {key.expires}: use another one")
        self._by_key.documents.set_own(key.name, key.rate)
        return key


def is_review(path: str) -> bool:
    """Return whether a path is one of the review page."""
    return path == REVIEW_PATH or path.startswith(f"{REVIEW_PATH}/")


def require_scope(record: RequestRecord, scope: str) -> None:
    """Refuse a request whose key does not have the scope, unless access is open."""
    if record.guarded and (record.key is None or scope not in record.key.scopes):
        raise Refusal(403, f"the API key does not have the scope {scope}: use one that has it")


def _require_local(record: RequestRecord) -> None:
    """Refuse requests from other machines, by a proxy too, and of pages in a browser here."""
    host = record.headers.get(b"host", b"").decode("latin-1").lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    foreign = record.http_version == OLD_HTTP or not FOREIGN.isdisjoint(record.headers)
    if foreign or (host and not is_loopback(name.strip("[]"))):
        raise Refusal(
            403,
            "without API keys only programs on this machine are answered, by its own names, not "
            "through a proxy and not with HTTP/1.0: add a key (neardup keys add), or use 127.0.0.1",
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
