"""Send the messages of a task, and repeat requests until the broker has them.

Messages gather for each partition of a topic; what has gathered goes as one request, with a section for each of
them; in a cluster one for each leader. One request is under way at a time, and the next one is encoded meanwhile.

What must stay true:

- The sequence of a message is its number among those that this identity writes to its partition. So it is the same
  in each attempt of a task, wherever requests are cut.
- A section follows one that was stored, or begins at 0: the broker believes a producer that it does not know, and
  would take one that comes too early for the first.
- What the broker expects next says what it has. It remembers a few batches only, so that is how a task that begins
  again learns what it need not send; and it is stored for sure only once the log is durable up to there.
"""

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from goqueue.client import Client, publish_requests
from goqueue.client.address import Address
from goqueue.client.api_request import ApiRequest
from goqueue.client.connection import Connection
from goqueue.client.publish_requests import SectionResult
from goqueue.client.request_attempts import RequestAttempts
from goqueue.client.section_encoding import encode_section, with_producer_header
from goqueue.client.threads import sleep
from goqueue.client.transaction_requests import TransactionIdentity
from goqueue.errors import (
    ChecksumMismatch,
    GoQueueError,
    NotLeader,
    RequestTimedOut,
    SequenceOutOfOrder,
    TransientError,
)
from goqueue.limits import CLIENT_PRODUCER_ID_MIN, MIB, SEQUENCE_COUNT
from goqueue.spark.sink.frames import EncodedFrames
from goqueue.storage import frame

REQUEST_BYTES = 4 * MIB
"""Of frames in one request: enough that a request costs little for each message, little enough to be soon durable."""
GATHERED_BYTES = 16 * MIB
"""Of all topics together, before the fullest one is sent."""
_LOOK_SECONDS = 0.02  # between two looks at how far a log is durable


EPOCHS = 2**15
"""An epoch is a number below it; with the next one begins another id."""


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """The producer id and epoch of one task, for all partitions that it writes to."""

    producer: int
    epoch: int = 0


def write_identity(write: str, partition: int) -> TaskIdentity:
    return TaskIdentity(_producer("write", write, str(partition)))


def stream_identity(query: str, batch: int, partition: int) -> TaskIdentity:
    age, epoch = divmod(batch, EPOCHS)
    return TaskIdentity(_producer("query", query, str(partition), str(age)), epoch)


def batch_note(query: str, batch: int) -> str:
    """Return the note that is stored with the transaction of a micro-batch."""
    return f"{query}/{batch}"


def parse_batch_note(note: str, query: str) -> int | None:
    """Return the number of the micro-batch of a note, if it is of this query."""
    name, _, number = note.rpartition("/")
    return int(number) if name == query and number.isascii() and number.isdecimal() else None


def write_note(write: str) -> str:
    """Return the note of a batch write; a hash, because its name may be longer than a note."""
    return f"write {hashlib.sha256(write.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _producer(*parts: str) -> int:
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return CLIENT_PRODUCER_ID_MIN | int.from_bytes(digest[:8], "big") & (CLIENT_PRODUCER_ID_MIN - 1)


