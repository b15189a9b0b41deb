"""How many documents a second somebody may send: token buckets, a bounded number of them."""

from __future__ import annotations

from collections import OrderedDict


class Buckets:
    """A bucket fills at `rate` up to `burst` and is emptied by what is sent.

    Who has one left may send, however many: what is taken beyond that is owed, and has to be
    waited for. So a batch larger than a burst is slow, not impossible. Time comes in as an
    argument; one that goes backwards fills nothing. Those not seen for longest are forgotten.

    >>> buckets = Buckets(rate=10, burst=20, most=100)
    >>> buckets.take("a", 30, now=0.0), buckets.wait("a", now=0.0), buckets.wait("a", now=2.0)
    (0.0, 1.1, 0.0)
    """

    def __init__(self, rate: int, burst: int, most: int) -> None:
        self._rate, self._burst, self._most = rate, float(burst), most
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, name: str, cost: int, now: float) -> float:
        """Take so much, or say how many seconds to wait, with nothing taken."""
        wait = self.wait(name, now)
        if not wait:
            self.owe(name, cost, now)
        return wait

    def owe(self, name: str, cost: int, now: float) -> None:
        """Take so much, whatever is left."""
        if self._rate:
            self._levels[name] = self._level(name, now) - cost, now
            self._levels.move_to_end(name)
            if len(self._levels) > self._most:
                self._levels.popitem(last=False)

    def wait(self, name: str, now: float) -> float:
        """Seconds until one is left."""
        level = self._level(name, now)
        return 0.0 if level >= 1 or not self._rate else (1 - level) / self._rate

    def _level(self, name: str, now: float) -> float:
        level, then = self._levels.get(name, (self._burst, now))
        return min(self._burst, level + max(0.0, now - then) * self._rate)
