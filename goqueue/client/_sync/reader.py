# Generated from goqueue/client/_async/reader.py; edit that and run `make fmt`.
"""A reader: requests ahead, so that the broker works on the next answer while this one is read."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from goqueue.client._sync import run_sequence
from goqueue.client.api_request import ApiRequest
from goqueue.client.connection import Connection, wait_for_arrival
from goqueue.client.fetch_requests import FetchResult
from goqueue.client.message import Message, decodable
from goqueue.client.partition_reads import PartitionStreamCore, ReaderCore, ReadOptions, open_partitions
from goqueue.client.threads import flatten
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.serializers.message_decoding import MessageDecoding


class PartitionStream(PartitionStreamCore[Connection]):
    """A partition and its connection, on which the next answer is under way."""

    def ask(self) -> None:
        """Send the next request, unless one is under way or the last failure was too recent."""
        call = self._next_call()
        if call is not None:
            try:
                self.connection.send(call, self._deadline)
            except GoQueueError as error:
                self._failed = error

    def take(self) -> list[Message]:
        """Receive the answer, and send the next request before the caller reads it."""
        call, self._asked = self._asked, None
        if call is None:
            return []
        try:
            if self._failed is not None:
                raise self._failed
            answer = self.connection.receive(self._deadline)
            result: FetchResult | GoQueueError = self.connection.decode(call, answer)
        except GoQueueError as error:
            result = error
        messages = self._taken(result)
        self.ask()
        return messages


class Reader(ReaderCore[PartitionStream]):
    """Reads the messages of one or several partitions, each partition in its order.

    Iterate it for messages, or `batches()` for lists of them; use one of the two. A connection for each partition is
    open until the end, `close()`, or the end of its `with` block. One thread may use it at a time.
    """

    def __init__(
        self,
        options: ReadOptions,
        ask: Callable[[ApiRequest[Any]], Any],
        connect: Callable[[], Connection],
        timeout: float,
        decoding: "MessageDecoding | None" = None,
        is_in_cluster: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self._is_in_cluster = is_in_cluster
        self._decoding = decoding
        self._options = options
        self._ask = ask
        self._connect = connect
        self._timeout = timeout

    def open(self) -> Self:
        """Find out where to begin and to end, if that is not known yet."""
        self._check_open()
        if not self._begun:
            self._open_partitions()
        return self

    def _open_partitions(self) -> None:
        """Open all partitions, or those that were added to the topic since."""
        cursors = run_sequence(open_partitions(self._options, len(self._cursors), self._is_in_cluster), self._ask)
        self._begin(
            cursors,
            [PartitionStream(one, self._connect(), self._timeout) for one in cursors if not one.done],
        )

    def __iter__(self) -> Iterator[Message]:
        return flatten(self.batches())

    def batches(self) -> Iterator[list[Message]]:
        """Yield lists of messages, each of one partition, as the answers arrive; none is empty."""
        self.open()
        while self._streams and not self._closed:
            self._return()
            try:
                stream = self._first_ready()
                messages = stream.take()
                if self._has_added(stream, self._options):
                    self._open_partitions()
            except BaseException:
                self._end()
                raise
            self._left(stream, messages)
            if messages and self._decoding is not None:
                run_sequence(self._decoding.load(messages), self._ask)
                messages = decodable(messages, self._decoding)
            if messages:
                yield messages

    def _first_ready(self) -> PartitionStream:
        """Return the stream whose answer comes first; streams that were served wait behind the others."""
        for stream in list(self._streams):
            stream.ask()
        if len(self._streams) == 1 and self._streams[0].is_waiting:
            return self._streams[0]  # `take` waits for its answer
        while True:
            waiting = [stream.connection for stream in self._streams if stream.is_waiting]
            wait_for_arrival(waiting, min(stream.ready_in for stream in self._streams))
            for stream in self._streams:
                if stream.is_ready:
                    stream.ask()
                    self._streams.remove(stream)
                    self._streams.append(stream)
                    return stream

    def close(self) -> None:
        self._end()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *error: object) -> None:
        self.close()