@dataclass(slots=True, eq=False)
class PartitionBuffer:
    """The messages of one task for one partition."""

    topic: str
    partition: int
    gathered: list[EncodedFrames] = field(default_factory=list)
    count: int = 0
    """Those that were handed over: the number of the next one."""
    gathered_from: int = 0
    stored: int = 0
    """Those before it need not be sent: the broker has them."""
    durable: int = 0
    """Those before it will be there after a crash as well."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingBatch:
    """Messages of a lane on their way, from this number on."""

    lane: PartitionBuffer
    first: int
    pieces: tuple[EncodedFrames, ...]

    @property
    def end(self) -> int:
        return self.first + sum(map(len, self.pieces))

    def behind(self, number: int) -> "PendingBatch | None":
        """Return the part that has to be sent when everything before this number is stored."""
        first, pieces = self.first, list(self.pieces)
        while pieces and first + len(pieces[0]) <= number:
            first += len(pieces.pop(0))
        if not pieces:
            return None
        if first < number:
            pieces[0] = pieces[0].rows(number - first, len(pieces[0]))
        return replace(self, first=max(first, number), pieces=tuple(pieces))

    def section(self, identity: TaskIdentity) -> bytes:
        """Encode the section of a request: the first message carries the producer and the count."""
        head = self.pieces[0]
        message = frame.decode(head.content.data, int(head.edges[0]))
        origin = (
            message.value,
            message.key or b"",
            frame.encode_headers(message.headers),
            message.priority,
            message.flags & ~frame.HAS_HEADERS,
        )
        sequence = self.first % SEQUENCE_COUNT
        first = with_producer_header(origin, (identity.producer, identity.epoch), sequence, self.end - self.first)
        others = (piece.content.data[int(piece.edges[0]) : int(piece.edges[-1])] for piece in self.pieces[1:])
        return encode_section(self.lane.partition, [first, head.bytes_behind_first, *others])


class PipelinedConnection:
    """A connection on which a request is under way while the next one is made."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._refused: GoQueueError | None = None

    def send(self, call: ApiRequest[list[SectionResult]]) -> None:
        self._refused = None
        try:
            self._connection.send(call, time.monotonic() + self._timeout)
        except GoQueueError as error:
            self._refused = error

    def receive(self, call: ApiRequest[list[SectionResult]]) -> list[SectionResult]:
        """Return the response of the request in flight, which is repeated while that can help."""
        refused = self._refused
        if refused is None:
            try:
                # Counted from now: an answer that lies there already has not been late.
                return self._connection.decode(call, self._connection.receive(time.monotonic() + self._timeout))
            except GoQueueError as error:
                refused = error
        return self.repeat(call, refused)

    def repeat(self, call: ApiRequest[list[SectionResult]], refused: GoQueueError) -> list[SectionResult]:
        attempts = RequestAttempts(call, self._timeout)
        while True:
            if isinstance(refused, NotLeader) and len(call.body) > 1:
                raise refused  # its sections may have several leaders now
            if not isinstance(refused, ChecksumMismatch):  # what was damaged on its way is whole when it comes again
                sleep(attempts.after(refused))
            try:
                return self._connection.decode(call, self._connection.exchange(call, attempts.left()))
            except GoQueueError as error:
                refused = error

    def leader(self, topic: str, partition: int) -> Address | None:
        """Return the leader of a partition in a cluster, once a refusal has named it."""
        cluster = self._connection.servers.cluster
        return None if cluster is None else cluster.leader((topic, partition))

    def heed(self, refused: GoQueueError) -> None:
        """Take what a refusal says about the leader of its partition."""
        if (cluster := self._connection.servers.cluster) is not None:
            cluster.heed(refused)

    def close(self) -> None:
        self._connection.close()


