"""A reader: requests ahead, so that the broker works on the next answer while this one is read."""

from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any, Self

from goqueue.client._async import run_sequence
from goqueue.client.api_request import ApiRequest
from goqueue.client.async_connection import AsyncConnection, wait_for_arrival
from goqueue.client.fetch_requests import FetchResult
from goqueue.client.message import Message, decodable
from goqueue.client.partition_reads import PartitionStreamCore, ReaderCore, ReadOptions, open_partitions
from goqueue.client.tasks import flatten
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.serializers.message_decoding import MessageDecoding


class AsyncPartitionStream(PartitionStreamCore[AsyncConnection]):
    """A partition and its connection, on which the next answer is under way."""

    async def ask(self) -> None:
        """Send the next request, unless one is under way or the last failure was too recent."""
        call = self._next_call()
        if call is not None:
            try:
                await self.connection.send(call, self._deadline)
            except GoQueueError as error:
                self._failed = error

    async def take(self) -> list[Message]:
        """Receive the answer, and send the next request before the caller reads it."""
        call, self._asked = self._asked, None
        if call is None:
            return []
        try:
            if self._failed is not None:
                raise self._failed
            answer = await self.connection.receive(self._deadline)
            result: FetchResult | GoQueueError = self.connection.decode(call, answer)
        except GoQueueError as error:
            result = error
        messages = self._taken(result)
        await self.ask()
        return messages


class AsyncReader(ReaderCore[AsyncPartitionStream]):
    """Reads the messages of one or several partitions, each partition in its order.

    Iterate it for messages, or `batches()` for lists of them; use one of the two. A connection for each partition is
    open until the end, `close()`, or the end of its `async with` block. One task may use it at a time.
    """

    def __init__(
        self,
        options: ReadOptions,
        ask: Callable[[ApiRequest[Any]], Any],
        connect: Callable[[], AsyncConnection],
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

    async def open(self) -> Self:
        """Find out where to begin and to end, if that is not known yet."""
        self._check_open()
        if not self._begun:
            await self._open_partitions()
        return self

    async def _open_partitions(self) -> None:
        """Open all partitions, or those that were added to the topic since."""
        cursors = await run_sequence(open_partitions(self._options, len(self._cursors), self._is_in_cluster), self._ask)
        self._begin(
            cursors,
            [AsyncPartitionStream(one, self._connect(), self._timeout) for one in cursors if not one.done],
        )

    def __await__(self) -> Generator[Any, None, Self]:  # async only
        return self.open().__await__()

    def __aiter__(self) -> AsyncIterator[Message]:
        return flatten(self.batches())

    async def batches(self) -> AsyncIterator[list[Message]]:
        """Yield lists of messages, each of one partition, as the answers arrive; none is empty."""
        await self.open()
        while self._streams and not self._closed:
            self._return()
            try:
                stream = await self._first_ready()
                messages = await stream.take()
                if self._has_added(stream, self._options):
                    await self._open_partitions()
            except BaseException:
                self._end()
                raise
            self._left(stream, messages)
            if messages and self._decoding is not None:
                await run_sequence(self._decoding.load(messages), self._ask)
                messages = decodable(messages, self._decoding)
            if messages:
                yield messages

    async def _first_ready(self) -> AsyncPartitionStream:
        """Return the stream whose answer comes first; streams that were served wait behind the others."""
        for stream in list(self._streams):
            await stream.ask()
        if len(self._streams) == 1 and self._streams[0].is_waiting:
            return self._streams[0]  # `take` waits for its answer
        while True:
            waiting = [stream.connection for stream in self._streams if stream.is_waiting]
            await wait_for_arrival(waiting, min(stream.ready_in for stream in self._streams))
            for stream in self._streams:
                if stream.is_ready:
                    await stream.ask()
                    self._streams.remove(stream)
                    self._streams.append(stream)
                    return stream

    async def close(self) -> None:
        self._end()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *error: object) -> None:
        await self.close()
