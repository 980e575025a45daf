"""What happens to transactions by time: nobody waits for ever behind one of which nothing is heard."""

from collections.abc import Callable

from goqueue.broker.deadlines import Deadlines
from goqueue.broker.transactions.records import Registered
from goqueue.broker.transactions.register import Register
from goqueue.broker.transactions.states import PREPARED
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import TRANSACTION_HUNG_SECONDS, TRANSACTION_SECONDS_MAX

_AGAIN_NS = NANOSECONDS
_MOST_NS = round(TRANSACTION_SECONDS_MAX * NANOSECONDS)
_ALL = ""
_HUNG_NS = round(TRANSACTION_HUNG_SECONDS * NANOSECONDS)


class Patience:
    """With the transactions of one register. `give_up` is called with one that has taken too long, and `go_on` with the
    id of one that could not be carried out everywhere."""

    def __init__(
        self,
        register: Register,
        clock: Clock,
        give_up: Callable[[Registered], None],
        go_on: Callable[[str], object],
    ) -> None:
        self.deadlines = Deadlines()
        self.on_hung: Callable[[Registered], None] = lambda _: None
        """Called once for a transaction that is open for long."""
        self._register = register
        self._clock = clock
        self._give_up = give_up
        self._go_on = go_on
        self._heard: dict[str, int] = {}
        """When something was heard last of those that are ongoing."""
        self._looked_ns = 0
        """When it was looked last for those that are open for long."""
        self._expiry = self.deadlines.kind(self._expire)
        self._alarm = self.deadlines.kind(self._warn)
        self._repeat = self.deadlines.kind(self._again)

    def begin(self, known: Registered, now_ns: int) -> None:
        """Its transaction begins."""
        self._heard[known.id] = now_ns
        self.deadlines.add(now_ns + min(known.timeout_ns, _MOST_NS), self._expiry, known.id)
        self.deadlines.add(now_ns + _HUNG_NS, self._alarm, _ALL)

    def hear(self, name: str) -> None:
        """It is alive."""
        if name in self._heard:
            self._heard[name] = self._clock.now_ns()

    def end(self, name: str) -> None:
        self._heard.pop(name, None)

    def try_again(self, name: str) -> None:
        """It could not be carried out everywhere."""
        self.deadlines.add(self._clock.now_ns() + _AGAIN_NS, self._repeat, name)

    def idle_ns(self, record: Registered) -> int:
        """How long nothing was heard of it."""
        return self._clock.now_ns() - self._heard.get(record.id, record.changed_ns)

    def expires_ns(self, record: Registered) -> int:
        """When one that is ongoing is aborted, if nothing more is heard of it."""
        return min(self._heard.get(record.id, 0) + record.timeout_ns, record.began_ns + _MOST_NS)

    def _expire(self, name: str) -> int | None:
        known = self._register.by_id.get(name)
        if known is None or known.state != "ongoing":
            return None
        now_ns, due_ns = self._clock.now_ns(), self.expires_ns(known)
        if now_ns < due_ns:
            return due_ns
        try:
            self._give_up(known)
        except GoQueueError:
            return now_ns + _AGAIN_NS
        return now_ns + _AGAIN_NS  # should it be refused later

    def _warn(self, _: str) -> int | None:
        """One look for all of them, of which the oldest is the first."""
        now_ns, looked_ns = self._clock.now_ns(), self._looked_ns
        self._looked_ns = now_ns
        for known in self._register.open_ones():
            due_ns = known.began_ns + _HUNG_NS
            if due_ns > now_ns:
                return max(due_ns, now_ns + _AGAIN_NS)
            if due_ns > looked_ns:
                self.on_hung(known)
        return None

    def _again(self, name: str) -> None:
        known = self._register.by_id.get(name)
        if known is not None and known.state in PREPARED:
            self._go_on(name)

    def __repr__(self) -> str:
        return f"<Patience with {len(self._heard)}>"
