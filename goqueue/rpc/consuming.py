"""Streams of messages by position: each partition is read with long polls of its own, one batch ahead of the client."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import Any

from goqueue.limits import (
    READ_BYTES,
    RPC_AHEAD_BYTES,
    RPC_HEARTBEAT_SECONDS,
    RPC_HEARTBEAT_SECONDS_MIN,
    RPC_PARTITION_BYTES_MIN,
    RPC_PARTITIONS_MAX,
    RPC_READ_BYTES_MAX,
    WAIT_SECONDS_MAX,
)
from goqueue.rpc.session import CallSession, Response, path_of
from goqueue.rpc.status import invalid_request
from goqueue.rpc.stored_messages import MessageReader
from goqueue.rpc.transcoding import seconds_of, time_of
from goqueue.rpc.v1 import consume_pb2
from goqueue.wire.headers import FRAMES, HIGH_WATERMARK, NEXT_OFFSET

_EARLIEST, _LATEST, _OFFSET, _TIME = range(4)
_BATCHES_AHEAD = 2


def heartbeat(time_ns: int) -> Any:
    response = consume_pb2.ConsumeResponse()
    response.heartbeat.timestamp.FromNanoseconds(time_ns)
    return response


async def with_heartbeats(
    responses: AsyncGenerator[Any, None], seconds: float, time_ns: Callable[[], int]
) -> AsyncGenerator[Any, None]:
    """Yield the responses, and heartbeats while there are none."""
    following: asyncio.Task[Any] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(_next(responses))
            done, _ = await asyncio.wait({following}, timeout=seconds)
            if not done:
                yield heartbeat(time_ns())
                continue
            response, following = following.result(), None
            if response is None:
                return
            yield response
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await responses.aclose()


async def _next(responses: AsyncGenerator[Any, None]) -> Any:
    return await anext(responses, None)


def idle_seconds(request: Any) -> float:
    """Return after which time without messages a heartbeat is sent."""
    if not request.HasField("max_wait"):
        return RPC_HEARTBEAT_SECONDS
    seconds = seconds_of(request.max_wait)
    if not RPC_HEARTBEAT_SECONDS_MIN <= seconds <= WAIT_SECONDS_MAX:
        raise invalid_request("max_wait", f"is {seconds:g} s, and must be 100 ms to {WAIT_SECONDS_MAX} s")
    return seconds


def bytes_of(request: Any) -> int:
    if not 0 <= request.max_bytes <= RPC_READ_BYTES_MAX:
        raise invalid_request("max_bytes", f"is {request.max_bytes:,}, at most {RPC_READ_BYTES_MAX:,} are allowed")
    return request.max_bytes or READ_BYTES


def batches(
    reader: MessageReader, batch: Any, frames: memoryview, count_max: int, *, as_frames: bool, lease: Any = None
) -> Iterator[Any]:
    """Yield the responses for the frames of one partition: one of frames, or several of at most so many messages."""
    if as_frames:
        batch.frames = bytes(frames)
        yield consume_pb2.ConsumeResponse(messages=batch)
        return
    messages = reader.read(batch.topic, batch.partition, frames, lease)
    most = count_max if count_max > 0 else len(messages)
    for start in range(0, len(messages), most or 1):
        some = messages[start : start + most]
        end = messages[start + most].offset if start + most < len(messages) else batch.next_offset
        part = consume_pb2.MessageBatch(
            messages=some,
            high_watermark=batch.high_watermark,
            topic=batch.topic,
            partition=batch.partition,
            next_offset=end,
        )
        yield consume_pb2.ConsumeResponse(messages=part)


class Consumption:
    """One call of Consume."""

    def __init__(self, session: CallSession, request: Any, reader: MessageReader) -> None:
        self._session = session
        self._request = request
        self._reader = reader
        self._bytes = bytes_of(request)
        self._read: asyncio.Queue[Any] = asyncio.Queue(_BATCHES_AHEAD)
        """Responses; None when a partition has been read to its end, an exception when one failed."""

    async def run(self) -> AsyncGenerator[Any, None]:
        starts = await self._starts()
        ahead = max(RPC_PARTITION_BYTES_MIN, RPC_AHEAD_BYTES // len(starts))
        self._bytes = min(self._bytes, ahead)
        tasks = [asyncio.create_task(self._follow(number, start, end)) for number, (start, end) in starts.items()]
        try:
            left = len(tasks)
            while left:
                found = await self._read.get()
                if found is None:
                    left -= 1
                elif isinstance(found, Exception):
                    raise found
                else:
                    yield found
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _starts(self) -> dict[int, tuple[int | None, int]]:
        """Return for each partition where to start, None for the first one at a time, and where it ends now."""
        request = self._request
        if not request.topic:
            raise invalid_request("topic", "is missing")
        answer = await self._session.ask("GET", path_of("/topics/{topic}/partitions", topic=request.topic))
        rows = {row["partition"]: row for row in answer.json["partitions"]}
        numbers = list(dict.fromkeys(request.partitions)) or list(rows)
        if wrong := [number for number in numbers if number not in rows]:
            last = len(rows) - 1
            raise invalid_request("partitions", f"has {wrong[0]}, and {request.topic} has partitions 0 to {last}")
        if len(numbers) > RPC_PARTITIONS_MAX:
            raise invalid_request(
                "partitions", f"are {len(numbers):,}, at most {RPC_PARTITIONS_MAX:,} can be read", "open several calls"
            )
        if request.start_position == _TIME and not request.HasField("start_timestamp"):
            raise invalid_request("start_timestamp", "is missing: the start position is a time")
        return {number: (self._start(rows[number]), rows[number]["latest"]) for number in numbers}

    def _start(self, row: dict[str, Any]) -> int | None:
        position = self._request.start_position
        if position == _TIME:
            return None
        found = {_EARLIEST: row["earliest"], _LATEST: row["latest"], _OFFSET: self._request.start_offset}[position]
        return int(found)

    async def _follow(self, partition: int, start: int | None, end: int) -> None:
        """Read a partition until the call ends, or until its present end."""
        until_end, position, is_done = self._request.until_end, start, False
        try:
            while not is_done:
                async with self._session.open(*self._read_request(partition, position), headers=_AS_FRAMES) as answer:
                    before, position = position, int(answer.headers[NEXT_OFFSET])
                    await self._pass_on(partition, position, answer)
                # Nothing more can be read now where an open transaction holds the rest back.
                is_done = until_end and (position >= end or position == before)
        except Exception as error:
            await self._read.put(error)
        else:
            await self._read.put(None)

    def _read_request(self, partition: int, position: int | None) -> tuple[str, str, list[tuple[str, str]]]:
        request = self._request
        query = [("max_bytes", str(self._bytes)), *(("filter", text) for text in request.filter)]
        if position is None:
            query.append(("from_time", time_of(request.start_timestamp)))
        else:
            query.append(("offset", str(position)))
        if not request.until_end:
            query.append(("wait", str(WAIT_SECONDS_MAX)))
        if request.read_uncommitted:
            query.append(("isolation", "read_uncommitted"))
        if request.skip_damage:
            query.append(("skip_damage", "true"))
        path = "/topics/{topic}/partitions/{partition}/messages"
        return "GET", path_of(path, topic=request.topic, partition=partition), query

    async def _pass_on(self, partition: int, position: int, answer: Response) -> None:
        frames = memoryview(answer.body)
        if not frames:
            return
        batch = consume_pb2.MessageBatch(
            topic=self._request.topic,
            partition=partition,
            next_offset=position,
            high_watermark=int(answer.headers[HIGH_WATERMARK]),
        )
        count = self._request.max_messages
        for response in batches(self._reader, batch, frames, count, as_frames=self._request.frames):
            await self._read.put(response)


_AS_FRAMES = (("accept", FRAMES),)


async def consume(session: CallSession, request: Any, reader: MessageReader, time_ns: Any) -> AsyncGenerator[Any, None]:
    messages = Consumption(session, request, reader).run()
    async with aclosing(with_heartbeats(messages, idle_seconds(request), time_ns)) as responses:
        async for response in responses:
            yield response