class TaskProducer:
    """The producer of one task. Nothing is guaranteed to be stored before `finish`."""

    def __init__(
        self,
        client: Client,
        wire: PipelinedConnection,
        identity: TaskIdentity,
        timeout: float,
        whose: TransactionIdentity | None = None,
    ) -> None:
        """Produce, with `whose` in that transaction."""
        self._client = client
        self._wire = wire
        self._identity = identity
        self._timeout = timeout
        self._whose = None if whose is None else whose.identity
        self._lanes: dict[str, dict[int, PartitionBuffer]] = {}
        self._sizes: dict[str, int] = {}
        self._sent: tuple[list[PendingBatch], ApiRequest[list[SectionResult]]] | None = None

    def add(self, topic: str, partition: int, frames: EncodedFrames) -> None:
        """Take messages, which may send those before them."""
        lanes = self._lanes.setdefault(topic, {})
        lane = lanes.setdefault(partition, PartitionBuffer(topic, partition))
        first = 0
        while first < len(frames):
            room = REQUEST_BYTES - self._sizes.get(topic, 0)
            end = int(frames.edges.searchsorted(frames.edges[first] + room, side="right")) - 1
            if end <= first:
                if self._sizes.get(topic, 0):
                    self._send(topic)
                    continue
                end = first + 1  # a message that is larger than a request goes alone
            piece = frames.rows(first, end)
            lane.gathered.append(piece)
            lane.count += len(piece)
            self._sizes[topic] = self._sizes.get(topic, 0) + piece.size
            first = end
        if sum(self._sizes.values()) > GATHERED_BYTES:
            self._send(max(self._sizes, key=self._sizes.__getitem__))

    def finish(self) -> list[PartitionBuffer]:
        """Send what is left, and wait until all of it is durable."""
        for topic, size in list(self._sizes.items()):
            if size:
                self._send(topic)
        self._conclude()
        lanes = [lane for lanes in self._lanes.values() for lane in lanes.values()]
        for lane in lanes:
            _check_end(lane)
        for topic in {lane.topic for lane in lanes if lane.durable < lane.count}:
            self._await_durable(topic)
        return lanes

    # --- requests ---

    def _send(self, topic: str) -> None:
        batches = [self._packed(lane) for lane in self._lanes[topic].values() if lane.gathered]
        self._sizes[topic] = 0
        by_leader: dict[Address | None, list[PendingBatch]] = {}
        for batch in batches:
            by_leader.setdefault(self._wire.leader(topic, batch.lane.partition), []).append(batch)
        for led in by_leader.values():
            self._send_together(led)

    def _send_together(self, batches: list[PendingBatch]) -> None:
        batches = _still_needed(batches)
        call = self._call(batches)
        self._conclude()
        needed = _still_needed(batches)  # the answer may show that more is stored
        if needed != batches:
            call = self._call(needed)
        if call is not None:
            self._wire.send(call)
            self._sent = needed, call

    def _packed(self, lane: PartitionBuffer) -> PendingBatch:
        batch = PendingBatch(lane, lane.gathered_from, tuple(lane.gathered))
        lane.gathered, lane.gathered_from = [], lane.count
        return batch

    def _call(self, batches: Sequence[PendingBatch]) -> ApiRequest[list[SectionResult]] | None:
        if not batches:
            return None
        sections = [batch.section(self._identity) for batch in batches]
        lane = batches[0].lane
        place = lane.topic, lane.partition
        return publish_requests.publish_frames(lane.topic, sections, "all", self._whose, place=place)

    def _conclude(self) -> None:
        """Receive the response of the request in flight, and resolve what it refuses."""
        if self._sent is None:
            return
        (batches, call), self._sent = self._sent, None
        for batch, outcome in zip(batches, self._outcomes(batches, call), strict=True):
            self._settle(batch, outcome)

    def _outcomes(
        self, batches: list[PendingBatch], call: ApiRequest[list[SectionResult]], refused: GoQueueError | None = None
    ) -> list[SectionResult | GoQueueError]:
        try:
            results = self._wire.receive(call) if refused is None else self._wire.repeat(call, refused)
        except SequenceOutOfOrder as error:
            if len(batches) > 1:
                raise
            return [error]
        except NotLeader as error:
            if len(batches) == 1:
                raise
            return [error] * len(batches)
        return [result.refusal or result for result in results]

    def _settle(self, batch: PendingBatch, outcome: SectionResult | GoQueueError) -> None:
        """Send a batch again until it is stored."""
        lane, left = batch.lane, batch
        while isinstance(outcome, GoQueueError):
            if isinstance(outcome, SequenceOutOfOrder):
                self._learn(left, outcome)
                rest, refused = left.behind(lane.stored), None
                if rest is None:
                    return
                left = rest
            elif isinstance(outcome, TransientError):
                self._wire.heed(outcome)
                refused = outcome
            else:
                raise outcome
            call = self._call([left])
            assert call is not None
            if refused is None:
                self._wire.send(call)
            (outcome,) = self._outcomes([left], call, refused)
        lane.stored = lane.durable = max(lane.stored, left.end)

    def _learn(self, batch: PendingBatch, error: SequenceOutOfOrder) -> None:
        """Take what the broker expects next as the end of what it has stored."""
        expected = error.details.get("expected")
        if not isinstance(expected, int):
            raise error
        ahead = (expected - batch.first) % SEQUENCE_COUNT
        if not 0 < ahead < SEQUENCE_COUNT // 2:  # messages of this very task are missing in the log
            raise error
        batch.lane.stored = batch.first + ahead

    # --- what others have sent ---

    def _await_durable(self, topic: str) -> None:
        """Wait until messages of an earlier attempt are durable."""
        late = [lane for lane in self._lanes[topic].values() if lane.durable < lane.count]
        ends = {row["partition"]: row["log_end"] for row in self._client.partitions(topic)}
        deadline = time.monotonic() + self._timeout
        while True:
            now = {row["partition"]: row["durable_end"] for row in self._client.partitions(topic)}
            if all(now[lane.partition] >= ends[lane.partition] for lane in late):
                break
            if time.monotonic() > deadline:
                raise RequestTimedOut(
                    f"what was written to {topic} did not become durable within {self._timeout:g} seconds"
                )
            threading.Event().wait(_LOOK_SECONDS)
        for lane in late:
            lane.durable = lane.count


def _check_end(lane: PartitionBuffer) -> None:
    if lane.stored > lane.count:
        raise SequenceOutOfOrder(
            f"{lane.topic}/{lane.partition} has {lane.stored} messages of this task, which has {lane.count}: "
            "an earlier attempt had other rows",
            hint="the rows of a task, and their order, must be the same each time; a writeId is for one write",
        )


def _still_needed(batches: Sequence[PendingBatch]) -> list[PendingBatch]:
    found = (batch if batch.first >= batch.lane.stored else batch.behind(batch.lane.stored) for batch in batches)
    return [batch for batch in found if batch is not None]
