"""A token bucket: a rate and a burst, kept as two numbers and refilled when it is asked, without a timer.

A batch is taken at once, as soon as one token is there, so a batch larger than the burst is possible. The bucket then
owes the rest, and gives nothing until that is paid back. What was taken before the last batch is less than the burst
and what the rate gave since the beginning; a caller that waits as told gets at least that, up to one batch.
"""

from goqueue.clock import NANOSECONDS

_LEAST_WAIT_SECONDS = 0.001
_ENOUGH = 1 - 1e-6
"""One token, as far as sums of fractions are exact."""


class TokenBucket:
    """Tokens of one rate. The caller passes the monotonic time."""

    __slots__ = ("_at_ns", "_level", "_per_ns", "asked", "burst", "rate")

    def __init__(self, rate: float, burst: float, now_ns: int) -> None:
        assert rate > 0, "a rate of nothing would never let a caller go on"
        assert burst >= 1, "a bucket without room for a token lets nothing pass"
        self.rate = rate
        """Tokens per second."""
        self.burst = burst
        """Tokens that an unused bucket holds."""
        self._per_ns = rate / NANOSECONDS
        self._level = burst
        self._at_ns = now_ns
        self.asked = 0.0
        """Tokens that were asked for, also in vain."""

    def change(self, rate: float, burst: float, now_ns: int) -> None:
        """Give another rate from now on. What is there stays, as far as it has room."""
        self._level = min(self.level(now_ns), burst)
        self.rate, self.burst, self._per_ns = rate, burst, rate / NANOSECONDS

    def take(self, amount: float, now_ns: int) -> bool:
        """Take a batch of tokens if at least one is there. False takes nothing."""
        self.asked += amount
        if self.level(now_ns) < _ENOUGH:
            return False
        self._level -= amount
        return True

    def spend(self, amount: float, now_ns: int) -> None:
        """Take tokens for what has been done already, also from an empty bucket."""
        self.asked += amount
        self._level = self.level(now_ns) - amount

    def hold(self, most: int, now_ns: int) -> int:
        """Take the whole tokens that are there, at most so many, and return their number."""
        level = self.level(now_ns)
        if level < 1:
            return 0
        held = most if level >= most else int(level)
        self._level = level - held
        self.asked += held
        return held

    def give_back(self, amount: float) -> None:
        """Return tokens of work that was not done."""
        self.asked -= amount
        self._level = min(self.burst, self._level + amount)

    def level(self, now_ns: int) -> float:
        """Return the tokens that are left; negative while a batch is paid back.

        A clock that goes back gives nothing for that time, and one that jumps ahead fills the bucket once.
        """
        elapsed_ns = now_ns - self._at_ns
        self._at_ns = now_ns
        if elapsed_ns > 0:
            self._level = min(self.burst, self._level + elapsed_ns * self._per_ns)
        return self._level

    def wait_seconds(self, now_ns: int, tokens: float = 1) -> float:
        """Return the time until so many tokens are there, and a batch can be taken; 0 if they are now."""
        level = self.level(now_ns)
        return 0.0 if level >= tokens * _ENOUGH else max(_LEAST_WAIT_SECONDS, (tokens - level) / self.rate)

    def __repr__(self) -> str:
        return f"<TokenBucket {self._level:.1f} of {self.burst:g}, {self.rate:g}/s>"
