"""A reader for threads: asks ahead, so that the broker works on the next answer while this one is read.

There is no thread: a request that is written lies with the broker, and its answer in the kernel until it is wanted.
"""

import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from types import TracebackType
from typing import Self

from goqueue.client.blocking import Connection
from goqueue.client.calls import Call
from goqueue.client.fetches import Fetched
from goqueue.client.message import Message
from goqueue.client.reading import Lane, matched, outcome, positions, scanned
from goqueue.client.retry import Backoff
from goqueue.errors import ChecksumMismatch, GoQueueError, RequestInvalid, TransientError


class _Line:
    """A lane and the connection of its own, on which the next answer is under way."""

    def __init__(self, lane: Lane, connection: Connection, timeout: float) -> None:
        self.lane = lane
        self._connection = connection
        self._timeout = timeout
        self._backoff = Backoff()
        self._asked: Call[Fetched] | None = None
        self._failed: GoQueueError | None = None
        self._deadline = 0.0
        self._trying_until = 0.0
        self._not_before = 0.0

    def ask(self) -> None:
        """Write the next request, unless one is under way, or it is too soon after a failure."""
        if self._asked is not None or self.lane.done or time.monotonic() < self._not_before:
            return
        call = self.lane.call()
        now = time.monotonic()
        self._deadline = now + call.patience + self._timeout
        self._trying_until = self._trying_until or self._deadline
        self._asked, self._failed = call, None
        try:
            self._connection.send(call, self._deadline)
        except GoQueueError as error:
            self._failed = error

    def excuse(self, seconds: float) -> None:
        """Nobody waited for so long: the time that an answer may take stood still."""
        if self._asked is not None:
            self._deadline += seconds
        if self._trying_until:
            self._trying_until += seconds

    @property
    def ready_in(self) -> float:
        """Seconds until there is something to do without an answer."""
        if self._failed is not None:
            return 0.0
        return max((self._deadline if self._asked is not None else self._not_before) - time.monotonic(), 0.0)

    def fileno(self) -> int:
        return self._connection.fileno() if self._asked is not None and self._failed is None else -1

    def take(self) -> list[Message]:
        """The answer, and the next request on its way before anybody reads it."""
        call, self._asked = self._asked, None
        if call is None:
            return []
        try:
            if self._failed is not None:
                raise self._failed
            answer = self._connection.receive(self._deadline)
            result: Fetched | GoQueueError = call.decode(answer)
            self._backoff.attempts, self._trying_until = 0, 0.0
        except (TransientError, ChecksumMismatch) as error:
            now = time.monotonic()
            self._not_before = now + self._backoff.next(error)
            if self._not_before >= self._trying_until:
                raise
            return []
        except GoQueueError as error:
            result = error
        messages = outcome(self.lane, result)
        self.ask()
        return messages

    def close(self) -> None:
        self._connection.close()


class Reader:
    """Messages of one or several partitions, each partition in its order.

    Iterate it for messages, or `batches()` for lists of them; use one of the two. A connection for each partition is
    open until the end, `close()`, or the end of its `with` block. One thread may use it at a time.
    """

    def __init__(self, lanes: list[Lane], connect: Callable[[], Connection], timeout: float) -> None:
        self._lanes = lanes
        self._lines = deque(_Line(lane, connect(), timeout) for lane in lanes if not lane.done)
        self._closed = False
        self._left_at: float | None = None
        """Since when the caller has been busy with what it got, if it is."""

    @property
    def positions(self) -> dict[int, int]:
        """By partition the offset behind the last list of messages: with `batches()`, where to go on later."""
        return positions(self._lanes)

    @property
    def scanned(self) -> int:
        """How many messages the broker has looked at so far; without filters those that it gave."""
        return scanned(self._lanes)

    @property
    def matched(self) -> int:
        """How many of them it gave."""
        return matched(self._lanes)

    def __iter__(self) -> Iterator[Message]:
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[Message]]:
        """Lists of messages, each of one partition, as the broker's answers come; none is empty."""
        if self._closed:
            raise RequestInvalid("this reader is closed", hint="make another one with client.reader()")
        while self._lines and not self._closed:
            self._return()
            line = self._first_ready()
            try:
                messages = line.take()
            except BaseException:
                self.close()
                raise
            if line.lane.done:
                line.close()
                self._lines.remove(line)
            if messages:
                self._left_at = time.monotonic()
                yield messages

    def _return(self) -> None:
        left_at, self._left_at = self._left_at, None
        if left_at is not None:
            away = time.monotonic() - left_at
            for line in self._lines:
                line.excuse(away)

    def _first_ready(self) -> _Line:
        """The line whose answer comes first; those that were served wait behind the others."""
        for line in self._lines:
            line.ask()
        if len(self._lines) == 1 and self._lines[0].fileno() >= 0:
            return self._lines[0]  # its answer is awaited where it is read
        while True:
            poll = select.poll()
            by_file = {line.fileno(): line for line in self._lines if line.fileno() >= 0}
            for file in by_file:
                poll.register(file, select.POLLIN)
            delay = min(line.ready_in for line in self._lines)
            found = {file for file, _ in poll.poll(delay * 1000)}
            for line in self._lines:
                if line.fileno() in found or line.ready_in == 0.0:
                    line.ask()
                    self._lines.remove(line)
                    self._lines.append(line)
                    return line

    def close(self) -> None:
        self._closed = True
        for line in self._lines:
            line.close()
        self._lines.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Reader {self.positions}>"
